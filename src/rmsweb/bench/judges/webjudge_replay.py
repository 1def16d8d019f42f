"""Stored WebJudge runs replayed: scores, kept pictures, reasons, prompt text and status rebuilt and compared.

    layout = layout_of(runs)            the constant wording around task, key points, actions, reasons
    replay(run, layout) -> Replay       everything from the stored replies; no stored score or prompt block is copied
    check(run, layout) -> [Mismatch]    empty: the run is what our code makes of its replies
    check_all(runs) -> [Mismatch]       one layout for all runs of a mode, one kind of headings for each judge, and the
                                        numbers of pictures beyond actions that an agent's runs share

What these files cannot show, and so no mismatch can: which picture stands behind a picture part (only their number is
compared), the reply the key points were taken from (only their form is checked), the actions (AgentRewardBench stores
them in the prompt alone: their numbering and number are checked), and a last reply that was changed from one status to
the other where no label is stored.

Pictures and actions. Upstream's script takes the pictures of a folder and the actions of a file and compares their
numbers nowhere: a picture for each action (AgentLab), one more (the page behind the last action) and an action without
one are all its. A reply that was dropped shows in the prompt only where its picture was kept; else only the number
tells. So `check` demands a picture for each action unless told otherwise, and `check_all` what an agent's runs show.
Not noticed therefore: a reply to a picture that was not kept, dropped from so many runs of an agent that it looks like
its habit (a tenth), or from an Online-Mind2Web line of the first layout, which has no count of its pictures.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rmsweb.bench.judges.webjudge_parse import (
    HASHES,
    PLAIN,
    Headings,
    Kept,
    Seen,
    final_text,
    history,
    keep,
    numbered,
    read_picture,
)
from rmsweb.bench.judges.webjudge_records import StoredRun
from rmsweb.errors import DataError

_JOINED = ". Reasoning: "
ONE_EACH = frozenset({0})
"""Pictures beyond actions: a picture for each action."""
HABIT = 10
"""A number of pictures beyond actions is an agent's habit where two of its runs, and one in so many, show it."""
SHOWN = 200
"""Most letters of a value in a mismatch."""


@dataclass(slots=True, frozen=True)
class Layout:
    """Wording of the final call that is the same for every task: what stands around the slots."""

    before_task: str
    before_points: str
    before_actions: str
    before_reasons: str | None
    """None where no run at hand has a kept picture."""
    system: str

    @property
    def bare(self) -> str:
        """Template without the section of snapshots."""
        return f"{self.before_task}{{task}}{self.before_points}{{key_points}}{self.before_actions}{{last_actions}}"

    @property
    def verdict(self) -> str:
        """Template with it."""
        return f"{self.bare}{self.before_reasons or ''}{{thoughts}}"


@dataclass(slots=True, frozen=True)
class Replay:
    """What our code makes of the stored replies of a run."""

    seen: tuple[Seen, ...]
    kept: Kept
    """Numbers count from 0."""
    reasons: str
    """The numbered block."""
    text: str
    """The final prompt."""
    label: int
    """As upstream parses the last reply."""
    said: bool | None
    """What the last reply says in words."""

    @property
    def scores(self) -> tuple[int, ...]:
        return tuple(one.score for one in self.seen)


class Mismatch(NamedTuple):
    """One thing that is stored otherwise than it is rebuilt."""

    path: Path
    line: int | None
    what: str
    stored: str
    rebuilt: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else str(self.path)
        return f"{where}: {self.what}: stored {self.stored!r}, rebuilt {self.rebuilt!r}"


def headings_of(runs: Iterable[StoredRun]) -> Headings:
    """Which marks the replies of one judge use: what most of them show.

    Online-Mind2Web has one kind only. Where no reply shows any mark, the kind that fits more of the stored scores.
    """
    every = list(runs)
    if all(run.mode == "om2w" for run in every):
        return PLAIN
    replies = [(picture.response, picture.score) for run in every for picture in run.pictures]
    hashes = sum(HASHES.score in text or HASHES.reason in text for text, _ in replies)
    plain = sum(PLAIN.reason in text for text, _ in replies)
    if hashes == plain:
        hashes = sum(read_picture(text, HASHES).score == score for text, score in replies)
        plain = sum(read_picture(text, PLAIN).score == score for text, score in replies)
    return PLAIN if plain > hashes else HASHES


def seen_of(run: StoredRun, headings: Headings, threshold: float | None = None) -> tuple[tuple[Seen, ...], Kept]:
    """The replies to the screenshots read again, and what is kept at the threshold (the run's own unless given)."""
    seen = tuple(read_picture(picture.response, headings) for picture in run.pictures)
    return seen, keep(list(enumerate(seen)), run.threshold if threshold is None else threshold)


def marks_of(runs: Iterable[StoredRun]) -> dict[tuple[str, str], Headings]:
    """(mode, judge) -> the marks of its replies."""
    groups: dict[tuple[str, str], list[StoredRun]] = {}
    for run in runs:
        groups.setdefault((run.mode, run.judge), []).append(run)
    return {key: headings_of(group) for key, group in groups.items()}


