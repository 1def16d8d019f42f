"""What attempts cost: tokens, steps, seconds, money. Pure. What their judges cost is counted apart, in protocols.py.

Promises: a recorded cost of 0 beside tokens is missing data, never free; money by a price table carries the table's
date (`EvalConfig` refuses prices without one).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rmsweb.records import Trajectory

if TYPE_CHECKING:
    from rmsweb.bench.metrics import Result

Price = tuple[float, float]
"""Money per million tokens read, and per million written."""


class Use(NamedTuple):
    """What one attempt used, by its own record; None where that does not say it."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cost: float | None
    steps: int | None
    """As stated by an imported run."""


def use_of(trajectory: Trajectory) -> Use:
    """Tokens of the decisions, else what an imported run states in `evidence` (`imported` or beside it): prompt_tokens,
    completion_tokens, cost, n_steps. A cost of 0 with tokens is unknown; so are a stated number of 0 steps and 0 tokens
    of an attempt that was imported or made steps."""
    decisions = [step.decision for step in trajectory.steps]
    read, written = sum(d.prompt_tokens for d in decisions), sum(d.completion_tokens for d in decisions)
    imported = trajectory.evidence.get("imported")
    stated: Mapping[str, Any] = {**trajectory.evidence, **(imported if isinstance(imported, dict) else {})}
    if read + written == 0:
        read, written = int(_number(stated, "prompt_tokens") or 0), int(_number(stated, "completion_tokens") or 0)
    cost, steps = known_cost(_number(stated, "cost"), read + written), int(_number(stated, "n_steps") or 0) or None
    if read + written == 0 and (decisions or imported is not None):
        return Use(None, None, cost, steps)
    return Use(read, written, cost, steps)


def known_cost(cost: float | None, tokens: int) -> float | None:
    """The cost, unless it says 0 although tokens were used."""
    return None if cost is None or cost < 0 or (cost == 0 and tokens > 0) else cost


def _number(stated: Mapping[str, Any], key: str) -> float | None:
    value = stated.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


class Cost(NamedTuple):
    """What the episodes of one model used. None where the number was never recorded; episodes that did not record it
    are left out of its mean and counted."""

    steps_per_task: float | None
    steps_per_success: float | None
    tokens_per_task: float | None
    tokens_per_success: float | None
    wall_s_per_task: float | None
    money_per_task: float | None
    money_per_success: float | None
    money_by: str = ""
    """`prices` (tokens at the price table) or `record` (as the run states it); empty: unknown."""
    episodes: int = 0
    money_unknown: int = 0
    """Episodes without a known cost; with any, no money is stated."""
    steps_unknown: int = 0
    tokens_unknown: int = 0
    seconds_unknown: int = 0


def cost(results: Sequence["Result"], price: Price | None = None) -> Cost:
    """Per episode and per success; all episodes are paid for, solved or not. A price goes before recorded costs."""
    solved = sum(bool(r.success) for r in results)
    steps, steps_won, steps_unknown = _means([(r.steps, bool(r.success)) for r in results])
    used, used_won, used_unknown = _means([(r.tokens, bool(r.success)) for r in results])
    seconds, _, seconds_unknown = _means([(r.wall_s, bool(r.success)) for r in results])
    recorded = [r.cost for r in results if r.cost is not None]
    missing = unknown(results, price)
    money, by = 0.0, ""
    if price and not missing:
        read, written = sum(r.prompt_tokens or 0 for r in results), sum(r.completion_tokens or 0 for r in results)
        money, by = at_price(price, read, written), "prices"
    elif recorded and not missing:
        money, by = sum(recorded), "record"
    return Cost(
        steps, steps_won, used, used_won, seconds, _per(money, len(results)), _per(money, solved),
        by if money > 0 else "", len(results), missing, steps_unknown, used_unknown, seconds_unknown,
    )  # fmt: skip


def _means(values: Sequence[tuple[float | None, bool]]) -> tuple[float | None, float | None, int]:
    """(per episode, per success, episodes left out) of values that may be unknown, each with whether it was solved."""
    known = [(value, won) for value, won in values if value is not None]
    total = sum(value for value, _ in known)
    return _per(total, len(known)), _per(total, sum(won for _, won in known)), len(values) - len(known)


def _per(total: float, count: int) -> float | None:
    return total / count if total > 0 and count else None


def unknown(results: Sequence["Result"], price: Price | None) -> int:
    """Episodes whose cost nobody knows: without a recorded one or, by prices, without a token count."""
    return sum((r.tokens if price else r.cost) is None for r in results)


def at_price(price: Price, read: int, written: int) -> float:
    """Money for tokens."""
    return (read * price[0] + written * price[1]) / 1e6


def price_of(prices: Mapping[str, Any] | None, *names: str) -> Price | None:
    """The price of the first name that the table has."""
    for name in names:
        if prices and name and name in prices:
            read, written = prices[name]
            return float(read), float(written)
    return None
