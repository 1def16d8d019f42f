"""Rewards of one reply. The poles are the meaning of the action; the + pole is 1 in every shipped reward. Pure.

Promises: None means "no reward can be given" (infra or judge failure, no reference): such a sample leaves its group
before the gate. Never looks at the form of a reply beyond whether it is an action: form alone earns nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rmsweb.salvage.match import Match


@dataclass(slots=True, frozen=True)
class Facts:
    """What is known of one sampled reply."""

    legal: bool
    """It could be read and names an action that can be carried out."""
    match: Match | None = None
    """Best match over a+ and the other acceptable actions; None: not an action, or the state has no reference."""
    failing: bool = False
    """It means the same as the action that is known to fail."""
    verdict: bool | None = None
    """What a judge says of the action; None when it could not tell or was not asked."""
    broken: bool = False
    """An infra failure (endpoint, browser) stands in for the reply."""


Reward = Callable[[Facts], float | None]


def two_pole(facts: Facts) -> float | None:
    """+1 for the reference or an acceptable action, -1 for anything else (the default)."""
    right = _right(facts)
    return None if right is None else 1.0 if right else -1.0


def three_pole(facts: Facts) -> float | None:
    """As two_pole, but 0 for an action that is merely unknown (partial verifiability, GUI-Libra 2602.22190)."""
    right = _right(facts)
    if right is None:
        return None
    return 1.0 if right else -1.0 if facts.failing or not facts.legal else 0.0


def zero_one(facts: Facts) -> float | None:
    """1 or 0."""
    right = _right(facts)
    return None if right is None else float(right)


def graded(facts: Facts) -> float | None:
    """Partial credit, -1..1 by the mean sub-score: the badly designed reward that the abstract warns of."""
    right = _right(facts)
    if right is None:
        return None
    return 1.0 if right else -1.0 if facts.match is None else 2 * facts.match.score - 1


def judge(facts: Facts) -> float | None:
    """+1 or -1 by a judge's verdict; a judge that cannot tell gives no reward."""
    if facts.broken:
        return None
    if not facts.legal:
        return -1.0
    return None if facts.verdict is None else 1.0 if facts.verdict else -1.0


def _right(facts: Facts) -> bool | None:
    if facts.broken or (facts.legal and facts.match is None):
        return None
    return facts.legal and facts.match is not None and facts.match.equal


REWARDS: Mapping[str, Reward] = {
    "two_pole": two_pole,
    "three_pole": three_pole,
    "zero_one": zero_one,
    "graded": graded,
    "judge": judge,
}