def layout_of(runs: Iterable[StoredRun]) -> Layout:
    """The constant wording, which most runs show; of runs without a kept picture all but the last heading.

    A heading is one line behind an empty one. Raises DataError when no run has the structure.
    """
    every = list(runs)
    marks = marks_of(every)
    found = Counter(
        layout for run in every if (layout := _layout(run, marks[run.mode, run.judge])) is not None
    ).most_common()
    if not found:
        where = every[0].path if every else None
        raise DataError("no stored prompt holds task, key points and a numbered action history, in this order", where)
    return next((layout for layout, _ in found if layout.before_reasons is not None), found[0][0])


def _layout(run: StoredRun, headings: Headings) -> Layout | None:
    text = run.input_text
    task_at = text.find(run.task)
    points_at = text.find(run.key_points, task_at + len(run.task)) if task_at >= 0 else -1
    if points_at < 0 or not run.task or not run.key_points:
        return None
    points_end = points_at + len(run.key_points)
    heading = re.compile(r"\n\n[^\n]+\n(?=1\. |\n\n|\Z)").match(text, points_end)
    if heading is None:
        return None
    _, kept = seen_of(run, headings)
    before_reasons = None
    if kept.numbers:
        block = numbered(kept.reasons)
        last = re.search(r"\n\n[^\n]+\n$", text[: len(text) - len(block)]) if text.endswith(block) else None
        if last is None or last.start() < heading.end():
            return None
        before_reasons = last.group()
    return Layout(
        before_task=text[:task_at],
        before_points=text[task_at + len(run.task) : points_at],
        before_actions=heading.group(),
        before_reasons=before_reasons,
        system=run.system_msg,
    )


def replay(
    run: StoredRun, layout: Layout | None = None, *, headings: Headings | None = None, threshold: float | None = None
) -> Replay:
    """A run rebuilt from its replies. `layout` None: its own; DataError where its prompt has no such structure."""
    marks = headings or headings_of([run])
    seen, kept = seen_of(run, marks, threshold)
    layout = layout or _own_layout(run, marks)
    actions = history(run.actions, _thoughts(run)) if run.actions is not None else numbered(_entries(run, layout, kept))
    text = final_text(layout.verdict, layout.bare, task=run.task, key_points=run.key_points, actions=actions, kept=kept)
    return Replay(seen, kept, numbered(kept.reasons), text, run.label, run.said)


def _own_layout(run: StoredRun, headings: Headings) -> Layout:
    found = _layout(run, headings)
    if found is None:
        raise DataError("its prompt does not hold task, key points and a numbered action history", run.path, run.line)
    return found


def _thoughts(run: StoredRun) -> tuple[str, ...] | None:
    return run.thoughts if run.mode == "general" else None


def _entries(run: StoredRun, layout: Layout, kept: Kept) -> list[str]:
    """The action lines, without their numbers, of a run that stores them in its prompt alone."""
    text = run.input_text
    start = text.find(layout.before_actions, len(layout.before_task) + len(run.task)) + len(layout.before_actions)
    end = text.rfind(layout.before_reasons) if kept.numbers and layout.before_reasons else len(text)
    block = text[start : max(start, end)]
    return listed(block)


def listed(block: str) -> list[str]:
    """The entries of a numbered block: as many as it can be read to hold; none where it cannot be read at all."""
    for number in sorted({int(mark) for mark in re.findall(r"^(\d{1,4})\. ", block, re.MULTILINE)}, reverse=True):
        if (found := entries(block, number)) is not None:
            return found
    return []


def entries(block: str, count: int) -> list[str] | None:
    """A numbered block as exactly `count` entries; None where it cannot be read so.

    Entries may hold lists of their own, so numbers alone do not tell: where actions are joined with reasonings, each
    entry has to hold its joint. Read from the end, each entry as short as can be.
    """
    if count == 0:
        return [] if not block else None
    joint = _JOINED if _JOINED in block else ""
    text, end, found = "\n" + block, len(block) + 1, []
    for number in range(count, 0, -1):
        mark = f"\n{number}. "
        start = text.rfind(mark, 0, end)
        while start > 0 and joint not in text[start:end]:
            start = text.rfind(mark, 0, start)
        if start < 0 or joint not in text[start:end]:
            return None
        found.append(text[start + len(mark) : end])
        end = start
    return found[::-1] if end == 0 else None


