"""Gate, competence, fates and advantages: the identities of method.md 3 and the field log's cases."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmsweb.config import AnchorConfig, GateConfig
from rmsweb.errors import ConfigError
from rmsweb.records import Fate
from rmsweb.salvage.gate import Running, advantages, capped, gate, logprob, shares

NAN = math.nan
GATE, ANCHOR = GateConfig(), AnchorConfig()


def row(right: int, size: int = 8) -> list[float]:
    return [1.0] * right + [-1.0] * (size - right)


def ids(rewards: list[float]) -> list[int]:
    return [int(r > 0) if not math.isnan(r) else 9 for r in rewards]


def labels(rewards: list[list[float]], config: GateConfig = GATE, **more: object) -> list[str]:
    return [g.label for g in gate(rewards, [ids(r) for r in rewards], config, **more)]  # type: ignore[arg-type]


def test_labels_by_number_right() -> None:
    assert labels([row(n) for n in range(9)]) == ["all_fail", "low", *["accepted"] * 6, "all_pass"]
    assert labels([row(1)], GateConfig(c_lo=1)) == ["accepted"]
    assert labels([row(2)], GateConfig(c_lo=3)) == ["low"]
    assert labels([row(7), row(6)], GateConfig(p_hi=0.75)) == ["all_pass", "accepted"]


def test_contrast_needs_spread_and_two_clusters() -> None:
    assert gate([row(4)], [[0] * 8], GATE)[0].label == "no_contrast"
    assert gate([row(4)], [[0] * 8], GateConfig(clusters=False))[0].label == "accepted"
    assert gate([row(4)], None, GateConfig(tau=1.5))[0].label == "no_contrast"


def test_missing_rewards_leave_before_the_gate() -> None:
    assert labels([[1, 1, NAN, NAN], [1, NAN, NAN, NAN], [NAN] * 4, [1, 1, -1, NAN]]) == [
        "all_pass",
        "too_few",
        "too_few",
        "accepted",
    ]
    got = advantages([[1, 1, -1, NAN]], [True], False)
    assert np.allclose(got, [[2 / 3, 2 / 3, -4 / 3, 0]])
    # the cluster of a removed sample does not count
    assert gate([[1, 1, -1, NAN]], [[0, 0, 0, 1]], GATE)[0].label == "no_contrast"


def test_equal_rewards_teach_nothing_s58() -> None:
    groups = [[1.0] * 4, [-1.0] * 4, [1.0, -1.0, -1.0, 1.0]]
    gated = gate(groups, [ids(g) for g in groups], GATE)
    accepted = [g.fate is Fate.ACCEPTED for g in gated]
    got = advantages(groups, accepted, True)
    assert accepted == [False, False, True] and not got[:2].any() and got[2].any()
    assert shares(gated)["gate/all_pass"] == shares(gated)["gate/all_fail"] == pytest.approx(1 / 3)


def test_shaping_never_passes_the_gate_s59() -> None:
    outcome, shaping = np.zeros((1, 4)), np.array([[0, 0.01, 0.02, 0.03]])
    gated = gate(outcome, [[0, 1, 2, 3]], GateConfig(c_lo=1), anchor=ANCHOR)
    assert gated[0].label == "all_fail" and gated[0].fate is Fate.ANCHORED
    assert not advantages(outcome + shaping, [g.fate is Fate.ACCEPTED for g in gated], True).any()
    for method in ("grpo", "dapo"):
        accepted = gate(outcome, None, GATE, method=method)[0].label == "accepted"  # type: ignore[arg-type]
        assert accepted is (method == "grpo")


def test_singletons_and_unshared_keys_s60() -> None:
    assert labels([[1.0], [-1.0]]) == ["too_few", "too_few"]
    assert not advantages([[1.0], [-1.0]], [True, True], True).any()
    with pytest.raises(ConfigError, match="group keys"):
        advantages([[1.0, -1.0]], [True, True], True)


def test_constant_stands_inside_the_division_s61() -> None:
    assert not advantages([[0.5, 0.5]], [True], True).any()
    assert np.isfinite(advantages([[0.5, 0.5], [NAN, NAN]], [True, True], True)).all()


def test_two_poles_with_std_are_zero_one() -> None:
    two = advantages([row(3)], [True], True)
    one = advantages([(np.array(row(3)) + 1) / 2], [True], True)
    assert np.allclose(two, one, atol=2e-3)
    assert np.allclose(advantages([row(3)], [True], False), 2 * advantages([(np.array(row(3)) + 1) / 2], [True], False))


@given(st.lists(st.sampled_from([1.0, -1.0, 0.0, NAN]), min_size=2, max_size=9), st.randoms())
def test_permuting_a_group_changes_nothing(rewards: list[float], random: object) -> None:
    order = list(range(len(rewards)))
    random.shuffle(order)  # type: ignore[attr-defined]
    mixed = [rewards[i] for i in order]
    first, second = (
        gate([rewards], [ids(rewards)], GATE, anchor=ANCHOR),
        gate([mixed], [ids(mixed)], GATE, anchor=ANCHOR),
    )
    assert first == second
    a, b = advantages([rewards], [True], True)[0], advantages([mixed], [True], True)[0]
    assert np.allclose(a[order], b) and a.sum() == pytest.approx(0, abs=1e-9)


def test_fates_weights_and_missing_references() -> None:
    rewards = [row(0), row(1), row(4), row(8), row(0)]
    gated = gate(rewards, [ids(r) for r in rewards], GATE, anchor=ANCHOR, references_N=[True] * 4 + [False])
    assert [g.fate.value for g in gated] == ["anchored", "anchored", "accepted", "dropped", "dropped"]
    assert "no verified reference" in gated[4].reason
    assert {g.fate for g in gate(rewards, None, GATE)} == {Fate.ACCEPTED, Fate.DROPPED}, "no anchor config: DAPO-like"
    grpo = gate(rewards, None, GATE, anchor=ANCHOR, method="grpo")
    dapo = gate(rewards, None, GATE, anchor=ANCHOR, method="dapo")
    assert {g.fate for g in grpo} == {Fate.ACCEPTED}
    assert [g.fate is Fate.ACCEPTED for g in dapo] == [False, True, True, False, False]
    assert not any(g.fate is Fate.ANCHORED for g in dapo)


def test_with_c_lo_one_the_gate_is_dapos_filter() -> None:
    rewards = [row(n) for n in range(9)]
    ours = gate(rewards, [ids(r) for r in rewards], GateConfig(c_lo=1))
    assert [g.fate for g in ours] == [g.fate for g in gate(rewards, None, GATE, method="dapo")]


def test_cap_keeps_the_heaviest() -> None:
    assert capped([0.5, 1, 1, 0.0], 0.5) == [0, 1, 1, 0]
    assert capped([0.5, 1, 1, 0.0], 0.25) == [0, 1, 0, 0]
    assert capped([0.5, 1], 1.0) == [0.5, 1]


def test_competence_plug_ins() -> None:
    assert labels([row(1)], competence=logprob([math.log(0.5)])) == ["accepted"]
    assert labels([row(3)], competence=logprob([math.log(0.01)])) == ["low"]
    running = Running(keep=0.5)
    assert labels([row(0)], competence=running.over(["s"])) == ["all_fail"]
    assert labels([row(2)], competence=running.over(["s"])) == ["low"], "(0 + 2) / 2 is below c_lo"
    assert labels([row(6)], competence=running.over(["s"])) == ["accepted"]
    assert labels([row(2)], competence=running.over(["other"])) == ["accepted"]


def test_two_thirds_of_groups_are_rejected_at_success_five_percent() -> None:
    """method.md 3: at success rate .05 two thirds of groups of 8 have no right sample."""
    random = np.random.default_rng(0)
    rewards = np.where(random.random((4000, 8)) < 0.05, 1.0, -1.0)
    share = shares(gate(rewards, None, GATE))["gate/all_fail"]
    assert share == pytest.approx(0.95**8, abs=0.02)
