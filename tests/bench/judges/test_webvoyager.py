"""The four WebVoyager judges: layout, pictures and sampling on synthetic packs, odd replies over HTTP, real runs."""

import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rmsweb.actions import Answer, LeftClick, Point, Terminate
from rmsweb.bench.judges import PROTOCOLS, build, names
from rmsweb.bench.judges.asking import Asker, Call, Pictures
from rmsweb.bench.judges.packs import Wording, load
from rmsweb.bench.judges.webvoyager import OSU, Fara, MolmoWeb, Original, read_interact_messages
from rmsweb.bench.judges.webvoyager_parse import (
    by_final_verdict,
    read_fara,
    read_molmoweb,
    read_original,
    read_osu,
    spoken,
)
from rmsweb.chat import EndpointModel, Message, Reply
from rmsweb.config import JudgeConfig, ModelConfig
from rmsweb.errors import ConfigError
from rmsweb.records import Decision, Effect, Observation, Step, Stop, Task, Trajectory, Verdict
from rmsweb.testing import Odd, ScriptModel, ScriptServer

WARM = "temperature=1:tokens=4096:attempts=3"
RUNS = Path(__file__).parents[3] / ".." / "shared" / "data" / "trajectories" / "webvoyager"
JUDGES: dict[str, Any] = {"original": Original, "fara": Fara, "molmoweb": MolmoWeb, "osu": OSU}
CLASSIC = '''
SYSTEM_PROMPT = """Our rules with {braces}."""
USER_PROMPT = """Goal <task>
Said <answer>
Shown <num>: """

def evaluate(folder, client):
    messages = [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": [{"type": "text", "text": "..."}] + [{"type": "text", "text": "Your verdict:\\n"}]},
    ]
'''
SOURCES = {
    "original": CLASSIC,
    "fara": f"class Bench:\n    pass\n{CLASSIC}".replace("verdict:\\n", "verdict:\\n."),
    "osu": '''
MAX_IMAGE = 50
def WebVoyager_eval(task, images_path, response, k=0):
    system_msg = """Our rules with {braces}."""
    prompt = """Goal {task}

Said {response} in {{braces}}

Shown {num}: """
    messages = [system_msg, {"type": "text", "text": "Your verdict:\\n"}]
''',
    "molmoweb": '''
from jinja2 import Template
LLM_JUDGE_SYSTEM_PROMPT = """Our rules with {braces}."""
LLM_JUDGE_USER_PROMPT = Template(
    """Goal: {{ task }}

Said: {{ answer }}

{{ num_screenshots }} shown:
"""
)
class LLMVerdict(BaseModel):
    thought: str = Field(description="our why")
    verdict: Literal["SUCCESS", "FAILURE"] = Field(
        description="our verdict"
    )
def get_verdict(task):
    user_content = []
    for i, screenshot in enumerate(screenshots):
        user_content.append({"type": "text", "text": f"Step {i+1}"})
''',
}


def png(number: int, mode: str = "RGB") -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new(mode, (6, 4), (number % 256, 7, 9, 200)[: len(mode)]).save(out, format="PNG")
    return out.getvalue()


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def attempt(
    clicks: int, answer: str | None = "4 dollars", *, stop: Stop = Stop.ANSWERED, thought: str = "", **task: Any
) -> tuple[Trajectory, dict[str, bytes]]:
    """`clicks` clicks and, with an answer, an answering step; page k has the picture png(k)."""
    pictures = [png(number) for number in range(clicks + 1)]
    shots = [Observation(image=sha(data), url="https://shop.example/") for data in pictures]
    steps = [
        Step(
            index=k,
            before=shots[k],
            decision=Decision(action=LeftClick(point=Point(x=k, y=1)), thought=f"{thought} {k}" if thought else ""),
            effect=Effect(changed=True),
            after=shots[k + 1],
        )
        for k in range(clicks)
    ]
    if answer is not None:
        final = Decision(action=Answer(text=answer))
        steps.append(Step(index=clicks, before=shots[-1], decision=final, effect=Effect(), after=shots[-1]))
    facts = {"id": "Shop--1", "suite": "webvoyager", "site": "Shop", "template": "Shop", "split": "exam"}
    made = Task.model_validate({**facts, "goal": "find the red mug", "start_url": "https://shop.example/", **task})
    trajectory = Trajectory(id="Shop--1#0", task=made, steps=tuple(steps), answer=answer, stop=stop)
    return trajectory, {sha(data): data for data in pictures}


def exact(name: str, tmp_path: Path) -> Wording:
    """The wording of a synthetic file with the upstream layout, taken for the known one."""
    source = SOURCES[name].encode()
    pack = JUDGES[name].PACK
    path = tmp_path / pack.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source)
    return load(replace(pack, sha256=sha(source)[:16]), tmp_path)


