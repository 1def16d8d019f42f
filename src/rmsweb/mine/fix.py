"""A verified right action for each critical state.

Cheap ones first: what a success of the same task did at the same state (align.Successes). Else the teacher goes on
from the state itself, restored by replay and checked to be the same; a continuation that passes its verdict gives
references for its state and for every state along it. A state for which all tries fail keeps no reference and is never
trained on.

Owns the plan, which is a pure function of what is known so far: after a kill the same jobs come out again.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rmsweb.actions import ENDING
from rmsweb.config import MineConfig
from rmsweb.mine.align import Successes, look, state_keys
from rmsweb.mine.locate import Mark, wrong_act
from rmsweb.records import Decision, Stop, Trajectory, Verdict
from rmsweb.rollout import trajectory_id

ORDER = ("first_error", "divergence", "mechanical", "instability")
"""Which finding is tried first when a trajectory has several."""
CHUNK = 16
"""Jobs between two looks at the budget."""


@dataclass(slots=True, frozen=True)
class Located:
    """A judged rollout of the policy and what the detectors found in it."""

    trajectory: Trajectory
    verdict: Verdict
    marks: tuple[Mark, ...]


@dataclass(slots=True, frozen=True)
class Continuation:
    """One try: replay `trajectory` up to before `step`, then let another policy act."""

    trajectory: Trajectory
    step: int
    attempt: int
    arm: str
    prefix: tuple[Decision, ...]
    own: int
    """Items of the prefix that are the trajectory's own; the recorded state lies behind them."""

    @property
    def id(self) -> str:
        return trajectory_id(self.trajectory.task, self.attempt, self.arm)

    @property
    def expect(self) -> tuple[str, ...]:
        """The picture of the recorded state; those on the way may differ (a counter, an advertisement)."""
        return ("",) * self.own + (self.trajectory.steps[self.step].before.image,)


def continuation(trajectory: Trajectory, step: int, attempt: int, kind: str = "fix") -> Continuation:
    """The job of one try; `kind` and the place make its arm, so that ids never collide with rollouts."""
    before = (s.decision for s in trajectory.steps[:step])
    # Unreadable replies are kept: a model that reads its history sees a line for each.
    kept = (d for d in before if (d.action is not None or d.fault is not None) and not isinstance(d.action, ENDING))
    prefix = tuple(kept)
    return Continuation(trajectory, step, attempt, f"{kind}-{trajectory.attempt}-{step}", prefix, len(prefix))


def steps_to_fix(located: Located) -> list[int]:
    """Steps in the order in which they are worth a try: those behind a wrong act, hard to undo, come last.

    The first step is among the first two, located or not: a success from the start shows where the rollout left the
    way, for all of its states that lie on it.
    """
    steps = located.trajectory.steps
    acted = next((step.index for step in steps if wrong_act(step)), len(steps))

    def worth(mark: Mark) -> tuple[bool, int, int]:
        if mark.detector not in ORDER:
            return False, len(ORDER), 0
        return mark.step > acted, ORDER.index(mark.detector), mark.step

    found = [mark.step for mark in sorted(located.marks, key=worth) if mark.step < len(steps)]
    if all(mark.detector in ORDER for mark in located.marks):
        found.insert(1, 0)
    return list(dict.fromkeys(found))


@dataclass(slots=True)
class Tries:
    """How often the teacher was asked, by state and by rollout."""

    states: Counter[tuple[str, str]] = field(default_factory=Counter)
    rollouts: Counter[str] = field(default_factory=Counter)


def next_round(failed: Iterable[Located], known: Successes, tries: Tries, config: MineConfig) -> list[Continuation]:
    """At most one job for a rollout and for a state; none where a reference is known or all tries were made."""
    jobs: list[Continuation] = []
    taken: set[tuple[str, str]] = set()
    for located in failed:
        trajectory = located.trajectory
        if tries.rollouts[trajectory.id] >= config.fix_tries:
            continue
        keys = state_keys(trajectory.steps)
        places = [(step, (trajectory.task.id, keys[step])) for step in steps_to_fix(located)]
        owed = [(s, p) for s, p in places if p not in taken and tries.states[p] < config.fix_attempts]
        owed = [(s, p) for s, p in owed if not known.at(*p)]
        if owed:
            step, place = min(owed, key=lambda one: tries.states[one[1]])
            taken.add(place)
            jobs.append(continuation(trajectory, step, tries.states[place]))
    return jobs


@dataclass(slots=True)
class Spent:
    """What the teacher was asked for and what came of it."""

    episodes: int = 0
    successes: int = 0
    browser_steps: int = 0
    """Replayed steps included."""
    other_state: int = 0
    """Replays that ended in another state than the recorded one."""


async def fix(
    failed: Sequence[Located],
    known: Successes,
    play: Callable[[Sequence[Continuation]], Awaitable[Mapping[str, tuple[Trajectory, Verdict]]]],
    config: MineConfig,
) -> Spent:
    """Rounds of teacher continuations until nothing is owed or `fix_steps` browser steps are spent; `known` learns.

    `play` carries jobs out (or finds them done before) and gives each id its trajectory and verdict.
    """
    spent, tries = Spent(), Tries()
    while jobs := next_round(failed, known, tries, config):
        for start in range(0, len(jobs), CHUNK):
            if config.fix_steps is not None and spent.browser_steps >= config.fix_steps:
                return spent
            chunk = jobs[start : start + CHUNK]
            done = await play(chunk)
            for job in chunk:
                trajectory, verdict = done[job.id]
                place = (job.trajectory.task.id, state_keys(job.trajectory.steps)[job.step])
                tries.rollouts[job.trajectory.id] += 1
                tries.states[place] += 1 if restored(job, trajectory) else config.fix_attempts
                _learn(job, trajectory, verdict, known, spent)
    return spent


def restored(job: Continuation, trajectory: Trajectory) -> bool:
    """Whether the replay reached the recorded state (same address, tab and picture)."""
    start = job.own
    wanted = look(job.trajectory.steps[job.step].before)
    if start < len(trajectory.steps):
        return look(trajectory.steps[start].before) == wanted
    if trajectory.stop is Stop.BROWSER_ERROR and "replay" in trajectory.detail:
        return False
    return bool(trajectory.steps) and look(trajectory.steps[-1].after) == wanted


def _learn(job: Continuation, trajectory: Trajectory, verdict: Verdict, known: Successes, spent: Spent) -> None:
    spent.episodes += 1
    spent.browser_steps += len(trajectory.steps)
    if not restored(job, trajectory):
        spent.other_state += 1
    elif verdict.success:
        spent.successes += 1
        known.add(trajectory, "teacher", start=job.own)
