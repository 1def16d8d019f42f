"""A call's JSON value -> an Action: the alias tables, the fields of every kind, typed errors. Pure.

Promises: a number out of range, a letter where a number belongs, a missing field or an unknown name is an error of one
line that names the field; nothing is clamped and nothing stands in for what is missing. Fields that mean nothing are
ignored and named in the repairs.
"""

from collections.abc import Mapping
from typing import Any, get_args

from rmsweb import actions as act
from rmsweb.actions import Action
from rmsweb.replies.fields import Fields, Frame, ParseErrorKind, ReplyError, fold
from rmsweb.replies.repair import MalformedJson, read_json

TOOLS = frozenset({"computeruse", "computer", "browser", "browseruse", "webagent", "computertool", "browsertool"})
"""Folded names of the one tool there is."""

LEGAL: tuple[str, ...] = (
    "left_click", "double_click", "triple_click", "right_click", "mouse_move", "left_click_drag", "type", "key",
    "scroll", "hscroll", "wait", "goto", "web_search", "go_back", "switch_tab", "new_tab", "close_tab",
    "select_option", "memorize", "answer", "terminate",
)  # fmt: skip
"""Action names of the text form."""

_ALIASES: Mapping[str, str] = {
    "left_click": "click leftmouseclick mouseclick singleclick tap clickat",
    "double_click": "doubleleftclick dblclick doubletap",
    "triple_click": "tripleleftclick",
    "right_click": "rightmouseclick contextclick",
    "mouse_move": "move movemouse hover mouseover moveto cursormove",
    "left_click_drag": "drag dragto dragdrop draganddrop mousedrag leftdrag",
    "type": "typetext write writetext input inputtext entertext fill typewrite",
    "key": "keys press presskey presskeys keypress hotkey keycombination keyboard",
    "scroll": "mousescroll vscroll",
    "hscroll": "horizontalscroll scrollhorizontally",
    "wait": "sleep pause",
    "goto": "gotourl navigate navigateto visit visiturl openurl loadurl openwebsite",
    "web_search": "searchweb websearchengine googlesearch",
    "go_back": "back goback navigateback historyback",
    "switch_tab": "changetab selecttab focustab gototab",
    "new_tab": "opentab opennewtab createtab",
    "close_tab": "closecurrenttab",
    "select_option": "select selectdropdown selectdropdownoption chooseoption",
    "memorize": "memorise remember memory pauseandmemorizefact memorizefact note",
    "answer": "finalanswer respond submitanswer giveanswer",
    "terminate": "finish finished done stop end exit complete",
}

ALIASES: Mapping[str, str] = {
    **{alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()},
    **{fold(name): name for name in LEGAL},
}
"""Folded action name -> name in the text form. Unknown names are errors."""

CLICKS: Mapping[str, type[act.LeftClick | act.DoubleClick | act.TripleClick | act.RightClick | act.MouseMove]] = {
    get_args(kind.model_fields["action"].annotation)[0]: kind for kind in act.POINTING
}
MAX_SCROLL = 100_000
MAIN_FIELD: Mapping[str, str] = {
    "type": "text", "key": "keys", "scroll": "pixels", "hscroll": "pixels", "wait": "time", "goto": "url",
    "web_search": "query", "switch_tab": "tab", "new_tab": "url", "close_tab": "tab", "memorize": "fact",
    "answer": "text", "terminate": "status", **dict.fromkeys(CLICKS, "coordinate"), "left_click_drag": "coordinate",
}  # fmt: skip
"""The field that a bare value stands for."""


def read_call(value: Any, frame: Frame, repairs: list[str]) -> Action:
    """The action a call's JSON value means; what was lenient is appended to `repairs`. Raises ReplyError."""
    name, given = _named(value, repairs, 0)
    if not fold(name):
        raise ReplyError(ParseErrorKind.MISSING_ACTION, "the call has no action name")
    kind = ALIASES.get(fold(name))
    if kind is None:
        raise ReplyError(ParseErrorKind.UNKNOWN_ACTION, f"unknown action {name[:40]!r}; legal are {', '.join(LEGAL)}")
    if kind != name:
        repairs.append(f"alias:{kind}")
    fields = Fields(kind, given, frame, repairs)
    kind = _button(kind, fields)
    action = _build(kind, fields)
    repairs.extend(f"ignored_field:{key}" for key in fields.left())
    return action