async def asked(
    name: str,
    words: Wording,
    trajectory: Trajectory,
    pictures: Mapping[str, bytes],
    reply: str = "SUCCESS",
    **config: Any,
) -> tuple[Verdict, list[Message], Call]:
    """Verdict, the messages sent, and the stored call."""
    calls: list[Call] = []
    model = ScriptModel([reply], name="m", repeat=True)
    asker = Asker(model, Pictures(pictures), store=calls.append)
    verdict = await JUDGES[name](asker, words, JudgeConfig(**config))(trajectory)
    return verdict, model.calls[0], calls[0]


def ours(name: str) -> Wording:
    from rmsweb.bench.judges import wording

    judge = JUDGES[name]
    return wording(judge.PACK, judge.OWN, JudgeConfig(protocol=f"rmsweb/webvoyager-{name}"))


def cold(tokens: int) -> str:
    return f"temperature=0:again=0.7:tokens={tokens}:attempts=3"


def shape(messages: list[Message]) -> list[str]:
    """`role:` and one letter a part: t text, i image."""
    return [f"{message['role']}:" + "".join(part["type"][0] for part in message["content"]) for message in messages]


def shown(messages: list[Message]) -> list[str]:
    return [part["image"] for message in messages for part in message["content"] if part["type"] == "image"]


def words_of(messages: list[Message]) -> str:
    return "".join(part.get("text", "") for message in messages for part in message["content"])


# Layout, image choice, sampling ------------------------------------------------------------------------------------


async def test_original_sends_the_last_k_and_names_k(tmp_path: Path) -> None:
    trajectory, pictures = attempt(19)
    verdict, messages, call = await asked("original", exact("original", tmp_path), trajectory, pictures)
    assert shape(messages) == ["system:t", "user:t" + "i" * 15 + "t"]
    assert shown(messages) == [step.before.image for step in trajectory.steps][-15:]
    assert messages[0]["content"][0]["text"] == "Our rules with {braces}."
    assert messages[1]["content"][0]["text"] == "Goal find the red mug\nSaid 4 dollars\nShown 15: "
    assert messages[1]["content"][-1]["text"] == "Your verdict:\n"
    assert call.sampling == {"temperature": 0.0, "max_tokens": 1000, "seed": 42}
    assert verdict.success is True and verdict.judge == f"webvoyager/original:m:images=15:{cold(1000)}"
    assert verdict.details == {"pictures": list(range(5, 20)), "screenshots": 20, "upstream_label": 1}


async def test_original_names_k_even_where_fewer_exist(tmp_path: Path) -> None:
    words = exact("original", tmp_path)
    trajectory, pictures = attempt(2)
    _, messages, _ = await asked("original", words, trajectory, pictures)
    assert len(shown(messages)) == 3 and "Shown 15: " in words_of(messages)
    verdict, messages, _ = await asked("original", words, trajectory, pictures, images=1)
    assert shown(messages) == [trajectory.steps[-1].before.image] and "Shown 1: " in words_of(messages)
    assert verdict.judge.startswith("webvoyager/original:m:images=1:") and verdict.details["pictures"] == [2]


async def test_original_fills_in_turn_as_the_script_does(tmp_path: Path) -> None:
    trajectory, pictures = attempt(1, "<num> of {task}", goal="say <answer>")
    _, messages, _ = await asked("original", exact("original", tmp_path), trajectory, pictures)
    assert messages[1]["content"][0]["text"] == "Goal say 15 of {task}\nSaid 15 of {task}\nShown 15: "


async def test_original_without_an_answer_is_0_without_a_call(tmp_path: Path) -> None:
    trajectory, pictures = attempt(3, None, stop=Stop.STEP_LIMIT)
    model = ScriptModel([])
    judge = Original(Asker(model, Pictures(pictures)), exact("original", tmp_path), JudgeConfig())
    verdict = await judge(trajectory)
    assert verdict.success is False and verdict.details["upstream_label"] == 0 and not verdict.details["asked"]
    assert model.calls == []


async def test_original_on_a_transcript_of_the_system_message_alone_is_0(tmp_path: Path) -> None:
    said = read_interact_messages([{"role": "system", "content": "rules"}])
    trajectory, _ = attempt(0, said.answer, stop=Stop.DONE, goal=said.task)
    judge = Original(Asker(ScriptModel([]), Pictures({})), exact("original", tmp_path), JudgeConfig())
    verdict = await judge(trajectory)
    assert (verdict.success, verdict.details["upstream_label"], trajectory.steps) == (False, 0, ())


async def test_fara_counts_all_and_sends_the_last_30(tmp_path: Path) -> None:
    trajectory, pictures = attempt(39)
    verdict, messages, call = await asked("fara", exact("fara", tmp_path), trajectory, pictures, "NOT SUCCESS")
    assert shape(messages) == ["user:t", "user:t" + "i" * 30, "user:t"]
    assert shown(messages) == [step.before.image for step in trajectory.steps][-30:]
    assert messages[1]["content"][0]["text"] == "Goal find the red mug\nSaid 4 dollars\nShown 40: "
    assert messages[2]["content"][0]["text"] == "Your verdict:\n."
    assert call.sampling == {"temperature": 1.0, "max_tokens": 4096, "seed": None}
    assert verdict.success is False and verdict.judge == f"webvoyager/fara:m:{WARM}"
    assert verdict.details["pictures"] == list(range(10, 40)) and verdict.details["screenshots"] == 40


