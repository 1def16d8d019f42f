"""What Part 3 samples from and what comes back: states, scored groups, their records and their figures. Pure.

Promises: sampled token ids are kept as they were drawn and never decoded and encoded again; the order in which
states are drawn is fixed before the first update, so that a resumed run draws the same.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rmsweb.config import AnchorConfig
from rmsweb.records import Candidate, Group
from rmsweb.salvage.anchor import anchor_mask, anchor_text
from rmsweb.salvage.batch import Target
from rmsweb.salvage.gate import POSITIVE, Floats, Gated, shares


@dataclass(slots=True, frozen=True)
class State:
    """What a group is sampled from, or an SFT sample to rehearse."""

    key: str
    messages: list[dict[str, Any]]
    """Chat messages with bare picture placeholders."""
    images: tuple[bytes, ...]
    """Encoded pictures in the order of the placeholders."""
    reply: str = ""
    """a+ as a whole reply, or the reply to rehearse; empty: no verified reference."""


class Sampled(NamedTuple):
    """One reply as it was sampled."""

    ids: list[int]
    """End mark included, unless the token limit cut it."""
    logprobs: list[float] | None
    """Of each id under the sampling distribution (natural log); None where the sampler gives none."""
    truncated: bool


class Scored(NamedTuple):
    """What the scorer says of one reply."""

    reward: float | None
    """Outcome reward; None: no reward can be given."""
    cluster: int
    candidate: Candidate


Scorer = Callable[[int, Sequence[str], Sequence[bool]], list[Scored]]
"""(number of the state, texts of the group, whether each was cut) -> one Scored each."""


class Outcome(NamedTuple):
    """A batch of N sampled and scored groups; empty lists when nothing was sampled."""

    sampled: list[list[Sampled]]
    texts: list[list[str]]
    scored: list[list[Scored]]

    @property
    def rewards(self) -> Floats:
        """(N, G), NaN where there is none."""
        return np.array([[np.nan if s.reward is None else s.reward for s in group] for group in self.scored])

    @property
    def clusters(self) -> list[list[int]]:
        """(N, G)"""
        return [[s.cluster for s in group] for group in self.scored]

    @property
    def valid(self) -> list[list[bool]]:
        """(N, G) whether a sample has a reward."""
        return [[s.reward is not None for s in group] for group in self.scored]

    @property
    def lengths(self) -> list[list[int]]:
        """(N, G) sampled tokens."""
        return [[len(reply.ids) for reply in group] for group in self.sampled]


def draws(states: int, wanted: int, seed: int) -> list[int]:
    """Which state is drawn when: whole seeded permutations one after the other."""
    dice, order = np.random.default_rng(seed), list[int]()
    while len(order) < wanted:
        order += dice.permutation(states).tolist()
    return order[:wanted]


def records(
    keys: Sequence[str], step: int, gated: Sequence[Gated], scored: Sequence[Sequence[Scored]], advantages_NG: Floats
) -> list[Group]:
    """One record per group; `step` counts updates from 1."""
    return [
        Group(
            state_id=key,
            step=step,
            candidates=tuple(
                s.candidate.model_copy(update={"reward": s.reward, "advantage": float(a)})
                for s, a in zip(group, row, strict=True)
            ),
            label=one.label,
            fate=one.fate,
            reason=one.reason,
        )
        for key, one, group, row in zip(keys, gated, scored, advantages_NG, strict=True)
    ]


def figures(groups: Sequence[Group]) -> dict[str, float]:
    """What is logged of an update's groups; reward terms and form apart, so that form-only gain is seen."""
    replies = [c for g in groups for c in g.candidates]
    rewards = [c.reward for c in replies if c.reward is not None]
    right = [sum((c.reward or 0) >= POSITIVE for c in g.candidates) for g in groups]
    return {
        **shares([Gated(g.label, g.fate, g.reason) for g in groups]),
        "reward": float(np.mean(rewards)) if rewards else 0.0,
        "reply/right": sum(right) / max(len(rewards), 1),
        "reply/legal": sum(not c.fault for c in replies) / max(len(replies), 1),
        "reply/no_reward": sum(c.reward is None for c in replies) / max(len(replies), 1),
        "group/all_wrong": sum(n == 0 for n in right) / max(len(groups), 1),
        "group/size": len(replies) / max(len(groups), 1),
    }


def target(tokenizer: Any, reference: str, sampled: Sequence[str], config: AnchorConfig) -> Target | None:
    """Tokens of the anchor's reply and which of them count, the end mark included; None without a reference."""
    if not reference:
        return None
    text, start, _ = anchor_text(reference, sampled, config)
    tokens = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    mask = anchor_mask(tokens["offset_mapping"], text, config.tokens, start)
    return Target((*tokens["input_ids"], tokenizer.eos_token_id), (*mask, 1))


def pictures(state: State) -> list[Any]:
    """The state's pictures as RGB images."""
    from PIL import Image

    return [Image.open(io.BytesIO(png)).convert("RGB") for png in state.images]


def with_pictures(state: State) -> list[dict[str, Any]]:
    """The state's messages with the pictures in their placeholders."""
    left = iter(pictures(state))
    return [{**message, "content": [_filled(part, left) for part in message["content"]]} for message in state.messages]


def _filled(part: Mapping[str, Any], left: Any) -> dict[str, Any]:
    return {"type": "image", "image": next(left)} if part["type"] == "image" else dict(part)
