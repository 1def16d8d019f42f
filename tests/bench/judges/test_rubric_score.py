"""Rubrics, points, stored scores, process beside outcome: WTB-1, WTB-2 and every broken file."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmsweb.bench.judges.rubric_score import Points, parse_rubric, recompute, success_labels
from rmsweb.bench.judges.rubric_table import Judged, judged, process_outcome_table
from rmsweb.errors import DataError
from rmsweb.records import Verdict

DATA = Path(__file__).parents[3] / ".." / "shared" / "data"
SCORE = DATA / "trajectories" / "fara" / "scores" / "mmrubric_0.8-5-3.json"
RUBRICS = DATA / "webtailbench" / "v1-rubrics.jsonl"


def item(most: Any = 4, **more: Any) -> dict[str, Any]:
    return {"criterion": "c", "description": "d", "max_points": most, **more}


def present(path: Path) -> Path:
    if not path.exists():
        pytest.skip("../shared/data is absent: this test reads real files of others")
    return path


def score_file(items: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A consistent score file of these items."""
    points = parse_rubric({"items": items}).points()
    passed = int(bool(points.passed()))
    body = {
        "rubric_items": items,
        "rubric_total_max_points": points.maximum,
        "rubric_total_earned_points": points.earned,
        "rubric_is_success": passed,
        "outcome_success": bool(passed),
        "is_success": passed,
        **more,
    }
    return {"score": passed, "gpt_response_text": json.dumps(body)}


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
    rubrics = [
        parse_rubric(json.loads(line)["precomputed_rubric"])
        for line in present(RUBRICS).read_text(encoding="utf-8").splitlines()
    ]
    sizes, points = [len(rubric.items) for rubric in rubrics], [rubric.largest for rubric in rubrics]
    assert (len(rubrics), sum(sizes), sum(len(rubric.conditional) for rubric in rubrics)) == (609, 2629, 90)
    assert (min(sizes), max(sizes), round(sum(sizes) / 609, 1)) == (2, 9, 4.3)
    assert (min(points), max(points), round(sum(points) / 609, 1)) == (8, 40, 14.9)


def test_a_real_score_file_agrees_with_its_items() -> None:
    again = recompute(json.loads(present(SCORE).read_bytes()), str(SCORE))
    assert (again.earned, again.maximum, again.score, again.label, again.outcome) == (10, 10, 1.0, 1, True)
    assert (again.stored, again.criteria, again.differences) == (1, ("process", "outcome", "both"), ())


def test_points_changed_in_a_real_score_file_change_the_label() -> None:
    stored = json.loads(present(SCORE).read_bytes())
    body = json.loads(stored["gpt_response_text"])
    body["rubric_items"][0]["post_image_earned_points"] = 4.0
    again = recompute({**stored, "gpt_response_text": json.dumps(body)})
    assert (again.score, again.label) == (0.8, 1)
    assert again.differences[0].startswith("rubric_total_earned_points is 10")
    body["rubric_items"][0]["post_image_earned_points"] = 3.9
    again = recompute({**stored, "gpt_response_text": json.dumps(body)})
    assert (again.label, again.criteria) == (0, ("outcome",))
    assert any(line.startswith("rubric_is_success is 1") for line in again.differences)


