"""Stored WebJudge runs of others: one typed record a run, read from files that this project did not write.

    read_records(FOLDER) -> Records(runs, skipped)
    run.key      (benchmark, agent, task_id)       run.label    what upstream's parser makes of the stored last reply
    run.judge    the judge's label                 run.said     what that reply says in words; None: nothing
    run.summary  n_steps, input_tokens, output_tokens, cost (None: unknown), reward; None where none is stored

Two schemas: AgentRewardBench judgments (one JSON object a file, the task's id is the file's name) and the JSON lines
of Online-Mind2Web (`{mode}_{model}_score_threshold_{t}_auto_eval_results.json`). Tolerant: unknown fields are ignored,
files of another schema are skipped and listed. A file that is of the schema and wrong raises DataError with its path.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rmsweb.bench.judges.webjudge_parse import said_status, upstream_label
from rmsweb.bench.judges.webjudge_schema import Info, Judgment, Picture, Result, Step, checked
from rmsweb.errors import DataError

Mode = Literal["general", "om2w"]
Key = tuple[str, str, str]
OM2W = "online_mind2web"
"""Benchmark of records that name none."""
THRESHOLD = 3.0
MOST_BYTES = 256 * 2**20
"""Larger files are refused; a stored run has well under a megabyte, 300 of them under 100."""
_RESULTS = re.compile(r"(?P<mode>.+?)_eval(?:_(?P<model>.+?))?_score_threshold_(?P<threshold>[\d.]+)_auto_eval_results")
_MODES: dict[str, Mode] = {"WebJudge_Online_Mind2Web": "om2w", "WebJudge_general": "general"}
_COPY = re.compile(r"\s*\(\d+\)$")
_INPUT_PICTURES = re.compile(r"\nInput image \d+/\d+\b")


@dataclass(slots=True, frozen=True)
class Summary:
    """What the agent's own run cost (AgentLab's `summary_info`). None: not recorded."""

    n_steps: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """US dollars; a recorded 0 beside tokens that were used is no price and reads None."""
    reward: float | None = None
    error: str = ""
    """First line of the error that ended the run."""


@dataclass(slots=True, frozen=True)
class StoredPicture:
    """What the judge said of one screenshot, and the score that was stored."""

    response: str
    score: int


@dataclass(slots=True, frozen=True)
class StoredRun:
    """One judged trajectory, as stored."""

    path: Path
    line: int | None
    """1-based line in a file of JSON lines."""
    mode: Mode
    benchmark: str
    agent: str
    """Empty where the file does not say whose trajectory it is (Online-Mind2Web)."""
    task_id: str
    judge: str
    """Label of the judge. The model that answered the last call may be another one: `answered_by`."""
    answered_by: str
    goal: str
    key_points: str
    pictures: tuple[StoredPicture, ...]
    input_text: str
    system_msg: str
    response: str
    """The last reply."""
    threshold: float = THRESHOLD
    sent: int | None = None
    """Pictures of the stored final message; None where the messages are not stored."""
    sent_text: str | None = None
    sent_system: str | None = None
    actions: tuple[str, ...] | None = None
    """Stored apart from the prompt by Online-Mind2Web only."""
    thoughts: tuple[str, ...] | None = None
    shown: int | None = None
    """Screenshots that its steps name, where they name them (second layout of Online-Mind2Web)."""
    stored_label: int | None = None
    """Stored by Online-Mind2Web only."""
    summary: Summary | None = None

    @property
    def key(self) -> Key:
        """(benchmark, agent, task id): names the trajectory."""
        return self.benchmark, self.agent, self.task_id

    @property
    def label(self) -> int:
        """1 or 0, parsed again from the last reply as upstream parses it."""
        return upstream_label(self.response)

    @property
    def said(self) -> bool | None:
        """What the last reply says in words; None where it says nothing."""
        return said_status(self.response)

    @property
    def task(self) -> str:
        """The goal as the judge was shown it: without the lines that list input pictures."""
        return _INPUT_PICTURES.split(self.goal, maxsplit=1)[0]


class Skipped(NamedTuple):
    """A file that is no stored WebJudge run, and why."""

    path: Path
    reason: str


class Records(NamedTuple):
    """What a folder holds, in the order of its paths."""

    runs: tuple[StoredRun, ...]
    skipped: tuple[Skipped, ...]


def read_records(folder: Path | str) -> Records:
    """Every stored WebJudge run below a folder, or in one file. Raises DataError for a bad file, or none at all."""
    root = Path(folder)
    if not root.exists():
        raise DataError("there is no such file or folder; give the folder with the stored WebJudge runs", root)
    paths = [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
    runs: list[StoredRun] = []
    skipped: list[Skipped] = []
    for path in paths:
        if path.suffix not in (".json", ".jsonl") or any(part.startswith(".") for part in path.relative_to(root).parts):
            skipped.append(Skipped(path, "no JSON file, or hidden"))
            continue
        for found in _file(path):
            (runs if isinstance(found, StoredRun) else skipped).append(found)  # type: ignore[arg-type]
    if not runs:
        raise DataError(
            f"holds no stored WebJudge run ({len(skipped)} other files); expected JSON with image_judge_record", root
        )
    return Records(tuple(runs), tuple(skipped))


def by_key(runs: Iterable[StoredRun]) -> dict[tuple[str, Key], StoredRun]:
    """(judge, key) -> run. The same run stored twice counts once; raises DataError for two that differ."""
    found: dict[tuple[str, Key], StoredRun] = {}
    for run in runs:
        first = found.setdefault((run.judge, run.key), run)
        if (first.input_text, first.response) != (run.input_text, run.response):
            name = "/".join(part for part in run.key if part)
            raise DataError(f"is another run of {name} by {run.judge} than {first.path}; keep one", run.path, run.line)
    return found


# Reading one file.


def _file(path: Path) -> Iterator[StoredRun | Skipped]:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise DataError(f"has {size / 2**20:.0f} MiB, more than {MOST_BYTES / 2**20:.0f}; split it", path)
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8: {error.reason} at byte {error.start}", path) from None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield from _lines(path, text, error)
        return
    if _is_result(whole):
        yield from _results(path, [(1, whole)])
    elif isinstance(whole, dict) and "image_judge_record" in whole:
        yield _judgment(path, whole)
    else:
        yield Skipped(path, "other schema: no image_judge_record")


def _lines(path: Path, text: str, whole: Exception) -> Iterator[StoredRun | Skipped]:
    """A file that is no single JSON value: JSON lines, or broken. A torn last line is an error, not a skipped one."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    values: list[tuple[int, Any]] = []
    for number, line in lines:
        try:
            values.append((number, json.loads(line)))
        except (ValueError, RecursionError) as error:
            if not values:
                raise DataError(f"is not JSON: {whole}", path) from None
            raise DataError(f"is not JSON: {error}", path, number) from None
    if not values:
        raise DataError("is empty", path)
    if not any(_is_result(value) for _, value in values):
        yield Skipped(path, "other schema: JSON lines without image_judge_record")
        return
    yield from _results(path, values)


