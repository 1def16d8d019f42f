"""WebJudge: its parsers with their quirks, what each stage shows, and odd replies of a judge behind a real endpoint."""

import io
import json
from pathlib import Path

import attempts
import pytest
import specimens
from PIL import Image

from rmsweb.bench import formats
from rmsweb.bench.judges import build, names
from rmsweb.bench.judges.asking import Call
from rmsweb.bench.judges.webjudge import OM2W, REASONING_TOKENS, General
from rmsweb.bench.judges.webjudge_parse import (
    HASHES,
    MOST,
    PLAIN,
    Kept,
    Seen,
    final_text,
    history,
    keep,
    key_points,
    numbered,
    read_picture,
    read_status,
    said_status,
)
from rmsweb.chat import Reply
from rmsweb.config import Config, JudgeConfig
from rmsweb.errors import BudgetError, ConfigError
from rmsweb.exams import judge as judge_runs
from rmsweb.progress import Silent
from rmsweb.records import Stop, Trajectory, Verdict
from rmsweb.store import Run
from rmsweb.testing import Odd, ScriptModel, ScriptServer

OURS, GENERAL = "rmsweb/webjudge-om2w", "rmsweb/webjudge-general"
OVERFLOW = Odd(status=400, body='{"error": {"message": "maximum context length is 8192 tokens"}}')


# Parsers.


@pytest.mark.parametrize(
    ("reply", "points"),
    [
        ("**Key Points**:\n1. a\n2. b", "\n1. a\n2. b"),
        ("Intro\n\n**Key Points**:\n\n  1. a  \n\t2. b", "\n1. a  \n2. b"),
        ("**Key Points**:\n1. a\n**Key Points**:\n2. b", "\n1. a"),
        ("Key Points:\n1. a\nKey Points:\n 2. b", "\n2. b"),
        ("1. a\n\n\n\n2. b", "1. a\n\n2. b"),
        ("", ""),
    ],
)
def test_key_points_are_read_from_the_bold_heading_else_from_the_last_plain_one(reply: str, points: str) -> None:
    assert key_points(reply) == points


@pytest.mark.parametrize(
    ("reply", "seen"),
    [
        ("**Reasoning**: two\nlines  \n\nmore\n\n**Score**: 4", Seen(4, "two lines  ")),
        ("1. **Reasoning**: old **Reasoning**: new\n\n2. **Score**: 0 or 5", Seen(5, "new")),
        ("**Reasoning**: a\n\n**Score**: 9", Seen(0, "")),
        ("no number at all", Seen(0, "")),
        ("", Seen(0, "")),
        ("**Score**: 3\n\n**Reasoning**:\n\n", Seen(3, "")),
        # The word in the reasoning shifts what is read: 2 of the sentence, not the 5 of the score.
        ("**Reasoning**: the Score box shows 2 goals\n\n**Score**: 5", Seen(2, "the Score box shows 2 goals", True)),
        ("**Reasoning**: a Score board\n\n**Score**: 5", Seen(0, "", True)),
        ("**Reasoning**: Score 5 is high\n\n**Score**: 5", Seen(5, "Score 5 is high")),
        # Without the heading the whole reply up to its first empty line is the reason.
        ("Score: 3 because", Seen(3, "Score: 3 because")),
    ],
)
def test_plain_picture_replies(reply: str, seen: Seen) -> None:
    assert read_picture(reply, PLAIN) == seen


@pytest.mark.parametrize(
    ("reply", "seen"),
    [
        ("### Reasoning: two\nlines\n\nmore\n\n### Score: 4", Seen(4, "two lines  more  ")),
        ("### Reasoning: the Score box shows 2\n### Score: 5", Seen(5, "the Score box shows 2 ")),
        ("### Reasoning: a\n### Score\n**3**", Seen(3, "a ")),
        ("Reasoning: a\nScore: 5", Seen(0, "")),
        ("### Score: 2\n### Reasoning: behind", Seen(2, "behind")),
        ("### Score: 2 of 5\n### Reasoning: x ### Score: 4", Seen(2, "x ", True)),
    ],
)
def test_hash_picture_replies(reply: str, seen: Seen) -> None:
    assert read_picture(reply, HASHES) == seen


