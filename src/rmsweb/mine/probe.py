"""Instability: the policy is asked again, several times, at states it has visited. No browser: stored observations.

Owns the Probe record (probes.jsonl) and what follows from it. The seed of a probe depends on the state's id only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmsweb.actions import Viewport
from rmsweb.errors import EndpointError
from rmsweb.executor import LocalExecutor
from rmsweb.mine.locate import Mark
from rmsweb.mine.meaning import clusters, element_at, same_action, target
from rmsweb.records import Decision, Record, ReferenceAction, Step, Trajectory
from rmsweb.rollout import derive_seed

if TYPE_CHECKING:
    from rmsweb.policy import Policy


class Probe(Record):
    """Replies drawn at one state (id `traj@step`)."""

    id: str
    decisions: tuple[Decision, ...]
    """Without token ids; empty when the model failed."""


@dataclass(slots=True, frozen=True)
class Place:
    """A visited state."""

    trajectory: Trajectory
    index: int

    @property
    def id(self) -> str:
        return f"{self.trajectory.id}@{self.index}"

    @property
    def step(self) -> Step:
        return self.trajectory.steps[self.index]


async def ask(
    places: Sequence[Place],
    policy: "Policy",
    samples: int,
    seed: int,
    together: int,
    on_done: Callable[[Probe], None],
) -> None:
    """Draw `samples` replies at each place, `together` places at once so that an in-process model can batch them."""

    async def one(place: Place) -> None:
        task, history = place.trajectory.task, place.trajectory.steps[: place.index]
        chosen = derive_seed(seed, "probe", place.id)
        try:
            drawn = await policy.decide(task, history, place.step.before, n=samples, seed=chosen)
        except EndpointError:
            # A state without replies stays unprobed; the other detectors do not need them.
            drawn = []
        on_done(Probe(id=place.id, decisions=tuple(_lean(decision) for decision in drawn)))

    await LocalExecutor(together).map(one, places)


def agreement(probe: Probe, step: Step, references: Sequence[ReferenceAction], viewport: Viewport) -> float | None:
    """Share of the replies that match a reference, or, without one, share of the largest group of equal replies."""
    if not probe.decisions:
        return None
    actions = [decision.action for decision in probe.decisions]
    if references:
        return sum(_right(d, step, references, viewport) for d in probe.decisions) / len(actions)
    return len(clusters(actions, step.before, viewport)[0]) / len(actions)


def unstable(
    probe: Probe, step: Step, references: Sequence[ReferenceAction], viewport: Viewport, wanted: float
) -> Mark | None:
    """A mark when fewer than `wanted` of the replies agree."""
    share = agreement(probe, step, references, viewport)
    if share is None or share >= wanted:
        return None
    with_what = "with the references" if references else "with each other"
    return Mark(step.index, "instability", "unstable", f"{share:.2f} agree {with_what}")


def usual_mistake(
    probe: Probe, step: Step, references: Sequence[ReferenceAction], viewport: Viewport
) -> Decision | None:
    """The most frequent reply that matches no reference."""
    wrong = [d for d in probe.decisions if not _right(d, step, references, viewport)]
    if not wrong:
        return None
    return wrong[clusters([d.action for d in wrong], step.before, viewport)[0][0]]


def _right(decision: Decision, step: Step, references: Sequence[ReferenceAction], viewport: Viewport) -> bool:
    hit = element_at(step.before, target(decision.action))
    return any(same_action(decision.action, r.action, viewport, hit, r.hit) for r in references)


def _lean(decision: Decision) -> Decision:
    return decision.model_copy(update={"token_ids": None, "logprobs": None, "raw": ""})
