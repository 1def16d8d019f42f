"""Rows, weights and divisors; figures, draws and the importance ratio."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rmsweb.config import RLConfig
from rmsweb.errors import ConfigError
from rmsweb.records import Candidate, Fate
from rmsweb.salvage.batch import (
    Divisors,
    Row,
    Target,
    Totals,
    divisors,
    filled,
    micro_batches,
    policy_rows,
    target_row,
    target_rows,
    totals,
)
from rmsweb.salvage.gate import Gated, advantages
from rmsweb.salvage.groups import Sampled, Scored, draws, figures, records
from rmsweb.salvage.prefix import importance_ratio
from rmsweb.salvage.settings import check, trl_settings

ACCEPTED, ANCHORED, DROPPED = (Gated("accepted", f, "") for f in (Fate.ACCEPTED, Fate.ANCHORED, Fate.DROPPED))
FATES = [ACCEPTED, ANCHORED._replace(label="low"), DROPPED]
AIM = Target((1, 2, 3), (0, 1, 1))


def sampled(*replies: list[int]) -> list[Sampled]:
    return [Sampled(ids, [-1.0] * len(ids), False) for ids in replies]


def test_equal_replies_are_one_row_with_their_joint_weight() -> None:
    group = sampled([1, 2], [1, 2], [3], [1, 2])
    found = advantages([[1, 1, -1, 1]], [True], False)
    rows = policy_rows([ACCEPTED], [group], found, [[True] * 4], "constant")
    assert [(r.ids, r.weight) for r in rows] == [((1, 2), 3), ((3,), 1)]
    assert len(policy_rows([ACCEPTED], [group], found, [[True] * 4], "constant", merge=False)) == 4
    by_length = policy_rows([ACCEPTED], [group], found, [[True] * 4], "sequence")
    assert [r.weight for r in by_length] == [1.5, 1]


def test_samples_without_a_reward_have_no_row_and_the_others_share_the_group() -> None:
    found = advantages([[1, math.nan, -1, math.nan]], [True], False)
    rows = policy_rows([ACCEPTED], [sampled([1], [2], [3], [4])], found, [[True, False, True, False]], "constant")
    assert [(r.ids, r.weight) for r in rows] == [((1,), 2), ((3,), 2)]


def test_only_accepted_groups_have_policy_rows_and_only_anchored_ones_anchors() -> None:
    found = advantages([[1, -1]] * 3, [True, False, False], False)
    rows = policy_rows(FATES, [sampled([1], [2])] * 3, found, [[True, True]] * 3, "token")
    assert {r.slot for r in rows} == {0}
    rl = RLConfig.model_validate({"anchor": {"weight": 0.5, "low": 0.5}})
    anchors = target_rows(FATES, [AIM, AIM, None], [AIM], rl, 0.0, Divisors(1, 10, 4))
    assert [(r.slot, r.rehearsal) for r in anchors] == [(1, False), (3, True)]
    assert anchors[0].cross_entropy == pytest.approx([0, 0.025, 0.025]) and anchors[0].weight == 0
    assert anchors[1].cross_entropy == pytest.approx([0, 0.25, 0.25])


def test_totals_and_divisors() -> None:
    lengths, valid = [[2, 3], [4, 5], [6, 7]], [[True, False], [True, True], [True, True]]
    every = totals(FATES, lengths, valid, [AIM] * 3, [AIM], "salvage_ds")
    assert every == Totals(3, 24, 2, 1, 2)
    assert totals(FATES, lengths, valid, [AIM] * 3, [], "dapo") == Totals(1, 2, 2, 0, 0)
    assert totals(FATES, [], [], [AIM] * 3, [], "ce_references").tokens == 0
    assert divisors(every, "constant", 2, 10) == (60, 30, 10)
    assert divisors(every, "token", 2, 10) == (24, 12, 2)
    assert divisors(every, "sequence", 2, 10) == (6, 3, 1)
    assert divisors(Totals(0, 0, 0, 0, 0), "token", 2, 10) == (1, 1, 1), "nothing divides by nothing"


@pytest.mark.parametrize("length", ["constant", "token", "sequence"])
def test_a_group_weighs_the_same_in_each_term(length: Any) -> None:
    """With replies and anchor of equal length, token weights of an anchored group add up to an accepted one's."""
    group = sampled([1, 2, 3], [1, 2, 3])
    divide = divisors(totals([ACCEPTED, ANCHORED], [[3, 3]] * 2, [[True] * 2] * 2, [None, AIM], [], ""), length, 2, 3)
    rows = policy_rows([ACCEPTED], [group], np.ones((1, 2)), [[True, True]], length)
    policy = sum(r.weight * len(r.ids) for r in rows) / divide.policy
    anchor = sum(target_row(1, Target((1, 2, 3), (1, 1, 1)), 1.0, divide.anchor, length).cross_entropy)
    assert policy == pytest.approx(anchor) == pytest.approx(0.5)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6)), min_size=1, max_size=20), st.integers(1, 5))