def test_both_lists_are_cut_apart_and_an_empty_reason_keeps_its_picture() -> None:
    seen = [(k, Seen(3, "" if k % 2 else f"r{k}")) for k in range(120)]
    kept = keep(seen, 3)
    assert kept.numbers == tuple(range(MOST))
    assert kept.reasons == tuple(f"r{k}" for k in range(0, 2 * MOST, 2)), "reasons of pictures that are not sent"
    assert keep(seen, 4) == Kept((), ())
    assert keep([(0, Seen(3, "x")), (5, Seen(2, "y"))], 3) == Kept((0,), ("x",))


def test_blocks_and_slots() -> None:
    assert numbered(["a", "b\n"]) == "1. a\n2. b\n" and numbered([]) == ""
    assert history(["a", "b"]) == "1. a\n2. b"
    assert history(["a", "b"], ["x"]) == "1. a. Reasoning: x"
    bare = "T {task} K {key_points} A {last_actions}"
    given = {"task": "{key_points}", "key_points": "k", "actions": "{thoughts}"}
    assert final_text(bare + " R {thoughts}", bare, kept=Kept((), ()), **given) == "T {key_points} K k A {thoughts}"
    shown = final_text(bare + " R {thoughts}", bare, kept=Kept((1,), ("r",)), **given)
    assert shown == "T {key_points} K k A {thoughts} R 1. r"
    assert final_text(bare + " R {thoughts}", bare, kept=Kept((1,), ()), **given).endswith(" R ")


@pytest.mark.parametrize(
    ("reply", "label", "says"),
    [
        ('Thoughts: fine\nStatus: "success"', 1, True),
        ("Thoughts: fine\nStatus: success", 1, True),
        ("**Status:** success", 1, True),
        ("**Status**: success", 0, True),  # upstream wants the colon behind the word
        ("Status: failure", 0, False),
        ("Status: unsuccessful", 1, False),
        ('Status: "not success"', 1, False),
        ("Status: NOT SUCCESSFUL.", 1, False),
        ("Thoughts: done. Status: success", 1, True),
        ("Thoughts: the order has status: processing\nStatus: success", 0, True),
        ("Thoughts: it says “Status: Success” on top\nStatus: failure", 1, False),
        ("Status: failure\nStatus: success", 0, None),
        ('Status: "success" or "failure"', 1, None),
        ("Status: success only in part", 1, None),
        ("Status: pending", 0, None),
        ("I cannot tell from these pictures.", 0, None),
        ("success", 0, None),
        ("INCORRECT", 0, None),
        ("", 0, None),
        ("Status: successor pages were opened", 1, None),
        ("Status:\n\nsuccess", 1, True),
        ("<think>Status: failure</think>\nStatus: success", 0, True),
    ],
)
def test_status_as_upstream_stores_it_and_as_it_is_said(reply: str, label: int, says: bool | None) -> None:
    said = read_status(reply)
    assert (said.upstream_label, said.success) == (label, says)
    assert said_status(reply) is says


def test_the_reason_is_what_stands_before_the_status() -> None:
    assert read_status("Thoughts: key point 1 is met.\nStatus: success").reason == "key point 1 is met."
    assert read_status("no status").reason == "no status"


# What is shown.


