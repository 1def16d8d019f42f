"""Human labels of trajectories, from the files that others publish, as one record; and verdicts stored beside them.

Owns `Label`, `Judgement`, which format a file has (by its header, never by its values), and what each code means.
Promises: a code is never guessed (`2` means "not executable" to one publisher and "failed" to another); nothing is
dropped in silence, what was left out stands in `notes`. It decides nothing between annotators: see agreement.py.

Human labels are no upper bound of 100 %: annotators contradict each other (12 of the 106 AgentRewardBench trajectories
that two people labelled), tasks turn out infeasible, answers stand only in an agent's reasoning (McGill-NLP/
agent-reward-bench #9). A judge that disagrees with a label is not always the one that is wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rmsweb.bench.label_rows import Row, files_of, rows, split_of, text, wrong
from rmsweb.errors import ConfigError, DataError

AUTO = "auto"
UNSURE = "unsure"
NOT_EXECUTABLE = "not_executable"


@dataclass(slots=True, frozen=True)
class Label:
    """What one person said of one trajectory."""

    key: str
    """Names the trajectory: `benchmark/agent/task_id` of what the file has of these, or the user's own id."""
    annotator: str
    success: bool | None
    """None: see `note`."""
    raw: str
    """The label as the file has it."""
    note: str = ""
    """Why `success` is None: `unsure` (no label), or `not_executable` (site down, bot wall, expired task)."""
    agent: str = ""
    benchmark: str = ""
    task_id: str = ""
    score: float | None = None
    """Process score of 0 to 1 where the annotator gave one."""


@dataclass(slots=True, frozen=True)
class Judgement:
    """What one automatic judge said of one trajectory."""

    judge: str
    key: str
    """The trajectory's id; names it together with agent, benchmark and task."""
    success: bool | None
    """None: could not judge, see `unjudged`."""
    unjudged: str = ""
    upstream: int | None = None
    """What the upstream script stores (see `Verdict.details`), where that is known."""
    agent: str = ""
    benchmark: str = ""
    task_id: str = ""


@dataclass(slots=True, frozen=True)
class LabelFile:
    """Everything read from one file (or folder) of labels."""

    path: Path
    format: str
    labels: tuple[Label, ...]
    judgements: tuple[Judgement, ...] = ()
    """Verdicts of verifiers that the publisher stored beside the labels (CUAVerifierBench)."""
    notes: tuple[str, ...] = ()
    """What was left out or is peculiar, with counts."""


Codes = Mapping[str, bool | str]
WORDS: Codes = {
    **dict.fromkeys(("success", "successful", "pass", "passed", "correct", "true", "yes", "1"), True),
    **dict.fromkeys(("failure", "failed", "fail", "unsuccessful", "unsuccesful", "not_success"), False),
    **dict.fromkeys(("incorrect", "false", "no", "0"), False),
    **dict.fromkeys(("", "unsure", "unknown", "n/a", "none", "null"), UNSURE),
    **dict.fromkeys(("not_executable", "impossible"), NOT_EXECUTABLE),
}
OM2W_CODES: Codes = {"0": False, "1": True, "2": NOT_EXECUTABLE}
"""Online-Mind2Web (HUMAN_EVALUATIONS.md)."""
THEREDSIX_CODES: Codes = {"0": NOT_EXECUTABLE, "1": True, "2": False}
"""theredsix/abp-online-mind2web-results, as the legend of its README has them. Its own totals without impossible tasks
(285 of 300) leave out the 15 rows of code 2, not the 27 of code 0, so the legend may be the wrong way round; successes
are the same either way."""
OM2W_LABEL = "_human_label"


@dataclass(slots=True, frozen=True)
class Format:
    """How one kind of file is recognised and read."""

    needs: frozenset[str]
    read: Callable[[Path, list[Row], str], LabelFile]
    expected: str
    detected: bool = True
    """False: only by name, since the same header means different things."""


