"""Rewards: the poles, partial credit, and no reward at all."""

import pytest

from rmsweb.salvage.match import Match
from rmsweb.salvage.reward import REWARDS, Facts

RIGHT = Facts(legal=True, match=Match(True, {"kind": 1.0}), verdict=True)
WRONG = Facts(legal=True, match=Match(False, {"kind": 1.0, "target": 0.5}), verdict=False)
FAILING = Facts(legal=True, match=Match(False, {"kind": 1.0, "target": 0.5}), failing=True, verdict=False)
UNREADABLE = Facts(legal=False)
UNKNOWN = Facts(legal=True)
BROKEN = Facts(legal=False, broken=True)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("two_pole", [1, -1, -1, -1, None, None]),
        ("three_pole", [1, 0, -1, -1, None, None]),
        ("zero_one", [1, 0, 0, 0, None, None]),
        ("graded", [1, 0.5, 0.5, -1, None, None]),
        ("judge", [1, -1, -1, -1, None, None]),
    ],
)
def test_rewards(name: str, expected: list[float | None]) -> None:
    facts = [RIGHT, WRONG, FAILING, UNREADABLE, UNKNOWN, BROKEN]
    assert [REWARDS[name](one) for one in facts] == expected


def test_form_alone_earns_nothing() -> None:
    """S67: a well-formed wrong action gets no more than an unreadable one, at the default."""
    assert REWARDS["two_pole"](WRONG) == REWARDS["two_pole"](UNREADABLE) == -1