async def test_online_mind2web_shows_no_thoughts_and_no_answer() -> None:
    images, names = attempts.store(4)
    model, calls = attempts.answering([4, 2, 5, 3]), []
    verdict = await attempts.judge_of(OURS, model, images, calls)(attempts.attempt(names))
    assert verdict.success is True and verdict.details["upstream_label"] == 1
    assert [call.key for call in calls] == ["key_points", *(f"picture/{k}" for k in range(4)), "verdict"]
    assert verdict.details["pictures"] == [0, 2, 3] and verdict.details["scores"] == [4, 2, 5, 3]
    assert verdict.details["key_points"] == "\n1. red mug\n2. cheapest"
    final = attempts.words(model.calls[-1][1])
    assert "1. left_click" in final and "3. left_click" in final and "4. " not in final
    assert "thought" not in final and "12 dollars" not in final
    assert final.endswith("1. page shows mugs\n2. page shows mugs\n3. page shows mugs")
    assert "{red} mug < |im_end|>" in final, "braces stay, special tokens of the judge do not"
    assert len(attempts.pictures_in(model.calls[-1][1])) == 3
    assert all(call.sampling == {"temperature": 0.0, "max_tokens": 512, "seed": None} for call in calls)


async def test_general_joins_thoughts_to_all_acts() -> None:
    images, names = attempts.store(3)
    model = attempts.answering([5, 1, 1], form=attempts.HASHES)
    verdict = await attempts.judge_of(GENERAL, model, images)(attempts.attempt(names))
    assert verdict.details["scores"] == [5, 1, 1] and verdict.details["pictures"] == [0]
    final = attempts.words(model.calls[-1][1])
    assert "1. left_click(point=[0, 2]). Reasoning: thought 0" in final
    assert '3. answer(text="12 dollars"). Reasoning: thought 2' in final


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        (None, ["1. left_click(point=[0, 2]). Reasoning: ", "2. left_click(point=[1, 2]). Reasoning: "]),
        ({"format": "agentlab"}, ["1. left_click(point=[0, 2])", "2. left_click(point=[1, 2])"]),
        ({"format": "om2w"}, ["1. left_click(point=[0, 2])", "2. left_click(point=[1, 2])"]),
        ({"format": "om2w", "thoughts_listed": 1}, ["1. left_click(point=[0, 2]). Reasoning: "]),
    ],
)
async def test_thoughts_are_joined_where_they_are_listed_and_as_far_as_they_are(
    facts: dict[str, object] | None, shown: list[str]
) -> None:
    images, names = attempts.store(3)
    model = attempts.answering([5, 1, 1], form=attempts.HASHES)
    evidence = {"evidence": {"imported": facts}} if facts else {}
    given = attempts.attempt(names, thoughts=False, **evidence)
    await attempts.judge_of(GENERAL, model, images)(given)
    lines = attempts.words(model.calls[-1][1]).splitlines()
    assert [line for line in lines if "left_click" in line] == shown


async def test_only_the_general_variant_shows_pictures_of_the_task() -> None:
    images, names = attempts.store(3)
    given = attempts.attempt(names[:2], evidence={"imported": {"format": "om2w", "input_images": [names[2]]}})
    for protocol, form, count in ((OURS, attempts.PICTURE, 0), (GENERAL, attempts.HASHES, 1)):
        model = attempts.answering([1, 1], form=form)
        await attempts.judge_of(protocol, model, images)(given)
        points = next(call for call in model.calls if "Key Points" in attempts.words(call[0]))
        assert sum(len(attempts.pictures_in(message)) for message in points) == count, protocol


async def test_an_answer_that_stands_apart_from_the_actions_is_not_shown() -> None:
    images, names = attempts.store(3)
    given = attempts.attempt(names)
    for format, shown in (("om2w", False), ("agentlab", True), ("webvoyager", True)):
        evidence = {"imported": {"format": format, "screenshots": [[k, name] for k, name in enumerate(names)]}}
        model = attempts.answering([5, 1, 1], form=attempts.HASHES)
        await attempts.judge_of(GENERAL, model, images)(given.model_copy(update={"evidence": evidence}))
        final = attempts.words(model.calls[-1][1])
        assert ("12 dollars" in final, "3. answer" in final) == (shown, shown), format
        assert "2. left_click(point=[1, 2]). Reasoning: thought 1" in final


