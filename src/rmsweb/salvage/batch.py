"""From gated groups to weighted rows: L = (1/N) [sum_accepted L_pg + lambda sum_rejected q L_anchor]. Pure.

Owns every normaliser, so that the weight between the two terms and the rehearsal does not depend on the engine.
Promises: a rejected group has no policy-gradient row; equal replies of a group are one row with their joint weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from rmsweb.config import RLConfig
from rmsweb.records import Fate
from rmsweb.salvage.anchor import anchor_coefficient
from rmsweb.salvage.gate import Floats, Gated, label_weight

Length = Literal["constant", "token", "sequence"]


@dataclass(slots=True)
class Row:
    """One reply to train on."""

    slot: int
    """Its prompt's place in the batch."""
    ids: tuple[int, ...]
    advantage: float
    weight: float
    """Of each token in the policy-gradient term, before the division by `Divisors.policy`; 0: no such term."""
    cross_entropy: list[float]
    """Of each token in the cross-entropy term, everything included."""
    logprobs: list[float] | None = None
    """Under the sampler."""
    rehearsal: bool = False


class Reply(Protocol):
    """What this module reads of a sampled reply (prefix.Sampled)."""

    @property
    def ids(self) -> list[int]: ...
    @property
    def logprobs(self) -> list[float] | None: ...


class Target(NamedTuple):
    """Token ids to imitate and which of them count."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]


class Totals(NamedTuple):
    """What divides, summed over all processes."""

    groups: int
    """N: all groups of the update; for `dapo` those that are left."""
    tokens: int
    """Sampled tokens of those groups (samples without a reward are not counted)."""
    anchored: int
    """Anchored tokens."""
    rehearsed: int
    """Rehearsal samples."""
    rehearsed_tokens: int


class Divisors(NamedTuple):
    """Of the three sums of token losses."""

    policy: float
    anchor: float
    rehearsal: float


def totals(
    gated: Sequence[Gated],
    lengths_NG: Sequence[Sequence[int]],
    valid_NG: Sequence[Sequence[bool]],
    anchors_N: Sequence[Target | None],
    rehearsal: Sequence[Target],
    method: str,
) -> Totals:
    """One process's share of the totals. `lengths_NG` is empty for methods that sample nothing."""
    counted = [method != "dapo" or g.fate is Fate.ACCEPTED for g in gated]
    tokens = sum(
        length
        for row, ok, count in zip(lengths_NG, valid_NG, counted, strict=False)
        if count
        for length, valid in zip(row, ok, strict=True)
        if valid
    )
    anchored = sum(sum(t.mask) for t, g in zip(anchors_N, gated, strict=True) if t and g.fate is Fate.ANCHORED)
    return Totals(sum(counted), tokens, anchored, len(rehearsal), sum(sum(t.mask) for t in rehearsal))


def divisors(totals: Totals, length: Length, copies: int, constant: int) -> Divisors:
    """The divisors of one update; `copies` = G, `constant` = the length that `constant` divides by.

    A group weighs 1/N in each of the three: policy rows share it G ways, an anchor row has it whole.
    """
    groups, rehearsed = max(totals.groups, 1), max(totals.rehearsed, 1)
    match length:
        case "constant":
            return Divisors(groups * copies * constant, groups * constant, rehearsed * constant)
        case "token":
            anchor = totals.tokens / copies if totals.tokens else totals.anchored
            return Divisors(max(totals.tokens, 1), max(anchor, 1), max(totals.rehearsed_tokens, 1))
        case "sequence":
            return Divisors(groups * copies, groups, rehearsed)


def policy_rows(
    gated: Sequence[Gated],
    replies_NG: Sequence[Sequence[Reply]],
    advantages_NG: Floats,
    valid_NG: Sequence[Sequence[bool]],
    length: Length,
    merge: bool = True,
) -> list[Row]:
    """Rows of the accepted groups; `merge` makes one row of equal replies with equal advantages."""
    rows: list[Row] = []
    for slot, one in enumerate(gated):
        if one.fate is not Fate.ACCEPTED:
            continue
        valid = [g for g, ok in enumerate(valid_NG[slot]) if ok]
        seen: dict[tuple[tuple[int, ...], float], Row] = {}
        for g in valid:
            reply, advantage = replies_NG[slot][g], float(advantages_NG[slot, g])
            weight = 1.0 if length == "token" else len(valid_NG[slot]) / len(valid)
            weight /= len(reply.ids) if length == "sequence" else 1
            ids = tuple(reply.ids)
            if merge and (ids, advantage) in seen:
                seen[ids, advantage].weight += weight
                continue
            row = Row(slot, ids, advantage, weight, [0.0] * len(ids), reply.logprobs)
            seen[ids, advantage] = row
            rows.append(row)
    return rows


def target_row(
    slot: int, target: Target, coefficient: float, divisor: float, length: Length, rehearsal: bool = False
) -> Row:
    """A cross-entropy row: `coefficient` / `divisor` on each token that counts, a mean over them for `sequence`."""
    each = coefficient / divisor / (max(sum(target.mask), 1) if length == "sequence" else 1)
    return Row(slot, target.ids, 0.0, 0.0, [each * m for m in target.mask], rehearsal=rehearsal)


def target_rows(
    gated: Sequence[Gated],
    anchors_N: Sequence[Target | None],
    rehearsal: Sequence[Target],
    rl: RLConfig,
    progress: float,
    divide: Divisors,
) -> list[Row]:
    """Anchor rows of the anchored groups, then rehearsal rows (in the slots behind the groups').

    `ce_references` imitates every reference with weight 1: it is the control without a gate.
    """
    imitates = rl.method == "ce_references"
    weight = 1.0 if imitates else anchor_coefficient(rl.anchor, progress)
    rows = [
        target_row(
            slot, aim, weight * (1 if imitates else label_weight(one.label, rl.anchor)), divide.anchor, rl.length
        )
        for slot, (one, aim) in enumerate(zip(gated, anchors_N, strict=True))
        if one.fate is Fate.ANCHORED and aim is not None
    ]
    return rows + [
        target_row(len(gated) + i, lesson, rl.rehearsal_weight, divide.rehearsal, rl.length, rehearsal=True)
        for i, lesson in enumerate(rehearsal)
    ]


def micro_batches(rows: Sequence[Row], count: int) -> list[list[Row]]:
    """Splits rows into `count` non-empty parts of about equal tokens, rows of one prompt together.

    Missing parts (and an update without any row) are filled by a row of weight 0, which keeps the gradient's path:
    the loss is then 0 and not an error. Raises IndexError without any row at all.
    """
    slots: dict[int, list[Row]] = {}
    for row in rows:
        slots.setdefault(row.slot, []).append(row)
    parts: list[list[Row]] = [[] for _ in range(count)]
    sizes = [0] * count
    for group in sorted(slots.values(), key=lambda g: (-sum(len(r.ids) for r in g), g[0].slot)):
        least = sizes.index(min(sizes))
        parts[least] += group
        sizes[least] += sum(len(r.ids) for r in group)
    return [sorted(part, key=lambda row: row.slot) or [_idle(rows[0])] for part in parts]


def filled(parts: Sequence[list[Row]], sizes: Sequence[int]) -> list[list[Row]]:
    """Parts brought to these numbers of rows with rows of weight 0."""
    return [[*part, *[_idle(part[-1])] * (size - len(part))] for part, size in zip(parts, sizes, strict=True)]


def _idle(row: Row) -> Row:
    return Row(row.slot, row.ids[:1], 0.0, 0.0, [0.0])
