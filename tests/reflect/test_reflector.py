"""The chat reflector: what its prompt may say, how replies are read, what is refused."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from small_stall import element, observation, step, trajectory

import rmsweb
from rmsweb.actions import Answer, LeftClick, Point
from rmsweb.config import CollectConfig
from rmsweb.records import Outcome, Reflection, Stop, Trajectory, Verdict
from rmsweb.reflect.reflector import CODES, ChatReflector, RuleReflector, attempt_log, key_steps, reflection_messages
from rmsweb.testing import ScriptModel

HOME = observation(element("link", "kite"), element("link", "about"), url="http://h/s/1/", title="stall")
KITE = observation(element("text", "coral kite"), element("text", "$31", 6), url="http://h/s/1/kite", title="kite")
CLICK = LeftClick(point=Point(x=10, y=10))
ATTEMPT = trajectory(
    "price of olive kite ?",
    step(0, HOME, CLICK, KITE, "kite", thought="The kite page may have it."),
    step(1, KITE, Answer(text="31"), KITE, "coral kite"),
    answer="31",
)
REPLY = {
    "first_bad_step": 1, "code": "premature_stop.early_answer", "evidence": [1, 99, "x"],
    "cause": "It answered beside another kite.", "lesson": "Read the row of the kite asked for.",
    "plan": ["Open the list.", "Look for olive."],
}  # fmt: skip


async def reflect(*replies: Any, verdict: Verdict | None = None, chars: int = 800, **options: Any) -> Reflection:
    model = ScriptModel([r if isinstance(r, str) else json.dumps(r) for r in replies], repeat=True)
    writer = ChatReflector(model, options.get("images", {}), CollectConfig(reflection_chars=chars))
    return await writer(ATTEMPT.task, ATTEMPT, verdict or Verdict(success=False, judge="rules:stall"))


def prompt(done: Trajectory, verdict: Verdict, earlier: list[Reflection], images: dict[str, bytes]) -> str:
    parts = [p for m in reflection_messages(done.task, done, verdict, earlier, images) for p in m["content"]]
    return json.dumps(parts)


async def test_a_reply_becomes_a_reflection() -> None:
    made = await reflect("Here it is:\n```json\n" + json.dumps(REPLY) + "\n```")
    assert (made.outcome, made.first_bad_step, made.code) == (Outcome.FAILURE, 1, "premature_stop.early_answer")
    assert made.evidence == (1,) and made.plan == "Open the list. Look for olive." and made.author == "script"
    assert made.trajectory_id == ATTEMPT.id and made.hints == {}


async def test_nearly_json_is_read_and_nonsense_costs_only_the_guidance() -> None:
    made = await reflect("{'lesson': 'Look at the row', 'code': 'no such code', 'first_bad_step': 7,}")
    assert (made.lesson, made.code, made.first_bad_step) == ("Look at the row", "unknown.unknown", None)
    none = await reflect("I would rather not.")
    assert none.lesson == none.plan == "" and "no JSON" in none.cause
    assert (await reflect("no", REPLY)).lesson == REPLY["lesson"]


async def test_length_is_capped() -> None:
    made = await reflect({**REPLY, "cause": "word " * 400, "plan": "word " * 400}, chars=200)
    assert len(made.cause + made.lesson + made.plan) <= 200 and made.lesson == REPLY["lesson"]


async def test_what_only_the_judge_knows_stays_out() -> None:
    verdict = Verdict(success=False, judge="rules:stall", reason="expected PLUM, got 31; price 7712")
    assert "PLUM" not in prompt(ATTEMPT, verdict, [], {})
    for leak in ("The answer is plum.", "It costs 7712."):
        made = await reflect({**REPLY, "lesson": leak}, verdict=verdict)
        assert made.lesson == "" and "only the judge knows" in made.cause
        assert "plum" not in made.model_dump_json().lower() and "7712" not in made.model_dump_json()
    assert (await reflect({**REPLY, "lesson": "It said 31 too early."}, verdict=verdict)).lesson


def test_prompt_shows_goal_log_end_pictures_and_earlier_lessons() -> None:
    earlier = [Reflection(trajectory_id="x", outcome=Outcome.FAILURE, lesson="Mind the hue.")]
    images = {HOME.image: b"", KITE.image: b""}
    text = prompt(ATTEMPT, Verdict(success=False, judge="chat:m", reason="wrong row"), earlier, images)
    for wanted in (
        "price of olive kite",
        "The kite page may have it.",
        "Mind the hue.",
        "answered",
        "wrong row",
        CODES[0],
    ):
        assert wanted in text
    assert text.count('"image": "') == 2 and "before step 0, before step 1" in text
    assert "none" in prompt(ATTEMPT, Verdict(success=False, judge="x"), [], {})


def test_success_is_said_to_be_too_long() -> None:
    assert "more steps than it should" in prompt(ATTEMPT, Verdict(success=True, judge="x"), [], {})


def test_key_steps_are_near_the_first_bad_one() -> None:
    long = trajectory("order kite", *(step(i, HOME, CLICK, HOME, f"l{i}") for i in range(9)), stop=Stop.STEP_LIMIT)
    assert key_steps(long, Verdict(success=False, judge="x", first_error=3)) == [2, 3, 4, 8]
    assert key_steps(trajectory("order kite"), Verdict(success=False, judge="x")) == []


def test_long_logs_lose_their_middle() -> None:
    log = attempt_log([step(i, HOME, CLICK, HOME, f"l{i}") for i in range(60)])
    assert "20 steps left out" in log and log.startswith("0.") and "\n59." in log and log.count("\n") == 40


def test_codes_are_the_taxonomy_s() -> None:
    path = Path(rmsweb.__file__).parent / "mine" / "taxonomy.toml"
    groups = {k: v for k, v in tomllib.loads(path.read_text()).items() if isinstance(v, dict)}
    modes = {f"{group}.{mode}" for group, table in groups.items() for mode in table["modes"]}
    assert set(CODES) <= modes
    source = "".join((Path(rmsweb.__file__).parent / "reflect" / n).read_text() for n in ("rules.py",))
    used = {mode for mode in modes if f'"{mode}"' in source}
    assert len(used) >= 10


@pytest.mark.parametrize("writer", [RuleReflector(6, 300)])
async def test_both_writers_fit_the_seam(writer: RuleReflector) -> None:
    made = await writer(ATTEMPT.task, ATTEMPT, Verdict(success=False, judge="x"), ())
    assert made.author == writer.name == "rules" and made.lesson