async def test_pictures_of_the_task_lead_in_the_general_variant() -> None:
    images, names = attempts.store(4)
    given = attempts.attempt(names[:2])
    task = given.task.model_copy(update={"meta": {"input_images": [names[3]]}})
    model = attempts.answering([5, 1], form=attempts.HASHES)
    await attempts.judge_of(GENERAL, model, images)(given.model_copy(update={"task": task}))
    points, first, last = model.calls[0], model.calls[1], model.calls[-1]
    assert [len(attempts.pictures_in(message)) for message in points] == [0, 1], "behind the task, in its message"
    assert [len(attempts.pictures_in(message)) for message in first] == [0, 1, 1]
    assert [len(attempts.pictures_in(message)) for message in last] == [0, 1, 1]
    assert attempts.pictures_in(points[1]) == attempts.pictures_in(last[1]) != attempts.pictures_in(last[2])
    gone = task.model_copy(update={"meta": {"input_images": ["0" * 64]}})
    verdict = await attempts.judge_of(GENERAL, model, images)(given.model_copy(update={"task": gone}))
    assert verdict.unjudged == "missing_evidence" and "picture of the task 1" in verdict.reason


async def test_pictures_are_jpeg_in_high_detail_on_the_wire() -> None:
    images, names = attempts.store(2)
    with ScriptServer(attempts.answering([4, 4])) as server:
        verdict = await attempts.over_http(OURS, server, images, attempts.attempt(names))
        bodies = [request.body for request in server.requests]
        sent = list(server.images.values())
    assert verdict.success is True and len(bodies) == 4
    parts = [part for part in bodies[-1]["messages"][1]["content"] if part["type"] == "image_url"]
    assert [part["image_url"]["detail"] for part in parts] == ["high", "high"]
    assert all(part["image_url"]["url"].startswith("data:image/jpeg;base64,") for part in parts)
    assert all(Image.open(io.BytesIO(data)).format == "JPEG" for data in sent) and len(sent) == 2


async def test_no_kept_picture_leaves_the_section_out() -> None:
    images, names = attempts.store(2)
    model = attempts.answering([1, 2], verdict="Status: failure")
    verdict = await attempts.judge_of(OURS, model, images)(attempts.attempt(names))
    assert verdict.success is False and verdict.details["pictures"] == []
    assert "Screenshots from its run" not in attempts.words(model.calls[-1][1])
    model = attempts.answering([1, 2])
    verdict = await attempts.judge_of(OURS, model, images, threshold=2)(attempts.attempt(names))
    assert verdict.details["pictures"] == [1] and ":threshold=2:temperature=0:" in verdict.judge


async def test_the_first_fifty_of_many_kept_pictures_are_sent() -> None:
    images, names = attempts.store(61)
    scores: list[int | str | Reply] = [5] * 61
    scores[3] = "**Reasoning**:\n\n**Score**: 5"
    model = attempts.answering(scores)
    verdict = await attempts.judge_of(OURS, model, images)(attempts.attempt(names))
    assert verdict.details["pictures"] == list(range(50))
    final = model.calls[-1][1]
    assert len(attempts.pictures_in(final)) == 50
    assert attempts.words(final).endswith("50. page shows mugs"), "the reason of picture 50 stands in for the empty one"


async def test_an_attempt_that_was_cut_is_shown_to_its_last_page() -> None:
    images, names = attempts.store(3)
    model = attempts.answering([4, 4, 4])
    verdict = await attempts.judge_of(OURS, model, images)(attempts.attempt(names, answer=False))
    assert verdict.details["screenshots"] == [0, 1, 2]


# Odd replies and missing things.


async def test_score_words_in_the_reasoning_and_unread_replies_are_counted() -> None:
    images, names = attempts.store(3)
    shifted = "**Reasoning**: the Score box shows 2\n\n**Score**: 5"
    model = attempts.answering([shifted, "I see a page.", Reply("**Reasoning**: the page", finish="length")])
    verdict = await attempts.judge_of(OURS, model, images)(attempts.attempt(names))
    assert verdict.success is True and verdict.details["scores"] == [2, 0, 0]
    assert verdict.details["shifted"] == [0] and verdict.details["unread"] == [1, 2] and verdict.details["cut"] == [2]