async def test_fara_judges_a_missing_answer(tmp_path: Path) -> None:
    trajectory, pictures = attempt(2, None, stop=Stop.GAVE_UP)
    words = exact("fara", tmp_path)
    verdict, messages, _ = await asked("fara", words, trajectory, pictures, images=1)
    assert "Said <no_answer>\nShown 3: " in words_of(messages) and len(shown(messages)) == 1
    assert verdict.success is True and verdict.judge == f"webvoyager/fara:m:images=1:{WARM}"


async def test_molmoweb_sends_all_each_behind_its_label(tmp_path: Path) -> None:
    trajectory, pictures = attempt(59)
    words = exact("molmoweb", tmp_path)
    reply = json.dumps({"thought": "seen", "verdict": "SUCCESS"})
    verdict, messages, call = await asked("molmoweb", words, trajectory, pictures, reply, images=3)
    assert shape(messages) == ["system:t", "user:t" + "ti" * 60]
    assert messages[1]["content"][0]["text"] == (
        "Goal: On https://shop.example/: find the red mug\n\nSaid: 4 dollars\n\n60 shown:"
    )
    labels = [part["text"] for part in messages[1]["content"][1:] if part["type"] == "text"]
    assert labels[0] == "Step 1" and labels[-1] == "Step 60"
    assert call.sampling == {"temperature": 1.0, "max_tokens": 4096, "seed": None}
    assert verdict.success is True and verdict.reason == "seen" and verdict.judge == f"webvoyager/molmoweb:m:{WARM}"
    assert verdict.details["upstream_label"] == 1 and len(verdict.details["pictures"]) == 60  # type: ignore[arg-type]


async def test_molmoweb_sends_jpeg_without_detail(tmp_path: Path) -> None:
    trajectory, pictures = attempt(0)
    store = Pictures(pictures)
    model = ScriptModel(["SUCCESS"])
    await MolmoWeb(Asker(model, store), exact("molmoweb", tmp_path), JudgeConfig())(trajectory)
    part = model.calls[0][1]["content"][2]
    assert store[part["image"]][:2] == b"\xff\xd8" and "detail" not in part


@pytest.mark.parametrize(
    ("last", "thought", "said"),
    [
        (Terminate(status="failure", text="no such mug"), "look", "no such mug"),
        (LeftClick(point=Point(x=1, y=1)), "look", "look 1"),
        (LeftClick(point=Point(x=1, y=1)), "", "No answer"),
    ],
)
async def test_molmoweb_without_an_answer_takes_what_was_said_last(
    tmp_path: Path, last: Any, thought: str, said: str
) -> None:
    trajectory, pictures = attempt(2, None, stop=Stop.STEP_LIMIT, thought=thought)
    final = trajectory.steps[-1].model_copy(update={"decision": Decision(action=last), "index": 2})
    trajectory = trajectory.model_copy(update={"steps": (*trajectory.steps, final)})
    _, messages, _ = await asked("molmoweb", exact("molmoweb", tmp_path), trajectory, pictures)
    assert f"Said: {said}\n" in words_of(messages)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"goal": "On https://shop.example/: buy"}, "On https://shop.example/: buy"),
        ({"goal": "buy", "suite": "webtailbench"}, "buy"),
        ({"goal": "buy", "start_url": ""}, "buy"),
        ({"goal": "buy {{ answer }}"}, "On https://shop.example/: buy {{ answer }}"),
    ],
)
async def test_molmoweb_puts_the_site_before_a_webvoyager_task(tmp_path: Path, task: dict[str, str], said: str) -> None:
    trajectory, pictures = attempt(1, **task)
    _, messages, _ = await asked("molmoweb", exact("molmoweb", tmp_path), trajectory, pictures)
    assert messages[1]["content"][0]["text"].startswith(f"Goal: {said}\n")


def test_molmoweb_names_the_object_that_its_endpoint_enforces(tmp_path: Path) -> None:
    asker = Asker(None, Pictures({}), name="m")
    upstream = MolmoWeb(asker, exact("molmoweb", tmp_path), JudgeConfig()).response_format["json_schema"]["schema"]
    assert list(upstream["properties"]) == ["thought", "verdict"]
    assert upstream["properties"]["verdict"]["enum"] == ["SUCCESS", "FAILURE"]
    assert upstream["properties"]["thought"]["description"] == "our why"
    own = MolmoWeb(asker, ours("molmoweb"), JudgeConfig()).response_format["json_schema"]["schema"]
    assert list(own["properties"]) == ["verdict", "thought"]


