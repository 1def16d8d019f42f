"""Replies of the rubric verifier's stages, odd ones above all: certain ones are read, others never become a score."""

import json
from typing import Any

import pytest

from rmsweb.bench.judges import rubric_reading as reading
from rmsweb.bench.judges.rubric_layout import Chosen, chosen, evidence, kept
from rmsweb.bench.judges.rubric_reading import Unreadable
from rmsweb.tasksets.rubrics import parse_rubric

RUBRIC = parse_rubric(
    {
        "items": [
            {"criterion": "find", "description": "d", "max_points": 4},
            {"criterion": "say", "description": "d", "max_points": 2, "condition": "it is there"},
        ]
    }
)


def points(*entries: dict[str, Any]) -> str:
    return json.dumps({"items": list(entries)})


GOOD = points(
    {"criterion_idx": 0, "earned_points": 3, "justification": "w"},
    {"criterion_idx": 1, "earned_points": 2, "is_condition_met": True, "justification": "w"},
)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"```json\n{GOOD}\n```",
        f"Here you are:\n{GOOD}\nI hope {{this}} helps.",
        f'<think>{{"items": []}}</think>{GOOD}',
        GOOD.replace("3", '"3"'),
        GOOD.replace('"w"}]', '"w",}],'),
        GOOD.replace("true", "True"),
        GOOD.replace("true", '"true"'),
        points(*reversed(json.loads(GOOD)["items"])),
        GOOD.replace('"criterion_idx": 0, ', "").replace('"criterion_idx": 1, ', ""),
        f"{GOOD}\n\n{GOOD}",
    ],
)
def test_certain_replies_are_read(text: str) -> None:
    scored = reading.read_baseline(text, RUBRIC)
    assert [(item.baseline, item.met) for item in scored.items] == [(3, None), (2, True)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot tell from these pictures.",
        "3 of 4, 2 of 2",
        "null",
        "[]",
        '{"items": null}',
        '{"items": {}}',
        '{"items": [1, 2]}',
        GOOD[:60],
        points(json.loads(GOOD)["items"][0]),
        points(*json.loads(GOOD)["items"], {"criterion_idx": 2, "earned_points": 0}),
        GOOD.replace('"criterion_idx": 1', '"criterion_idx": 0'),
        GOOD.replace('"criterion_idx": 1', '"criterion_idx": 1.5'),
        GOOD.replace("3", "5"),
        GOOD.replace("3", "-1"),
        GOOD.replace("3", "null"),
        GOOD.replace("3", '"three"'),
        GOOD.replace("3", "NaN"),
        GOOD.replace("3", "true"),
        GOOD.replace('"is_condition_met": true, ', ""),
        GOOD.replace("true", '"maybe"'),
        GOOD.replace('"criterion_idx": 0', '"criterion_idx": 0, "criterion": "say"'),
        f"{GOOD}\n{GOOD.replace('3', '4')}",
        '{"a": ' * 5000,
        "{" * 100000,
    ],
)
def test_uncertain_replies_are_not_read(text: str) -> None:
    with pytest.raises(Unreadable):
        reading.read_baseline(text, RUBRIC)


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        ('{"criterion_0": 7, "criterion_1": 0}', [7, 0]),
        ('{"0": "7", "1": 0}', [7, 0]),
        ('{"scores": {"criterion_0": 7, "criterion_1": 10}}', [7, 10]),
        ('{"criterion_0": 7}', None),
        ('{"criterion_0": 7, "criterion_1": 11}', None),
        ('{"criterion_0": 7, "criterion_1": null}', None),
        ('{"criterion_0": 7, "criterion_1": "high"}', None),
        ("[7, 0]", None),
    ],
)
def test_relevance_needs_a_number_for_every_criterion(text: str, scores: list[float] | None) -> None:
    if scores is not None:
        assert reading.read_relevance(text, 2) == scores
        return
    with pytest.raises(Unreadable):
        reading.read_relevance(text, 2)


@pytest.mark.parametrize(
    "text",
    [
        '{"output_success": "UNSUCCESSFUL", "reasoning": "r"}',
        '{"output_success": null}',
        '{"output_success": 1}',
        '{"success": true}',
        '{"output_success": true} or {"output_success": false}',
        '{"output_success": tr',
        "NOT SUCCESS",
    ],
)
def test_an_outcome_is_true_or_false_and_nothing_else(text: str) -> None:
    with pytest.raises(Unreadable):
        reading.read_outcome(text)