def _is_result(value: Any) -> bool:
    """Whether it is a line of Online-Mind2Web's results, WebJudge or not."""
    return isinstance(value, dict) and "task_id" in value and "evaluation_details" in value


def _results(path: Path, values: list[tuple[int, Any]]) -> Iterator[StoredRun | Skipped]:
    named = _RESULTS.fullmatch(path.stem)
    for number, value in values:
        if not _is_result(value):
            raise DataError("is no line of Online-Mind2Web results: no task_id, evaluation_details", path, number)
        if "image_judge_record" not in value:
            yield Skipped(path, f"line {number}: another judge's result, no image_judge_record")
            continue
        result = checked(Result, value, path, number)
        actions, thoughts, shown = _acted(result)
        yield StoredRun(
            path=path,
            line=number,
            mode=_MODES.get(named["mode"], "general") if named else "om2w",
            benchmark=OM2W,
            agent="",
            task_id=result.task_id,
            judge=(named["model"] or "") if named else "",
            answered_by=(named["model"] or "") if named else "",
            goal=result.task,
            key_points=result.key_points,
            pictures=_pictures(result.image_judge_record),
            input_text=result.input_text,
            system_msg=result.system_msg,
            response=result.evaluation_details.response or "",
            threshold=_threshold(named["threshold"], path) if named else THRESHOLD,
            actions=actions,
            thoughts=thoughts,
            shown=shown,
            stored_label=result.predicted_label,
        )


def _acted(result: Result) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None, int | None]:
    """(actions, thoughts, number of screenshots) as the script hands them to the judge.

    In the second layout a step is action, thought and screenshot; the last step's action is the agent's output and no
    action to the judge, its screenshot is shown all the same. A missing thought is Python's `None`.
    """
    listed = result.action_history
    steps = [step for step in listed or () if isinstance(step, Step)]
    if steps:
        return tuple(s.action for s in steps[:-1]), tuple(str(s.thought) for s in steps), len(steps)
    lines = None if listed is None else tuple(line for line in listed if isinstance(line, str))
    return lines, None if result.thoughts is None else tuple(result.thoughts), None


def _threshold(text: str, path: Path) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"its name has no number behind score_threshold: {text!r}", path) from None


def _judgment(path: Path, value: dict[str, Any]) -> StoredRun:
    """One AgentRewardBench judgment."""
    judged = checked(Judgment, value, path)
    final = judged.chat_messages[-1] if judged.chat_messages else None
    parts = final.content if final is not None and isinstance(final.content, list) else []
    texts = [str(part.get("text", "")) for part in parts if part.get("type") == "text"]
    if final is not None and isinstance(final.content, str):
        texts = [final.content]
    system = next((m.content for m in judged.chat_messages or () if m.role == "system"), None)
    choices = judged.response.choices
    return StoredRun(
        path=path,
        line=None,
        mode="general",
        benchmark=judged.benchmark,
        agent=judged.agent,
        task_id=judged.task_id or _COPY.sub("", path.stem),
        judge=judged.judge_model_name,
        answered_by=judged.response.model or "",
        goal=judged.goal,
        key_points=judged.key_points,
        pictures=_pictures(judged.image_judge_record),
        input_text=judged.input_text,
        system_msg=judged.system_msg,
        response=(choices[0].message.content or "") if choices else "",
        sent=None if final is None else sum(part.get("type") != "text" for part in parts),
        sent_text=None if final is None else "".join(texts),
        sent_system=system if isinstance(system, str) else None,
        summary=_summary(judged.trajectory_info.summary_info if judged.trajectory_info else None),
    )


def _pictures(stored: Sequence[Picture]) -> tuple[StoredPicture, ...]:
    return tuple(StoredPicture(one.Response or "", one.Score) for one in stored)


def _summary(info: Info | None) -> Summary | None:
    if info is None:
        return None
    used, given = _whole(info.input_tokens), _whole(info.output_tokens)
    cost = _number(info.cost)
    free = cost == 0 and bool(used or given)
    return Summary(
        n_steps=_whole(info.n_steps),
        input_tokens=used,
        output_tokens=given,
        cost=None if free else cost,
        reward=_number(info.reward),
        error=(info.err_msg or "").strip().split("\n")[0],
    )


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _whole(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else round(value)