async def test_osu_sends_the_first_50_as_jpeg_in_high_detail(tmp_path: Path) -> None:
    trajectory, pictures = attempt(59)
    store = Pictures(pictures)
    model = ScriptModel(["SUCCESS"], name="m")
    calls: list[Call] = []
    judge = OSU(Asker(model, store, store=calls.append), exact("osu", tmp_path), JudgeConfig())
    verdict = await judge(trajectory)
    messages = model.calls[0]
    assert shape(messages) == ["system:t", "user:t" + "i" * 50 + "t"]
    assert messages[1]["content"][0]["text"] == ("Goal find the red mug\n\nSaid 4 dollars in {braces}\n\nShown 50: ")
    assert {part["detail"] for part in messages[1]["content"] if part["type"] == "image"} == {"high"}
    assert all(store[name][:2] == b"\xff\xd8" for name in shown(messages))
    assert shown(messages)[0] == store.jpeg(trajectory.steps[0].before.image)
    assert shown(messages)[-1] == store.jpeg(trajectory.steps[49].before.image)
    assert calls[0].sampling == {"temperature": 0.0, "max_tokens": 512, "seed": None}
    assert verdict.judge == f"webvoyager/osu:m:{cold(512)}" and verdict.details["screenshots"] == 60


async def test_osu_shows_whatever_the_answer_field_holds(tmp_path: Path) -> None:
    trajectory, pictures = attempt(2, None, stop=Stop.STEP_LIMIT, goal="find {response}")
    verdict, messages, _ = await asked("osu", exact("osu", tmp_path), trajectory, pictures, images=2)
    assert "Goal find {response}\n\nSaid None in" in words_of(messages) and "Shown 2: " in words_of(messages)
    assert verdict.judge == f"webvoyager/osu:m:images=2:{cold(512)}"
    blank = trajectory.model_copy(update={"evidence": {"imported": {"format": "om2w", "answer_field": ""}}})
    _, messages, _ = await asked("osu", exact("osu", tmp_path), blank, pictures)
    assert "Said  in" in words_of(messages)


async def test_a_run_without_an_answer_ends_on_a_page_that_fara_and_osu_see(tmp_path: Path) -> None:
    trajectory, pictures = attempt(2, None, stop=Stop.STEP_LIMIT)
    for name, numbers in (("fara", [0, 1, 2]), ("osu", [0, 1, 2]), ("molmoweb", [0, 1])):
        verdict, _, _ = await asked(name, exact(name, tmp_path), trajectory, pictures)
        assert verdict.details["pictures"] == numbers, name


@pytest.mark.parametrize("name", JUDGES)
async def test_of_an_imported_attempt_every_stored_screenshot_counts(name: str, tmp_path: Path) -> None:
    trajectory, pictures = attempt(1)
    more = {sha(data): data for data in (png(number) for number in (20, 30, 40))}
    listed = [[number, image] for number, image in zip((1, 2, 10), more, strict=True)]
    evidence = {"imported": {"format": "webvoyager", "screenshots": listed}}
    trajectory = trajectory.model_copy(update={"evidence": evidence})
    verdict, messages, _ = await asked(name, exact(name, tmp_path), trajectory, {**pictures, **more})
    assert verdict.details["pictures"] == [1, 2, 10] and len(shown(messages)) == 3
    listed[1][1] = ""
    gap = await JUDGES[name](Asker(ScriptModel([]), Pictures(more)), exact(name, tmp_path), JudgeConfig())(trajectory)
    assert gap.unjudged == "missing_evidence" and "screenshot 2: not stored" in gap.reason


# Wording -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", JUDGES)
async def test_our_wording_is_another_protocol_with_the_same_layout(name: str, tmp_path: Path) -> None:
    trajectory, pictures = attempt(2)
    verdict, messages, _ = await asked(name, ours(name), trajectory, pictures)
    _, upstream, _ = await asked(name, exact(name, tmp_path), trajectory, pictures)
    assert shape(messages) == shape(upstream) and shown(messages) == shown(upstream)
    sampling = r"(temperature=1|temperature=0:again=0.7):tokens=\d+:attempts=3"
    pattern = rf"rmsweb/webvoyager-{name}:m:prompt=[0-9a-f]{{8}}(:images=15)?:{sampling}$"
    assert re.match(pattern, verdict.judge)
    text = words_of(messages)
    assert "find the red mug" in text and "4 dollars" in text
    assert not re.search(r"<(task|answer|num)>|\{\{|\{(task|response|num|i \+ 1)\}", text)


@pytest.mark.parametrize("name", JUDGES)
async def test_our_wording_asks_for_the_verdict_first_in_words_that_the_protocol_reads(name: str) -> None:
    system = ours(name).texts["system"]
    readers = {"original": read_original, "fara": read_fara, "osu": read_osu, "molmoweb": read_molmoweb}
    negative = "NOT SUCCESS" if name in ("original", "fara") else "FAILURE"
    if name == "molmoweb":
        assert system.index('"verdict"') < system.index('"thought"')
        yes, no = '{"verdict": "SUCCESS", "thought": "The basket sh', '{"verdict": "FAILURE", "thought": "The basket sh'
    else:
        assert f"VERDICT: SUCCESS\nVERDICT: {negative}\n" in system
        yes, no = "VERDICT: SUCCESS\nThe basket sh", f"VERDICT: {negative}\nThe basket sh"
    for finish in ("stop", "length"):
        assert readers[name](Reply(yes, finish=finish)).success is True  # type: ignore[arg-type]
        assert readers[name](Reply(no, finish=finish)).success is False  # type: ignore[arg-type]