def read_labels(path: Path, format: str = AUTO) -> LabelFile:
    """All labels of a file, or of a folder of files. `format`: one of `FORMATS`; `auto`: by the header.

    Formats: `agentrewardbench` (human_annotations.csv), `om2w` (human_label.json), `theredsix` (only by name),
    `cuaverifierbench` and `cuaverifierbench-process` (folder with both configs, or one file; CSV, JSON, JSON lines,
    parquet), `plain` (trajectory_id, label). Raises DataError, ConfigError for an unknown format, and MissingPartError
    for parquet without pyarrow.
    """
    if format not in (AUTO, *FORMATS):
        raise ConfigError(f"--labels-format {format!r} is unknown; choose {', '.join((AUTO, *FORMATS))}")
    found, left_out = _rows_of(path)
    if not found:
        raise DataError("holds no label: there is no row of any format that we know", path)
    name = detect(found[0].names, path) if format == AUTO else format
    for row in found:
        if not _fits(name, row.values):
            raise wrong(row, f"is no row of {name}: expected {FORMATS[name].expected}; got {_names(row.names)}")
    labels = FORMATS[name].read(path, found, name)
    if not labels.labels:
        raise DataError(f"holds no label: {'; '.join(labels.notes) or 'every row is empty'}", path)
    if left_out:
        labels = replace(labels, notes=(*labels.notes, f"{left_out} files of the folder hold no labels"))
    return labels


def _rows_of(path: Path) -> tuple[list[Row], int]:
    """Rows of all files, and how many files of a folder were no labels at all (a summary, a task file)."""
    found: list[Row] = []
    left_out = 0
    for file in files_of(path):
        here = list(rows(file, _kept))
        if path.is_dir() and not (here and any(_fits(name, here[0].values) for name in FORMATS)):
            left_out += 1
        else:
            found += here
    return found, left_out


def detect(header: Iterable[str], path: Path) -> str:
    """Format of a file by the names of its columns. Raises DataError that says what each format needs."""
    names = dict.fromkeys(header)
    if "task_id" in names and not names.keys().isdisjoint(CODED):
        raise DataError(
            "has labels in `result_status` or `human_eval`, whose numbers mean different things to different "
            "publishers; name the format: --labels-format theredsix (0 impossible, 1 pass, 2 fail)",
            path,
        )
    for name, shape in FORMATS.items():
        if shape.detected and _fits(name, names):
            return name
    known = "; ".join(f"{name}: {shape.expected}" for name, shape in FORMATS.items())
    raise DataError(f"is no file of labels that we know: it has {_names(names)}. Known are {known}", path)


def _fits(name: str, header: Iterable[str]) -> bool:
    names = set(header)
    if name == "om2w":
        return "task_id" in names and any(column.endswith(OM2W_LABEL) for column in names)
    if name == "theredsix":
        return "task_id" in names and not names.isdisjoint(CODED)
    if name.startswith("cuaverifierbench"):
        return "task_id" in names and not names.isdisjoint((_blind(name), *AGGREGATES, *VERIFIERS))
    return names >= FORMATS[name].needs


def _names(header: Iterable[str]) -> str:
    shown = list(header)
    return ", ".join(shown[:12]) + (" ..." if len(shown) > 12 else "") if shown else "no known column"


def _label(row: Row, codes: Codes, column: str, facts: Mapping[str, Any], *, open_words: bool = False) -> Label:
    """One label. Raises DataError for a value that `codes` does not have, unless `open_words` lets it be unsure."""
    raw = text(row, column)
    said = codes.get(raw.casefold().replace(" ", "_").replace("-", "_") or raw)
    if said is None:
        if not open_words:
            raise wrong(row, f"{column} is {raw!r}; expected one of {', '.join(code or 'nothing' for code in codes)}")
        said = UNSURE
    success, note = (said, "") if isinstance(said, bool) else (None, said)
    key = "/".join(facts[name] for name in KEYED if facts.get(name))
    return Label(**{"key": key, "annotator": "", **facts}, success=success, raw=raw, note=note)


KEYED = ("benchmark", "agent", "task_id")


def _needed(row: Row, column: str) -> str:
    value = text(row, column)
    if not value:
        raise wrong(row, f"{column} is empty")
    return value


