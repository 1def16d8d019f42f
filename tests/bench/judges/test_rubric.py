"""The rubric verifier from end to end: a run of three actions, a scripted judge, every odd reply at every stage."""

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rmsweb.actions import Answer, LeftClick, Point, Type
from rmsweb.bench.judges import build
from rmsweb.bench.judges.asking import Call
from rmsweb.bench.judges.rubric import Process, majority, zero_rule
from rmsweb.bench.rejudge import answers_kept, asked_in_vain
from rmsweb.chat import EndpointModel, Message, Reply
from rmsweb.config import JudgeConfig, ModelConfig
from rmsweb.errors import ConfigError, EndpointError
from rmsweb.policy import prompt_text
from rmsweb.records import Decision, Effect, Observation, Step, Stop, Task, Trajectory, Verdict
from rmsweb.testing import Odd, ScriptModel, ScriptServer

SHOTS = [b"\x89PNG\r\n\x1a\n" + name for name in (b"one", b"two", b"three", b"four")]
PNG = {hashlib.sha256(data).hexdigest(): data for data in SHOTS}
ONE, TWO, THREE, FOUR = PNG
SCORE = Path(__file__).parents[3] / ".." / "shared" / "data" / "trajectories" / "fara" / "scores"
RUBRIC: dict[str, Any] = {
    "items": [
        {"criterion": "find the mug", "description": "d0", "max_points": 4},
        {"criterion": "say the price", "description": "d1", "max_points": 4},
        {"criterion": "say it is gone", "description": "d2", "max_points": 2, "condition": "none is left"},
    ]
}


def run(meta: Mapping[str, Any] | None = None, **changes: Any) -> Trajectory:
    task = Task(
        id="wtb/mug_1", suite="webtailbench", site="shop", template="jobs", split="exam", goal="price of the mug?",
        start_url="https://shop.example/", meta={"rubric": RUBRIC} if meta is None else dict(meta),
    )  # fmt: skip
    acted = (LeftClick(point=Point(x=1, y=1)), Type(text="mug"), Answer(text="4 dollars"))
    steps = tuple(
        Step(
            index=k, before=Observation(image=name, url="https://shop.example/?q=1"), decision=Decision(action=action),
            effect=Effect(), after=Observation(image=name, url="https://shop.example/"),
        )
        for k, (name, action) in enumerate(zip((ONE, TWO, THREE), acted, strict=True))
    )  # fmt: skip
    base: dict[str, Any] = {"id": "wtb/mug_1#0", "task": task, "steps": steps, "answer": "4 dollars"}
    return Trajectory(**{**base, "stop": Stop.ANSWERED, **changes})


def scored(field: str, *points: float, met: bool = False) -> str:
    entries = [{"criterion_idx": i, field: p, "is_condition_met": met} for i, p in enumerate(points)]
    return json.dumps({"items": entries})


def seen(wanted: list[int], condition: bool = False) -> str:
    entry = {
        "screenshot_evidence": "a mug", "criterion_analysis": "met", "discrepancies": "none",
        "environment_issues_confirmed": False, "condition_verification": condition,
    }  # fmt: skip
    return json.dumps({"analyses": [{"criterion_idx": i, **entry} for i in wanted]})


GOOD: dict[str, Any] = {
    "critical_point": '{"critical_point": "none", "boundary": ""}',
    "rubric": json.dumps(RUBRIC),
    "rubric_check": '{"needs_reformulation": false, "reformulated_rubric": {}}',
    "baseline": scored("earned_points", 4, 1, 0),
    "relevance/0": '{"criterion_0": 1, "criterion_1": 2, "criterion_2": 8}',
    "relevance/1": '{"criterion_0": 9, "criterion_1": 2, "criterion_2": 0}',
    "relevance/2": '{"criterion_0": 6, "criterion_1": 9, "criterion_2": 0}',
    "evidence/0": seen([2]),
    "evidence/1": seen([0]),
    "evidence/2": seen([0, 1]),
    "reality": json.dumps({"reality_checks": [{"criterion_idx": i, "reality_notes": ""} for i in range(3)]}),
    "rescore": scored("post_image_earned_points", 4, 4, 0),
    "side_effects": '{"requires_penalty": false, "penalty_criteria": []}',
    "outcome/0": '{"output_success": true, "reasoning": "the price is right"}',
    "crossed": '{"cp_violation": false, "reasoning": "nothing was bought"}',
    "diagnosis": '{"validity": "valid", "first_failure": null}',
}
STAGES = list(GOOD)


