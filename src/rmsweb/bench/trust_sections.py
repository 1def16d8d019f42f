"""The report's sections on how far judges can be trusted: what runs of `judge-eval` found against human labels."""

from collections.abc import Sequence

from rmsweb.bench.judge_tables import judge_lines, label_lines, measures
from rmsweb.bench.judges.naming import judge_parts
from rmsweb.bench.layout import Section, Stage, Table
from rmsweb.errors import DataError

VERB = "judge-eval"


def sections(stages: Sequence[Stage]) -> list[Section]:
    """One section a run: labels and ties, then a table for every judge. Raises DataError for a summary of something
    else; a run without one is left out."""
    return [_section(stage) for stage in stages if stage.summary]


def _section(stage: Stage) -> Section:
    section = Section(f"trust-{stage.name}", f"Judge against people: {stage.name}")
    try:
        labels = stage.summary["labels"]
        section.lead += [line.strip() for line in label_lines(stage.summary)]
        ties = labels["ties"]["count"] if labels["several_annotators"] else 0
        for name, judge in stage.summary["judges"].items():
            head, rows = measures(judge)
            said = [line.strip().removeprefix(f"{name}: ") for line in judge_lines(name, judge)]
            title = " ".join(filter(None, judge_parts(name)))
            notes = [*([f"Its whole name: {name}"] if title != name else []), *said]
            rows.append(["labels tied between people", *[str(ties)] * (len(head) - 1)])
            section.tables.append(Table(head, rows, title=title, notes=notes))
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"is no summary of judge-eval ({error!r})", stage.path / "summary.json") from None
    section.notes.append("Intervals: Wilson for rates, a bootstrap over tasks for F1, kappa and the gap; all 95 %.")
    return section