@pytest.mark.parametrize("name", JUDGES)
def test_the_registry_builds_each_by_name(name: str, tmp_path: Path) -> None:
    protocol = f"rmsweb/webvoyager-{name}"
    assert protocol in names() and PROTOCOLS[f"webvoyager/{name}"].startswith("webvoyager:")
    assert build(JudgeConfig(protocol=protocol), None, {}, model_name="m").name.startswith(f"{protocol}:m:prompt=")
    exact(name, tmp_path)
    config = JudgeConfig(protocol=f"webvoyager/{name}", pack=str(tmp_path), changed_pack=True)
    assert build(config, None, {}, model_name="m").name.startswith("changed-")
    with pytest.raises(ConfigError, match="changed_pack"):
        build(config.model_copy(update={"changed_pack": False}), None, {})


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("original", "<answer>", "'user' has no place for <answer>"),
        ("fara", "<num>", "'user' has no place for <num>"),
        ("molmoweb", "{{ task }}", "'user' has no place for"),
        ("osu", "{response}", "'user' has no place for"),
    ],
)
def test_a_changed_pack_without_a_place_is_refused_at_once(name: str, text: str, says: str, tmp_path: Path) -> None:
    words = exact(name, tmp_path)
    torn = Wording({**words.texts, "user": words.texts["user"].replace(text, "")}, "changed-0/", "a file")
    with pytest.raises(ConfigError, match=says):
        JUDGES[name](Asker(None, Pictures({})), torn, JudgeConfig())


def test_a_changed_osu_pack_with_a_further_field_is_refused_at_once(tmp_path: Path) -> None:
    words = exact("osu", tmp_path)
    more = Wording({**words.texts, "user": words.texts["user"] + "{extra}"}, "changed-0/", "a file")
    with pytest.raises(ConfigError, match="extra"):
        OSU(Asker(None, Pictures({})), more, JudgeConfig())


# Readers of replies ------------------------------------------------------------------------------------------------

NONE = None
REPLIES: list[tuple[str, Any, Any, Any]] = [
    # reply, (success, label) of original, Fara, OSU
    ("SUCCESS", (True, 1), (True, 1), (True, 1)),
    ("NOT SUCCESS", (False, 0), (False, 0), (False, 1)),
    ("FAILURE", (NONE, NONE), (NONE, 0), (False, 0)),
    ("The mug is there. Verdict: **SUCCESS**", (True, 1), (True, 1), (True, 1)),
    ("Verdict: **NOT SUCCESS**", (False, 0), (False, 0), (False, 1)),
    ("**NOT** **SUCCESS**", (False, 1), (False, 1), (False, 1)),
    ("SUCCESS or NOT SUCCESS? NOT SUCCESS.", (False, 0), (False, 0), (NONE, 1)),
    ("SUCCESS or FAILURE? FAILURE.", (NONE, 1), (NONE, 1), (False, 0)),
    ("NOT  SUCCESS", (False, 1), (False, 1), (False, 1)),
    ("NOT\nSUCCESS", (False, 1), (False, 1), (False, 1)),
    ("NOT_SUCCESS", (False, 1), (False, 1), (False, 1)),
    ("Verdict: UNSUCCESSFUL", (False, 1), (False, 1), (False, 1)),
    ("UN-SUCCESSFUL", (False, 1), (False, 1), (False, 1)),
    ("This is not a SUCCESS", (False, 1), (False, 1), (False, 1)),
    ("It can't be deemed a SUCCESS", (False, 1), (False, 1), (False, 1)),
    ("No SUCCESS here", (False, 1), (False, 1), (False, 1)),
    ("Is anything missing? No. SUCCESS", (True, 1), (True, 1), (True, 1)),
    ("Not a SUCCESS at first, then a SUCCESS", (NONE, 1), (NONE, 1), (NONE, 1)),
    ("SUCCESSFUL", (True, 1), (True, 1), (True, 1)),
    ("The form was SUCCESSFULLY sent", (NONE, 1), (NONE, 1), (NONE, 1)),
    ("INCORRECT", (NONE, NONE), (NONE, 0), (NONE, 1)),
    ("INCORRECT, no matter what SUCCESS means", (NONE, 1), (NONE, 1), (NONE, 1)),
    ("success", (NONE, NONE), (NONE, 0), (NONE, 1)),
    ("Verdict: failure", (NONE, NONE), (NONE, 0), (NONE, 1)),
    ("I cannot tell from these pictures.", (NONE, NONE), (NONE, 0), (NONE, 1)),
    ("", (NONE, NONE), (NONE, 0), (NONE, 1)),
    ('{"verdict": "NOT SUCCESS", "reason": "late"}', (False, 0), (False, 0), (False, 1)),
    ('{"verdict": "SUCCESS"}', (True, 1), (True, 1), (True, 1)),
    ("<think>NOT SUCCESS? FAILURE?</think>\nSUCCESS", (True, 0), (True, 0), (True, 0)),
    ("<think>it is a SUCCESS, I think", (NONE, 1), (NONE, 1), (NONE, 1)),
]