class _Kept:
    """Labels of a file so far; refuses an annotator who says two things of one trajectory."""

    def __init__(self) -> None:
        self.labels: list[Label] = []
        self.counts: Counter[str] = Counter()
        self._seen: dict[tuple[str, str], tuple[Row, Label]] = {}
        self._unnamed: Counter[str] = Counter()

    def add(self, row: Row, label: Label, *, named: bool = True) -> None:
        """`named` False: rows without an annotator are different people."""
        if not label.annotator and not named:
            self._unnamed[label.key] += 1
            label = replace(label, annotator=f"unnamed {self._unnamed[label.key]}")
        who = (label.key, label.annotator)
        if who in self._seen:
            other, before = self._seen[who]
            if before.success is not label.success or before.note != label.note:
                by = f" by {label.annotator}" if label.annotator else ""
                raise wrong(row, f"{label.key} has label {label.raw!r}{by} here and {before.raw!r} in {other.where}")
            self.counts["rows that say the same again were left out"] += 1
            return
        self._seen[who] = (row, label)
        self.labels.append(label)

    def file(self, path: Path, name: str, judgements: Iterable[Judgement] = ()) -> LabelFile:
        notes = Counter(label.note for label in self.labels if label.note)
        said = [f"{n} labels are {note}" for note, n in sorted(notes.items())]
        said += [f"{n} {what}" for what, n in sorted(self.counts.items())]
        return LabelFile(path, name, tuple(self.labels), tuple(judgements), tuple(said))


def _agentrewardbench(path: Path, found: list[Row], name: str) -> LabelFile:
    kept = _Kept()
    for row in found:
        facts = {"benchmark": _needed(row, "benchmark"), "agent": _needed(row, "model_name")}
        facts |= {"task_id": _needed(row, "task_id"), "annotator": text(row, "annotator_name")}
        kept.add(row, _label(row, WORDS, "trajectory_success", facts), named=False)
    return kept.file(path, name)


def _om2w(path: Path, found: list[Row], name: str) -> LabelFile:
    kept = _Kept()
    tasks: dict[str, Row] = {}
    columns = dict.fromkeys(column for row in found for column in row.values if column.endswith(OM2W_LABEL))
    for row in found:
        task = _needed(row, "task_id")
        if task in tasks:
            raise wrong(row, f"task {task} stands in {tasks[task].where} already")
        tasks[task] = row
        for column in columns:
            if not text(row, column):
                kept.counts["pairs of task and agent have no label"] += 1
                continue
            agent = column.removesuffix(OM2W_LABEL)
            kept.add(row, _label(row, OM2W_CODES, column, {"agent": agent, "task_id": task}))
    return kept.file(path, name)


def _theredsix(path: Path, found: list[Row], name: str) -> LabelFile:
    kept = _Kept()
    for row in found:
        column = next(column for column in CODED if column in row.values)
        if text(row, column).casefold() in ("success", "failure", "impossible"):
            raise wrong(
                row, f"{column} is {text(row, column)!r}: the agent's own report, not a human's label (0, 1, 2)"
            )
        facts = {"agent": text(row, "agent"), "task_id": _needed(row, "task_id")}
        kept.add(row, _label(row, THEREDSIX_CODES, column, facts))
    return kept.file(path, name)


def _plain(path: Path, found: list[Row], name: str) -> LabelFile:
    kept = _Kept()
    for row in found:
        if text(row, "label") == "2":
            raise wrong(row, "label 2 means different things to different people; write failure or not_executable")
        facts: dict[str, Any] = {column: text(row, column) for column in ("annotator", *KEYED)}
        facts |= {"key": _needed(row, "trajectory_id"), "score": _number(row, "score")}
        kept.add(row, _label(row, WORDS, "label", facts))
    return kept.file(path, name)


def _number(row: Row, column: str) -> float | None:
    raw = text(row, column)
    try:
        value = float(raw or "nan")
    except ValueError:
        raise wrong(row, f"{column} is {raw!r}, not a number") from None
    return value if math.isfinite(value) else None


AGGREGATES = ("majority_human_outcome_vote", "final_human_outcome_label", "final_human_process_label")
VERIFIERS = ("uv_outcome_success", "uv_rubric_score", "mm_is_success", "verifier_is_success")
RUBRIC_PASS = 0.8
"""Share of rubric points at which the Universal Verifier's process score passes."""


def _blind(name: str) -> str:
    return "human_judgement_process" if name.endswith("-process") else "human_judgement_outcome"


