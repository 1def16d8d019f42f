"""Which states of different trajectories are the same state, and what successes did there.

A state key is the normalised URL, the shown tab, the picture and what has been changed on the server so far. The last
part matters: a start page looks the same before and after the wrong thing was bought. Pure.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from rmsweb.actions import Viewport
from rmsweb.mine.meaning import hit_of, same_action
from rmsweb.records import Observation, ReferenceAction, Step, Stop, Trajectory

Source = Literal["retry", "sibling", "teacher", "self"]
RANK: tuple[Source, ...] = ("self", "retry", "sibling", "teacher")
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
DETOUR = 1
"""Steps by which a reference's way to the end may be longer than the shortest known one."""
TRACKING = re.compile(r"^(utm_.*|gclid|fbclid|msclkid|mc_[ce]id|ref_src)$")
EPISODE = re.compile(r"^/s/[^/]+")
"""The built-in sites' pages live under a token of their episode."""


def url_key(url: str) -> str:
    """An address without what differs between two visits of one page: ports of loopback, episode token, trackers."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removeprefix("www.")
    if host in LOOPBACK:
        host = "local"
    elif parts.port and parts.port not in (80, 443):
        host += f":{parts.port}"
    path = EPISODE.sub("", parts.path).rstrip("/") if host == "local" else parts.path.rstrip("/")
    query = urlencode(sorted(kv for kv in parse_qsl(parts.query, keep_blank_values=True) if not TRACKING.match(kv[0])))
    route = parts.fragment if parts.fragment.startswith(("/", "!")) else ""
    return f"{host}{path}" + (f"?{query}" if query else "") + (f"#{route}" if route else "")


def look(now: Observation) -> str:
    """Key of what is seen: address, tab, picture."""
    return f"{url_key(now.url)}|{now.tab}|{now.image}"


def state_keys(steps: Sequence[Step]) -> list[str]:
    """The key of the state before each step, and of the one after the last (one more than steps)."""
    keys, done = [], ""
    for step in steps:
        keys.append(f"{look(step.before)}|{done}")
        for write in step.effect.writes:
            if not write.stopped:
                hit = step.effect.hit.name if step.effect.hit else ""
                # The picture before the write stands for what the form's fields held.
                text = "\n".join((done, write.method, url_key(write.url), hit, step.before.image))
                done = hashlib.sha256(text.encode()).hexdigest()[:16]
    if steps:
        keys.append(f"{look(steps[-1].after)}|{done}")
    return keys


def shortest_path(keys: Sequence[str], start: int = 0) -> list[int]:
    """Indices of the steps that are left when everything between two visits of one state is taken out.

    `keys` has one entry more than there are steps. No-ops fall out, too.
    """
    last = {key: index for index, key in enumerate(keys)}
    path, index = [], start
    while index < len(keys) - 1:
        index = last[keys[index]]
        if index == len(keys) - 1:
            break
        path.append(index)
        index += 1
    return path


@dataclass(slots=True, frozen=True)
class Known:
    """A reference action and how far it was from there to the end of the success that it comes from."""

    reference: ReferenceAction
    remaining: int
    trajectory_id: str


class Successes:
    """What was seen to succeed, by task and state."""

    def __init__(self, viewport: Viewport) -> None:
        self.viewport = viewport
        self._at: dict[tuple[str, str], list[Known]] = {}
        self._lengths: dict[str, int] = {}

    def add(self, trajectory: Trajectory, source: Source, start: int = 0) -> None:
        """Learn from a trajectory that passed its verdict; steps before `start` are another policy's.

        One that did not end by itself is left out: what it did after the deed was done is no reference.
        """
        if trajectory.stop not in (Stop.ANSWERED, Stop.DONE, Stop.GAVE_UP):
            return
        keys = state_keys(trajectory.steps)
        if trajectory.steps and trajectory.steps[-1].decision.action is not None:
            # An ending action leaves the page as it is; it must not fall out as a no-op.
            keys[-1] += "|end"
        path = shortest_path(keys, start)
        if start == 0:
            self._lengths[trajectory.task.id] = min(len(path), self._lengths.get(trajectory.task.id, len(path)))
        for position, index in enumerate(path):
            step = trajectory.steps[index]
            if step.decision.action is None:
                continue
            known = Known(
                _reference(step, source, advised=bool(trajectory.advice)), len(path) - position, trajectory.id
            )
            self._at.setdefault((trajectory.task.id, keys[index]), []).append(known)

    def at(self, task_id: str, key: str, own: str = "") -> tuple[ReferenceAction, ...]:
        """Verified actions at a state, shortest way to the end first, one of each meaning; at equal length the
        trajectory `own` comes first and the teacher last.

        What comes from the trajectory `own` itself is a `self` reference; another one's stays what it is.
        """
        found: list[ReferenceAction] = []

        def order(known: Known) -> tuple[int, bool, int, str]:
            rank = RANK.index(known.reference.source)
            return known.remaining, known.trajectory_id != own, rank, known.trajectory_id

        known_here = self._at.get((task_id, key), ())
        nearest = min((known.remaining for known in known_here), default=0)
        for known in sorted(known_here, key=order):
            if known.remaining > nearest + DETOUR:
                continue  # it led to success by a detour, which is no reason to reward it
            reference = known.reference
            if own and known.trajectory_id == own and reference.source == "sibling":
                reference = reference.model_copy(update={"source": "self"})
            if not self.has(found, reference):
                found.append(reference)
        return tuple(found)

    def has(self, references: Iterable[ReferenceAction], one: ReferenceAction) -> bool:
        """Whether an action of the same meaning is among the references."""
        return any(same_action(one.action, r.action, self.viewport, one.hit, r.hit) for r in references)

    def fewest(self, task_id: str) -> int | None:
        """Steps of the shortest known success of a task, detours taken out."""
        return self._lengths.get(task_id)


def _reference(step: Step, source: Source, advised: bool) -> ReferenceAction:
    decision = step.decision
    assert decision.action is not None
    # What an advised policy thinks may repeat the advice.
    thought = "" if advised else decision.thought
    return ReferenceAction(
        action=decision.action, intent=decision.intent, thought=thought, hit=hit_of(step), source=source
    )