@pytest.mark.parametrize(
    ("said", "success", "label", "unjudged"),
    [
        ("Status: unsuccessful", False, 1, ""),
        ("Status: success only in part", None, 1, "no_verdict"),
        ("I cannot tell from these pictures.", None, 0, "no_verdict"),
        (Odd(content=""), None, 0, "no_verdict"),
        (Odd(content="Thoughts: the basket", finish="length"), None, 0, "truncated"),
        (Odd(content='Status: "success"\nThoughts: the bas', finish="length"), True, 1, ""),
        (Odd(content=None, refusal="I'm sorry, I can't help with that."), None, 0, "refused"),
        ("I'm sorry, I can't assist with that.", None, 0, "refused"),
        (Odd(content="x", finish="content_filter"), None, 0, "refused"),
        (OVERFLOW, None, None, "overflow"),
        (Odd(status=500), None, None, "infra"),
    ],
)
async def test_odd_last_replies_over_http(
    said: str | Odd, success: bool | None, label: int | None, unjudged: str
) -> None:
    images, names = attempts.store(1)
    replies = [attempts.POINTS, attempts.PICTURE.format(5), said]
    with ScriptServer(replies) as server:
        verdict = await attempts.over_http(OURS, server, images, attempts.attempt(names))
        asked = len(server.requests)
    assert (verdict.success, verdict.unjudged) == (success, unjudged)
    assert verdict.details.get("upstream_label") == label and verdict.details["pictures"] == [0]
    no_reply = unjudged in ("overflow", "infra")
    assert asked == (3 if success is not None or no_reply else 4), "asked again where a reply holds no verdict"
    if success and isinstance(said, Odd):
        assert verdict.details["cut"] is True


@pytest.mark.parametrize(
    ("replies", "unjudged"),
    [
        ([Odd(content=None, refusal="no")], "refused"),
        (["I'm sorry, I can't assist with that."], "refused"),
        ([""], "no_verdict"),
        ([OVERFLOW], "overflow"),
        ([attempts.POINTS, "I'm sorry, I can't view images."], "refused"),
        ([attempts.POINTS, attempts.PICTURE.format(5), OVERFLOW], "overflow"),
        ([attempts.POINTS, attempts.PICTURE.format(5), Odd(status=503)], "infra"),
    ],
)
async def test_a_stage_that_fails_leaves_the_attempt_unjudged(replies: list[str | Odd], unjudged: str) -> None:
    images, names = attempts.store(2)
    with ScriptServer(replies) as server:
        verdict = await attempts.over_http(OURS, server, images, attempts.attempt(names))
    assert verdict.success is None and verdict.unjudged == unjudged


async def test_one_refused_picture_is_a_score_of_zero_and_named() -> None:
    images, names = attempts.store(2)
    model = attempts.answering([Reply("", finish="refused"), 5])
    verdict = await attempts.judge_of(OURS, model, images)(attempts.attempt(names))
    assert verdict.success is True and verdict.details["scores"] == [0, 5] and verdict.details["refused"] == [0]


async def test_key_points_are_asked_for_again_where_the_reply_is_empty() -> None:
    images, names = attempts.store(1)
    with ScriptServer(["", attempts.POINTS, attempts.PICTURE.format(5), "Status: success"]) as server:
        verdict = await attempts.over_http(OURS, server, images, attempts.attempt(names))
    assert verdict.success is True and verdict.details["key_points"] == "\n1. red mug\n2. cheapest"