@pytest.mark.parametrize(("reply", "original", "fara", "osu"), REPLIES)
def test_each_reads_replies_in_its_own_way(reply: str, original: Any, fara: Any, osu: Any) -> None:
    for read, expected in ((read_original, original), (read_fara, fara), (read_osu, osu)):
        said = read(Reply(reply))
        assert (said.success, said.upstream_label) == expected, read.__name__


@pytest.mark.parametrize("reply", [row[0] for row in REPLIES])
def test_labels_are_those_of_the_substring_rules(reply: str) -> None:
    positive = "SUCCESS" in reply
    assert read_original(Reply(reply)).upstream_label == (0 if "NOT SUCCESS" in reply else 1 if positive else None)
    assert read_fara(Reply(reply)).upstream_label == int(positive and "NOT SUCCESS" not in reply)
    assert read_osu(Reply(reply)).upstream_label == int("FAILURE" not in reply)


WEIGHED = "Without the filter it would be NOT SUCCESS, a FAILURE even, but the filter is set."
FINAL: list[tuple[str, Any, Any, Any]] = [
    # reply, what our own wording's reading says under original, Fara, OSU
    (f"{WEIGHED}\n\nVerdict: SUCCESS", True, True, True),
    (f"{WEIGHED} Verdict: SUCCESS", True, True, True),
    (f"{WEIGHED} **Final verdict**: **SUCCESS**.", True, True, True),
    (f"{WEIGHED} My verdict is 'SUCCESS'", True, True, True),
    (f"{WEIGHED}\n\n**SUCCESS**\n", True, True, True),
    ("Verdict: SUCCESS\nThe filter is set.", True, True, True),
    ("Verdict: NOT SUCCESS\nIt would be NOT SUCCESS with the filter, too.", False, False, False),
    # A mark that is taken back later, or that a line break cut off its "not", is not final: upstream's reading stands.
    ("Verdict: SUCCESS\nIt would be NOT SUCCESS, or FAILURE, without the filter.", False, False, False),
    ("Verdict: SUCCESS\n\nWait, the price is wrong, so the task is NOT SUCCESS.", False, False, NONE),
    ("Verdict: SUCCESS (for the search only). The task: NOT SUCCESS", False, False, NONE),
    ("Price check\nSUCCESS\nThe date is wrong: the task as a whole is NOT SUCCESS.", False, False, NONE),
    ("The result is NOT\nSUCCESS", False, False, False),
    ("It looks like a SUCCESS.\nVerdict: NOT SUCCESS", False, False, False),
    ("Verdict: SUCCESS\nOn second thought.\nVerdict: NOT SUCCESS", False, False, False),
    ("It looks like a SUCCESS.\nVerdict: FAILURE", False, False, False),
    (WEIGHED, False, False, False),
    (f"{WEIGHED} The verdict is SUCCESS or NOT SUCCESS", False, False, False),
    (f"{WEIGHED} Verdict: SUCCESS?", False, False, False),
    (f"{WEIGHED} Verdict: SUCCESS/NOT SUCCESS", False, False, False),
    (f"{WEIGHED} Verdict: SUCCESSFULLY sent", False, False, False),
    (f"<think>Verdict: SUCCESS</think>{WEIGHED}", False, False, False),
    ("I cannot tell from these pictures.", NONE, NONE, NONE),
]


@pytest.mark.parametrize(("reply", "original", "fara", "osu"), FINAL)
def test_our_own_wording_reads_the_final_verdict(reply: str, original: Any, fara: Any, osu: Any) -> None:
    for read, expected in ((read_original, original), (read_fara, fara), (read_osu, osu)):
        said = by_final_verdict(Reply(reply), read)
        assert said.success is expected, read.__name__
        assert said.upstream_label == read(Reply(reply)).upstream_label, "upstream's label is upstream's"
    cut = Reply(reply, finish="length")
    assert by_final_verdict(cut, read_original) == read_original(cut), "a cut reply has not come to its verdict"


@pytest.mark.parametrize("name", ["original", "fara", "osu"])
async def test_upstreams_wording_keeps_its_rule_for_a_reply_that_weighs_both_words(name: str, tmp_path: Path) -> None:
    trajectory, pictures = attempt(2)
    reply = f"{WEIGHED}\nVerdict: SUCCESS"
    upstream, _, _ = await asked(name, exact(name, tmp_path), trajectory, pictures, reply)
    assert (upstream.success, upstream.details["upstream_label"]) == (False, 0)
    assert "differs_from_upstream" not in upstream.details
    own, _, _ = await asked(name, ours(name), trajectory, pictures, reply)
    assert (own.success, own.details["upstream_label"], own.details["differs_from_upstream"]) == (True, 0, True)


