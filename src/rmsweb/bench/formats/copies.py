"""Which imported attempts are one attempt in two folders. Pure.

Two runs of a task differ somewhere in what is stored of them: pages, times, tokens, words, verdicts. An attempt is a
copy of another where all three hold: everything that is stored of both but their place is equal; there is substance in
it that two real runs would not share, which is a picture, or two of acts (an answer alone is none), seconds and tokens;
and no verdict that is stored beside both says anything else (another label, score or reason is another judging, most
likely of another run). What is equal without such substance may be either: it is kept as a run, and a note says so.
Two real runs that are equal to the last byte of every page and have no times are taken for a copy, and count once.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from rmsweb.bench.costs import use_of
from rmsweb.bench.reading import lists_acts
from rmsweb.records import Trajectory, Verdict

_PLACE = ("path", "notes", "converted")
"""Facts of an import that say where it lay or how it was read, not what was done."""


def fingerprint(trajectory: Trajectory, *, task: bool = True) -> str:
    """SHA-256 of what was done and seen, whatever folder it lay in. `task`: by which task id counts too."""
    value: dict[str, Any] = trajectory.model_dump(
        mode="json", include={"steps", "answer", "stop", "detail", "evidence", "viewport", "wall_s", "policy"}
    )
    facts = value["evidence"].get("imported", {})
    value["evidence"] = {key: fact for key, fact in facts.items() if key not in _PLACE}
    value["task"] = [trajectory.task.goal, trajectory.task.id if task else ""]
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def has_pages(trajectory: Trajectory) -> bool:
    """Whether any picture of it is stored."""
    return any(page.image for step in trajectory.steps for page in (step.before, step.after))


def telling(trajectory: Trajectory) -> bool:
    """Whether enough is stored of it that another run would not be equal to it."""
    measured = (lists_acts(trajectory), bool(trajectory.wall_s), bool(use_of(trajectory).prompt_tokens))
    return has_pages(trajectory) or sum(measured) >= 2


def contradicted(verdicts: Iterable[Verdict], others: Iterable[Verdict]) -> bool:
    """Whether a judge is stored beside both and does not say the same of both."""
    said = {verdict.judge: _said(verdict) for verdict in others}
    return any(said.get(verdict.judge, _said(verdict)) != _said(verdict) for verdict in verdicts)


def _said(verdict: Verdict) -> str:
    return verdict.model_copy(update={"trajectory_id": ""}).model_dump_json()
