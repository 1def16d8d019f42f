"""Part 3 on a run directory: mined states in, groups, metrics and a checkpoint out.

Promises: only states with a verified reference are trained on; prompts, references and replies go through policy.py's
one layout; a killed run goes on from its last trainer checkpoint with the same final result, and a group that was
stored before the kill is not stored twice. Says (and records) when the start is too weak for step-level RL.
"""

import importlib.util
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmsweb.actions import Action, Viewport
from rmsweb.chat import Reply
from rmsweb.config import Config, RLConfig
from rmsweb.errors import ConfigError, DataError, MissingPartError
from rmsweb.policy import read_decision, render_messages, render_reply
from rmsweb.records import Candidate, CriticalState, Decision, Element, Group, ReferenceAction, TrainSample
from rmsweb.salvage.dev import Level, examine, level_of, split, weak_start
from rmsweb.salvage.groups import Scored, Scorer, State, figures
from rmsweb.salvage.match import best, cluster, element_at, match
from rmsweb.salvage.reward import REWARDS, Facts
from rmsweb.store import Images, Run

log = logging.getLogger(__name__)
Progress = Callable[[int, int, dict[str, float]], None]
"""(updates done, updates in all, latest metrics)"""
ActionJudge = Callable[[CriticalState, Decision], bool | None]
"""Whether an action is right at a state; None when it cannot tell (no reward)."""


class Levels(NamedTuple):
    """On the states that are set apart, before the first update and after the last; None: not measured."""

    before: Level | None
    after: Level | None


