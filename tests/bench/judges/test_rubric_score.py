"""Stored scores, process beside outcome: WTB-2 and every broken score file. Rubrics: tests/tasksets/test_rubrics.py."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmsweb.bench.judges.rubric_score import recompute, success_labels
from rmsweb.bench.judges.rubric_table import RubricRow, judged, process_outcome_table
from rmsweb.errors import DataError
from rmsweb.records import Verdict
from rmsweb.tasksets.rubrics import parse_rubric

DATA = Path(__file__).parents[3] / ".." / "shared" / "data"
SCORE = DATA / "trajectories" / "fara" / "scores" / "mmrubric_0.8-5-3.json"


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
        RubricRow("flights", True, False, 0.9),
        RubricRow("flights", True, True, 1.0),
        RubricRow("flights", None, None),
        RubricRow("jobs", False, None, 0.5),
        RubricRow("flights", True, True, 1.0, refusal=True),
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
    assert row == RubricRow("jobs", True, False, 1.0)
    assert judged("jobs", Verdict(success=None, judge="j", unjudged="infra")) == RubricRow("jobs", None, None)
