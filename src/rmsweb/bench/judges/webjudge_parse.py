"""What WebJudge reads out of its judge's replies and how it lays out what it found, quirks included. Pure.

Facts: OSU-NLP-Group/Online-Mind2Web `src/methods/webjudge_online_mind2web.py` (`PLAIN`) and `webjudge_general_eval.py`
(`HASHES`), `extract_predication` of `src/utils.py` (the status, shared with AgentTrek and Autonomous). Each function
gives what upstream would store; where a reply says something else in words, `said_status` and `Seen.shifted` tell so.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rmsweb.bench.judges.packs import fill
from rmsweb.bench.judges.verdicts import Said

MOST = 50
"""Upstream keeps the first so many pictures, and, cut apart from them, the first so many reasons."""
BOLD_HEADING, PLAIN_HEADING = "**Key Points**:", "Key Points:"


@dataclass(slots=True, frozen=True)
class Headings:
    """The marks between which a reply to one screenshot is read."""

    name: str
    score: str
    reason: str
    end: str
    """What ends the reason."""


PLAIN = Headings("plain", "Score", "**Reasoning**:", "\n\n")
"""Online-Mind2Web variant; also the general variant as it was run with WebJudge-7B."""
HASHES = Headings("hashes", "### Score", "### Reasoning:", "### Score")
"""General variant."""


@dataclass(slots=True, frozen=True)
class Seen:
    """What a reply says of one screenshot."""

    score: int
    """1 to 5; 0 where upstream's parser fails."""
    reason: str
    shifted: bool = False
    """The score's mark stands more than once and the last one says another number than the one upstream reads."""


@dataclass(slots=True, frozen=True)
class Kept:
    """What the final call gets to see."""

    numbers: tuple[int, ...]
    """Of the screenshots, as they were given."""
    reasons: tuple[str, ...]
    """May be fewer: an empty reason is dropped while its screenshot stays."""


def key_points(reply: str) -> str:
    """The list of key points: behind the bold heading up to its next one, else behind the last plain heading.

    Double line breaks are collapsed first (once), then each line is stripped on the left. Without any heading the
    whole reply is the list.
    """
    text = reply.replace("\n\n", "\n")
    parts = text.split(BOLD_HEADING)
    listed = parts[1] if len(parts) > 1 else text.split(PLAIN_HEADING)[-1]
    return "\n".join(line.lstrip() for line in listed.splitlines())


def read_picture(reply: str, headings: Headings) -> Seen:
    """Score and reason of one screenshot.

    The score is the first digit 1 to 5 between the first and the second occurrence of its mark; so the word in the
    middle of the reasoning shifts what is read. The reason begins behind the last mark of reasoning, wherever that is.
    """
    parts = reply.split(headings.score)
    digit = _digit(parts[1]) if len(parts) > 1 else None
    if digit is None:
        return Seen(0, "", shifted=len(parts) > 1 and _digit(parts[-1]) is not None)
    reason = reply.split(headings.reason)[-1].strip().split(headings.end)[0].replace("\n", " ")
    last = _digit(parts[-1])
    return Seen(digit, reason, shifted=last is not None and last != digit)


def _digit(text: str) -> int | None:
    found = re.search("[1-5]", text)
    return int(found.group()) if found else None


def keep(seen: Sequence[tuple[int, Seen]], threshold: float) -> Kept:
    """Screenshots whose score reaches the threshold, and the reasons that are not empty: the first MOST of each."""
    kept = [(number, one) for number, one in seen if one.score >= threshold]
    reasons = [one.reason for _, one in kept if one.reason]
    return Kept(tuple(number for number, _ in kept[:MOST]), tuple(reasons[:MOST]))


def numbered(lines: Sequence[str]) -> str:
    """`1. first`, `2. second` ..., a line each."""
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def history(actions: Sequence[str], thoughts: Sequence[str] | None = None) -> str:
    """The numbered action history; with `thoughts` (general variant) each action is joined with its own.

    Joined lists end where the shorter one does.
    """
    if thoughts is None:
        return numbered(actions)
    return numbered([f"{action}. Reasoning: {thought}" for action, thought in zip(actions, thoughts, strict=False)])


def upstream_label(reply: str) -> int:
    """What `extract_predication` stores: 1 where `success` stands between the first and the second `status:`.

    So `Status: "unsuccessful"` is 1, and a reply without `status:` is 0.
    """
    parts = reply.lower().split("status:")
    return int(len(parts) > 1 and "success" in parts[1])


_STATUS = re.compile(r"status[*_`\"']*\s*[:=]", re.IGNORECASE)
_LINE_START = re.compile(r"(?:^|\n)[^\w\n]*(?:final[ _-]+)?$", re.IGNORECASE)
_WORD = re.compile(
    r"[\s*_`\"'“‘(<\[]*(?:"
    r"(?P<no>unsuccessful(?:ly)?|not[ _-]+(?:a[ _-]+)?success(?:ful)?|no[ _-]+success|failures?|failed|fail"
    r"|incomplete|incorrect)"
    r"|(?P<yes>success(?:ful(?:ly)?)?|succeeded))(?![\w'-])"
    r"[*_`\"'”’)>\]]*\s*(?:$|\n|[.,;:!}(—–-])",
    re.IGNORECASE,
)


def said_status(reply: str) -> bool | None:
    """What the reply says in words: the whole word behind `status:`, negative forms first.

    A `status:` that begins a line counts before one in the middle of a sentence (pages have statuses of their own), of
    those the last. None: no status, neither word, or two lines that differ.
    """
    body = re.split(r"</think(?:ing)?>", reply, flags=re.IGNORECASE)[-1]
    leading: list[bool] = []
    inside: list[bool | None] = []
    for mark in _STATUS.finditer(body):
        word = _WORD.match(body, mark.end())
        says = None if word is None else word["yes"] is not None
        if not _LINE_START.search(body[: mark.start()]):
            inside.append(says)
        elif says is not None:
            leading.append(says)
    if leading:
        return leading[0] if len(set(leading)) == 1 else None
    return inside[-1] if inside else None


def read_status(reply: str) -> Said:
    """The verdict of a final reply: what it says, what upstream would store, and its thoughts."""
    marks = list(_STATUS.finditer(reply))
    thoughts = reply[: marks[-1].start()] if marks else reply
    reason = re.sub(r"^\W*thoughts?\W*:", "", thoughts.strip(" \n*_#`"), flags=re.IGNORECASE).strip(" \n*_#`")
    return Said(said_status(reply), upstream_label(reply), reason)


def final_text(verdict: str, bare: str, *, task: str, key_points: str, actions: str, kept: Kept) -> str:
    """The text of the last call. `verdict`, `bare`: templates with and without the section of snapshots.

    The section is left out when no picture is kept; it stays, empty, when pictures are kept and all reasons are empty.
    """
    values = {"{task}": task, "{key_points}": key_points, "{last_actions}": actions}
    return fill(verdict, {**values, "{thoughts}": numbered(kept.reasons)}) if kept.numbers else fill(bare, values)