@pytest.mark.parametrize(
    ("reply", "success", "label", "reason"),
    [
        ('{"thought": "seen", "verdict": "SUCCESS"}', True, 1, "seen"),
        ('{"verdict": "FAILURE", "thought": "SUCCESS is far"}', False, 0, "SUCCESS is far"),
        ('{"verdict": "FAILURE", "thought": "no", "more": 1}', False, 0, "no"),
        ('```json\n{"thought": "seen", "verdict": "SUCCESS"}\n```', True, None, "seen"),
        ('{"verdict": "SUCCESS", "thought": "The bask', True, None, '{"verdict": "SUCCESS", "thought": "The bask'),
        ('{"verdict": "FAILURE"}', False, None, '{"verdict": "FAILURE"}'),
        ('{"verdict": "SUCCESS", "verdict": "FAILURE"}', None, None, None),
        ('{"verdict": "success", "thought": "x"}', None, None, None),
        ('{"verdict": true, "thought": "x"}', None, None, None),
        ('{"verdict": ["SUCCESS"], "thought": 3}', True, None, None),
        ('{"verdict": "UNSUCCESSFUL", "thought": "x"}', False, None, None),
        ("[]", None, None, "[]"),
        ("[" * 100000, None, None, None),
        ("Verdict: SUCCESS", True, None, "Verdict: SUCCESS"),
        ("FAILURE", False, None, "FAILURE"),
        ("NOT SUCCESS", False, None, "NOT SUCCESS"),
        ("", None, None, ""),
    ],
)  # fmt: skip
def test_molmoweb_reads_an_object(reply: str, success: bool | None, label: int | None, reason: str | None) -> None:
    said = read_molmoweb(Reply(reply))
    assert (said.success, said.upstream_label) == (success, label)
    assert reason is None or said.reason == reason


@pytest.mark.parametrize("read", [read_original, read_fara, read_osu, read_molmoweb])
def test_a_word_within_reasoning_that_was_cut_is_no_verdict(read: Any) -> None:
    cut = Reply("For a SUCCESS the agent has to find the mug, and the screenshots show", finish="length")
    assert read(cut).success is None
    assert read(Reply("**SUCCESS**\nThe screenshots sh", finish="length")).success is True


def test_thinking_is_not_spoken() -> None:
    assert spoken("<think>a</think> b") == "b" and spoken("a</thinking>b") == "b"
    assert spoken("<think>a") == "" and spoken(" a ") == "a"


# Through the protocol, over HTTP -----------------------------------------------------------------------------------

TOO_LONG = Odd(status=400, body=json.dumps({"error": {"message": "maximum context length is 8192 tokens"}}))
ODD: list[tuple[str, str | Odd, bool | None, str, dict[str, Any]]] = [
    # name, reply, success, unjudged, upstream labels (where one is stored)
    ("a refusal", "I'm sorry, I can't help with that.", None, "refused", {"original": None, "fara": 0, "osu": 1}),
    ("a refusal by the API", Odd(refusal="I can't view this. SUCCESS"), None, "refused", {}),
    ("a filter", Odd(content="SUCC", finish="content_filter"), None, "refused", {"fara": 0, "osu": 1}),
    ("empty", "", None, "no_verdict", {"original": None, "fara": 0, "osu": 1, "molmoweb": None}),
    ("cut before", Odd(content="The agent then went", finish="length"), None, "truncated", {"osu": 1}),
    ("cut behind", Odd(content="VERDICT: SUCCESS\nThe bask", finish="length"), True, "", {"original": 1, "osu": 1}),
    ("lower case", "Verdict: success", None, "no_verdict", {"original": None, "fara": 0, "osu": 1, "molmoweb": None}),
    ("two blanks", "NOT  SUCCESS", False, "", {"original": 1, "fara": 1, "osu": 1, "molmoweb": None}),
    ("bold", "**SUCCESS**", True, "", {"original": 1, "fara": 1, "osu": 1, "molmoweb": None}),
    ("an object", '{"thought": "x", "verdict": "SUCCESS"}', True, "", dict.fromkeys(JUDGES, 1)),
    ("too long", TOO_LONG, None, "overflow", {}),
    ("broken", Odd(status=500), None, "infra", {}),
]  # fmt: skip


@pytest.mark.parametrize(("case", "reply", "success", "unjudged", "labels"), ODD, ids=[row[0] for row in ODD])
async def test_odd_replies_over_http(
    case: str, reply: str | Odd, success: bool | None, unjudged: str, labels: dict[str, Any]
) -> None:
    trajectory, pictures = attempt(2)
    with ScriptServer([reply]) as server:
        settings = ModelConfig(base_url=server.base_url, name="m", attempts=1)
        for name, judge in JUDGES.items():
            store, calls = Pictures(pictures), []  # type: ignore[var-annotated]
            model = EndpointModel(settings, store)
            config = JudgeConfig(attempts=2)
            verdict = await judge(Asker(model, store, store=calls.append, attempts=2), ours(name), config)(trajectory)
            await model.close()
            assert (verdict.success, verdict.unjudged) == (success, unjudged), name
            assert verdict.details["pictures"] == [0, 1, 2] and verdict.details["screenshots"] == 3
            if name in labels:
                assert verdict.details["upstream_label"] == labels[name], name
            if unjudged in ("overflow", "infra"):
                assert calls == [] and "upstream_label" not in verdict.details
            else:
                assert len(calls) == (1 if success is not None else 2)
            assert verdict.details.get("cut", False) is (case == "cut behind")
            differs = success is False and verdict.details["upstream_label"] == 1
            assert verdict.details.get("differs_from_upstream", False) is differs
        assert all(record.pictures == 3 for record in server.requests)


