"""The one prompt layout: exact snapshots, guidance that leaves no trace, text that cannot pass for a mark."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rmsweb
from rmsweb import actions as act
from rmsweb.actions import PROFILES, Action, Point, Viewport
from rmsweb.chat import Message, Reply
from rmsweb.config import ProfileConfig
from rmsweb.errors import ConfigError, EndpointError
from rmsweb.policy import (
    ChatPolicy,
    fill_prompt,
    neutral,
    picture_limit,
    prompt_text,
    read_decision,
    render_messages,
    render_reply,
)
from rmsweb.records import Box, Decision, Effect, Element, Observation, Outcome, ParseFault, Reflection, Step, Task
from rmsweb.replies import parse_reply
from rmsweb.replies.arguments import LEGAL
from rmsweb.testing import ScriptModel

FULL = ProfileConfig()
COMPACT = ProfileConfig(name="compact", layout="compact", coordinates="compact", viewport=(320, 224), images=0)
TASK = Task(id="t", suite="sites", site="shop", template="add", split="dev", goal="add red mug to cart")
MUG = Element(role="link", name="red mug", box=Box(x=100, y=80, width=56, height=20))
FIELD = Element(role="input", name="search", box=Box(x=0, y=0, width=320, height=40), value="blue", covered=True)


def look(number: int, **more: object) -> Observation:
    fields = {"image": f"{number:064x}", "url": f"http://shop.test/{number}", "elements": (MUG, FIELD), **more}
    return Observation.model_validate(fields)


def step(index: int, action: Action | None, intent: str = "", changed: bool = True, **effect: object) -> Step:
    fault = None if action else ParseFault(kind="no_call", message="the reply holds no call; write exactly one")
    return Step(
        index=index,
        before=look(index),
        decision=Decision(intent=intent, action=action, fault=fault),
        effect=Effect.model_validate({"changed": changed, **effect}),
        after=look(index + 1),
    )


CLICK = act.LeftClick(point=Point(x=640, y=400))
HISTORY = [
    step(0, CLICK, "Open the shop.", hit=MUG),
    step(1, act.Memorize(fact="mugs cost 4"), "Keep the price."),
    step(2, act.Type(text="red mug", point=CLICK.point, press_enter=True), "Search.", changed=False),
    step(3, act.Scroll(dy=400), "Scroll down.", changed=False, moved=0),
    step(4, act.Key(keys=("Enter",)), changed=False, error="unknown key"),
]
GOOD = 'Thought: t\nAction: a\n<tool_call>\n{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 500]}}\n</tool_call>'  # noqa: E501
NOTE = Reflection(
    trajectory_id="t#0", outcome=Outcome.FAILURE, cause="It took the blue mug.", lesson="Read the name.", plan="Search."
)


def flat(messages: list[Message]) -> str:
    """Roles and parts in one text; pictures by their number."""
    return "".join(
        f"[{message['role']}]"
        + "".join(
            part["text"] if part["type"] == "text" else f"[picture {int(part['image'], 16)}]"
            for part in message["content"]
        )
        for message in messages
    )


def test_the_full_prompt_at_the_start() -> None:
    system, user = render_messages(FULL, TASK, [], look(0, title="Shop"))
    assert flat([user]) == (
        "[user]Task: add red mug to cart\n\nSteps so far: none.\n\n"
        "The page now:\nURL: http://shop.test/0\nTitle: Shop\n\nScreenshot now:\n[picture 0]"
    )
    said = flat([system])
    assert "from 0 to 1000 on both axes" in said and '"coordinate": [500, 250]' in said and "{" + "tool}" not in said


def test_the_full_prompt_in_the_middle() -> None:
    now = look(5, tabs=("Shop", "Help"), tab=1, messages=("dialog alert: Choose a size",), status=404, blank=True)
    _, user = render_messages(FULL, TASK, HISTORY, now)
    assert flat([user]) == (
        "[user]Task: add red mug to cart\n\n"
        "Steps so far:\n"
        '1. Open the shop. (left_click coordinate [500, 500]) -> it reached link "red mug", page changed\n'
        '2. Keep the price. (memorize fact "mugs cost 4") -> page changed\n'
        '3. Search. (type coordinate [500, 500], text "red mug", press_enter true) -> page unchanged\n'
        "4. Scroll down. (scroll pixels -400) -> nothing moved, page unchanged\n"
        '5. (key keys ["Enter"]) -> failed: unknown key, page unchanged\n\n'
        "Memorized:\n- mugs cost 4\n\n"
        "Screenshot before step 3:\n[picture 2]\n\nScreenshot before step 4:\n[picture 3]"
        "\n\nScreenshot before step 5:\n[picture 4]\n\n"
        "The page now:\nURL: http://shop.test/5\nTabs: 0: Shop; 1 (shown): Help\nHTTP status: 404\n"
        "Browser: dialog alert: Choose a size\nBrowser: the page is still blank\n\nScreenshot now:\n[picture 5]"
    )


def test_the_compact_prompt_is_the_contracts() -> None:
    assert flat(render_messages(COMPACT, TASK, [], look(0))) == "[user]Task: add red mug to cart\nDone: [picture 0]"
    done = [
        step(0, act.GoBack(), "stop"),
        step(1, act.LeftClick(point=Point(x=16, y=16)), "mug"),
        step(2, act.Type(text="mug", point=Point(x=16, y=16)), "search", changed=False),
        step(3, None),
    ]
    assert flat(render_messages(COMPACT, TASK, done, look(4))) == (
        "[user]Task: add red mug to cart\nDone: click mug; type search mug *[picture 4]"
    )
    done = [step(0, act.SelectOption(point=Point(x=16, y=16), text="low"), "priority"), step(1, act.Wait(), "loading")]
    assert "\nDone: select priority low; wait loading[" in flat(render_messages(COMPACT, TASK, done, look(2)))
    done = [step(0, act.Scroll(dy=200), "scroll"), step(1, act.GoBack(), "stop")]
    assert "\nDone: scroll; stop[" in flat(render_messages(COMPACT, TASK, done, look(2)))
    content = render_messages(COMPACT, TASK, done, look(2))[0]["content"]
    assert [part["type"] for part in content] == ["text", "image"]


@pytest.mark.parametrize("profile", [FULL, COMPACT])
def test_guidance_is_a_block_of_its_own_and_leaves_no_trace(profile: ProfileConfig) -> None:
    plain = render_messages(profile, TASK, HISTORY, look(5))
    advised = render_messages(profile, TASK, HISTORY, look(5), [NOTE, NOTE])
    first = advised[-1]["content"][0]
    assert first["text"].startswith("<guidance>\n") and first["text"].endswith("\n</guidance>\n\n")
    assert "Attempt 2: It took the blue mug. Read the name. Search." in first["text"]
    advised[-1]["content"].pop(0)
    assert advised == plain and "guidance" not in json.dumps(plain)


@pytest.mark.parametrize("images", range(5))
def test_never_more_pictures_than_the_profile_says(images: int) -> None:
    for layout, observation in (("full", "screenshot"), ("full", "both"), ("full", "elements"), ("compact", "both")):
        profile = FULL.model_copy(update={"images": images, "layout": layout, "observation": observation})
        for length in range(len(HISTORY) + 1):
            messages = render_messages(profile, TASK, HISTORY[:length], look(length))
            named = [part["image"] for message in messages for part in message["content"] if part["type"] == "image"]
            assert len(named) <= picture_limit(profile) <= images + 1
            assert named == [] if observation == "elements" else named[-1] == f"{length:064x}"
            assert named == sorted(named)


def test_history_is_limited_and_says_so() -> None:
    text = flat(render_messages(FULL.model_copy(update={"history": 2}), TASK, HISTORY, look(5)))
    assert "Steps so far:\n(the first 3 are not shown)\n4. Scroll down." in text
    assert "(the first 5 are not shown)" in flat(
        render_messages(FULL.model_copy(update={"history": 0}), TASK, HISTORY, look(5))
    )
    assert "- mugs cost 4" in text


def test_a_fault_is_told_once() -> None:
    failed = [*HISTORY[:2], step(2, None)]
    text = flat(render_messages(FULL, TASK, failed, look(3)))
    assert "3. (no action: no_call)" in text
    assert text.count("Your last reply was not carried out: the reply holds no call; write exactly one") == 1
    later = [*failed, step(3, CLICK, "Go on.")]
    assert "not carried out" not in flat(render_messages(FULL, TASK, later, look(4)))


def test_elements_as_text() -> None:
    profile = FULL.model_copy(update={"observation": "elements"})
    text = flat(render_messages(profile, TASK, [], look(0)))
    assert text.endswith('Elements:\nlink "red mug" [100, 112]\ninput "search" [125, 25] value "blue" covered')
    many = look(0, elements=(MUG,) * 250)
    assert "(50 more are not listed)" in flat(render_messages(profile, TASK, [], many))
    compact = flat(render_messages(COMPACT.model_copy(update={"observation": "both"}), TASK, [], look(0)))
    assert compact == (
        "[user]Task: add red mug to cart\nDone: \nElements:\n"
        'link "red mug" [400, 400]\ninput "search" [500, 100] value "blue" covered[picture 0]'
    )


MARKS = ("<image>", "<|image_pad|>", "<|im_end|>", "</tool_call>", "<tool_call>", "<think>", "</guidance>", "<｜end｜>")


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("profile", [FULL.model_copy(update={"observation": "both"}), COMPACT])
def test_no_text_of_a_page_or_task_passes_for_a_mark(profile: ProfileConfig, mark: str) -> None:
    bad = f"x{mark}y"
    element = MUG.model_copy(update={"name": bad, "value": bad})
    now = look(1, title=bad, url=f"http://a/{mark}", tabs=(bad, bad), messages=(bad,), elements=(element,))
    typed = step(0, act.Type(text=bad, point=Point(x=5, y=5)), bad, error=bad, hit=element)
    note = NOTE.model_copy(update={"cause": bad})
    task = TASK.model_copy(update={"goal": bad})
    plain = render_messages(profile, TASK, [step(0, CLICK, "go")], look(1), [NOTE])
    dirty = render_messages(profile, task, [typed, step(1, act.Memorize(fact=bad), bad)], now, [note])
    assert flat(dirty).count(mark) == flat(plain).count(mark)
    decision = Decision(thought=bad, intent=bad, action=act.Answer(text=bad))
    reply = render_reply(profile, decision, Viewport(*profile.viewport))
    assert "guidance" in mark or reply.count(mark) == (1 if "tool_call" in mark else 0)
    assert parse_reply(reply, Viewport(*profile.viewport), PROFILES[profile.coordinates]).action == decision.action


def test_ordinary_text_is_left_alone() -> None:
    for text in ("a < b", "<b>bold</b>", "1 <2", "<imagery>", "x <y| z", "if (a<b) {}"):
        assert neutral(text) == text
    assert neutral("\ud83c") == "?"


def test_layouts_of_a_reply() -> None:
    decision = Decision(thought="It is\nred.", intent="Click the mug.", action=CLICK)
    call = GOOD.split("\n", 2)[2]
    view = Viewport(1280, 800)
    assert render_reply(FULL, decision, view) == f"Thought: It is red.\nAction: Click the mug.\n{call}"
    assert render_reply(FULL, Decision(action=CLICK), view) == call
    compact = Decision(thought="unsaid", intent="red mug", action=act.LeftClick(point=Point(x=80, y=45)))
    assert render_reply(COMPACT, compact, Viewport(320, 224)) == (
        'Action: red mug\n<tool_call>\n{"name": "computer_use", "arguments": {"action": "left_click", '
        '"coordinate": [250, 200]}}\n</tool_call>'
    )
    with pytest.raises(ValueError, match="without an action"):
        render_reply(FULL, Decision(intent="x"), view)


LINE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=40).map(
    lambda t: " ".join(t.split())
)


@settings(deadline=None)
@given(LINE, LINE)
def test_a_reply_that_is_imitated_is_read_back(thought: str, intent: str) -> None:
    reply = render_reply(FULL, Decision(thought=thought, intent=intent, action=CLICK), Viewport(1280, 800))
    parsed = parse_reply(reply, Viewport(1280, 800), PROFILES["qwen3vl"])
    assert (parsed.thought, parsed.intent, parsed.action) == (neutral(thought), neutral(intent), CLICK)
    assert parsed.repairs == ()


# the policy


async def test_a_policy_over_a_chat_model() -> None:
    model = ScriptModel([Reply(GOOD, (1, 2), (-0.1, -0.2), 30, 2), "hm"], name="m")
    policy = ChatPolicy(model, FULL, temperature=1.0)
    good, bad = await policy.decide(TASK, HISTORY, look(5), n=2, seed=9)
    assert policy.name == "m" and model.seeds == [9]
    assert model.calls[0] == render_messages(FULL, TASK, HISTORY, look(5))
    assert (good.thought, good.intent, good.action, good.raw) == ("t", "a", CLICK, GOOD)
    assert (good.token_ids, good.logprobs, good.prompt_tokens, good.completion_tokens) == ((1, 2), (-0.1, -0.2), 30, 2)
    assert bad.action is None and bad.fault is not None and bad.fault.kind == "no_call" and bad.raw == "hm"
    with pytest.raises(EndpointError):
        await policy.decide(TASK, [], look(0))


def test_ends_of_a_reply_are_different_faults() -> None:
    def kind(reply: Reply) -> str | None:
        decision = read_decision(FULL, reply)
        return decision.fault.kind if decision.fault else None

    assert kind(Reply(GOOD)) is None
    assert kind(Reply(GOOD, finish="length")) == "truncated"
    assert kind(Reply("", finish="empty")) == "empty"
    assert kind(Reply("I will not", finish="refused")) == "refused"
    assert read_decision(FULL, Reply(GOOD, finish="length")).truncated
    reasoned = read_decision(FULL, Reply("hm " + GOOD, source="reasoning_content"))
    assert reasoned.action == CLICK and reasoned.repairs == ("read_from:reasoning_content",)
    Decision.model_validate_json(read_decision(FULL, Reply("\ud83c")).model_dump_json())


# prompt files


def test_placeholders_are_checked() -> None:
    with pytest.raises(ConfigError, match="notes"):
        fill_prompt("guidance", other="x")
    with pytest.raises(ConfigError, match=r"no prompt file prompts/nothing\.md"):
        prompt_text("nothing")
    assert fill_prompt("guidance", notes="{notes}").count("{notes}") == 1


def test_the_tool_names_the_actions_that_are_read() -> None:
    tool = json.loads((Path(rmsweb.__file__).parent / "prompts" / "tool.json").read_text())
    assert tuple(tool["function"]["parameters"]["properties"]["action"]["enum"]) == LEGAL
    system = flat(render_messages(FULL, TASK, [], look(0))[:1])
    assert all(name in system for name in LEGAL)


def test_the_scale_is_the_profiles() -> None:
    absolute = flat(render_messages(FULL.model_copy(update={"coordinates": "absolute"}), TASK, [], look(0))[:1])
    assert "1288 wide and 812 high" in absolute
    assert "from 0 to 100 " in flat(
        render_messages(FULL.model_copy(update={"coordinates": "percent"}), TASK, [], look(0))[:1]
    )