def looks_like_call(value: Any) -> bool:
    """Whether a JSON value has the shape of a call; its content may still be wrong."""
    if isinstance(value, list):
        return len(value) == 1 and looks_like_call(value[0])
    if not isinstance(value, dict):
        return False
    keys = {fold(key) for key in value}
    return "action" in keys or is_envelope(value) or (len(value) == 1 and bool(keys & ALIASES.keys()))


def is_envelope(value: Any) -> bool:
    """Whether a JSON value is a whole call: the tool's or an action's name, and arguments."""
    if not isinstance(value, dict):
        return False
    keys = {fold(key) for key in value}
    name = value.get("name")
    known = isinstance(name, str) and (fold(name) in TOOLS or fold(name) in ALIASES)
    return known and bool(keys & {"arguments", "parameters", "args", "input"})


def _named(value: Any, repairs: list[str], depth: int) -> tuple[str, dict[str, Any]]:
    """Action name and fields out of the envelope, in whatever of the known shapes it comes."""
    if isinstance(value, list) and len(value) == 1:
        repairs.append("list_of_one")
        value = value[0]
    if not isinstance(value, dict) or depth > 3:
        raise ReplyError(ParseErrorKind.MALFORMED, "the call is no JSON object")
    given = {fold(key): (key, item) for key, item in value.items()}
    if len(value) == 1 and "function" in given:
        return _named(given["function"][1], repairs, depth + 1)
    if "action" in given and "arguments" not in given:
        if depth == 0:
            repairs.append("no_envelope")
        return _flat(value, given["action"], repairs)
    inner = next((given[key] for key in ("arguments", "parameters", "args", "input") if key in given), None)
    name = given.get("name") or given.get("action") or given.get("tool")
    if inner is not None and name is not None and isinstance(name[1], str):
        return _enveloped(name[1], inner, repairs, depth)
    if len(value) == 1 and (only := next(iter(given))) in ALIASES:
        repairs.append("action_as_key")
        return ALIASES[only], _as_fields(ALIASES[only], next(iter(value.values())))
    raise ReplyError(ParseErrorKind.MISSING_ACTION, "the call has no action name")


def _flat(value: dict[str, Any], action: tuple[str, Any], repairs: list[str]) -> tuple[str, dict[str, Any]]:
    """`{"action": ..., field: ...}`; the action may itself be `{name: fields}` or `{"name": ..., field: ...}`."""
    key, name = action
    rest = {other: item for other, item in value.items() if other != key}
    if (
        isinstance(name, dict)
        and len(name) == 1
        and isinstance(only := next(iter(name)), str)
        and fold(only) in ALIASES
    ):
        repairs.append("action_as_key")
        return ALIASES[fold(only)], {**rest, **_as_fields(ALIASES[fold(only)], name[only])}
    if isinstance(name, dict) and isinstance(name.get("name"), str):
        repairs.append("action_as_object")
        return name["name"], {**rest, **{other: item for other, item in name.items() if other != "name"}}
    if name is None:
        name = ""
    if not isinstance(name, str):
        raise ReplyError(ParseErrorKind.BAD_VALUE, "action: a name should stand here")
    return name, rest


def _enveloped(name: str, inner: tuple[str, Any], repairs: list[str], depth: int) -> tuple[str, dict[str, Any]]:
    key, arguments = inner
    if key != "arguments":
        repairs.append(f"alias:arguments<-{key}")
    if isinstance(arguments, str):
        try:
            arguments = read_json(arguments).value
        except MalformedJson as error:
            raise ReplyError(ParseErrorKind.MALFORMED, f"arguments: {error}") from None
        repairs.append("arguments_as_text")
    if fold(name) in TOOLS:
        if name != "computer_use":
            repairs.append(f"tool_name:{name}")
        return _named(arguments, repairs, depth + 1)
    if fold(name) in ALIASES:
        repairs.append("action_in_name")
        fields = _as_fields(ALIASES[fold(name)], arguments)
        given = {fold(key): item for key, item in fields.items()}
        twin = given.get("action")
        if isinstance(twin, str) and ALIASES.get(fold(twin)) not in (None, ALIASES[fold(name)]):
            raise ReplyError(ParseErrorKind.BAD_VALUE, f"action: {name} and {twin} are two actions")
        return name, {key: item for key, item in fields.items() if fold(key) != "action"}
    message = f"unknown tool {name[:40]!r}; the tool is computer_use"
    raise ReplyError(ParseErrorKind.UNKNOWN_ACTION, message)