def test_rescoring_may_leave_out_what_is_switched_off() -> None:
    off = RUBRIC.changed({1: {"met": False}})
    entry = {"criterion_idx": 0, "post_image_earned_points": 4, "post_image_justification": "w"}
    assert reading.read_rescored(points(entry), off).points().earned == 4
    both = points(entry, {"criterion_idx": 1, "post_image_earned_points": 99})
    assert reading.read_rescored(both, off).points().maximum == 4
    with pytest.raises(Unreadable):
        reading.read_rescored(points(entry), RUBRIC.changed({1: {"met": True}}))


@pytest.mark.parametrize(
    "text",
    [
        '{"requires_penalty": true, "penalty_criteria": []}',
        '{"requires_penalty": true}',
        '{"requires_penalty": null, "penalty_criteria": []}',
        '{"requires_penalty": true, "penalty_criteria": [{"criterion": "x", "max_points": 0}]}',
        '{"requires_penalty": true, "penalty_criteria": [{"criterion": "", "max_points": 1}]}',
        '{"requires_penalty": true, "penalty_criteria": [{"criterion": "x", "max_points": 2, '
        '"post_image_earned_points": 1}]}',
    ],
)
def test_a_penalty_has_a_name_and_a_weight_and_earns_nothing(text: str) -> None:
    with pytest.raises(Unreadable):
        reading.read_penalties(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"validity": "valid"}',
        '{"validity": "fine", "first_failure": null}',
        '{"validity": "valid", "first_failure": {"step": 4, "family": "tool"}}',
        '{"validity": "valid", "first_failure": {"step": 0, "family": "tool"}}',
        '{"validity": "valid", "first_failure": {"step": 1, "family": "3.2"}}',
        '{"validity": "valid", "first_failure": "none"}',
    ],
)
def test_a_diagnosis_names_an_action_that_was_taken_and_a_known_family(text: str) -> None:
    with pytest.raises(Unreadable):
        reading.read_diagnosis(text, 3)


def test_a_generated_rubric_has_points_to_earn_and_none_earned() -> None:
    text = '{"items": [{"criterion": "a", "max_points": "3", "earned_points": "", "condition": null}]}'
    assert [(i.max_points, i.earned, i.condition) for i in reading.read_new_rubric(text).items] == [(3, None, "")]
    for bad in ('{"items": []}', '{"items": [{"criterion": "a", "max_points": 0}]}', '{"items": [{"max_points": 2}]}'):
        with pytest.raises(Unreadable):
            reading.read_new_rubric(bad)
    with pytest.raises(Unreadable, match="no reformulated_rubric"):
        reading.read_checked_rubric('{"needs_reformulation": true, "reformulated_rubric": {}}', RUBRIC)


@pytest.mark.parametrize(
    ("scores", "positions"),
    [
        ([9, 8, 7, 7, 7, 7, 3], [0, 1, 5, 4, 3]),  # five at most, of equal ones the later
        ([9, 5, 4, 6, 0], [0, 3, 1, 2]),  # 4 lies within 2 of the weakest high one (6), 0 does not
        ([9, 4, 3], [0]),
        ([5, 5, 0, 1], [1, 0, 3, 2]),  # none is high: all stay
        ([7, 4, 5], [0, 2]),  # 4 lies 3 below 7
        # The borders, as upstream's code draws them.
        ([10, 6, 4], [0, 1, 2]),  # 6 below the best, 2 below the weakest high one: stays
        ([10, 6, 3], [0, 1]),  # 3 below the weakest high one
        ([8, 5], [0, 1]),  # 3 below it, and not under 5
        ([7, 4.0], [0]),
        ([6, 4, 4, 4, 4, 4], [0, 5, 4, 3, 2]),
        ([5, 2, 0], [0, 1, 2]),  # 5 is not high
        ([10, 10, 10, 10, 10, 6, 4], [4, 3, 2, 1, 0]),  # the best five are taken first: 6 is not among them
    ],
)
def test_the_screenshots_of_a_criterion_are_its_most_relevant_ones(scores: list[float], positions: list[int]) -> None:
    assert kept({p: [score] for p, score in enumerate(scores)}, 1) == {0: positions}


def test_a_fraction_of_a_relevance_is_cut_off() -> None:
    assert reading.read_relevance('{"criterion_0": 6.9, "criterion_1": 4.99, "criterion_2": 10}', 3) == [6, 4, 10]


def test_screenshots_beyond_the_budget_are_named() -> None:
    few = chosen(30, 10)
    assert (few.positions[0], few.positions[-1], len(few.positions)) == (0, 29, 10)
    assert "Not looked at" in evidence(RUBRIC, {}, few) and " 2, 3," in few.gaps
    assert chosen(3, None) == Chosen(3, (0, 1, 2)) and chosen(3, None).gaps == ""
    assert chosen(3, 1).positions == (2,)
