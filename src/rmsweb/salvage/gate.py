"""Which groups teach by comparison, which by their reference, which not at all. Pure (numpy).

Owns the contrast-and-competence gate, its competence plug-ins, the fates and the advantages (method.md 3).
Promises: decides on *outcome* rewards alone, so a length or format term never lets a group pass; NaN rewards are
removed first and a group with fewer than two valid ones is refused; the order inside a group never matters.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rmsweb.config import AnchorConfig, GateConfig
from rmsweb.errors import ConfigError
from rmsweb.records import Fate

Floats = NDArray[np.float64]
Label = Literal["accepted", "all_fail", "low", "all_pass", "no_contrast", "too_few"]
LABELS: tuple[Label, ...] = ("accepted", "all_fail", "low", "all_pass", "no_contrast", "too_few")
Method = Literal["salvage_ds", "grpo", "dapo", "ce_references", "rehearsal_only"]
POSITIVE = 1.0 - 1e-6
"""Rewards from here on are the + pole."""
STD_EPSILON = 1e-4
"""Added to the standard deviation (TRL's value), never after the division."""


class GroupFacts(NamedTuple):
    """One group after its samples without a reward were removed."""

    right: int
    """n+, samples at the + pole."""
    valid: int
    std: float
    clusters: int | None
    """Distinct action clusters among the valid samples; None when not counted."""


class Gated(NamedTuple):
    """What the gate says of one group."""

    label: Label
    fate: Fate
    reason: str


Competence = Callable[[int, GroupFacts], float]
"""Expected number of right samples of group `index`: n+ itself, or an estimate of it."""


def count(index: int, facts: GroupFacts) -> float:
    """The default: the right samples themselves."""
    return float(facts.right)


def logprob(reference_logprobs_N: Sequence[float]) -> Competence:
    """From the policy's log-probability of a+ (natural log, whole action): valid * p(a+)."""
    return lambda index, facts: facts.valid * float(np.exp(reference_logprobs_N[index]))


class Running:
    """From an exponential running mean of success under each key (a state or template id), this group included."""

    def __init__(self, keep: float = 0.7) -> None:
        self.keep, self.mean = keep, defaultdict[Hashable, float | None](lambda: None)

    def over(self, keys_N: Sequence[Hashable]) -> Competence:
        """The plug-in for one batch whose groups have these keys; asking it updates the means."""

        def expected(index: int, facts: GroupFacts) -> float:
            old, now = self.mean[keys_N[index]], facts.right / facts.valid
            self.mean[keys_N[index]] = mean = now if old is None else self.keep * old + (1 - self.keep) * now
            return facts.valid * mean

        return expected


def group_facts(rewards_G: ArrayLike, clusters_G: Sequence[int] | None = None) -> GroupFacts:
    """Counts over the samples that have a reward (NaN: none)."""
    rewards = np.asarray(rewards_G, dtype=float)
    valid = ~np.isnan(rewards)
    kept = rewards[valid]
    distinct = None if clusters_G is None else len({c for c, v in zip(clusters_G, valid, strict=True) if v})
    return GroupFacts(int((kept >= POSITIVE).sum()), kept.size, float(kept.std()) if kept.size else 0.0, distinct)


def gate(
    rewards_NG: ArrayLike,
    clusters_NG: Sequence[Sequence[int]] | None,
    config: GateConfig,
    *,
    anchor: AnchorConfig | None = None,
    references_N: Sequence[bool] | None = None,
    method: Method = "salvage_ds",
    competence: Competence = count,
) -> list[Gated]:
    """Labels and fates of N groups of G outcome rewards, shape (N, G) or (G,).

    `clusters_NG` are cluster numbers of the samples (match.cluster); None switches the cluster rule off.
    `references_N` says which groups have a verified a+ (None: all). `anchor` brings the label weights and the cap;
    None: rejected groups are dropped. `grpo` accepts every refereed group, `dapo` drops those without contrast.
    """
    rewards = np.atleast_2d(np.asarray(rewards_NG, dtype=float))
    clusters = list(clusters_NG) if clusters_NG is not None and config.clusters else [None] * len(rewards)
    facts = [group_facts(row, group) for row, group in zip(rewards, clusters, strict=True)]
    labels = [label(one, config, competence, index) for index, one in enumerate(facts)]
    if method in ("grpo", "dapo"):
        labels = [_plain(one, old, method) for one, old in zip(facts, labels, strict=True)]
    known = [True] * len(labels) if references_N is None else list(references_N)
    weights = [0.0] * len(labels)
    if anchor is not None and method == "salvage_ds":
        weights = [label_weight(one, anchor) if has else 0.0 for one, has in zip(labels, known, strict=True)]
        weights = capped(weights, anchor.cap)
    return [
        Gated(one, Fate.ACCEPTED if one == "accepted" else Fate.ANCHORED if w > 0 else Fate.DROPPED, _reason(f, one, h))
        for one, w, f, h in zip(labels, weights, facts, known, strict=True)
    ]


def label(facts: GroupFacts, config: GateConfig, competence: Competence = count, index: int = 0) -> Label:
    """One group's label: contrast = spread of rewards and of actions; competence within [c_lo, p_hi * valid]."""
    if facts.valid < 2:
        return "too_few"
    expected = competence(index, facts)
    if facts.std <= config.tau or (facts.clusters is not None and facts.clusters < 2):
        return "all_fail" if facts.right == 0 else "all_pass" if facts.right == facts.valid else "no_contrast"
    p_hi = (facts.valid - 1) / facts.valid if config.p_hi is None else config.p_hi
    if expected < config.c_lo - 1e-9:
        return "all_fail" if facts.right == 0 else "low"
    return "all_pass" if expected > p_hi * facts.valid + 1e-9 else "accepted"


def _plain(facts: GroupFacts, old: Label, method: Method) -> Label:
    """The baselines: GRPO keeps every group, DAPO those whose rewards differ."""
    if facts.valid < 2:
        return "too_few"
    return "accepted" if method == "grpo" or facts.std > 0 else old


def label_weight(label: Label, anchor: AnchorConfig) -> float:
    """q of a rejected group's label."""
    weights: Mapping[str, float] = {
        "all_fail": anchor.all_fail,
        "low": anchor.low,
        "no_contrast": anchor.no_contrast,
        "all_pass": anchor.all_pass,
    }
    return weights.get(label, 0.0)


def capped(weights_N: Sequence[float], cap: float) -> list[float]:
    """Keeps the heaviest groups, first come first, so that at most `cap` of the batch is anchored."""
    allowed = int(cap * len(weights_N) + 1e-9)
    order = sorted(range(len(weights_N)), key=lambda i: -weights_N[i])
    kept = set(order[:allowed])
    return [weight if i in kept else 0.0 for i, weight in enumerate(weights_N)]


def _reason(facts: GroupFacts, label: Label, has_reference: bool) -> str:
    actions = "" if facts.clusters is None else f", {facts.clusters} distinct actions"
    missing = "" if has_reference else ", no verified reference"
    return f"{facts.right} of {facts.valid} right{actions}{missing}" if label != "too_few" else f"{facts.valid} valid"


def advantages(rewards_NG: ArrayLike, accepted_N: Sequence[bool], normalize_std: bool) -> Floats:
    """(N, G) group-relative advantages: reward minus the group's mean over valid samples, by std if asked.

    Zero for rejected groups and for samples without a reward. The std is TRL's (unbiased, + 1e-4 inside the
    division). Rewards may include shaping here; the gate has not seen it.
    """
    rewards = np.atleast_2d(np.asarray(rewards_NG, dtype=float))
    if rewards.shape[0] != len(accepted_N):
        raise ConfigError(f"{len(accepted_N)} gate decisions for {rewards.shape[0]} groups: are group keys shared?")
    result = np.zeros_like(rewards)
    for i, row in enumerate(rewards):
        valid = ~np.isnan(row)
        if not accepted_N[i] or valid.sum() < 2:
            continue
        centred = row[valid] - row[valid].mean()
        result[i, valid] = centred / (row[valid].std(ddof=1) + STD_EPSILON) if normalize_std else centred
    return result


def shares(gated: Sequence[Gated]) -> dict[str, float]:
    """Share of each label and fate over a batch, for the logs."""
    total = max(len(gated), 1)
    result = {f"gate/{name}": sum(g.label == name for g in gated) / total for name in LABELS}
    result |= {f"fate/{fate}": sum(g.fate is fate for g in gated) / total for fate in Fate}
    return result