def check(
    run: StoredRun,
    layout: Layout | None = None,
    *,
    headings: Headings | None = None,
    beyond: frozenset[int] | None = ONE_EACH,
) -> list[Mismatch]:
    """Everything of a stored run that our code makes otherwise; empty where all agrees.

    `beyond`: how many more pictures than actions there may be, where the actions stand in the prompt alone; None: any.
    """
    marks = headings or headings_of([run])
    try:
        layout = layout or _own_layout(run, marks)
    except DataError as error:
        return [Mismatch(run.path, run.line, "prompt", run.input_text[:SHOWN], str(error))]
    made = replay(run, layout, headings=marks)
    found: list[tuple[str, object, object]] = [
        (f"score of picture {number}", picture.score, one.score)
        for number, (picture, one) in enumerate(zip(run.pictures, made.seen, strict=True))
        if picture.score != one.score
    ]
    points = "\n".join(line.lstrip() for line in run.key_points.splitlines())
    found.append(("form of the key points", run.key_points, points))
    found += _prompt(run, layout, made)
    if run.actions is None and beyond is not None and beyond_of(run, layout, made) not in beyond:
        wanted = " or ".join(str(len(run.pictures) - more) for more in sorted(beyond))
        found.append(("number of actions", len(_entries(run, layout, made.kept)), wanted))
    if run.shown is not None:
        found.append(("number of pictures", len(run.pictures), run.shown))
    found.append(("system message", run.system_msg, layout.system))
    if run.sent is not None:
        found.append(("pictures of the final message", run.sent, len(made.kept.numbers)))
        found.append(("text of the final message", run.sent_text, run.input_text))
        found.append(("system message as sent", run.sent_system, run.system_msg))
    if run.stored_label is not None:
        found.append(("predicted label", run.stored_label, made.label))
    if made.said is None and not re.search(r"status:[^\n]*(?:success|fail)", run.response, re.IGNORECASE):
        found.append(("status", run.response[-SHOWN:], "no status"))
    return [
        Mismatch(run.path, run.line, what, _short(stored, rebuilt), _short(rebuilt, stored))
        for what, stored, rebuilt in found
        if stored != rebuilt
    ]


def _prompt(run: StoredRun, layout: Layout, made: Replay) -> list[tuple[str, object, object]]:
    """The stored prompt block by block, each from its place; the blocks in front of the actions, then those behind."""
    text, at = run.input_text, 0
    found: list[tuple[str, object, object]] = []
    for what, block in (
        ("heading of the task", layout.before_task),
        ("task", run.task),
        ("heading of the key points", layout.before_points),
        ("key points", run.key_points),
        ("heading of the actions", layout.before_actions),
    ):
        found.append((what, text[at : at + len(block)], block))
        at += len(block)
    if made.kept.numbers:
        found.append(("numbered reasons", text[max(at, len(text) - len(made.reasons)) :], made.reasons))
        if layout.before_reasons is not None:
            end = len(text) - len(made.reasons)
            heading = text[max(at, end - len(layout.before_reasons)) : max(at, end)]
            found.append(("heading of the reasons", heading, layout.before_reasons))
    elif layout.before_reasons is not None and layout.before_reasons in text[at:]:
        found.append(("section of snapshots", layout.before_reasons, ""))
    found.append(("whole prompt", text, made.text))
    return found


def beyond_of(run: StoredRun, layout: Layout, made: Replay) -> int:
    """Pictures beyond the actions that the prompt lists."""
    return len(run.pictures) - len(_entries(run, layout, made.kept))


def habits(runs: Iterable[StoredRun], layout: Layout) -> dict[str, frozenset[int] | None]:
    """Agent -> the numbers of pictures beyond actions that its runs share; None where they share none.

    The most frequent one, and every other that is no exception: see HABIT.
    """
    every = list(runs)
    marks = marks_of(every)
    shown: dict[str, Counter[int]] = {}
    for run in every:
        if run.actions is None:
            made = replay(run, layout, headings=marks[run.mode, run.judge])
            shown.setdefault(run.agent, Counter())[beyond_of(run, layout, made)] += 1
    found: dict[str, frozenset[int] | None] = {}
    for agent, counts in shown.items():
        often = [more for more, n in counts.items() if n >= 2 and n * HABIT >= counts.total()]
        shared = frozenset([counts.most_common(1)[0][0], *often])
        found[agent] = shared if 2 * sum(counts[more] for more in shared) >= counts.total() else None
    return found


def check_all(runs: Sequence[StoredRun]) -> list[Mismatch]:
    """`check` of every run: one wording demanded of all runs of a mode, the same marks of all of one judge, and of all
    of one agent the numbers of pictures beyond actions that its runs share."""
    marks = marks_of(runs)
    found: list[Mismatch] = []
    for mode in sorted({run.mode for run in runs}):
        of_mode = [run for run in runs if run.mode == mode]
        try:
            layout = layout_of(of_mode)
        except DataError:
            layout = None  # each run then says so
        shared = habits(of_mode, layout) if layout else {}
        for run in of_mode:
            beyond = shared.get(run.agent, ONE_EACH)
            found += check(run, layout, headings=marks[run.mode, run.judge], beyond=beyond)
    return found


def _short(value: object, other: object) -> str:
    """The value, a long text from where it differs from the other."""
    text, rest = str(value), str(other)
    if len(text) <= SHOWN:
        return text
    same = next((i for i, (a, b) in enumerate(zip(text, rest, strict=False)) if a != b), min(len(text), len(rest)))
    start = max(0, same - SHOWN // 4)
    return ("..." if start else "") + text[start : start + SHOWN]