async def test_missing_and_torn_pictures_are_no_verdict_and_nothing_is_asked() -> None:
    images, names = attempts.store(4)
    whole = attempts.attempt(names)
    model = attempts.answering()
    gone = {name: data for name, data in images.items() if name != names[2]}
    verdict = await attempts.judge_of(OURS, model, gone)(whole)
    assert verdict.unjudged == "missing_evidence" and "2" in verdict.reason
    torn = {**images, names[1]: images[names[1]][:60]}
    assert (await attempts.judge_of(OURS, model, torn)(whole)).unjudged == "missing_evidence"
    listed = {"imported": {"format": "om2w", "screenshots": [[0, names[0]], [1, ""], [2, names[2]]]}}
    verdict = await attempts.judge_of(OURS, model, images)(whole.model_copy(update={"evidence": listed}))
    assert verdict.unjudged == "missing_evidence" and "1" in verdict.reason, "a gap in the files of an import"
    empty = attempts.attempt([], answer=False, steps=())
    assert (await attempts.judge_of(OURS, model, images)(empty)).unjudged == "missing_evidence"
    broken = attempts.attempt(names, stop=Stop.BROWSER_ERROR)
    assert (await attempts.judge_of(OURS, model, images)(broken)).unjudged == "infra"
    assert model.calls == []


async def test_a_used_up_budget_ends_the_run_and_is_no_verdict() -> None:
    images, names = attempts.store(3)

    def answer(messages: object) -> str:
        raise BudgetError("used up")

    with pytest.raises(BudgetError):
        await attempts.judge_of(OURS, ScriptModel(answer, name="m"), images)(attempts.attempt(names))


async def test_stored_replies_judge_again_without_a_model() -> None:
    images, names = attempts.store(3)
    calls: list[Call] = []
    settings = JudgeConfig(protocol=OURS)
    model = attempts.answering([4, 1, 3], verdict="Status: unsuccessful")
    first = await build(settings, model, images, store=calls.append)(attempts.attempt(names))
    again = await build(settings, None, images, replies=calls, model_name="m")(attempts.attempt(names))
    assert again == first and first.success is False and first.details["upstream_label"] == 1
    other = build(settings.model_copy(update={"threshold": 4}), None, images, replies=calls, model_name="m")
    verdict = await other(attempts.attempt(names))
    assert verdict.unjudged == "not_stored", "another last question"


# Names, wording, packs.


def test_the_name_says_wording_model_and_threshold() -> None:
    name = attempts.judge_of(OURS, None, {}).name
    assert name.startswith("rmsweb/webjudge-om2w:stored:prompt=")
    assert name.endswith(":threshold=3:temperature=0:again=0.7:tokens=512:attempts=3")
    assert {"webjudge/om2w", "webjudge/general", GENERAL} <= set(names())
    with pytest.raises(ConfigError, match=r"judge\.pack"):
        attempts.judge_of("webjudge/om2w", None, {})


