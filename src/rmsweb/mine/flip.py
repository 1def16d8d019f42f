"""Flip: does another action at this one step turn the outcome? The dearest detector, and the surest; off by default.

The trajectory is replayed to the state, the verified reference is carried out in place of the policy's own action, and
the policy itself goes on. A pass where the original failed marks the step.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from rmsweb.actions import ENDING
from rmsweb.mine.align import Successes, state_keys
from rmsweb.mine.fix import Continuation, Located, continuation
from rmsweb.mine.locate import Mark
from rmsweb.records import Decision, Trajectory, Verdict


async def flip(
    failed: Sequence[Located],
    known: Successes,
    play: Callable[[Sequence[Continuation]], Awaitable[Mapping[str, tuple[Trajectory, Verdict]]]],
    attempts: int,
) -> dict[str, list[Mark]]:
    """Marks by trajectory id. Only located steps with a reference that is no ending action can be flipped."""
    jobs = [job for located in failed for job in _jobs(located, known, attempts)]
    done = await play(jobs)
    marks: dict[str, list[Mark]] = {}
    for job in jobs:
        if done[job.id][1].success:
            mark = Mark(job.step, "flip", "flipped", "the reference in its place, and the policy succeeds")
            found = marks.setdefault(job.trajectory.id, [])
            if mark not in found:
                found.append(mark)
    return marks


def _jobs(located: Located, known: Successes, attempts: int) -> list[Continuation]:
    jobs = []
    keys = state_keys(located.trajectory.steps)
    for step in sorted({mark.step for mark in located.marks}):
        references = known.at(located.trajectory.task.id, keys[step]) if located.trajectory.steps else ()
        if not references or isinstance(references[0].action, ENDING):
            continue
        first = references[0]
        other = Decision(thought=first.thought, intent=first.intent, action=first.action)
        for attempt in range(attempts):
            job = continuation(located.trajectory, step, attempt, "flip")
            jobs.append(replace(job, prefix=(*job.prefix, other)))
    return jobs