async def test_a_second_try_and_stored_replies_answer_alike(tmp_path: Path) -> None:
    trajectory, pictures = attempt(2)
    calls: list[Call] = []
    model = ScriptModel(["hm", "SUCCESS"], name="m")
    first = await OSU(Asker(model, Pictures(pictures), store=calls.append), ours("osu"), JudgeConfig())(trajectory)
    assert first.success is True and len(calls) == 2
    again = await OSU(Asker(None, Pictures(pictures), replies=calls, name="m"), ours("osu"), JudgeConfig())(trajectory)
    assert again == first
    other = await OSU(Asker(None, Pictures(pictures), name="m"), ours("osu"), JudgeConfig())(trajectory)
    assert other.success is None and other.unjudged == "not_stored"


@pytest.mark.parametrize("name", JUDGES)
async def test_what_cannot_be_shown_or_was_broken_is_not_judged(name: str) -> None:
    trajectory, pictures = attempt(2)
    model = ScriptModel([])

    async def judged(given: Trajectory, stored: Mapping[str, bytes]) -> Verdict:
        return await JUDGES[name](Asker(model, Pictures(stored)), ours(name), JudgeConfig())(given)  # type: ignore[no-any-return]

    middle = trajectory.steps[1].before.image
    without = {image: data for image, data in pictures.items() if image != middle}
    verdict = await judged(trajectory, without)
    assert verdict.unjudged == "missing_evidence" and "screenshot 1: not stored" in verdict.reason
    assert (await judged(trajectory.model_copy(update={"steps": ()}), pictures)).unjudged == "missing_evidence"
    assert (await judged(trajectory.model_copy(update={"stop": Stop.MODEL_ERROR}), pictures)).unjudged == "infra"
    if name in ("osu", "molmoweb"):
        torn = await judged(trajectory, {**pictures, middle: b"\x89PNG\r\n\x1a\n torn"})
        assert torn.unjudged == "missing_evidence" and "screenshot 1 cannot be decoded" in torn.reason
    assert model.calls == []


# The two real runs -------------------------------------------------------------------------------------------------


def real_run(name: str) -> tuple[Trajectory, dict[str, bytes]]:
    """The folder read by hand: one step a screenshot in numeric order, the answer on the last."""
    folder = RUNS / f"task{name}"
    if not folder.is_dir():
        pytest.skip("../shared/data is absent: the real WebVoyager runs cannot be read")
    said = read_interact_messages(json.loads((folder / "interact_messages.json").read_text(encoding="utf-8")))
    files = sorted(folder.glob("screenshot*.png"), key=lambda path: int(path.stem.removeprefix("screenshot")))
    data = [path.read_bytes() for path in files]
    site = "https://site.example/"
    facts = {"id": name, "suite": "webvoyager", "site": name, "template": name, "split": "exam", "start_url": site}
    steps = []
    for index, content in enumerate(data):
        shot = Observation(image=sha(content), url=site)
        last = index == len(data) - 1
        decision = Decision(action=Answer(text=said.answer or "")) if last else Decision(intent="Click [2]")
        after = Observation(image=sha(data[min(index + 1, len(data) - 1)]), url=site)
        steps.append(Step(index=index, before=shot, decision=decision, effect=Effect(), after=after))
    task = Task.model_validate({**facts, "goal": said.task})
    trajectory = Trajectory(id=f"{name}#0", task=task, steps=tuple(steps), answer=said.answer, stop=Stop.ANSWERED)
    return trajectory, {sha(content): content for content in data}


@pytest.mark.parametrize(("name", "screenshots"), [("Allrecipes--4", 6), ("ArXiv--11", 7)])
@pytest.mark.parametrize("judge", JUDGES)
async def test_messages_of_the_real_runs(name: str, screenshots: int, judge: str, tmp_path: Path) -> None:
    trajectory, pictures = real_run(name)
    verdict, messages, _ = await asked(judge, exact(judge, tmp_path), trajectory, pictures)
    assert verdict.success is True and verdict.details["screenshots"] == screenshots
    text = words_of(messages)
    assert trajectory.task.goal in text and trajectory.answer is not None and trajectory.answer in text
    assert re.search(rf"\b{15 if judge == 'original' else screenshots}\b", text) and len(shown(messages)) == screenshots
    if judge in ("original", "fara"):
        files = [RUNS / f"task{name}" / f"screenshot{number}.png" for number in range(1, screenshots + 1)]
        assert shown(messages) == [sha(file.read_bytes()) for file in files]