def _cuaverifierbench(path: Path, found: list[Row], name: str) -> LabelFile:
    """Labels are the votes given before a verifier's verdict was shown; `informed_*` is never read.

    Upstream's `majority_human_outcome_vote` stores a tie as 0; ties are counted here by whoever reads the votes.
    """
    kept, column = _Kept(), _blind(name)
    votes = [row for row in found if column in row.values]
    tasks: dict[tuple[str, str], Row] = {}
    for row in (row for row in found if not row.values.keys().isdisjoint((*AGGREGATES, *VERIFIERS))):
        place = (_split(row), _needed(row, "task_id"))
        if place in tasks and column not in row.values:
            raise wrong(row, f"trajectory {place[1]} stands in {tasks[place].where} already")
        tasks.setdefault(place, row)
    for row in votes:
        facts: dict[str, Any] = {"benchmark": _split(row), "task_id": _needed(row, "task_id")}
        facts |= {"annotator": text(row, "annotator"), "score": _number(row, "human_process_score")}
        kept.add(row, _label(row, WORDS, column, facts, open_words=True), named=False)
    if not votes:
        _aggregated(kept, tasks.values(), name)
    elif tasks:
        labelled = {(label.benchmark, label.task_id) for label in kept.labels}
        for what, n in (
            ("annotated trajectories are not among the trajectories", len(labelled - tasks.keys())),
            ("trajectories have no annotation", len(tasks.keys() - labelled)),
        ):
            kept.counts[what] += n
    kept.counts = +kept.counts
    return kept.file(path, name, (said for row in tasks.values() for said in _verifiers(row)))


def _aggregated(kept: _Kept, tasks: Iterable[Row], name: str) -> None:
    """Without the votes only upstream's aggregates are left."""
    wanted = AGGREGATES[2:] if name.endswith("-process") else AGGREGATES[:2]
    for row in tasks:
        column = next((column for column in wanted if column in row.values), "")
        if not column:
            raise wrong(row, f"has no human label: expected {_blind(name)} (annotations) or {' or '.join(wanted)}")
        facts = {"annotator": column, "benchmark": _split(row), "task_id": _needed(row, "task_id")}
        kept.add(row, _label(row, WORDS, column, facts, open_words=True))
    kept.counts["labels are upstream's aggregates, in which a tie of votes counts as failure"] += len(kept.labels)


def _split(row: Row) -> str:
    return text(row, "split") or split_of(row.path)


def _verifiers(row: Row) -> Iterator[Judgement]:
    """Stored verdicts of one trajectory; a missing value is could-not-judge."""
    split, task = _split(row), text(row, "task_id")
    for column in VERIFIERS:
        if column not in row.values:
            continue
        value, judge = _number(row, column), column
        success = None if value is None or value < 0 else value == 1
        if column == "uv_rubric_score":
            judge, success = f"{column} >= {RUBRIC_PASS}", None if value is None else value >= RUBRIC_PASS
        key = "/".join(part for part in (split, task) if part)
        why = "" if success is not None else "missing"
        yield Judgement(judge, key, success, why, benchmark=split, task_id=task)


CODED = ("human_eval", "result_status")
FORMATS: dict[str, Format] = {
    "agentrewardbench": Format(
        frozenset({"benchmark", "task_id", "model_name", "trajectory_success"}), _agentrewardbench,
        "the columns annotator_name, benchmark, task_id, model_name, trajectory_success",
    ),
    "om2w": Format(frozenset(), _om2w, f"task_id and AGENT{OM2W_LABEL} (0 fail, 1 success, 2 not executable)"),
    "theredsix": Format(frozenset(), _theredsix, "task_id and human_eval or result_status (0, 1, 2)", detected=False),
    "cuaverifierbench": Format(
        frozenset(), _cuaverifierbench, "task_id, annotator, human_judgement_outcome; or the trajectories' columns",
    ),
    "cuaverifierbench-process": Format(
        frozenset(), _cuaverifierbench, "task_id, annotator, human_judgement_process", detected=False
    ),
    "plain": Format(frozenset({"trajectory_id", "label"}), _plain, "trajectory_id, label [annotator, agent, task_id]"),
}  # fmt: skip


COLUMNS = frozenset(
    (
        "annotator_name", "benchmark", "task_id", "model_name", "trajectory_success", "trajectory_id", "label",
        "annotator", "agent", "score", "split", "human_judgement_outcome", "human_judgement_process",
        "human_process_score", *CODED, *AGGREGATES, *VERIFIERS,
    )
)  # fmt: skip


def _kept(column: str) -> bool:
    return column in COLUMNS or column.endswith(OM2W_LABEL)