def test_micro_batches_keep_every_row_and_groups_together(shape: list[tuple[int, int]], count: int) -> None:
    rows = [Row(slot, tuple(range(n)), 1.0, 1.0, [0.0] * n) for slot, n in shape]
    parts = micro_batches(rows, count)
    assert len(parts) == count and all(parts)
    kept = [row for part in parts for row in part if row.weight]
    assert sorted(map(id, kept)) == sorted(map(id, rows))
    homes = [{row.slot for row in part if row.weight} for part in parts]
    assert sum(map(len, homes)) == len(set().union(*homes))


def test_draws_are_whole_permutations_and_stable() -> None:
    order = draws(5, 12, seed=3)
    assert sorted(order[:5]) == sorted(order[5:10]) == [0, 1, 2, 3, 4] and order[:7] == draws(5, 7, seed=3)
    assert draws(5, 12, seed=4) != order


def test_figures_keep_form_and_reward_apart() -> None:
    scored = [
        [Scored(r, 0, Candidate(raw="", fault=f)) for r, f in ((1.0, ""), (-1.0, "json"), (None, ""), (-1.0, ""))]
    ]
    made = records(["s"], 1, [ACCEPTED], scored, np.zeros((1, 4)))
    found = figures(made)
    assert found["reply/right"] == pytest.approx(1 / 3) and found["reply/legal"] == 0.75
    assert found["reply/no_reward"] == 0.25 and found["group/size"] == 4 and found["gate/accepted"] == 1
    assert made[0].candidates[1].reward == -1 and made[0].candidates[2].reward is None


def test_importance_ratio_modes() -> None:
    difference = torch.tensor([[math.log(2.0), math.nan], [math.log(5.0), 0.0]])
    assert importance_ratio(difference, "token_truncate", None, 3.0).tolist() == [[2, 1], [3, 1]]
    assert importance_ratio(difference, "token_mask", None, 3.0).tolist() == [[2, 1], [0, 1]]
    assert importance_ratio(difference, "sequence_mask", None, 3.0).tolist() == [[2], [0]]
    assert importance_ratio(difference, "sequence_truncate", 2.5, 3.0).tolist() == [[2.5], [3]]


def test_settings() -> None:
    rl = RLConfig(group=4, states_per_step=6, accumulation=3)
    settings = trl_settings(rl, 1, 24, processes=2)
    assert settings["per_device_train_batch_size"] == 4 and settings["loss_type"] == "dapo"
    assert RLConfig.model_validate(settings["salvage"]) == rl
    with pytest.raises(ConfigError, match="multiple"):
        trl_settings(rl, 1, 24, processes=4)
    with pytest.raises(ConfigError, match="span"):
        check(rl, 6, 1, 0)
    with pytest.raises(ConfigError, match="above 0"):
        check(RLConfig(method="rehearsal_only"), 8, 0, 3)


def test_parts_are_filled_with_rows_of_no_weight() -> None:
    parts = filled([[Row(2, (5, 6), 1.0, 1.0, [0.5, 0.5])], [Row(3, (7,), 1.0, 1.0, [0.0])]], [3, 1])
    assert [len(part) for part in parts] == [3, 1]
    assert all(row.weight == 0 and not any(row.cross_entropy) and row.slot == 2 for row in parts[0][1:])
