"""Rubrics and their points: WTB-1, one rule for what a task file may hold and what a judge can use."""

import json
from pathlib import Path
from typing import Any

import pytest

from rmsweb.errors import DataError
from rmsweb.tasksets.rubrics import Points, parse_rubric, read_rubric, rubric_hash

RUBRICS = Path(__file__).parents[2] / ".." / "shared" / "data" / "webtailbench" / "v1-rubrics.jsonl"


def item(most: Any = 4, **more: Any) -> dict[str, Any]:
    return {"criterion": "c", "description": "d", "max_points": most, **more}


@pytest.mark.parametrize(
    ("parts", "most", "passed"),
    [
        ([8], 10, True),
        ([4], 5, True),
        ([12], 15, True),
        ([0.1, 0.7], 1, True),
        ([0.1] * 8, 1, True),
        ([7.9], 10, False),
        ([11.99], 15, False),
        ([3], 4, False),
        ([0], 10, False),
    ],
)
def test_a_score_passes_at_eight_tenths_inclusive(parts: list[float], most: float, passed: bool) -> None:
    share = most / len(parts)
    items = [item(max(share, part), earned_points=part) for part in parts]
    points = parse_rubric({"items": items}).points()
    assert Points(points.earned, most).passed() is passed


def test_a_condition_that_does_not_hold_takes_its_points_out_of_both_sums() -> None:
    off = item(5, condition="none is left", is_condition_met=False, earned_points=5)
    on = item(2, condition="one is left", is_condition_met=True, earned_points=1)
    rubric = parse_rubric({"items": [item(4, earned_points=4), off, on]})
    assert rubric.points() == Points(5, 6)
    assert rubric.largest == 11
    assert rubric.conditional == (1, 2)


def test_where_no_criterion_applies_there_is_no_score() -> None:
    off = item(5, condition="x", is_condition_met=False, earned_points=5)
    points = parse_rubric({"items": [off]}).points()
    assert (points.score, points.passed()) == (None, None)


def test_points_after_the_screenshots_count_before_those_of_the_actions_alone() -> None:
    rubric = parse_rubric({"items": [item(4, earned_points=1, post_image_earned_points=3.5)]})
    assert (rubric.items[0].baseline, rubric.items[0].earned) == (1, 3.5)


def test_a_rubric_may_be_text_a_list_or_nested_and_may_carry_more_fields() -> None:
    value = {"items": [{"criterion": "g", "items": [item(1), item(2)]}, item(3, colour="red")], "version": 2}
    for given in (value, json.dumps(value), [value, {"items": []}]):
        assert [one.max_points for one in parse_rubric(given).items] == [1, 2, 3]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "expected an object with `items`"),
        ([], "expected an object"),
        ("{", "not JSON"),
        ("[[[", "not JSON"),
        ({"items": []}, "`items` is empty"),
        ({"items": None}, "`items` should be a list"),
        ({"items": {"a": 1}}, "`items` should be a list"),
        ({"items": [None]}, r"items\[0\]: expected an object"),
        ({"items": [item(0)]}, "above 0"),
        ({"items": [item(-3)]}, "above 0"),
        ({"items": [item(4), item(0)]}, r"items\[1\]: `max_points` should be above 0"),
        ({"items": [item(4) | {"description": 7}]}, "`description` should be a text"),
        ({"items": [item("4")]}, "`max_points` should be a number, found a text"),
        ({"items": [item(True)]}, "`max_points` should be a number"),
        ({"items": [item(None)]}, "null or nothing"),
        ({"items": [item(float("nan"))]}, "finite"),
        ('{"items": [{"criterion": "c", "max_points": NaN}]}', "finite"),
        ({"items": [item(10**400)]}, "finite"),
        ({"items": [{"criterion": " ", "max_points": 1}]}, "`criterion` should be a text"),
        ({"items": [item(4, earned_points=5)]}, "between 0 and 4, found 5; it is not clipped"),
        ({"items": [item(4, earned_points=-1)]}, "between 0 and 4"),
        ({"items": [item(4, earned_points="4")]}, "should be a number"),
        ({"items": [item(4, condition=7)]}, "`condition` should be a text"),
        ({"items": [item(4, condition="x", is_condition_met="yes")]}, "true or false"),
    ],
)
def test_a_broken_rubric_says_what_is_wrong_and_where(value: object, says: str) -> None:
    with pytest.raises(DataError, match=says):
        parse_rubric(value, "task 7")
    if value is not None:
        with pytest.raises(DataError, match=says):
            read_rubric(value, "task 7")


@pytest.mark.parametrize("value", [None, "", " \n", {}])
def test_an_empty_cell_is_no_rubric(value: object) -> None:
    assert read_rubric(value) is None


def test_a_cell_is_passed_on_as_it_stands() -> None:
    given = {"items": [item(4, colour="red"), {"criterion": " c ", "max_points": 1}], "version": 2}
    for value in (given, json.dumps(given)):
        assert read_rubric(value) == given


def test_the_hash_is_of_what_is_asked_for_and_not_of_what_a_judge_fills_in() -> None:
    plain = {"items": [item(4), item(2, condition="x")]}
    filled = {"items": [item(4, earned_points=3, justification="w"), item(2, condition="x", is_condition_met=True)]}
    nested = {"items": [{"criterion": "g", "items": plain["items"]}]}
    assert rubric_hash(plain) == rubric_hash(filled) == rubric_hash(nested) != rubric_hash({"items": [item(4)]})
    assert rubric_hash({"items": [{"criterion": "c", "max_points": 1}]}) == rubric_hash(
        {"items": [item(1, description=None)]}
    )


def test_a_rubric_that_is_not_scored_has_no_points_to_add_up() -> None:
    with pytest.raises(DataError, match="no earned points"):
        parse_rubric({"items": [item(4, earned_points="")]}).points()


def test_rubrics_that_are_nested_without_end_are_refused() -> None:
    value: dict[str, Any] = item(1)
    for _ in range(40):
        value = {"items": [value]}
    with pytest.raises(DataError, match="nested"):
        parse_rubric(value)


def test_webtailbench_rubrics_have_the_known_counts() -> None:
    if not RUBRICS.exists():
        pytest.skip("../shared/data is absent: this test reads real files of others")
    rubrics = [
        parse_rubric(json.loads(line)["precomputed_rubric"])
        for line in RUBRICS.read_text(encoding="utf-8").splitlines()
    ]
    sizes, points = [len(rubric.items) for rubric in rubrics], [rubric.largest for rubric in rubrics]
    assert (len(rubrics), sum(sizes), sum(len(rubric.conditional) for rubric in rubrics)) == (609, 2629, 90)
    assert (min(sizes), max(sizes), round(sum(sizes) / 609, 1)) == (2, 9, 4.3)
    assert (min(points), max(points), round(sum(points) / 609, 1)) == (8, 40, 14.9)