def pack(path: Path, function: str, lead: str = "") -> Path:
    """A file with the structure of the public scripts and other words."""
    lines = [
        "def identify_key_points(task, model):",
        '    system_msg = """KS Key Points"""',
        '    prompt = """P {task}"""',
        "def judge_image(task, image_path, key_points, model):",
        '    system_msg = """PS"""',
        '    prompt = """Q {task} | {key_points}"""',
        f"    content = [{{'type': 'text', 'text': {lead!r}}}]",
        f"def {function}(task, last_actions):",
        '    system_msg = """VS Status"""',
        '    prompt = """T {task} K {key_points} A {last_actions} R {thoughts}"""',
        "    if len(images) == 0:",
        '        prompt = """T {task} K {key_points} A {last_actions}"""',
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


async def test_wording_comes_from_a_pack_and_a_changed_one_says_so(tmp_path: Path) -> None:
    images, shots = attempts.store(2)
    for judge, function in ((OM2W, "WebJudge_Online_Mind2Web_eval"), (General, "WebJudge_general_eval")):
        file = pack(tmp_path / "pack.py", function, "the input images:")
        with pytest.raises(ConfigError, match="sha256"):
            attempts.judge_of(judge.PROTOCOL, None, {}, pack=str(file))
        model = attempts.answering([5, 1], form=attempts.PICTURE if judge is OM2W else attempts.HASHES)
        made = attempts.judge_of(judge.PROTOCOL, model, images, pack=str(file), changed_pack=True)
        assert made.name.startswith("changed-") and ":threshold=3" in made.name and "prompt=" not in made.name
        verdict = await made(attempts.attempt(shots))
        assert verdict.success is True
        final = attempts.words(model.calls[-1][1])
        assert final.startswith("T find the cheapest {red} mug") and final.endswith(
            " R 1. page shows mugs" + " " * (judge is General)
        )
    file.write_text(file.read_text().replace("{key_points} A", "A"))
    with pytest.raises(ConfigError, match="key_points"):
        attempts.judge_of("webjudge/general", None, {}, pack=str(file), changed_pack=True)


async def test_reasoning_endpoints_get_room_to_think() -> None:
    images, shots = attempts.store(1)
    calls: list[Call] = []
    await attempts.judge_of(OURS, attempts.answering([5]), images, calls, model={"parameters": "reasoning"})(
        attempts.attempt(shots)
    )
    assert {call.sampling["max_tokens"] for call in calls} == {REASONING_TOKENS}


def test_a_stored_run_is_judged_by_the_verb(tmp_path: Path) -> None:
    with Run.open(tmp_path / "eval", "eval", Config()) as run:
        run.append("trajectory", specimens.trajectory(run.images, specimens.task(0), 2))
        run.finish()
    with ScriptServer(attempts.answering([5, 2])) as server:
        endpoint = {"base_url": server.base_url, "name": "m", "attempts": 1}
        config = Config.model_validate({"judge": {"protocol": OURS, "model": endpoint}})
        found = judge_runs(config, tmp_path / "judged", {"eval": tmp_path / "eval"}, Silent())
    assert [(one["success"], one["upstream_success"]) for one in found["policies"].values()] == [(1.0, 1.0)]
    verdict = Run.read_only(tmp_path / "judged").read("verdict", Verdict)[-1]
    assert verdict.details["pictures"] == [0] and json.dumps(verdict.details)
    offline = judge_runs(
        config, tmp_path / "again", {"eval": tmp_path / "eval", "replies": tmp_path / "judged"}, Silent()
    )
    assert next(iter(offline["policies"].values()))["success"] == 1.0


async def test_a_real_submission_is_shown_as_its_folder_holds_it(tmp_path: Path) -> None:
    folder = Path(__file__).parents[3].parent / "shared" / "data" / "trajectories" / "online_mind2web"
    if not folder.is_dir():
        pytest.skip("../shared/data is absent: no real Online-Mind2Web submission to judge")
    facts = json.loads(next(folder.glob("*/result.json")).read_text())
    formats.import_runs("om2w", folder, tmp_path / "run", tasks=(), model="a")
    run = Run.read_only(tmp_path / "run")
    given, images = run.read("trajectory", Trajectory)[0], dict(run.images)
    model = attempts.answering([5, 1, 2, 3, 4])
    verdict = await attempts.judge_of(OURS, model, images)(given)
    final = attempts.words(model.calls[-1][1])
    assert verdict.details["screenshots"] == [0, 1, 2, 3, 4] and verdict.details["pictures"] == [0, 3, 4]
    assert numbered(facts["action_history"]) in final and facts["task"] in final
    assert facts["final_result_response"] not in final
    general = attempts.answering([5, 1, 2, 3, 4], form=attempts.HASHES)
    await attempts.judge_of(GENERAL, general, images)(given)
    joined = [f"{a}. Reasoning: {t}" for a, t in zip(facts["action_history"], facts["thoughts"], strict=True)]
    last = attempts.words(general.calls[-1][1])
    assert numbered(joined) in last and facts["final_result_response"] not in last
    trek = attempts.answering()
    assert (await attempts.judge_of("rmsweb/agenttrek", trek, images)(given)).details["pictures"] == [4]
    shown = attempts.words(trek.calls[0][1])
    assert all(f"Thought {k}: {thought}" in shown for k, thought in enumerate(facts["thoughts"], 1))


async def test_the_general_variant_reads_plain_marks_where_a_reply_shows_them() -> None:
    images, names = attempts.store(3)
    model = attempts.answering([5, 1, 1], form=attempts.PICTURE)
    verdict = await attempts.judge_of(GENERAL, model, images)(attempts.attempt(names))
    assert verdict.details["scores"] == [5, 1, 1] and verdict.success is True
