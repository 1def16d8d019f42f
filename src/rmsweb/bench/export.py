"""Scores as files for other programs: one CSV line an episode and judge, and Markdown tables.

Promises the same rows and numbers as the report. A text cell that a spreadsheet would take for a formula gets an
apostrophe in front.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from rmsweb.bench import compare, judge_sections
from rmsweb.bench.compare import Examined, Group
from rmsweb.bench.metrics import Result, labels_of
from rmsweb.bench.protocols import JUDGE, Bench
from rmsweb.bench.scores import is_control
from rmsweb.bench.wording import between, number, percent

COLUMNS = (
    "exam", "part", "model", "task", "run", "site", "template", "level", "segment", "protocol", "judge_model", "judge",
    "judge_run", "verdict", "outcome", "unjudged", "as_upstream", "stop", "steps", "prompt_tokens", "completion_tokens",
    "cost", "wall_s", "trajectory",
)  # fmt: skip
"""`verdict`: 1, 0, or empty where there is none; what was not recorded is empty too. `judge_run`: the run of `judge`,
or `own`. `part`: groups of unlike runs of one exam are numbered from 1."""


def files(examined: Examined) -> dict[str, str]:
    """`scores.csv` and `scores.md` of the exams that the runs hold; none where they hold none."""
    if not examined.groups:
        return {}
    parts = [
        (group, examined.beside(group).index(group) + 1, judge_sections.benches_of(group, examined.judged))
        for group in examined.groups
    ]
    return {"scores.csv": _csv(parts), "scores.md": _markdown(parts, compare.apart(examined.groups))}


def _csv(parts: Sequence[tuple[Group, int, list[Bench]]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for group, part, benches in parts:
        own = [bench for bench in benches if bench.stage.verb in compare.EXAMS]
        if not own:  # nobody judged these episodes yet, or only judge runs did
            writer.writerows(_line(group, part, None, row) for row in group.rows)
        for bench in benches:
            writer.writerows(_line(group, part, bench, row) for row in bench.rows)
    return out.getvalue()


def _line(group: Group, part: int, bench: Bench | None, row: Result) -> list[Any]:
    labels = labels_of(row.task)
    by = bench.stage.name if bench and bench.stage.verb == JUDGE else "own"
    judge = (*bench.parts, bench.judge, by) if bench else ("", "", "", "")
    texts = [
        group.exam, part, row.model, row.task.id, row.run, *(labels.get(k, "") for k in ("site", "template", "level")),
        labels.get("segment", ""), *judge,
    ]  # fmt: skip
    said = "" if row.success is None else int(row.success)
    upstream = "" if row.upstream is None else row.upstream
    steps, read, written, cost, seconds = (
        "" if value is None else value
        for value in (row.steps, row.prompt_tokens, row.completion_tokens, row.cost, row.wall_s)
    )
    cells = [
        *texts, said, row.outcome.value, row.unjudged, upstream, row.stop.value, steps, read, written, cost,
        seconds, row.trajectory_id,
    ]  # fmt: skip
    return [_plain(cell) for cell in cells]


def _plain(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in "=+-@\t\r" and cell else cell


def _markdown(parts: Sequence[tuple[Group, int, list[Bench]]], apart: Sequence[str]) -> str:
    lines = ["# Scores", "", *(f"{sentence}\n" for sentence in apart)]
    for group, part, benches in parts:
        several = sum(other.exam == group.exam for other, _, _ in parts) > 1
        numbers = group.numbers()
        lines += [f"## {group.exam}{f', part {part}' if several else ''}", "", *_models(numbers), ""]
        lines += [f"{line}\n" for line in numbers["what"]]
        if by_judge := judge_sections.score_table(group, benches, **judge_sections.drawn([group.papers[0].stage])):
            cells = [[str(cell) for cell in row] for row in by_judge.rows]
            lines += [f"### {by_judge.title}", "", *_table(by_judge.head, cells), ""]
            lines += [f"{note}\n" for note in by_judge.notes]
        for bench in benches:
            lines += [f"### By task, judged by {bench.name}", "", *_tasks(group, bench.rows), ""]
    return "\n".join(lines)


def _models(numbers: Mapping[str, Any]) -> list[str]:
    head = ("model", "solved", "of all", "95 %", "of judged", "judged", "as upstream", "steps on solved", "not solved")
    rows = []
    for model, s in numbers["scores"].items():
        named = {"no verdict" if k == "judge_failed" else k: v for k, v in s["outcomes"].items() if k != "success"}
        outcomes = ", ".join(f"{k} {v}" for k, v in named.items())
        rows.append(
            [
                model, f"{s['successes']} of {s['n']}" if s["judged"] else "no score", percent(s["success"]),
                between(s["interval"]), percent(s["success_judged"]), str(s["judged"]), percent(s["success_upstream"]),
                number(s["steps_on_solved"], 2), outcomes,
            ]
        )  # fmt: skip
    return _table(head, rows)


def _tasks(group: Group, rows: Sequence[Result]) -> list[str]:
    """task x model: how many of its runs solved it, and in how many steps."""
    models = [m for m in dict.fromkeys(r.model for r in rows) if not is_control(m)]
    by: dict[tuple[str, str], list[Result]] = {}
    for row in rows:
        by.setdefault((row.task.id, row.model), []).append(row)
    table = [[task.id, *(_cell(by.get((task.id, model), [])) for model in models)] for task in group.tasks]
    return _table(("task", *models), table)


def _cell(rows: Sequence[Result]) -> str:
    return ", ".join(
        f"{'no verdict' if r.success is None else 'solved' if r.success else r.outcome.value} "
        f"({'steps unknown' if r.steps is None else r.steps})"
        for r in rows
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return [line(head), "|" + "---|" * len(head), *(line(row) for row in rows)]