class Keyed(ScriptModel):
    """Answers by the key of the question, which the store sees only afterwards: told apart by the prompt's words."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = {key: list(value) if isinstance(value, list) else [value] for key, value in answers.items()}
        self.asked: list[str] = []
        super().__init__(self._say, name="script")

    def _say(self, messages: list[Message]) -> str | Reply:
        key = key_of(messages)
        if key == "outcome":
            key = f"outcome/{(self.seeds[-1] or 0) % 1000 // 100}"
        self.asked.append(key)
        left = self.answers[key]
        said = left.pop(0) if len(left) > 1 else left[0]
        assert isinstance(said, str | Reply)
        return said


OPENINGS = {
    prompt_text(f"exams/rubric_{file}").split("\n")[0][:60]: key
    for file, key in (
        ("boundary", "critical_point"), ("new", "rubric"), ("check", "rubric_check"), ("baseline", "baseline"),
        ("reality", "reality"), ("rescore", "rescore"), ("penalties", "side_effects"), ("outcome", "outcome"),
        ("crossed", "crossed"), ("diagnosis", "diagnosis"),
    )
}  # fmt: skip


def key_of(messages: list[Message]) -> str:
    parts = messages[0]["content"]
    words = "".join(part.get("text", "") for part in parts)
    names = [part["image"] for part in parts if part["type"] == "image"]
    assert len(names) <= 1, "more than one picture in a question"
    if names:
        kind = "relevance" if "how much this picture helps" in words else "evidence"
        return f"{kind}/{list(PNG).index(names[0])}"
    if "criteria only apply under a condition" in words:
        return "conditions"
    return next(key for opening, key in OPENINGS.items() if words.startswith(opening))


async def judge(
    answers: Mapping[str, Any], trajectory: Trajectory | None = None, protocol: str = "process", **config: Any
) -> tuple[Verdict, list[str], list[Call]]:
    model = Keyed({**GOOD, **answers})
    calls: list[Call] = []
    settings = JudgeConfig(protocol=f"rmsweb/rubric-{protocol}", **config)
    verdict = await build(settings, model, PNG, store=calls.append)(trajectory or run())
    return verdict, model.asked, calls


async def test_a_whole_run_is_scored_and_both_numbers_are_kept() -> None:
    verdict, asked, calls = await judge({})
    details: Any = verdict.details
    assert asked == [key for key in STAGES if key not in ("rubric", "rubric_check")]
    assert (verdict.success, verdict.unjudged, verdict.first_error) == (True, "", None)
    assert (details["process_score"], details["earned"], details["max"]) == (1.0, 8, 8)
    assert (details["process_passed"], details["outcome"], details["outcome_votes"]) == (True, True, [True])
    assert details["pictures"] == [0, 1, 2]
    assert details["pictures_by_criterion"] == {"0": [1, 2], "1": [2], "2": [0]}
    assert [c["counts"] for c in details["criteria"]] == [True, True, False]
    assert details["critical_point"] == {"kind": "none", "violation": False, "reason": "nothing was bought"}
    assert (details["first_failure"], details["validity"]["code"], details["rubric"]) == (None, "valid", "given")
    assert (details["upstream_label"], details["unread"]) == (1, {})
    assert [call.key for call in calls] == asked and {call.pictures for call in calls} == {0, 1}
    assert verdict.judge.startswith("rmsweb/rubric-process:script:prompt=")


async def test_stored_replies_answer_again_and_for_every_success_criterion() -> None:
    first, _, calls = await judge({"rescore": scored("post_image_earned_points", 4, 1, 0)})
    for protocol, success in (("process", False), ("outcome", True), ("both", False)):
        settings = JudgeConfig(protocol=f"rmsweb/rubric-{protocol}")
        again = await build(settings, None, PNG, replies=calls, model_name="script")(run())
        assert (again.success, again.details["process_score"]) == (success, 0.625)
    assert first.success is False
    stale = [call.model_copy(update={"prompt": "0" * 16}) for call in calls]
    verdict = await build(JudgeConfig(protocol="rmsweb/rubric-both"), None, PNG, replies=stale)(run())
    assert (verdict.success, verdict.unjudged) == (None, "not_stored")


async def test_a_rubric_is_written_where_the_task_brings_none_and_checked_for_dependencies() -> None:
    better = {"items": [*RUBRIC["items"][:2], {"criterion": "gone?", "max_points": 1, "condition": "none is left"}]}
    check = json.dumps({"needs_reformulation": True, "reformulated_rubric": better})
    verdict, asked, _ = await judge({"rubric_check": check}, run(meta={}))
    assert asked[:4] == ["critical_point", "rubric", "rubric_check", "baseline"]
    details: Any = verdict.details
    assert (details["rubric"], details["criteria"][2]["criterion"], verdict.success) == ("written", "gone?", True)


async def test_a_rubric_may_be_json_text_and_a_broken_one_is_no_verdict() -> None:
    verdict, _, _ = await judge({}, run(meta={"rubric": json.dumps(RUBRIC)}))
    assert verdict.success is True
    verdict, _, _ = await judge({}, run(meta={"rubric": {"items": [{"criterion": "c", "max_points": -1}]}}))
    assert (verdict.success, verdict.unjudged) == (None, "no_verdict")
    assert "above 0" in verdict.reason


async def test_a_condition_that_a_screenshot_shows_switches_its_points_on() -> None:
    answers = {"evidence/0": seen([2], condition=True), "rescore": scored("post_image_earned_points", 4, 4, 0)}
    verdict, _, _ = await judge(answers)
    assert (verdict.details["max"], verdict.details["process_score"], verdict.success) == (10, 0.8, True)
    answers["rescore"] = scored("post_image_earned_points", 4, 3.9, 0)
    assert (await judge(answers))[0].success is False


async def test_two_conditions_are_weighed_together() -> None:
    items = [RUBRIC["items"][0], {**RUBRIC["items"][1], "condition": "one is left"}, RUBRIC["items"][2]]
    settled = json.dumps(
        {
            "disambiguation": [
                {"criterion_idx": 2, "is_condition_met": True},
                {"criterion_idx": 1, "is_condition_met": False},
            ]
        }
    )
    answers = {"conditions": settled, "rescore": scored("post_image_earned_points", 4, 0, 2)}
    verdict, asked, _ = await judge(answers, run(meta={"rubric": {"items": items}}))
    assert "conditions" in asked
    assert (verdict.details["max"], verdict.details["earned"]) == (6, 6)


async def test_a_side_effect_that_nobody_asked_for_costs_points() -> None:
    penalty = {"criterion": "a second mug in the basket", "max_points": 3, "post_image_earned_points": 0}
    text = json.dumps({"requires_penalty": True, "penalty_criteria": [penalty]})
    verdict, _, _ = await judge({"side_effects": text})
    details: Any = verdict.details
    assert (details["earned"], details["max"], verdict.success) == (8, 11, False)
    assert details["criteria"][-1]["penalty"] is True


async def test_three_votes_two_to_one() -> None:
    no = '{"output_success": false, "reasoning": "the price is old"}'
    verdict, asked, _ = await judge({"outcome/1": no, "outcome/2": GOOD["outcome/0"]}, protocol="outcome", votes=3)
    assert (verdict.success, verdict.details["outcome_votes"]) == (True, [True, False, True])
    assert [key for key in asked if key.startswith("outcome")] == ["outcome/0", "outcome/1", "outcome/2"]
    verdict, asked, _ = await judge({"outcome/1": no, "outcome/2": "hm"}, protocol="outcome", votes=3)
    assert (verdict.success, verdict.unjudged, verdict.details["upstream_label"]) == (None, "no_verdict", 0)
    assert asked[-1] == "outcome/2", "nothing may be asked behind the vote that failed"
    verdict, asked, _ = await judge({"outcome/1": GOOD["outcome/0"], "outcome/2": "hm"}, protocol="outcome", votes=3)
    assert (verdict.success, verdict.details["outcome_votes"], asked[-1]) == (True, [True, True], "diagnosis")
    assert majority([True, True], 3) is True and majority([False], 3) is None and majority([], 1) is None


@pytest.mark.parametrize("stage", ["relevance/1", "rescore", "outcome/0"])
async def test_what_could_not_be_judged_is_taken_up_at_the_question_that_failed(stage: str) -> None:
    verdict, _, calls = await judge({stage: "hm"}, protocol="both")
    assert verdict.success is None
    model = Keyed(GOOD)
    stored = verdict.model_copy(update={"trajectory_id": run().id})
    kept = answers_kept(calls, {run().id: 1}, [stored])
    again = await build(
        JudgeConfig(protocol="rmsweb/rubric-both"),
        model,
        PNG,
        replies=kept,
        rounds=asked_in_vain(calls, kept, {run().id: 1}),
    )(run())
    assert again.success is True and model.asked[0] == stage
    assert "baseline" not in model.asked


class Slow(Keyed):
    """Answers the first picture last; counts the questions under way, and has no reply to some."""

    def __init__(self, answers: Mapping[str, Any], down: frozenset[str] = frozenset()) -> None:
        super().__init__(answers)
        self.down, self.now, self.most = down, 0, 0

    async def complete(self, messages: list[Message], **sampling: Any) -> list[Reply]:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            key = key_of(messages)
            if "/" in key:
                await asyncio.sleep(0.1 * (6, 3, 1)[int(key[-1])])
            if key in self.down:
                raise EndpointError("down", "network")
            return await super().complete(messages, **sampling)
        finally:
            self.now -= 1


async def over_http(model: Slow, concurrency: int, **more: Any) -> tuple[Verdict, list[Call]]:
    calls: list[Call] = []
    with ScriptServer(model) as server:
        at = {"base_url": server.base_url, "name": "script", "attempts": 1, "concurrency": concurrency}
        settings = JudgeConfig.model_validate({"protocol": "rmsweb/rubric-both", "model": at})
        endpoint = EndpointModel(settings.model, PNG)
        verdict = await build(settings, endpoint, PNG, store=calls.append, **more)(run())
        await endpoint.close()
    return verdict, calls


@pytest.mark.parametrize("concurrency", [1, 2, 3])
async def test_pictures_are_asked_about_together_and_the_verdict_is_the_same(concurrency: int) -> None:
    alone, _, _ = await judge({}, protocol="both")
    model = Slow(GOOD)
    verdict, calls = await over_http(model, concurrency)
    assert verdict == alone and model.most == concurrency
    keys = [call.key for call in calls]
    assert sorted(keys) == sorted(key for key in GOOD if key not in ("rubric", "rubric_check"))
    if concurrency == 3:
        assert keys[2:5] == ["relevance/2", "relevance/1", "relevance/0"], "stored as they come: a kill loses none"
    again = await build(
        JudgeConfig(protocol="rmsweb/rubric-both"), None, PNG, replies=reversed(calls), model_name="script"
    )(run())
    assert again == verdict, "the order of stored replies says nothing"


@pytest.mark.parametrize("key", ["relevance/1", "evidence/2"])
async def test_one_question_of_several_that_is_not_answered_is_an_outage_and_the_others_are_stored(key: str) -> None:
    verdict, calls = await over_http(Slow(GOOD, frozenset({key})), 3)
    assert (verdict.success, verdict.unjudged) == (None, "infra") and verdict.reason.startswith(f"{key}:")
    kind = key.partition("/")[0]
    assert {call.key for call in calls if call.key.startswith(kind)} == {f"{kind}/{k}" for k in range(3)} - {key}
    model = Slow(GOOD)
    again, _ = await over_http(model, 3, replies=calls)
    assert again.success is True and model.asked[0] == key
    assert not {one.key for one in calls} & set(model.asked), "what was answered is not asked again"


async def test_one_question_of_several_that_cannot_be_read_is_named_and_taken_up() -> None:
    verdict, calls = await over_http(Slow({**GOOD, "relevance/2": "hm"}), 3)
    assert (verdict.unjudged, verdict.details["failed"]) == ("no_verdict", ["relevance/2"])
    assert calls[-1].key == "relevance/0", "the slowest is stored last"
    stored = verdict.model_copy(update={"trajectory_id": run().id})
    model = Slow(GOOD)
    kept = answers_kept(calls, {run().id: 1}, [stored])
    again, asked = await over_http(model, 3, replies=kept, rounds=asked_in_vain(calls, kept, {run().id: 1}))
    assert {call.sampling["temperature"] for call in asked} == {0.0, 0.7}, "only what was asked in vain is asked warmer"
    assert again.success is True and model.asked[0] == "relevance/2" and "relevance/0" not in model.asked
    both, _ = await over_http(Slow({**GOOD, "relevance/2": "hm"}, frozenset({"relevance/0"})), 3)
    assert both.unjudged == "infra", "an outage weighs more: another draw would change what was never asked"


async def test_nothing_is_begun_behind_a_question_that_failed() -> None:
    model = Slow({**GOOD, "relevance/0": "hm"})
    verdict, _ = await over_http(model, 1)
    assert verdict.unjudged == "no_verdict" and model.asked[-1] == "relevance/0" and "relevance/1" not in model.asked


async def test_process_forgives_a_blocker_and_outcome_does_not() -> None:
    no = '{"output_success": false, "reasoning": "robot check"}'
    first = '{"validity": "valid", "first_failure": {"step": 2, "family": "execution", "reason": "gave up"}}'
    answers = {"outcome/0": no, "diagnosis": first}
    found = {protocol: (await judge(answers, protocol=protocol))[0] for protocol in ("process", "outcome", "both")}
    assert {name: verdict.success for name, verdict in found.items()} == {
        "process": True, "outcome": False, "both": False,
    }  # fmt: skip
    assert (found["process"].first_error, found["outcome"].first_error) == (None, 1)
    assert found["both"].details["first_failure"] == {"step": 1, "code": "execution", "reason": "gave up"}
    assert all(verdict.details["process_score"] == 1.0 for verdict in found.values())


SCORING = [key for key in STAGES if key not in ("critical_point", "crossed", "diagnosis", "outcome/0")]
ODD = {
    "empty": ("", "no_verdict"),
    "prose": ("I cannot tell from these pictures.", "no_verdict"),
    "refusal": (Reply("I'm sorry, I can't help with that.", finish="refused"), "refused"),
    "refusal in words": ("I'm sorry, but I can't assist with that.", "refused"),
    "cut": (Reply('{"items": [{"criterion_idx": 0, "earned', finish="length"), "truncated"),
    "null": ("null", "no_verdict"),
    "other": ('{"verdict": "SUCCESS"}', "no_verdict"),
}


@pytest.mark.parametrize("stage", SCORING)
@pytest.mark.parametrize("odd", ODD)
async def test_an_odd_reply_at_any_scoring_stage_is_asked_again_and_never_becomes_a_score(stage: str, odd: str) -> None:
    reply, kind = ODD[odd]
    trajectory = run(meta={}) if stage.startswith("rubric") else run()
    verdict, asked, _ = await judge({stage: reply}, trajectory)
    assert (verdict.success, verdict.unjudged) == (None, kind)
    assert asked.count(stage) == 3 and asked[-1] == stage
    assert verdict.reason.startswith(f"{stage}:") and "process_score" not in verdict.details
    verdict, asked, _ = await judge({stage: [reply, GOOD[stage]]}, trajectory)
    assert verdict.success is True and asked.count(stage) == 2


@pytest.mark.parametrize("odd", ODD)
async def test_an_odd_outcome_leaves_the_process_score_as_it_is(odd: str) -> None:
    reply, kind = ODD[odd]
    verdict, _, _ = await judge({"outcome/0": reply}, protocol="process")
    assert (verdict.success, verdict.details["outcome"]) == (True, None)
    verdict, _, _ = await judge({"outcome/0": reply}, protocol="both")
    assert (verdict.success, verdict.unjudged, verdict.details["process_score"]) == (None, kind, 1.0)
    failed = {"outcome/0": reply, "rescore": scored("post_image_earned_points", 0, 0, 0)}
    assert (await judge(failed, protocol="both"))[0].success is False


@pytest.mark.parametrize("stage", ["critical_point", "crossed", "diagnosis"])
async def test_what_changes_no_score_may_stay_unread_and_is_named(stage: str) -> None:
    verdict, _, _ = await judge({stage: "hm"})
    details: Any = verdict.details
    assert verdict.success is True and list(details["unread"]) == [stage]


async def test_points_beyond_the_largest_are_refused_not_clipped() -> None:
    verdict, _, _ = await judge({"rescore": scored("post_image_earned_points", 5, 4, 0)})
    assert (verdict.success, verdict.unjudged) == (None, "no_verdict")
    assert "5 of 4" in verdict.reason


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"stop": Stop.STEP_LIMIT}, "over_budget"),
        ({"steps": ()}, "no_actions"),
        ({"steps": run().steps[:2], "stop": Stop.NO_PROGRESS}, "not_ended"),
    ],
)
async def test_some_attempts_are_scored_zero_without_a_call(changes: dict[str, Any], rule: str) -> None:
    verdict, asked, _ = await judge({}, run(**changes))
    details: Any = verdict.details
    assert (verdict.success, details["rule"], details["process_score"], details["asked"]) == (False, rule, 0.0, False)
    assert asked == [] and details["outcome"] is False


def shots_lost(*lost: int) -> Trajectory:
    steps = [
        step.model_copy(update={"before": step.before.model_copy(update={"image": ""})}) if step.index in lost else step
        for step in run().steps
    ]
    return run(steps=tuple(steps))


async def test_screenshots_short_by_two_are_a_zero_and_by_one_missing_evidence() -> None:
    verdict, asked, _ = await judge({}, shots_lost(0, 1))
    assert (verdict.success, verdict.details["rule"], asked) == (False, "unaligned", [])
    verdict, asked, _ = await judge({}, shots_lost(1))
    assert (verdict.success, verdict.unjudged, asked) == (None, "missing_evidence", [])
    steps = run().steps
    absent = steps[1].model_copy(update={"before": Observation(image="f" * 64, url="u")})
    verdict, _, _ = await judge({}, run(steps=(steps[0], absent, steps[2])))
    assert (verdict.success, verdict.unjudged) == (None, "missing_evidence")


async def test_attempts_that_the_machine_broke_have_no_score() -> None:
    for trajectory in (
        run(stop=Stop.BROWSER_ERROR),
        run(stop=Stop.MODEL_ERROR),
        run(stop=Stop.BUDGET),
    ):
        verdict, asked, _ = await judge({}, trajectory)
        assert (verdict.success, verdict.unjudged, asked) == (None, "infra", [])


def test_a_run_that_its_suite_ended_is_judged_with_the_page_behind_the_last_action() -> None:
    from rmsweb.bench.judges.rubric_stages import Case

    done = run(steps=run().steps[:2], stop=Stop.DONE)
    assert zero_rule(done) is None
    assert Case.of(done, None).shots == [(0, ONE), (1, TWO), (2, TWO)]
    assert Case.of(run(), None).shots == [(0, ONE), (1, TWO), (2, THREE)]


async def test_a_picture_budget_is_kept_and_the_gap_is_named_in_every_question_about_pictures() -> None:
    model = Keyed({**GOOD, "evidence/0": seen([0, 1, 2]), "evidence/2": seen([0, 1])})
    settings = JudgeConfig(protocol="rmsweb/rubric-process", images=2)
    verdict = await build(settings, model, PNG)(run())
    assert verdict.details["pictures"] == [0, 2]
    assert "relevance/1" not in model.asked and ":images=2" in verdict.judge
    about = [
        "".join(part.get("text", "") for part in messages[0]["content"])
        for messages, key in zip(model.calls, model.asked, strict=True)
        if key.startswith(("relevance", "evidence", "rescore", "outcome"))
    ]
    assert about and all("Not looked at, for lack of room: 2." in words for words in about)


def test_an_even_number_of_votes_is_refused() -> None:
    with pytest.raises(ConfigError, match="odd number"):
        build(JudgeConfig(protocol="rmsweb/rubric-outcome", votes=2), None, PNG)


def pack(folder: Path, **changes: str) -> Path:
    """A made-up checkout: the constants' names are upstream's, their texts are not."""
    texts = {
        "new": "NEW $task_id", "check": "CHECK $rubric", "baseline": "BASE $rubric $predicted_target",
        "relevance": "how much this picture helps $rubric_criteria", "evidence": "LOOK $criteria_info_block",
        "conditions": "COND $num_conditional", "reality": "REAL $criteria_with_evidence",
        "rescore": "AGAIN $num_criteria",
        "penalties": "SIDE $scored_rubric_summary", "outcome": "OUT $rubric_summary $cp_decision_rules",
        "crossed": "CROSSED $cp_decision_rules", "user_rubric": "U", "user_outcome": "U", "rules_none": "RN",
        "rules_permitted": "RP", "rules_not_permitted": "RF",
    } | changes  # fmt: skip
    path = folder / Process.PACK.file
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{Process.PACK.texts[key]} = {text!r}" for key, text in texts.items() if text]
    path.write_text("\n".join(lines), encoding="utf-8")
    return folder


def test_exact_wording_is_refused_and_says_what_is_missing(tmp_path: Path) -> None:
    from dataclasses import replace

    from rmsweb.bench.judges.asking import Asker, Pictures
    from rmsweb.bench.judges.packs import load

    with pytest.raises(ConfigError, match=r"set judge\.pack"):
        build(JudgeConfig(protocol="rubric/process"), None, PNG)
    with pytest.raises(ConfigError, match="sha256"):
        build(JudgeConfig(protocol="rubric/process", pack=str(pack(tmp_path))), None, PNG)
    known = replace(load(Process.PACK, tmp_path, changed=True), prefix="")  # As if the file were the known one.
    asker = Asker(None, Pictures(PNG))
    with pytest.raises(ConfigError, match=r"critical_point_types\.yaml"):
        Process(asker, known, JudgeConfig(protocol="rubric/process"))
    judged = Process(asker, known, JudgeConfig(protocol="rubric/process", changed_pack=True))
    assert judged.name.startswith("changed-") and "/rubric-process:" in judged.name


async def test_a_packs_stage_texts_fill_our_layout_under_a_changed_name(tmp_path: Path) -> None:
    settings = JudgeConfig(protocol="rubric/both", pack=str(pack(tmp_path)), changed_pack=True)
    asked: list[str] = []

    def say(messages: list[Message]) -> str:
        words = "".join(part.get("text", "") for part in messages[0]["content"])
        asked.append(words)
        starts = {
            "BASE": "baseline", "REAL": "reality", "AGAIN": "rescore", "SIDE": "side_effects",
            "OUT": "outcome/0", "CROSSED": "crossed",
        }  # fmt: skip
        if any(part["type"] == "image" for part in messages[0]["content"]) and "LOOK" in words:
            return seen([i for i in range(3) if f"Criterion {i}:" in words])
        own = next((key for start, key in starts.items() if words.startswith(start)), None)
        return str(GOOD[own or key_of(messages)])

    verdict = await build(settings, ScriptModel(say), PNG)(run())
    assert verdict.success is True and verdict.judge.startswith("changed-")
    assert any(words.startswith("OUT ") and words.endswith("RN") for words in asked)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"outcome": "OUT $colour"}, "colour"),
        ({"rescore": "costs 5 $ or so"}, "lone"),
        ({"reality": ""}, "RUBRIC_REALITY_CHECK_PROMPT"),
    ],
)
def test_a_pack_whose_texts_do_not_fit_is_refused(tmp_path: Path, changes: dict[str, str], says: str) -> None:
    settings = JudgeConfig(protocol="rubric/both", pack=str(pack(tmp_path, **changes)), changed_pack=True)
    with pytest.raises(ConfigError, match=says):
        build(settings, None, PNG)


def endpoint(server: ScriptServer) -> EndpointModel:
    return EndpointModel(ModelConfig(kind="endpoint", base_url=server.base_url, name="judge", attempts=1), PNG)


async def test_over_a_real_endpoint_too_long_a_prompt_and_an_outage_are_different_reasons() -> None:
    overflow = Odd(status=400, body='{"error": {"message": "maximum context length is 8192 tokens"}}')
    for odd, kind in ((overflow, "overflow"), (Odd(status=500), "infra")):
        with ScriptServer([GOOD["critical_point"], GOOD["baseline"], odd]) as server:
            model = endpoint(server)
            verdict = await build(JudgeConfig(protocol="rmsweb/rubric-both"), model, PNG)(run())
            await model.close()
        assert (verdict.success, verdict.unjudged) == (None, kind)
        assert verdict.reason.startswith("relevance/0:")


async def test_an_outage_at_the_first_question_ends_the_judging() -> None:
    with ScriptServer([Odd(status=500), GOOD["baseline"]]) as server:
        model = endpoint(server)
        verdict = await build(JudgeConfig(protocol="rmsweb/rubric-both"), model, PNG)(run())
        await model.close()
    assert verdict.unjudged == "infra" and verdict.reason.startswith("critical_point:")


async def test_over_a_real_endpoint_the_whole_pipeline_runs() -> None:
    model = Keyed(GOOD)
    with ScriptServer(model, images=dict(PNG)) as server:
        client = endpoint(server)
        verdict = await build(JudgeConfig(protocol="rmsweb/rubric-both"), client, PNG)(run())
        await client.close()
        pictures = [request.pictures for request in server.requests]
    assert (verdict.success, verdict.details["process_score"]) == (True, 1.0)
    assert max(pictures) == 1 and sum(pictures) == 6


async def test_a_real_verifier_run_replayed_through_our_stages_gives_its_pictures_and_its_score() -> None:
    path = SCORE / "mmrubric_0.8-5-3.json"
    if not path.exists():
        pytest.skip("../shared/data is absent: this test reads a real score file")
    body = json.loads(json.loads(path.read_text(encoding="utf-8"))["gpt_response_text"])
    steps, items = body["rubric_intermediate_mm_rubric_steps"], body["rubric_items"]
    evidence = steps["step4_evidence_by_criterion"]
    looked_at = {index: [one["screenshot_idx"] for one in found] for index, found in evidence.items()}
    answers: dict[str, Any] = {
        "baseline": json.dumps({"items": items}),
        "reality": json.dumps(
            {"reality_checks": [{"criterion_idx": i, "reality_notes": n["reality_notes"]} for i, n in enumerate(items)]}
        ),
        "rescore": json.dumps({"items": [{"criterion_idx": i, **n} for i, n in enumerate(items)]}),
        "side_effects": json.dumps({"requires_penalty": steps["step7_requires_penalty"], "penalty_criteria": []}),
        "outcome/0": json.dumps(steps["step8_outcome_verification"]),
    }
    for number in range(steps["step1_num_screenshots"]):
        answers[f"relevance/{number}"] = json.dumps(steps["step2_relevance_scores"][f"screenshot_{number}"])
        shown = [
            {"criterion_idx": int(index), **one}
            for index, found in evidence.items()
            for one in found
            if one["screenshot_idx"] == number
        ]
        answers[f"evidence/{number}"] = json.dumps({"analyses": shown})
    last = run().steps[2]
    fourth = last.model_copy(update={"index": 3, "before": Observation(image=FOUR, url="u")})
    third = last.model_copy(update={"decision": Decision(action=LeftClick(point=Point(x=2, y=2)))})
    trajectory = run(meta={"precomputed_rubric": {"items": items}}, steps=(*run().steps[:2], third, fourth))
    verdict, asked, _ = await judge(answers, trajectory, protocol="both")
    assert verdict.details["pictures_by_criterion"] == looked_at == {"0": [3, 2, 1], "1": [3, 2, 1]}
    assert "evidence/0" not in asked
    assert (verdict.success, verdict.details["earned"], verdict.details["max"]) == (True, 10, 10)
