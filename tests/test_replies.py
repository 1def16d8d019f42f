"""Reading replies: every kind of fault of the field log (S01-S19), its neighbours, and the writer as the inverse."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmsweb import actions as act
from rmsweb.actions import PROFILES, Action, Coordinates, Point, Viewport
from rmsweb.errors import ConfigError
from rmsweb.replies import (
    ParseErrorKind,
    ReplyError,
    canonical_key,
    format_call,
    parse_command,
    parse_reply,
    resized_size,
)
from rmsweb.replies.arguments import ALIASES, LEGAL
from rmsweb.replies.keys import NAMED

WIDE = Viewport(1280, 800)
QWEN = PROFILES["qwen3vl"]
CLICK = act.LeftClick(point=Point(x=640, y=32))
CLICK_JSON = '{"name":"computer","arguments":{"action":"left_click","coordinate":[500,40]}}'


def call(arguments: str) -> str:
    return f'<tool_call>{{"name":"computer_use","arguments":{arguments}}}</tool_call>'


def read(text: str, viewport: Viewport = WIDE, profile: Coordinates = QWEN) -> Action:
    return parse_reply(text, viewport, profile).action


def repairs(text: str) -> tuple[str, ...]:
    return parse_reply(text, WIDE, QWEN).repairs


def fault(text: str, **how: bool) -> str:
    with pytest.raises(ReplyError) as caught:
        parse_reply(text, WIDE, QWEN, **how)
    assert caught.value.message and "\n" not in caught.value.message and len(caught.value.message) < 400
    return caught.value.kind.value


# S01, S02: what stands round a call


@pytest.mark.parametrize(
    ("text", "repair"),
    [
        (f"I will press the blue button now.\n```json\n{CLICK_JSON}\n```\nThen I wait.", "fence"),
        (f"~~~\n{CLICK_JSON}\n~~~", "fence"),
        (f"```{CLICK_JSON}```", "fence"),
        (f"```json\n{CLICK_JSON}", "fence"),
        (f"\n\n  {CLICK_JSON}\n", "bare_json"),
        (f"I press it.\n{CLICK_JSON}", "bare_json"),
        (f"{CLICK_JSON}\nThen I wait.", "bare_json"),
        (json.dumps(json.loads(CLICK_JSON), indent=2), "bare_json"),
        (f"<tool_call>\n```json\n{CLICK_JSON}\n```\n</tool_call>", "call_prefix"),
        (f"<tool_call>{CLICK_JSON}", "unclosed_call"),
        (f"<tool_call><tool_call>{CLICK_JSON}</tool_call>", "tool_name:computer"),
        (f"I press.\n{CLICK_JSON}\n</tool_call>", "unopened_call"),
        (f"```json\n<tool_call>{CLICK_JSON}</tool_call>\n```", "tool_name:computer"),
        (f"<tool_call>{CLICK_JSON}}}</tool_call>", "extra_brace"),
        (f"<tool_call>{CLICK_JSON[:-1]}</tool_call>", "missing_brace"),
        (f"Click it. <tool_call>{CLICK_JSON}</tool_call>", "tool_name:computer"),
    ],
)
def test_a_call_is_found_in_whatever_stands_round_it(text: str, repair: str) -> None:
    assert read(text) == CLICK
    assert repair in repairs(text)


def test_a_quoted_block_does_not_hide_the_call() -> None:
    text = (
        'The page contains\n```html\n<button data-x=\'{"action":"left_click","coordinate":[1,1]}\'>Go</button>\n```\n'
        f"so my step is\n```json\n{CLICK_JSON}\n```\n"
    )
    assert read(text) == CLICK
    listing = f'Prices:\n```json\n{{"mug": 4, "action": 12}}\n```\n<tool_call>{CLICK_JSON}</tool_call>'
    assert read(listing) == CLICK


def test_several_calls_follow_the_rule() -> None:
    other = call('{"action":"wait","time":2}')
    same = f"<tool_call>{CLICK_JSON}</tool_call>"
    assert fault(same + "\n" + other) == fault(other + same) == "several_calls"
    assert fault(f"```json\n{CLICK_JSON}\n```\n```json\n" + '{"action":"wait"}\n```') == "several_calls"
    assert read(same + "\n" + same) == CLICK and "repeated_call" in repairs(same + same)
    broken = '<tool_call>{"name": oops}</tool_call>\n'
    assert read(broken + same) == read(same + broken) == CLICK
    assert "ignored_broken_call" in repairs(broken + same)
    done = call('{"action":"terminate","status":"success"}')
    assert read(call('{"action":"answer","text":"12"}') + done) == act.Answer(text="12")
    assert fault(call('{"action":"answer","text":"12"}') + done.replace("success", "failure")) == "several_calls"
    assert fault(done + call('{"action":"answer","text":"12"}')) == "several_calls"


# S03: nearly JSON


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("{'action': 'type', 'text': 'blue', 'press_enter': True,}", "blue"),
        ("{‘action’: ‘type’, ‘text’: ‘blue’, ‘press_enter’: True,}", "blue"),
        ("{“action”: “type”, “text”: “it's”, “press_enter”: true}", "it's"),
        ("{‘action’: ‘type’, ‘text’: ‘it’s’, ‘press_enter’: True}", "it’s"),
        ("{'action': 'type', 'text': 'it's, he's blue', 'press_enter': True}", "it's, he's blue"),
        ("{'action': 'type', 'text': \"it's\", 'press_enter': True, 'coordinate': None}", "it's"),
        ('{"action": "type", "text": "say "hi", then go", "press_enter": true}', 'say "hi", then go'),
        ('{action: "type", text: "a: b", press_enter: true}', "a: b"),
        ('{"action": "type", "text": "two\nlines", "press_enter": true}', "two\nlines"),
        (r'{"action": "type", "text": "it\'s \d", "press_enter": true}', "it's \\d"),
        ('{"action": "type", "text": "True, None", "press_enter": "true"}', "True, None"),
        ("{'action': 'type', 'text': 'the dogs', he said', 'press_enter': True}", "the dogs', he said"),
        ("{'action': 'type', 'text': 'say \\'hi\\'', 'press_enter': True}", "say 'hi'"),
    ],
)
def test_python_and_smart_quotes(arguments: str, text: str) -> None:
    assert read(call(arguments)) == act.Type(text=text, press_enter=True)
    assert repairs(call(arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        '{"action": "type", "text": "a" "note": "b"}',
        "{'action': 'type', 'text': 'a' 'note': 'b'}",
        '{"action": "type" "text": "a"}',
        '{"action": "type", "text": blue}',
        '{"action": "left_click", "coordinate": [0x1f, 9]}',
        '{"action": "left_click", "coordinate": [500px, 9]}',
        '{"action": "wait", "action": "go_back"}',
        '{"action": "type", "text": "a", "text": "b"}',
        '{"action": "scroll", "pixels": 1+1}',
        "[" * 2000,
        '{"a":' * 2000,
        "9" * 5000,
    ],
)
def test_no_certain_meaning_is_an_error(arguments: str) -> None:
    assert fault(call(arguments)) in ("malformed", "truncated")


# S04, S05, S06, S07: names and fields


@pytest.mark.parametrize(
    "text",
    [
        call('{"action":"visit_url","url":{"href":"https://example.test/a"}}'),
        call('{"visit_url":"https://example.test/a"}'),
        call('{"action":{"goto":{"url":"https://example.test/a"}}}'),
        call('{"action":{"name":"goto","url":"https://example.test/a"}}'),
        '<tool_call>{"name":"goto","arguments":{"url":"https://example.test/a"}}</tool_call>',
        '<tool_call>{"name":"goto","arguments":"https://example.test/a"}</tool_call>'.replace(
            '"https', '"{\\"url\\": \\"https'
        ).replace('a"}<', 'a\\"}"}<'),
        '<tool_call>{"action":"goto","url":"https://example.test/a"}</tool_call>',
        '<tool_call>[{"name":"computer_use","arguments":{"action":"goto","url":["https://example.test/a"]}}]</tool_call>',
        '<tool_call>{"name":"computer_use","parameters":{"Action":"GoTo","URL":"https://example.test/a"}}</tool_call>',
        '<tool_call>{"function":{"name":"computer_use","arguments":{"action":"goto","link":"https://example.test/a"}}}'
        "</tool_call>",
        '<tool_call>{"name":"computer_use","arguments":"{\\"action\\":\\"goto\\",\\"url\\":\\"https://example.test/a\\"}"}'
        "</tool_call>",
        '{"visit_url":"https://example.test/a"}',
    ],
)
def test_unambiguous_shapes(text: str) -> None:
    assert read(text) == act.Goto(url="https://example.test/a")
    assert repairs(text)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ('{"action":""}', "missing_action"),
        ('{"action":"  -- "}', "missing_action"),
        ('{"action":null}', "missing_action"),
        ("{}", "missing_action"),
        ('{"coordinate":[10,10]}', "missing_action"),
        ("[]", "malformed"),
        ("null", "malformed"),
        ('{"action":7}', "bad_value"),
        ('{"action":"launch_rocket"}', "unknown_action"),
        ('{"action":"left_click"}', "bad_coordinate"),
        ('{"action":"type"}', "missing_field"),
        ('{"action":"answer","text":" "}', "missing_field"),
        ('{"action":"goto","url":""}', "missing_field"),
        ('{"action":"goto","url":{"a":1,"b":2}}', "bad_value"),
        ('{"action":"type","text":["a","b"]}', "bad_value"),
        ('{"action":"type","text":"a","press_enter":"maybe"}', "bad_value"),
        ('{"action":"scroll"}', "missing_field"),
        ('{"action":"scroll","pixels":"much"}', "bad_value"),
        ('{"action":"scroll","pixels":1e9}', "bad_value"),
        ('{"action":"scroll","pixels":NaN}', "bad_value"),
        ('{"action":"wait","time":61}', "bad_value"),
        ('{"action":"wait","time":true}', "bad_value"),
        ('{"action":"switch_tab"}', "missing_field"),
        ('{"action":"switch_tab","tab":-1}', "bad_value"),
        ('{"action":"switch_tab","tab":0.5}', "bad_value"),
        ('{"action":"terminate"}', "missing_field"),
        ('{"action":"terminate","status":"dunno"}', "bad_value"),
        ('{"action":"key","keys":["Blah"]}', "bad_key"),
        ('{"action":"key","keys":[]}', "bad_key"),
        ('{"action":"key","keys":[1]}', "bad_key"),
        ('{"action":"click","coordinate":[5,5],"button":"middle"}', "bad_value"),
        ('{"action":"type","text":"a","Text":"b"}', "bad_value"),
    ],
)
def test_typed_errors(arguments: str, kind: str) -> None:
    assert fault(call(arguments)) == kind


def test_an_unknown_tool_and_an_unknown_action_name_what_is_legal() -> None:
    with pytest.raises(ReplyError, match=r"left_click, double_click.*terminate"):
        read(call('{"action":"fly"}'))
    with pytest.raises(ReplyError, match="computer_use"):
        read('<tool_call>{"name":"bash","arguments":{"action":"type","text":"rm"}}</tool_call>')


def test_the_alias_table_folds_case_and_punctuation() -> None:
    for written in ("Left-Click ", "LEFT_CLICK", "left click", "leftClick", "click", "CLICK", "left.click"):
        assert read(call(json.dumps({"action": written, "coordinate": [500, 40]}))) == CLICK
    assert set(ALIASES.values()) == set(LEGAL)
    assert len(ALIASES) > 100 and all(name.isalnum() and name.islower() for name in ALIASES)


def test_unknown_fields_are_ignored_and_recorded() -> None:
    text = call('{"action":"left_click","coordinate":[500,40],"button":"left","note":"ok","x1":{"y":2}}')
    assert read(text) == CLICK
    assert set(repairs(text)) == {"ignored_field:button", "ignored_field:note", "ignored_field:x1"}


def test_what_changes_the_meaning_of_a_click_is_not_ignored() -> None:
    right = read(call('{"action":"click","coordinate":[500,40],"button":"right"}'))
    assert right == act.RightClick(point=CLICK.point)
    assert read(call('{"action":"click","coordinate":[500,40],"clicks":2}')) == act.DoubleClick(point=CLICK.point)


@pytest.mark.parametrize(
    ("arguments", "scroll"),
    [
        ('{"action":"scroll","pixels":-400}', act.Scroll(dy=400)),
        ('{"action":"scroll","pixels":"400"}', act.Scroll(dy=-400)),
        ('{"action":"scroll","pixels":400.0,"direction":"down"}', act.Scroll(dy=400)),
        ('{"action":"scroll","pixels":-400,"direction":"Up"}', act.Scroll(dy=-400)),
        ('{"action":"hscroll","pixels":30}', act.Scroll(dx=30)),
        ('{"action":"scroll","pixels":30,"direction":"left"}', act.Scroll(dx=-30)),
    ],
)
def test_positive_pixels_go_up(arguments: str, scroll: act.Scroll) -> None:
    assert read(call(arguments)) == scroll


# S08: ends


def test_terminate_keeps_the_answer_beside_it() -> None:
    done = call('{"action":"terminate","status":"success"}')
    assert read("The total is 812 g.\n" + done) == act.Terminate(status="success", text="The total is 812 g.")
    assert read("Thought: I am done.\nAction: stop\n" + done) == act.Terminate(status="success")
    assert read("<think>hm</think>\n" + done) == act.Terminate(status="success")
    given = call('{"action":"terminate","status":"success","answer":"812 g"}')
    assert read("Some talk.\n" + given) == act.Terminate(status="success", text="812 g")


# S09, S14: what is no coordinate


@pytest.mark.parametrize(
    "coordinate",
    ['["=","b"]', "[1200,2400]", "[-5,10]", "[NaN,5]", "[5,Infinity]", '["0x1f","9"]', "[500]", "[1,2,3]", "[1,2,3,4]",
     "[]", "{}", '{"x":1}', '""', '"500"', "500", "[true,false]", "[null,5]", '["1e2","5"]', '["",""]', "[[1,2],[3,4]]",
     "[1e999,1]", "[1000.5,5]", '"a, b"', "[1" + "0" * 400 + ",5]", '["٣","٤"]'],
)  # fmt: skip
def test_no_coordinate_is_made_up_and_none_is_clamped(coordinate: str) -> None:
    assert fault(call(f'{{"action":"left_click","coordinate":{coordinate}}}')) == "bad_coordinate"


@pytest.mark.parametrize(
    "fields",
    ['"coordinate":["500","40"]', '"coordinate":[500.0,40.0]', '"coordinate":"500, 40"', '"coordinate":"[500, 40]"',
     '"coordinate":{"x":500,"y":40}', '"coordinate":[[500,40]]', '"x":500,"y":40', '"point":[500,40]',
     '"Coordinates":(500,40)'],
)  # fmt: skip
def test_a_point_in_another_certain_shape(fields: str) -> None:
    assert read(call(f'{{"action":"left_click",{fields}}}')) == CLICK


# S10, S11, S12, S13: scales


def test_each_axis_has_its_own_size() -> None:
    for viewport, written, pixel in (
        (Viewport(1366, 768), [500, 500], Point(x=683, y=384)),
        (Viewport(640, 480), [769, 70], Point(x=492, y=34)),
        (Viewport(1280, 800), [1000, 999], Point(x=1279, y=799)),
        (Viewport(300, 900), [0, 1000], Point(x=0, y=899)),
    ):
        assert read(call(f'{{"action":"left_click","coordinate":{written}}}'), viewport) == act.LeftClick(point=pixel)


def test_the_scheme_is_the_profiles_and_never_guessed() -> None:
    text = call('{"action":"left_click","coordinate":[50,50]}')
    assert read(text, WIDE, PROFILES["percent"]) == act.LeftClick(point=Point(x=640, y=400))
    assert read(text, WIDE, QWEN) == act.LeftClick(point=Point(x=64, y=40))
    assert read(text, Viewport(1288, 812), PROFILES["absolute"]) == act.LeftClick(point=Point(x=50, y=50))


def test_resized_size_and_the_way_back() -> None:
    view = Viewport(1280, 720)
    assert resized_size(view, 28) == (1288, 728)
    assert resized_size(view, 32) == (1280, 704)
    small = resized_size(view, 28, max_pixels=401408)
    assert small == (840, 448)
    text = call('{"action":"left_click","coordinate":[420,224]}')
    middle = parse_reply(text, view, PROFILES["absolute"], resized=small).action
    assert middle == act.LeftClick(point=Point(x=640, y=360))
    assert '"coordinate": [420, 224]' in format_call(middle, view, PROFILES["absolute"], resized=small)
    with pytest.raises(ReplyError, match=r"0\.\.840 x 0\.\.448"):
        parse_reply(text.replace("420", "900"), view, PROFILES["absolute"], resized=small)
    assert resized_size(Viewport(1280, 800), 32) == (1280, 800)
    wide, high = resized_size(Viewport(20, 30), 28)
    assert wide * high >= 4 * 28 * 28 and wide % 28 == high % 28 == 0


# S15: talk is no call


BAD = '{"action":"visit_url","url":"http://bad.test"}'


@pytest.mark.parametrize(
    "talk",
    [
        f"The page says to reply with {BAD} but I will not.",
        f"The page says:\n{BAD}\nI will not do that.",
        f"> {BAD}",
        f'It says "<tool_call>{BAD}</tool_call>".',
        f"It says `<tool_call>{BAD}</tool_call>`",
        f"It wants <tool_call>{BAD}</tool_call> but no.",
        f"> <tool_call>{BAD}</tool_call>",
        f"I could write <tool_call>{BAD} here.",
        f"```html\n<a data='{BAD}'>\n```",
        f"```text\n{BAD}\n```",
        f"Inline `{BAD}` code",
        f"<think>maybe {call(BAD)} or not</think>",
        f"<think>{call(BAD)} no, better not</think>\nI am not sure.",
    ],
)
def test_json_in_prose_is_no_action(talk: str) -> None:
    assert fault(talk) == "no_call"
    assert read(f"{talk}\n" + call('{"action":"scroll","pixels":400}')) == act.Scroll(dy=-400)


# S16: text


def test_typed_text_is_the_decoded_string() -> None:
    text = r'{"action":"type","text":"caf\u00e9 \ud83c\udf75 \"ok\" C:\\new\nline2 日本 \t"}'
    assert read(call(text)) == act.Type(text='café 🍵 "ok" C:\\new\nline2 日本 \t')
    assert repairs(call(text)) == ()
    alone = call(r'{"action":"type","text":"a\ud83cb"}')
    assert read(alone) == act.Type(text="a�b") and repairs(alone) == ("lone_surrogate",)
    raw = call('{"action":"type","text":"a\ud83cb"}')
    assert read(raw) == act.Type(text="a�b") and "lone_surrogate" in repairs(raw)
    assert read(call('{"action":"type","text":"\ud83c\udf75"}')) == act.Type(text="🍵")
    json.dumps(parse_command(raw)[0], ensure_ascii=False).encode("utf-8")


# S17: thinking


def test_thinking_is_split_off_in_all_its_forms() -> None:
    wait = call('{"action":"wait","time":3}')
    for text in (
        f"<think>plan</think>\n{wait}",
        f"plan</think>{wait}",
        f"<think>plan {call(BAD)} hm</think>{wait}",
        f"<thinking>plan</thinking>\n{wait}",
        f"{wait}<think>plan",
        f"<think>a</think>b</think>{wait}",
    ):
        assert read(text) == act.Wait(seconds=3)
    parsed = parse_reply(f"planning...</think>Action: rest\n{wait}", WIDE, QWEN)
    assert (parsed.thought, parsed.intent) == ("planning...", "rest")
    typed = call('{"action":"type","text":"</think>"}')
    assert read(typed) == act.Type(text="</think>")


def test_a_call_that_ends_pure_thinking_counts() -> None:
    for text in ("<think>so {} ", "so {}</think>", "<think>so {}</think>\n", "...{}"):
        assert read(text.format(call('{"action":"wait","time":3}'))) == act.Wait(seconds=3)


# S18, S19: cut and empty


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name":"computer","arguments":{"action":"type","text":"transfer 10',
        '<tool_call>{"name":"computer","arguments":{"action":"scroll","pixels":40',
        '<tool_call>{"name":"computer","arguments":{"action":"left_click","coordinate":[50, 4',
        '<tool_call>{"name":"computer","arguments":{"action":"left_click"',
        '```json\n{"name":"computer","arguments":{"action":"type","text":"transfer 10',
        '{"name":"computer","arguments":{"action":"type","text":"transfer 10',
        "<tool_call>",
    ],
)
def test_a_cut_call_is_never_executed(text: str) -> None:
    assert fault(text) == "truncated"
    assert fault(text, truncated=True) == "truncated"


def test_a_cut_call_that_somebody_closed() -> None:
    for cut in ('"text":"transfer 10', '"pixels":40', '"coordinate":[50, 4'):
        assert fault(f'<tool_call>{{"name":"computer","arguments":{{"action":"type",{cut}</tool_call>') == "malformed"


def test_a_cut_reply_is_not_executed_whatever_it_holds() -> None:
    assert fault(call('{"action":"wait"}') + " and", truncated=True) == "truncated"
    assert fault("", truncated=True) == "truncated"


def test_empty_and_wordy_replies() -> None:
    assert fault("") == fault(" \n\t") == "empty"
    assert (
        fault("I do not know what to do.") == fault("<think></think>") == fault("Action: click the button") == "no_call"
    )


# keys (S25)


def test_every_alias_of_every_key_gives_its_name() -> None:
    for names, key in {
        ("ENTER", "enter", "Return", "RETURN", "\n"): "Enter",
        ("Esc", "ESC", "escape"): "Escape",
        ("space", "Spacebar", " "): "Space",
        ("Down", "arrow_down", "DOWN_ARROW", "ArrowDown"): "ArrowDown",
        ("page_down", "PgDn", "Page Down", "PAGEDOWN"): "PageDown",
        ("ctrl", "CONTROL", "control_left"): "Control",
        ("cmd", "Super", "win", "META"): "Meta",
        ("del",): "Delete", ("f5",): "F5", ("KeyA",): "a", ("digit7",): "7", ("plus",): "+", ("é",): "é",
    }.items():  # fmt: skip
        for name in names:
            assert canonical_key(name) == key, name
    assert all(canonical_key(name) == canonical_key(name.lower()) == name for name in NAMED)
    assert canonical_key("blah") is None and canonical_key("") is None


@pytest.mark.parametrize(
    ("written", "keys"),
    [
        ('["Ctrl","a"]', ("Control", "a")),
        ('"ctrl+shift+T"', ("Control", "Shift", "t")),
        ('["Ctrl+A"]', ("Control", "a")),
        ('"RETURN"', ("Enter",)),
        ('["page_down"]', ("PageDown",)),
        ('"ctrl++"', ("Control", "+")),
        ('"+"', ("+",)),
        ('"ctrl-c"', ("Control", "c")),
        ('"A"', ("A",)),
        ('"Shift+Tab"', ("Shift", "Tab")),
    ],
)
def test_chords(written: str, keys: tuple[str, ...]) -> None:
    assert read(call(f'{{"action":"key","keys":{written}}}')) == act.Key(keys=keys)
    assert read(call(f'{{"action":"key","text":{written}}}')) == act.Key(keys=keys)


# the text around the call


def test_thought_and_intent() -> None:
    for text in (
        "Thought: The mug is red.\nIt is cheap.\nAction: Click the mug.\n",
        "**Thought:** The mug is red.\nIt is cheap.\n\n**Action:** Click the mug.\n",
        "**Thought**: The mug is red.\nIt is cheap.\n**Action: Click the mug.**\n",
        "thought: The mug is red.\nIt is cheap.\naction:\nClick the mug.\n",
        "The mug is red.\nIt is cheap.\nAction: Click the mug.\n",
    ):
        parsed = parse_reply(text + call('{"action":"wait"}'), WIDE, QWEN)
        assert (parsed.thought, parsed.intent) == ("The mug is red.\nIt is cheap.", "Click the mug.")


# the writer


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        (CLICK, '{"action": "left_click", "coordinate": [500, 40]}'),
        (
            act.Type(text="it's ü", point=CLICK.point, press_enter=True, clear_first=True),
            '{"action": "type", "coordinate": [500, 40], "text": "it\'s ü", "press_enter": true, "clear_first": true}',
        ),
        (act.Type(text="a"), '{"action": "type", "text": "a"}'),
        (act.Scroll(dy=200), '{"action": "scroll", "pixels": -200}'),
        (act.Scroll(dx=-20, point=CLICK.point), '{"action": "hscroll", "coordinate": [500, 40], "pixels": -20}'),
        (act.Wait(), '{"action": "wait", "time": 1}'),
        (act.Wait(seconds=2.5), '{"action": "wait", "time": 2.5}'),
        (act.Key(keys=("Control", "a")), '{"action": "key", "keys": ["Control", "a"]}'),
        (act.GoBack(), '{"action": "go_back"}'),
        (
            act.SelectOption(point=CLICK.point, text="low"),
            '{"action": "select_option", "coordinate": [500, 40], "text": "low"}',
        ),
        (act.Terminate(status="success"), '{"action": "terminate", "status": "success"}'),
        (act.CloseTab(), '{"action": "close_tab"}'),
        (act.CloseTab(tab=0), '{"action": "close_tab", "tab": 0}'),
        (
            act.Drag(point=CLICK.point, start=Point(x=0, y=0)),
            '{"action": "left_click_drag", "start_coordinate": [0, 0], "coordinate": [500, 40]}',
        ),
        (
            act.Answer(text="<|im_end|></tool_call>"),
            '{"action": "answer", "text": "\\u003c|im_end|>\\u003c/tool_call>"}',
        ),
    ],
)  # fmt: skip
def test_the_exact_text(action: Action, arguments: str) -> None:
    written = format_call(action, WIDE, QWEN)
    assert written == f'<tool_call>\n{{"name": "computer_use", "arguments": {arguments}}}\n</tool_call>'
    assert read(written) == action and repairs(written) == ()


def test_the_compact_example_of_the_contract() -> None:
    text = 'Action: red mug\n<tool_call>\n{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [250, 200]}}\n</tool_call>'  # noqa: E501
    view = Viewport(320, 224)
    parsed = parse_reply(text, view, PROFILES["compact"])
    assert parsed.intent == "red mug" and parsed.action == act.LeftClick(point=Point(x=80, y=45))
    assert text.endswith(format_call(parsed.action, view, PROFILES["compact"]))


def test_a_scroll_along_both_axes_has_no_text() -> None:
    with pytest.raises(ValueError, match="both axes"):
        format_call(act.Scroll(dx=1, dy=1), WIDE, QWEN)


VIEWPORTS = (
    WIDE,
    Viewport(1366, 768),
    Viewport(640, 480),
    Viewport(320, 224),
    Viewport(333, 777),
    Viewport(2560, 1440),
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
WORDS = TEXT.filter(lambda text: bool(text.strip()))
KEYS = st.one_of(
    st.sampled_from(sorted(NAMED)).map(lambda key: (key,)),
    st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=["C", "Z"]).map(lambda key: (key,)),
    st.tuples(st.sampled_from(["Control", "Alt", "Meta"]), st.sampled_from([*"abcxyz019+-", "Enter", "F4"])),
)


@st.composite
def representable(draw: st.DrawFn) -> tuple[Action, Viewport, Coordinates]:
    """An action whose points lie on the profile's grid."""
    viewport, profile = draw(st.sampled_from(VIEWPORTS)), draw(st.sampled_from(list(PROFILES.values())))
    across, down = (profile.scale,) * 2 if profile.scale else resized_size(viewport, profile.factor)

    def point() -> Point:
        x, y = (draw(st.integers(0, top // profile.step)) * profile.step for top in (across, down))
        return read(call(f'{{"action":"mouse_move","coordinate":[{x},{y}]}}'), viewport, profile).point  # type: ignore[union-attr]

    def maybe() -> Point | None:
        return point() if draw(st.booleans()) else None

    flag, number = st.booleans(), st.integers(-act_limit, act_limit)
    makers: list[Iterator[Action] | object] = [
        lambda: draw(st.sampled_from(act.POINTING))(point=point()),
        lambda: act.Drag(point=point(), start=maybe()),
        lambda: act.Type(text=draw(TEXT), point=maybe(), press_enter=draw(flag), clear_first=draw(flag)),
        lambda: act.Key(keys=draw(KEYS)),
        lambda: act.Scroll(dy=draw(number), point=maybe()),
        lambda: act.Scroll(dx=draw(number), point=maybe()),
        lambda: act.Wait(seconds=draw(st.floats(0, 60))),
        lambda: act.Goto(url=draw(WORDS)),
        lambda: act.WebSearch(query=draw(WORDS)),
        act.GoBack,
        lambda: act.SwitchTab(tab=draw(st.integers(0, 999))),
        lambda: act.NewTab(url=draw(TEXT)),
        lambda: act.CloseTab(tab=draw(st.none() | st.integers(0, 999))),
        lambda: act.SelectOption(point=point(), text=draw(WORDS)),
        lambda: act.Memorize(fact=draw(WORDS)),
        lambda: act.Answer(text=draw(WORDS)),
        lambda: act.Terminate(status=draw(st.sampled_from(["success", "failure"])), text=draw(TEXT)),
    ]
    return draw(st.sampled_from(makers))(), viewport, profile  # type: ignore[operator, return-value]


act_limit = 100_000


@settings(max_examples=400, deadline=None)
@given(representable(), st.booleans())
def test_reading_inverts_writing(case: tuple[Action, Viewport, Coordinates], labels: bool) -> None:
    action, viewport, profile = case
    text = ("Thought: so\nAction: do it\n" if labels else "") + format_call(action, viewport, profile)
    parsed = parse_reply(text, viewport, profile)
    assert parsed.action == action and parsed.repairs == ()
    assert (parsed.thought, parsed.intent) == (("so", "do it") if labels else ("", ""))


PIECES = st.sampled_from(
    ["<tool_call>", "</tool_call>", "<think>", "</think>", "```", "```json\n", "{", "}", "[", "]", '"', "'", "’", "\\",
     ",", ":", "\n", " ", '"action"', '"left_click"', '"coordinate"', "[500,40]", "NaN", "0x1f", "True",
     "\ud83c", "\\ud83c", '"name":"computer_use","arguments":', CLICK_JSON, "Thought:", "Action:", "word", "-5",
     "1e999"]
)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=25).map("".join)), st.booleans())
def test_no_text_breaks_the_reader(text: str, truncated: bool) -> None:
    try:
        parsed = parse_reply(text, WIDE, QWEN, truncated=truncated)
    except ReplyError as error:
        assert error.kind in ParseErrorKind and error.message
        return
    point = getattr(parsed.action, "point", None)
    assert not truncated and (point is None or (0 <= point.x < 1280 and 0 <= point.y < 800))
    json.dumps(parsed.action.model_dump(), ensure_ascii=False).encode("utf-8")


def test_a_long_babble_is_read_quickly() -> None:
    for babble in ("<tool_call>" * 3000, "{'a': '" * 3000, "```json\n{\n" * 1000, "\n{" * 5000, "<think>" * 5000):
        assert fault(babble) in set(ParseErrorKind)


# the command


def test_parse_command() -> None:
    value, code = parse_command(
        "Action: go\n" + call('{"action":"left_click","coordinate":[500,40]}'), "qwen3vl", "1280x800"
    )
    assert code == 0 and value == {
        "thought": "",
        "intent": "go",
        "action": {"action": "left_click", "point": {"x": 640, "y": 32}},
        "repairs": [],
    }
    value, code = parse_command("no")
    assert code == 2 and value == {"error": "no_call", "message": "the reply holds no call; write exactly one"}
    for wrong in (("qwen3vl", "wide"), ("qwen3vl", "0x0"), ("guess", "1280x800")):
        with pytest.raises(ConfigError):
            parse_command("x", *wrong)