def mutated(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> dict[str, Any]:
    items = [item(6, earned_points=2, post_image_earned_points=5), item(4, earned_points=4)]
    stored = score_file(copy.deepcopy(items))
    body = json.loads(stored["gpt_response_text"])
    change(stored, body)
    return {**stored, "gpt_response_text": json.dumps(body)}


def test_a_made_score_file_agrees_until_one_field_is_changed() -> None:
    assert recompute(mutated(lambda top, body: None)).differences == ()
    changes: list[Callable[[dict[str, Any], dict[str, Any]], None]] = [
        lambda top, body: body.update(rubric_total_max_points=11),
        lambda top, body: body.update(rubric_is_success=0),
        lambda top, body: body.update(rubric_majority_vote_metadata={"median_score": 0.5}),
        lambda top, body: body.update(
            rubric_all_rubric_dicts=[{"items": body["rubric_items"]}], rubric_all_scores_list=[0.8]
        ),
        lambda top, body: body.update(
            rubric_all_rubric_dicts=[{"items": [item(10, earned_points=9)]}], rubric_all_scores_list=[0.9]
        ),
        lambda top, body: top.update(score=0),
    ]
    for change in changes:
        assert len(recompute(mutated(change)).differences) == 1


def test_points_that_do_not_count_are_compared_with_their_copies_too() -> None:
    stored = json.loads(present(SCORE).read_bytes())
    body = json.loads(stored["gpt_response_text"])
    body["rubric_items"][1]["earned_points"] = 0  # From the actions alone: the score does not hang on it.
    again = recompute({**stored, "gpt_response_text": json.dumps(body)})
    assert (again.label, len(again.differences)) == (1, 1)


def test_the_stored_mark_follows_the_outcome_the_process_or_both() -> None:
    body = json.loads(score_file([item(4, earned_points=4)])["gpt_response_text"])
    body["outcome_success"] = False
    text = json.dumps(body)
    assert recompute({"score": 1, "gpt_response_text": text}).criteria == ("process",)
    assert recompute({"score": 0, "gpt_response_text": text}).criteria == ("outcome", "both")
    assert success_labels(False, None)["both"] is False
    assert success_labels(True, None)["both"] is None


def test_aborted_attempts_have_no_score_and_zeros_without_items_stay_zeros() -> None:
    aborted = recompute({"score": None, "gpt_response_text": "the verifier failed"})
    assert (aborted.score, aborted.label, aborted.stored) == (None, None, None)
    zero = recompute({"score": 0, "gpt_response_text": "no actions"})
    assert (zero.score, zero.label, zero.stored) == (None, 0, 0)


@pytest.mark.parametrize(
    "stored",
    [
        {"score": 1, "gpt_response_text": "fine"},
        {"score": 1, "gpt_response_text": None},
        {"score": 1},
        {"score": "1", "gpt_response_text": "{}"},
        {"score": 1, "gpt_response_text": "[]"},
        {"score": 1, "gpt_response_text": '{"rubric_items": null}'},
        {
            "score": 1,
            "gpt_response_text": '{"rubric_items": [{"criterion": "c", "max_points": 3, "earned_points": 4}]}',
        },
        {"score": 1, "gpt_response_text": '{"rubric_items": [{"criterion": "c", "max_points": 3}]}'},
        {
            "score": 1,
            "gpt_response_text": '{"rubric_items": [{"criterion": "c", "max_points": 3, "earned_points": 3}], '
            '"rubric_total_max_points": "3"}',
        },
    ],
)
def test_a_score_file_that_cannot_be_recomputed_is_an_error(stored: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        recompute(stored)


def test_process_and_outcome_stand_side_by_side_and_refusals_apart() -> None:
    rows = [
        Judged("flights", True, False, 0.9),
        Judged("flights", True, True, 1.0),
        Judged("flights", None, None),
        Judged("jobs", False, None, 0.5),
        Judged("flights", True, True, 1.0, refusal=True),
    ]
    table = process_outcome_table(rows)
    flights, jobs = table.segments
    assert (flights.n, flights.process_passed, flights.outcome_passed) == (3, 2, 1)
    assert (flights.process_rate, flights.outcome_rate, flights.outcome_all) == (1.0, 0.5, pytest.approx(1 / 3))
    assert flights.mean_score == pytest.approx(0.95)
    assert (jobs.outcome_judged, jobs.outcome_rate, jobs.process_all) == (0, None, 0.0)
    assert (table.total.n, table.total.process_judged) == (4, 3)
    assert [(line.segment, line.n) for line in table.refusals] == [("flights", 1)]
    assert process_outcome_table([]).total.process_all is None


def test_a_verdict_becomes_a_row_and_what_it_lacks_stays_open() -> None:
    details: dict[str, Any] = {"process_passed": True, "process_score": 1, "outcome": False}
    row = judged("jobs", Verdict(success=False, judge="j", details=details))
    assert row == Judged("jobs", True, False, 1.0)
    assert judged("jobs", Verdict(success=None, judge="j", unjudged="infra")) == Judged("jobs", None, None)
