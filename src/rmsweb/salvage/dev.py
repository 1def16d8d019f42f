"""States that are set apart: what a policy can do where it is not trained, before the first update and after the last.

Owns the split (whole tasks, never trained on), the examination (a group of replies at the training temperature for
each state) and the start gate, which warns: in a prototype RL on a policy that is rarely right gained less than more
SFT; in docs/studies/arms.md it gained more, from starts below the gate too.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rmsweb.records import CriticalState, Group
from rmsweb.salvage import groups, prefix
from rmsweb.salvage.gate import POSITIVE
from rmsweb.salvage.groups import Scored, Scorer, State

START_RIGHT, START_ALL_WRONG = 0.6, 0.2
"""A prototype's measurement (docs/method.md): below, more SFT beat every RL arm there."""


class Level(NamedTuple):
    """What the replies to some states say of a policy."""

    reply_right: float
    """Share of replies with a positive reward."""
    all_wrong: float
    """Share of groups without one."""
    replies: int
    states: int
    met: bool
    """Whether RL may start from here."""


def split(states: Sequence[CriticalState], share: float) -> tuple[list[CriticalState], list[CriticalState]]:
    """(states to train on, states set apart): whole tasks, at most `share` of the states, the same in every run."""
    by_task: dict[str, list[CriticalState]] = {}
    for state in states:
        by_task.setdefault(state.task.id, []).append(state)
    room, apart = int(share * len(states)), set[str]()
    for task in sorted(by_task, key=lambda name: hashlib.sha256(name.encode()).digest()):
        if len(by_task[task]) <= room:
            room -= len(by_task[task])
            apart.add(task)
    train = [state for state in states if state.task.id not in apart]
    return train, [state for state in states if state.task.id in apart]


def examine(trainer: Any, states: Sequence[State], scorer: Scorer) -> Level | None:
    """Samples a group for each state without training on it; the same draws every time.

    None where one prompt pass for a group is not to be had: the model is sharded (FSDP, ZeRO-3) or `shared_prefix` off.
    """
    import torch

    if not states or trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled or not trainer.rl.shared_prefix:
        return None
    rl, model, device = trainer.rl, trainer.accelerator.unwrap_model(trainer.model), trainer.accelerator.device
    dice = torch.Generator(device).manual_seed(int(np.random.SeedSequence([trainer.args.seed, 7]).generate_state(1)[0]))
    tokenizer, scored = trainer.processing_class.tokenizer, list[Sequence[Scored]]()
    training = model.training
    # No more at once than an update samples on this process; next to a vLLM engine there is room for little.
    together = 2 if trainer.use_vllm else max(1, rl.states_per_step // trainer.accelerator.num_processes)
    model.eval()
    try:
        for first in range(0, len(states), together):
            part = states[first : first + together]
            encoded = [prefix.encode(trainer.processing_class, model, groups.with_pictures(state)) for state in part]
            sampled = prefix.sample(
                model,
                prefix.collate(encoded, tokenizer.pad_token_id, device),
                rl.group,
                max_new_tokens=trainer.max_completion_length,
                temperature=rl.temperature,
                stop=trainer.eos_token_ids,
                generator=dice,
            )
            for number, replies in enumerate(sampled, start=first):
                texts = [tokenizer.decode(reply.ids, skip_special_tokens=True) for reply in replies]
                scored.append(scorer(number, texts, [reply.truncated for reply in replies]))
    finally:
        model.train(training)
    return level([[s.reward for s in group] for group in scored])


def level(rewards: Sequence[Sequence[float | None]]) -> Level:
    """The level that rewards (N groups of G) show; None is a reply without a reward and counts in no share."""
    valid = [found for group in rewards if (found := [r for r in group if r is not None])]
    right = [sum(r >= POSITIVE for r in group) for group in valid]
    replies = sum(map(len, valid))
    share = sum(right) / max(replies, 1)
    wrong = sum(n == 0 for n in right) / max(len(right), 1)
    return Level(share, wrong, replies, len(valid), share >= START_RIGHT and wrong <= START_ALL_WRONG)


def level_of(made: Sequence[Group]) -> Level:
    """The level that an update's groups show: where no states are set apart, the first update's."""
    return level([[c.reward for c in group.candidates] for group in made])


def weak_start(start: Level) -> str:
    """What to tell the user."""
    return (
        f"RL starts from a weak policy: {start.reply_right:.0%} of {start.replies} replies to {start.states} states "
        f"are right (wanted {START_RIGHT:.0%}) and {start.all_wrong:.0%} of groups are all wrong (at most "
        f"{START_ALL_WRONG:.0%}); compare with more SFT, which may gain more from here"
    )