def run(
    config: Config,
    run: Run,
    states: Sequence[CriticalState],
    samples: Sequence[TrainSample],
    checkpoint: Path,
    *,
    judge: ActionJudge | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train the policy at `checkpoint` on `states`, with `samples` as rehearsal; returns the summary.

    Raises DataError without a state to train on, ConfigError where settings do not fit together.
    """
    from rmsweb.train.sft import finish, hardware, last_checkpoint, lora, save, writing_weights
    from rmsweb.train.tiny import load_model

    rl = config.rl
    known = [state for state in states if state.references]
    _check_input(rl, len(states), len(known), judge)
    from rmsweb.salvage.trainer import SalvageDSConfig, SalvageDSTrainer

    known, apart = split(known, rl.dev_share)
    model, processor = load_model(checkpoint, precise=rl.lora_rank == 0)
    model.train()
    arguments = SalvageDSConfig.from_rl(
        rl, str(run.path / "trainer"), seed=config.seed, max_new_tokens=config.profile.max_new_tokens, **hardware()
    )
    stored = Stored(run)
    trainer = SalvageDSTrainer(
        model,
        arguments,
        processor,
        [_state(config, state, run.images) for state in known],
        make_scorer(config, known, judge),
        rehearsal=[_lesson(config, sample, run.images) for sample in samples],
        on_groups=stored.groups,
        peft_config=lora(rl.lora_rank),
        callbacks=[_reporter(stored, progress)],
    )
    _quiet(trainer)
    dev, dev_scorer = [_state(config, state, run.images) for state in apart], make_scorer(config, apart, judge)
    before = examine(trainer, dev, dev_scorer)
    if before is not None and not before.met:
        log.warning(weak_start(before))
    last = last_checkpoint(run.path / "trainer")
    _replay(trainer, run, last)
    with writing_weights(run):
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
        weights = save(trainer.model, processor, run)
    levels = Levels(before, examine(trainer, dev, dev_scorer))
    bare = sum(not state.references for state in states)
    summary = summarize(run, rl, len(known), bare, trainer.state.global_step, levels)
    if before is None and summary["warning"]:
        log.warning(summary["warning"])
    run.write_json("summary.json", summary)
    finish(run, trainer.state.global_step, weights)
    return summary


def _check_input(rl: RLConfig, states: int, known: int, judge: ActionJudge | None) -> None:
    if not known and rl.method != "rehearsal_only":
        raise DataError(f"none of {states} states has a verified reference action: mine again (rl trains on those)")
    if rl.reward == "judge" and judge is None:
        raise ConfigError("rl.reward = judge needs a judge of single actions; call salvage.stage.run with one")
    if rl.use_vllm and importlib.util.find_spec("vllm") is None:
        raise MissingPartError("rl.use_vllm needs the package vllm, which is not installed; or set rl.use_vllm = false")


# -- rows ----------------------------------------------------------------------------------------------------------


def _state(config: Config, state: CriticalState, images: Images) -> State:
    from rmsweb.train.rows import split_pictures

    messages, pictures = split_pictures(render_messages(config.profile, state.task, state.history, state.now), images)
    first = state.references[0]
    decision = Decision(thought=first.thought, intent=first.intent, action=first.action)
    reply = render_reply(config.profile, decision, Viewport(*config.profile.viewport))
    return State(state.id, messages, tuple(pictures), reply)


def _lesson(config: Config, sample: TrainSample, images: Images) -> State:
    from rmsweb.train.rows import split_pictures

    if sample.decision.action is None:
        raise DataError(f"sample {sample.id} has no action to imitate; run `rmsweb samples` again")
    messages, pictures = split_pictures(
        render_messages(config.profile, sample.task, sample.history, sample.now), images
    )
    reply = render_reply(config.profile, sample.decision, Viewport(*config.profile.viewport))
    return State(sample.id, messages, tuple(pictures), reply)


# -- scoring -------------------------------------------------------------------------------------------------------


def make_scorer(config: Config, states: Sequence[CriticalState], judge: ActionJudge | None = None) -> Scorer:
    """Parses a group's replies, matches them with the state's references and rewards them."""
    viewport, rl = Viewport(*config.profile.viewport), config.rl

    def score(number: int, texts: Sequence[str], truncated: Sequence[bool]) -> list[Scored]:
        state = states[number]
        elements = state.now.elements or ()
        once = {pair: _judged(config, state, *pair, judge) for pair in set(zip(texts, truncated, strict=True))}
        judged = [once[pair] for pair in zip(texts, truncated, strict=True)]
        clusters = cluster([candidate.action for candidate, _ in judged], viewport, rl.match, elements, _focus(state))
        return [Scored(reward, c, candidate) for (candidate, reward), c in zip(judged, clusters, strict=True)]

    return score


def _judged(
    config: Config, state: CriticalState, text: str, truncated: bool, judge: ActionJudge | None
) -> tuple[Candidate, float | None]:
    reply = Reply(text, None, None, 0, 0, "length" if truncated else "stop")
    decision = read_decision(config.profile, reply)
    action, fault = decision.action, decision.fault.kind if decision.fault else ""
    facts = Facts(legal=action is not None)
    if action is not None:
        facts = _facts(config, state, action)
        if judge is not None and config.rl.reward == "judge":
            facts = Facts(True, facts.match, facts.failing, judge(state, decision))
    scores = dict(facts.match.scores) if facts.match else {}
    return Candidate(raw=text, action=action, fault=fault, match=scores), REWARDS[config.rl.reward](facts)


def _facts(config: Config, state: CriticalState, action: Action) -> Facts:
    viewport, settings = Viewport(*config.profile.viewport), config.rl.match
    hit, focus = element_at(action, state.now.elements or ()), _focus(state)
    found = best(action, state.references, viewport, settings, hit, focus)
    failing = state.failing is not None and (
        match(action, ReferenceAction(action=state.failing), viewport, settings, hit, focus).equal
    )
    return Facts(legal=True, match=found, failing=failing)


def _focus(state: CriticalState) -> Element | None:
    """The field that got the last click or text."""
    if not state.history:
        return None
    hit = state.history[-1].effect.hit
    return hit if hit is not None and hit.role == "input" else None


# -- what is stored ------------------------------------------------------------------------------------------------


class Stored:
    """Groups and metrics of a run; what an earlier process has stored is left as it is."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.seen = Counter((group.step, group.state_id) for group in run.read("group", Group))
        self.logged = {line["step"] for line in run.metrics() if "step" in line}

    def groups(self, groups: list[Group]) -> None:
        """Appends the groups of an update."""
        for group in groups:
            if self.seen[group.step, group.state_id] > 0:
                self.seen[group.step, group.state_id] -= 1
            else:
                self.run.append("group", group)

    def metrics(self, step: int, values: dict[str, Any]) -> None:
        """Appends one line for an update. Raises RunError when training diverged."""
        from rmsweb.train.sft import refuse_divergence

        refuse_divergence(step, values)
        if step not in self.logged:
            self.logged.add(step)
            kept = {k: v for k, v in values.items() if isinstance(v, int | float)}
            self.run.log({"step": step, **kept})


def summarize(run: Run, rl: RLConfig, states: int, without_reference: int, updates: int, dev: Levels) -> dict[str, Any]:
    """summary.json of the stage. `start` is of the first update's states where none were set apart."""
    groups = run.read("group", Group)
    values = figures(groups) if groups else {}
    first = [group for group in groups if group.step == 1]
    start = dev.before or (level_of(first) if first else None)
    last = run.metrics()[-1] if run.metrics() else {}
    shares = {name.partition("/")[2]: round(v, 4) for name, v in values.items() if name.startswith("gate/")}
    return {
        "checkpoint": str(run.path / "checkpoint"),
        "method": rl.method,
        "updates": updates,
        "states": states,
        "states_without_reference": without_reference,
        "groups": len(groups),
        "replies": sum(len(group.candidates) for group in groups),
        "gate": {
            "shares": shares,
            "fates": {name.partition("/")[2]: round(v, 4) for name, v in values.items() if name.startswith("fate/")},
        },
        "start": None if start is None else {**start._asdict(), "on": "first update" if dev.before is None else "dev"},
        "dev": None
        if dev.before is None or dev.after is None
        else {"states": dev.before.states, "before": dev.before._asdict(), "after": dev.after._asdict()},
        "warning": "" if start is None or start.met else weak_start(start),
        "last": last,
    }


# -- the trainer's surroundings --------------------------------------------------------------------------------------


def _replay(trainer: Any, run: Run, last: Path | None) -> None:
    """Brings the running success means to where the checkpoint was taken."""
    if last is None or trainer.rl.gate.competence != "running":
        return
    from rmsweb.salvage.gate import group_facts

    done = int(last.name.rpartition("-")[2])
    for group in run.read("group", Group):
        rewards = [float("nan") if c.reward is None else c.reward for c in group.candidates]
        facts = group_facts(rewards)
        if group.step <= done and facts.valid >= 2:
            trainer.running.over([group.state_id])(0, facts)


def _quiet(trainer: Any) -> None:
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)


def _reporter(stored: Stored, progress: Progress | None) -> Any:
    from transformers import TrainerCallback

    class Reporter(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if logs and "loss" in logs:
                stored.metrics(state.global_step, logs)
                if progress is not None:
                    progress(state.global_step, state.max_steps, logs)

    return Reporter()
