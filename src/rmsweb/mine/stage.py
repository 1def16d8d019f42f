"""The stage `mine`: policy rollouts -> critical states with verified references -> what is trained on.

    trajectories.jsonl, verdicts.jsonl   rollouts (`task#k`), teacher continuations (`fix-k-step/task#try`), flips
    reflections.jsonl                    what the teacher was advised
    probes.jsonl                         replies drawn again at visited states
    labels.jsonl                         failure modes named by a chat model
    states.jsonl, modes.jsonl            the result, written in one piece at the end
    summary.json                         the report's figures

`states.jsonl` holds the draw (weight 1) and, with weight 0 and without references, what is kept for evaluation only:
hard states without a verified action and those of modes that are not trained on. Resumable at any byte: every seed
comes from ids, every plan from stored records; `assemble` needs no browser and no model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rmsweb.actions import Viewport
from rmsweb.config import Config
from rmsweb.errors import ConfigError
from rmsweb.executor import LocalExecutor
from rmsweb.mine import ask, probe
from rmsweb.mine.advice import Advice
from rmsweb.mine.align import Successes, state_keys
from rmsweb.mine.disjoint import Overlap, assert_disjoint
from rmsweb.mine.fix import Continuation, Located, Spent, fix, restored
from rmsweb.mine.flip import flip
from rmsweb.mine.locate import Mark, locate
from rmsweb.mine.play import Parts, Played
from rmsweb.mine.pool import Found, distinct, mark_unstable, named, states_of, states_on_the_way, summarize
from rmsweb.mine.probe import Place, Probe
from rmsweb.mine.report import summary
from rmsweb.mine.sample import draw, draw_uniform
from rmsweb.mine.taxonomy import Taxonomy, load
from rmsweb.progress import Progress, Silent
from rmsweb.records import CriticalState, FailureMode, Record, Task, Trajectory, Verdict
from rmsweb.rollout import derive_seed
from rmsweb.store import Run, dump, write_atomic

__all__ = ["Judged", "Label", "Mined", "Parts", "assemble", "run"]


class Judged(NamedTuple):
    """A trajectory of Part 1 with its verdict, given as a sibling."""

    trajectory: Trajectory
    verdict: Verdict


class Label(Record):
    """A failure mode that a chat model gave to the state `id`."""

    id: str
    code: str
    """Empty when its reply was none of the taxonomy; the rules decide then."""


@dataclass(slots=True)
class Mined:
    """Everything the draw rests on."""

    located: list[Located]
    known: Successes
    pool: list[Found]
    modes: list[FailureMode]
    chosen: list[CriticalState]
    held_back: list[CriticalState]
    """Kept for evaluation, weight 0."""


@dataclass(slots=True)
class _Stage:
    config: Config
    played: Played
    show: Progress
    taxonomy: Taxonomy
    rollouts: list[Judged] = field(default_factory=list)
    probes: dict[str, Probe] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, Continuation] = field(default_factory=dict)
    flips: dict[str, list[Mark]] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)


async def run(
    config: Config,
    run: Run,
    parts: Parts,
    show: Progress | None = None,
    *,
    siblings: Sequence[Judged] = (),
    test_tasks: Sequence[Task] = (),
) -> dict[str, Any]:
    """Does what is owed and returns the summary. Raises ConfigError when a training task is (like) a test task."""
    tasks = parts.suite.tasks(config.suite)
    overlap = assert_disjoint(tasks, test_tasks)
    asked = {"first_error": config.mine.first_error, "labels": config.mine.labels}
    if parts.chat is None and "chat" in asked.values():
        raise ConfigError(
            f'mine.{", mine.".join(k for k, v in asked.items() if v == "chat")} = "chat" needs a judge model'
        )
    async with parts.suite.serving(), parts.browser as browser:
        stage = _Stage(config, Played.read(run, config, parts, browser), show or Silent(), load())
        stage.probes = {p.id: p for p in run.read("probe", Probe)}
        stage.labels = {one.id: one.code for one in run.read("label", Label)}
        stage.rollouts = [Judged(*one) for one in await stage.played.rollouts(tasks, stage.show)]
        known = _known(stage.rollouts, siblings, config)
        located = await _locate(stage, known)
        await _probe(stage, located, known)
        located = mark_unstable(located, _used(stage), known, config.mine.agreement)
        await _fix(stage, located, known)
        await _flip(stage, located, known)
    mined = assemble(stage.config, stage.rollouts, known, located, stage)
    if config.mine.labels == "chat":
        await _label(stage, mined.pool)
        mined = assemble(stage.config, stage.rollouts, known, located, stage)
    return _finish(stage, mined, overlap)


def assemble(
    config: Config, rollouts: Sequence[Judged], known: Successes, located: Sequence[Located], stage: _Stage
) -> Mined:
    """Pool, modes and draw from what is known; pure."""
    located = _again(located, known, config, stage)
    rates = _rates(rollouts)
    probes = _used(stage)
    found = [one for each in located for one in states_of(each, known, probes, rates)]
    for job in stage.jobs.values():
        trajectory = stage.played.trajectories.get(job.id)
        verdict = stage.played.verdicts.get(job.id)
        if trajectory and verdict and verdict.success and job.arm.startswith("fix") and restored(job, trajectory):
            found += states_on_the_way(job, trajectory, known, rates.get(trajectory.task.id))
    found = named(found, stage.labels)
    outcomes = {one.trajectory.id: bool(one.verdict.success) for one in rollouts}
    modes = summarize(found, outcomes, stage.taxonomy)
    pool = distinct(found)
    chosen = _draw(pool, modes, config)
    ids = {state.id for state in chosen}
    held = [f.state for f in pool if f.kind == "hard" and f.state.id not in ids and _evaluation_only(f, stage.taxonomy)]
    # A state of a mode that is not trained on loses its references: nothing downstream can take it by mistake.
    held = [state.model_copy(update={"weight": 0.0, "references": ()}) for state in held]
    return Mined(list(located), known, pool, modes, chosen, held)


def _draw(pool: Sequence[Found], modes: Sequence[FailureMode], config: Config) -> list[CriticalState]:
    seed = derive_seed(config.seed, "mine")
    verified = [one for one in pool if one.state.references]
    untrained = {mode.code for mode in modes if not mode.trained}
    verified = [one for one in verified if one.state.mode not in untrained]
    if config.mine.sampling == "uniform":
        own = [one.state for one in verified if one.kind != "continuation"]
        return draw_uniform(own, config.mine.states, config.mine, seed)
    drawn = [one.state for one in verified if one.kind != "off_path"]
    return draw(drawn, {mode.code: mode for mode in modes}, config.mine, seed)


def _evaluation_only(found: Found, taxonomy: Taxonomy) -> bool:
    return not found.state.references or not taxonomy.trained(found.state.mode)


def _known(rollouts: Sequence[Judged], siblings: Sequence[Judged], config: Config) -> Successes:
    known = Successes(Viewport(*config.profile.viewport))
    tasks = {one.trajectory.task.id for one in rollouts}
    for one in siblings:
        if one.verdict.success and one.trajectory.task.id in tasks:
            known.add(one.trajectory, "retry" if one.trajectory.advice else "sibling")
    for one in rollouts:
        if one.verdict.success:
            known.add(one.trajectory, "sibling")
    return known


async def _locate(stage: _Stage, known: Successes) -> list[Located]:
    detectors = stage.config.mine.detectors
    if stage.config.mine.first_error == "chat" and "first_error" in detectors:
        await _first_errors(stage)
    return [Located(t, v, tuple(locate(t, v, known, detectors))) for t, v in stage.rollouts]


async def _first_errors(stage: _Stage) -> None:
    """Asks the chat judge about failed rollouts; its verdict, with a step or not, is stored and not asked for again."""
    chat, mine = stage.played.parts.chat, stage.config.mine
    assert chat is not None
    mark = f"+{chat.name}"
    owed = [one for one in stage.rollouts if one.verdict.success is False and not one.verdict.judge.endswith(mark)]

    async def one(item: Judged) -> None:
        step = await ask.first_error(
            item.trajectory, item.verdict, chat, mine.judge_calls, mine.judge_agreement, stage.config.seed
        )
        update = {"first_error": step, "judge": item.verdict.judge + mark}
        stage.played.add_verdict(item.verdict.model_copy(update=update))

    await LocalExecutor(mine.judge_model.concurrency).map(one, owed)
    stage.rollouts = [Judged(t, stage.played.verdicts[t.id]) for t, _ in stage.rollouts]


async def _probe(stage: _Stage, located: Sequence[Located], known: Successes) -> None:
    """Draws replies at visited states: those of failed rollouts first, each state of a task once."""
    mine = stage.config.mine
    if "instability" not in mine.detectors:
        return
    places: dict[tuple[str, str], Place] = {}
    for one in sorted(located, key=lambda each: (bool(each.verdict.success), each.trajectory.id)):
        keys = state_keys(one.trajectory.steps)
        for step in one.trajectory.steps:
            places.setdefault((one.trajectory.task.id, keys[step.index]), Place(one.trajectory, step.index))
    wanted = list(places.values())[: mine.probe_states]
    owed = [place for place in wanted if place.id not in stage.probes]

    def keep(done: Probe) -> None:
        stage.played.run.append("probe", done)
        stage.probes[done.id] = done
        stage.show("mine: probes", len(stage.probes), len(wanted))

    policy, together = stage.played.parts.policy, max(1, stage.config.policy.batch // 2)
    await probe.ask(owed, policy, mine.samples, stage.config.seed, together, keep)


def _used(stage: _Stage) -> Mapping[str, Probe]:
    return stage.probes if "instability" in stage.config.mine.detectors else {}


async def _fix(stage: _Stage, located: Sequence[Located], known: Successes) -> None:
    mine, teacher = stage.config.mine, stage.played.parts.teacher
    if teacher is None:
        return

    advice = Advice(stage.played.run, stage.played.parts.reflect)
    verdicts = stage.played.verdicts

    async def play(jobs: Sequence[Continuation]) -> Mapping[str, tuple[Trajectory, Verdict]]:
        stage.jobs.update({job.id: job for job in jobs})
        said = {job.id: await advice.on(job, verdicts[job.trajectory.id]) for job in jobs}
        done = await stage.played.continuations(jobs, teacher, "mine: references", stage.show, said)
        for job in jobs:
            await advice.learn(job, *done[job.id])
        return done

    targets = [one for one in located if one.verdict.success is False and _trainable(one)]
    if mine.sampling == "uniform":
        targets = [_anywhere(one, stage.config.seed) for one in targets]
    stage.spent = await fix(targets, known, play, mine)


def _trainable(located: Located) -> bool:
    return not any(mark.sign == "ended" for mark in located.marks) and bool(located.trajectory.steps)


def _anywhere(located: Located, seed: int) -> Located:
    """For the uniform control: the teacher is asked at steps in random order, not at located ones."""
    ident = located.trajectory.id
    order = sorted(located.trajectory.steps, key=lambda s: derive_seed(seed, "anywhere", ident, s.index))
    return replace(located, marks=tuple(Mark(step.index, "uniform", "drawn") for step in order))


async def _flip(stage: _Stage, located: Sequence[Located], known: Successes) -> None:
    if "flip" not in stage.config.mine.detectors:
        return
    policy = stage.played.parts.policy

    async def play(jobs: Sequence[Continuation]) -> Mapping[str, tuple[Trajectory, Verdict]]:
        stage.jobs.update({job.id: job for job in jobs})
        return await stage.played.continuations(jobs, policy, "mine: flips", stage.show)

    failed = [one for one in located if one.verdict.success is False and _trainable(one)]
    stage.flips = await flip(failed, known, play, stage.config.mine.flip_attempts)


def _again(located: Sequence[Located], known: Successes, config: Config, stage: _Stage) -> list[Located]:
    """All detectors once more with what the teacher has shown since; flips and probes are added."""
    fresh = [
        Located(
            one.trajectory,
            one.verdict,
            (
                *locate(one.trajectory, one.verdict, known, config.mine.detectors),
                *stage.flips.get(one.trajectory.id, []),
            ),
        )
        for one in located
    ]
    return mark_unstable(fresh, _used(stage), known, config.mine.agreement)


async def _label(stage: _Stage, pool: Sequence[Found]) -> None:
    chat = stage.played.parts.chat
    assert chat is not None

    async def one(found: Found) -> None:
        assert found.case is not None
        code = await ask.label(found.case, stage.taxonomy, chat, stage.config.seed) or ""
        stage.played.run.append("label", Label(id=found.state.id, code=code))
        stage.labels[found.state.id] = code

    owed = [found for found in pool if found.case is not None and found.state.id not in stage.labels]
    await LocalExecutor(stage.config.mine.judge_model.concurrency).map(one, owed)


def _rates(rollouts: Sequence[Judged]) -> dict[str, float]:
    by_task: dict[str, list[bool]] = {}
    for one in rollouts:
        by_task.setdefault(one.trajectory.task.id, []).append(bool(one.verdict.success))
    return {task: sum(results) / len(results) for task, results in by_task.items()}


def _finish(stage: _Stage, mined: Mined, overlap: Overlap) -> dict[str, Any]:
    directory = stage.played.run
    states = [*mined.chosen, *mined.held_back]
    write_atomic(directory.file("state"), b"".join(map(dump, states)))
    write_atomic(directory.file("mode"), b"".join(map(dump, mined.modes)))
    outcomes = [(one.trajectory, one.verdict) for one in stage.rollouts]
    result = summary(stage.config, outcomes, mined, stage.spent, len(_used(stage)), overlap.as_dict(), stage.taxonomy)
    directory.write_json("summary.json", result)
    directory.finish(
        trajectories=len(directory.read("trajectory", Trajectory)),
        verdicts=len(directory.read("verdict", Verdict)),
        states=len(mined.chosen),
        held_back=len(mined.held_back),
        rollouts=len(stage.rollouts),
    )
    return result
