"""The `heldout` part of a summary from one or more exam runs (stages of a demo or a study write several)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmsweb.bench import compare, scores
from rmsweb.bench.layout import Stage
from rmsweb.config import Config
from rmsweb.errors import DataError


def exams_in(paths: Sequence[Path], config: Config) -> dict[str, dict[str, Any]]:
    """exam name -> all its numbers (`scores.exam_numbers`), over all the given runs; names in order of appearance.

    Raises DataError when two runs hold the same model on the same task, or when runs of one exam are not alike.
    """
    stages = [Stage(path.name, path) for path in paths]
    scores.gather({stage.path: stage.judged for stage in stages})
    groups = compare.groups_of(stages)
    for sentence in compare.apart(groups):
        raise DataError(f"{sentence} `rmsweb report` shows them")
    settings = config.model_dump(mode="json")
    return {group.exam: group.numbers(settings) for group in groups}


def heldout_summary(paths: Sequence[Path], config: Config) -> dict[str, Any]:
    """`n`, models, `paired`, `controls` of the held-out seeds; every other exam under its own name, apart."""
    exams = exams_in(paths, config)
    if not exams:
        return {"n": 0, "paired": {}, "controls": {}}
    main = exams.pop("heldout" if "heldout" in exams else next(iter(exams)))
    return {**scores.heldout_summary(main), **{name: scores.heldout_summary(other) for name, other in exams.items()}}