def _as_fields(kind: str, value: Any) -> dict[str, Any]:
    """Fields of an action whose arguments may be a bare value: its main field."""
    if isinstance(value, dict):
        return value
    if value is None or kind not in MAIN_FIELD:
        return {}
    return {MAIN_FIELD[kind]: value}


def _button(kind: str, fields: Fields) -> str:
    """`button` and `clicks` beside a click change its meaning; they may not be ignored."""
    if kind != "left_click":
        return kind
    button = fields.raw("button")
    clicks = fields.raw("clicks", "num_clicks", "click_count")
    if button is not None and button != "left":
        if button != "right" or clicks not in (None, 1):
            raise ReplyError(ParseErrorKind.BAD_VALUE, f"button: {str(button)[:20]!r} cannot be pressed")
        kind = "right_click"
    elif clicks not in (None, 1):
        if clicks not in (2, 3):
            raise ReplyError(ParseErrorKind.BAD_VALUE, f"clicks: {str(clicks)[:20]!r} is not 1, 2 or 3")
        kind = {2: "double_click", 3: "triple_click"}[clicks]
    if kind != "left_click":
        fields.repairs.append(f"alias:{kind}")
    else:
        fields.repairs += [f"ignored_field:{name}" for name, value in (("button", button), ("clicks", clicks)) if value]
    return kind


def _build(kind: str, fields: Fields) -> Action:
    """The action of a kind, from its fields."""
    if kind in CLICKS:
        return CLICKS[kind](point=fields.needed("coordinate", fields.point))
    match kind:
        case "left_click_drag":
            start = fields.optional("start_coordinate", fields.point)
            return act.Drag(point=fields.needed("coordinate", fields.point), start=start)
        case "type":
            return act.Type(
                text=fields.needed("text", fields.text),
                point=fields.optional("coordinate", fields.point),
                press_enter=fields.optional("press_enter", fields.flag) or False,
                clear_first=fields.optional("clear_first", fields.flag) or False,
            )
        case "key":
            return act.Key(keys=fields.needed("keys", fields.keys))
        case "scroll" | "hscroll":
            return _scroll(kind, fields)
        case "wait":
            seconds = fields.optional("time", fields.seconds)
            return act.Wait() if seconds is None else act.Wait(seconds=seconds)
        case "goto":
            return act.Goto(url=fields.needed("url", fields.words))
        case "web_search":
            return act.WebSearch(query=fields.needed("query", fields.words))
        case "go_back":
            return act.GoBack()
        case "switch_tab":
            return act.SwitchTab(tab=fields.needed("tab", fields.tab))
        case "new_tab":
            return act.NewTab(url=fields.optional("url", fields.text) or "")
        case "close_tab":
            return act.CloseTab(tab=fields.optional("tab", fields.tab))
        case "select_option":
            point = fields.needed("coordinate", fields.point)
            return act.SelectOption(point=point, text=fields.needed("text", fields.words, "option", "label"))
        case "memorize":
            return act.Memorize(fact=fields.needed("fact", fields.words))
        case "answer":
            return act.Answer(text=fields.needed("text", fields.words))
    return act.Terminate(status=fields.needed("status", fields.status), text=fields.optional("text", fields.text) or "")


def _scroll(kind: str, fields: Fields) -> act.Scroll:
    """Qwen's convention: positive pixels go up, or right for hscroll. A `direction` gives axis and sign instead."""
    pixels = fields.needed("pixels", fields.whole)
    direction = fields.optional("direction", fields.text)
    if direction is not None:
        way = {"up": (0, 1), "down": (0, -1), "right": (1, 1), "left": (1, -1)}.get(fold(direction))
        if way is None:
            raise ReplyError(ParseErrorKind.BAD_VALUE, f"direction: {direction[:20]!r} is not up, down, left or right")
        kind, pixels = ("scroll", "hscroll")[way[0]], abs(pixels) * way[1]
        fields.repairs.append("direction")
    if abs(pixels) > MAX_SCROLL:
        raise ReplyError(ParseErrorKind.BAD_VALUE, f"pixels: more than {MAX_SCROLL}")
    point = fields.optional("coordinate", fields.point)
    return act.Scroll(dy=-pixels, point=point) if kind == "scroll" else act.Scroll(dx=pixels, point=point)
