"""Which imported attempts are one attempt in two folders. Pure.

Two runs of a task differ somewhere in what is stored of them: pages, times, tokens, words. A copy differs in nothing
but its place, so it is known by everything else. Two real runs that are equal to the last byte of every page and have
no times cannot be told from a copy, and count once: a second run that may not exist would be worse.
"""

import hashlib
import json
from typing import Any

from rmsweb.records import Trajectory

_PLACE = ("path", "notes", "converted")
"""Facts of an import that say where it lay or how it was read, not what was done."""


def fingerprint(trajectory: Trajectory, *, task: bool = True) -> str:
    """SHA-256 of what was done and seen, whatever folder it lay in; empty where too little is stored to tell.

    `task`: by which task id counts too. Without it an attempt needs a picture: short attempts without any are easily
    alike.
    """
    pages = [page.image for step in trajectory.steps for page in (step.before, step.after)]
    said = any(step.decision.action or step.decision.intent or step.decision.raw for step in trajectory.steps)
    if not any(pages) and not (task and (said or trajectory.wall_s)):
        return ""
    value: dict[str, Any] = trajectory.model_dump(
        mode="json", include={"steps", "answer", "stop", "detail", "evidence", "viewport", "wall_s", "policy"}
    )
    facts = value["evidence"].get("imported", {})
    value["evidence"] = {key: fact for key, fact in facts.items() if key not in _PLACE}
    value["task"] = [trajectory.task.goal, trajectory.task.id if task else ""]
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
