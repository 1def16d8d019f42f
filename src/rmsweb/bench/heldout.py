"""The `heldout` part of a summary from one or more exam runs (stages of a demo or a study write several)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rmsweb.bench import scores
from rmsweb.config import Config
from rmsweb.store import Run


def exams_in(paths: Sequence[Path], config: Config) -> dict[str, dict[str, Any]]:
    """exam name -> all its numbers (`scores.exam_numbers`), over all the given runs; names in order of appearance."""
    rows = scores.results_of(scores.gather({path: scores.read_judged(Run.read_only(path)) for path in paths}))
    names = dict.fromkeys(scores.exam_of(r.task) for r in rows)
    return {
        name: scores.exam_numbers(
            [r for r in rows if scores.exam_of(r.task) == name],
            resamples=config.eval.bootstrap,
            seed=config.seed,
            prices=config.eval.prices,
        )
        for name in names
    }


def heldout_summary(paths: Sequence[Path], config: Config) -> dict[str, Any]:
    """`n`, models, `paired`, `controls` of the held-out seeds; every other exam under its own name, apart."""
    exams = exams_in(paths, config)
    if not exams:
        return {"n": 0, "paired": {}, "controls": {}}
    main = exams.pop("heldout" if "heldout" in exams else next(iter(exams)))
    return {**scores.heldout_summary(main), **{name: scores.heldout_summary(other) for name, other in exams.items()}}
