"""Observation and history -> prompt -> Decision: the ONE place that lays out a prompt.

Owns both layouts (full, compact), the text of a reply that is imitated, and the policy over a chat model. Promises:
collection, SFT, RL and evaluation render through `render_messages`; without reflections the prompt has no trace of
guidance; text of pages and tasks cannot pass for a model's special token or for one of our marks; never more pictures
than the profile says. Wording lives in prompts/*.md.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Protocol

from rmsweb import actions as act
from rmsweb.actions import PROFILES, Action, Coordinates, Viewport
from rmsweb.chat import ChatModel, Message, Part, Reply
from rmsweb.config import ProfileConfig
from rmsweb.errors import ConfigError
from rmsweb.records import Decision, Element, Observation, ParseFault, Reflection, Step, Task
from rmsweb.replies import (
    ParseErrorKind,
    ReplyError,
    call_fields,
    format_call,
    parse_reply,
    resized_size,
    written_point,
)

COMPACT_HISTORY = 2
"""Own last actions that the compact prompt shows."""
ELEMENTS = 200
"""Most elements of a text observation; the browser lists them in reading order."""
COMPACT_VERBS = {
    "left_click": "click",
    "double_click": "click",
    "triple_click": "click",
    "right_click": "click",
    "select_option": "select",
    "hscroll": "scroll",
    "terminate": "stop",
    "go_back": "stop",
}
"""Words of the compact history; other kinds keep their name."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_MARKS = re.compile(
    r"<(?=[|｜]|/?(?:image|video|audio|img|think|thinking|tool_call|tool_response|tools|guidance)\b)", re.IGNORECASE
)


class Policy(Protocol):
    """Decides what to do next. ChatPolicy; reflect.explorer.Explorer."""

    name: str

    async def decide(
        self,
        task: Task,
        history: Sequence[Step],
        now: Observation,
        *,
        reflections: Sequence[Reflection] = (),
        n: int = 1,
        seed: int = 0,
    ) -> list[Decision]:
        """`n` decisions for the same state."""
        ...


class ChatPolicy:
    """A chat model as a policy."""

    def __init__(self, model: ChatModel, profile: ProfileConfig, temperature: float = 0.0, top_p: float = 1.0) -> None:
        self.model, self.profile = model, profile
        self.temperature, self.top_p = temperature, top_p
        self.name = model.name

    async def decide(
        self,
        task: Task,
        history: Sequence[Step],
        now: Observation,
        *,
        reflections: Sequence[Reflection] = (),
        n: int = 1,
        seed: int = 0,
    ) -> list[Decision]:
        """`n` decisions; one that cannot be read has a fault and no action. Raises EndpointError, BudgetError."""
        replies = await self.model.complete(
            render_messages(self.profile, task, history, now, reflections),
            n=n,
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.profile.max_new_tokens,
            seed=seed,
        )
        return [read_decision(self.profile, reply) for reply in replies]


def read_decision(profile: ProfileConfig, reply: Reply) -> Decision:
    """A model's reply as a decision: its action, or the fault that says why it is none."""
    base = Decision(
        raw=reply.text.encode("utf-8", "replace").decode(),
        token_ids=reply.token_ids,
        logprobs=reply.logprobs,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        truncated=reply.finish == "length",
    )
    source = () if reply.source == "content" else (f"read_from:{reply.source}",)
    try:
        if reply.finish == "refused":
            raise ReplyError(ParseErrorKind.REFUSED, "the model declined to answer")
        parsed = parse_reply(
            reply.text, Viewport(*profile.viewport), PROFILES[profile.coordinates], truncated=base.truncated
        )
    except ReplyError as error:
        fault = ParseFault(kind=error.kind.value, message=error.message)
        return base.model_copy(update={"fault": fault, "repairs": source})
    return base.model_copy(
        update={
            "thought": parsed.thought,
            "intent": parsed.intent,
            "action": parsed.action,
            "repairs": (*source, *parsed.repairs),
        }
    )


def render_messages(
    profile: ProfileConfig,
    task: Task,
    history: Sequence[Step],
    now: Observation,
    reflections: Sequence[Reflection] = (),
) -> list[Message]:
    """The prompt for one decision; the same in collection, training and evaluation.

    Reflections go to a block of their own in front of everything that an unreflected prompt has: without them the rest
    is the same to the byte.
    """
    guidance: list[Part] = [_text(_guidance(reflections) + "\n\n")] if reflections else []
    if profile.layout == "compact":
        return [{"role": "user", "content": [*guidance, *_compact(profile, task, history, now)]}]
    return [
        {"role": "system", "content": [_text(_system(profile))]},
        {"role": "user", "content": [*guidance, *_full(profile, task, history, now)]},
    ]


def render_reply(profile: ProfileConfig, decision: Decision, viewport: Viewport) -> str:
    """What SFT and the anchor imitate: `parse_reply`'s inverse on the profile's grid.

    Raises ValueError for a decision without an action.
    """
    if decision.action is None:
        raise ValueError("a decision without an action has no reply to imitate")
    lines = []
    if profile.layout == "full" and decision.thought.strip():
        lines.append(f"Thought: {one_line(decision.thought)}")
    if decision.intent.strip():
        lines.append(f"Action: {one_line(decision.intent)}")
    lines.append(format_call(decision.action, viewport, PROFILES[profile.coordinates]))
    return "\n".join(lines)


def picture_limit(profile: ProfileConfig) -> int:
    """Most pictures of one prompt."""
    if profile.observation == "elements":
        return 0
    return 1 if profile.layout == "compact" else profile.images + 1


def neutral(text: str) -> str:
    """Text that cannot pass for a special token of a model or for one of our marks: `<|x|>` -> `< |x|>`."""
    return _MARKS.sub("< ", text.encode("utf-8", "replace").decode())


def one_line(text: str, most: int | None = None) -> str:
    """`neutral` text in one line, cut with an ellipsis behind `most` letters."""
    line = neutral(" ".join(text.split()))
    return line if most is None or len(line) <= most else line[: most - 1] + "…"


@cache
def prompt_text(name: str) -> str:
    """The file prompts/<name>.md without its last line break. Raises ConfigError when there is none."""
    try:
        return resources.files("rmsweb").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8").rstrip("\n")
    except FileNotFoundError:
        raise ConfigError(f"there is no prompt file prompts/{name}.md") from None


def fill_prompt(name: str, **values: str) -> str:
    """The prompt with its `{placeholders}` filled. Raises ConfigError when file and values do not fit each other."""
    text = prompt_text(name)
    wanted = set(_PLACEHOLDER.findall(text))
    if wanted != set(values):
        raise ConfigError(f"prompts/{name}.md has the placeholders {sorted(wanted)}, it was given {sorted(values)}")
    return _PLACEHOLDER.sub(lambda found: values[found.group(1)], text)


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _image(now: Observation) -> Part:
    return {"type": "image", "image": now.image}


def _guidance(reflections: Sequence[Reflection]) -> str:
    notes = []
    for number, reflection in enumerate(reflections, 1):
        parts = [one_line(text) for text in (reflection.cause, reflection.lesson, reflection.plan) if text.strip()]
        notes.append(f"Attempt {number}: {' '.join(parts)}")
    return fill_prompt("guidance", notes="\n".join(notes))


# The compact layout: one text part, then the picture. Its exact text is what the tiny model was pretrained on.


def _compact(profile: ProfileConfig, task: Task, history: Sequence[Step], now: Observation) -> list[Part]:
    acted = [step for step in history if step.decision.action is not None][-COMPACT_HISTORY:]
    text = f"Task: {neutral(task.goal)}\nDone: {'; '.join(_done(step) for step in acted)}"
    if profile.observation != "screenshot":
        text += "\n" + _elements(profile, now.elements or ())
    return [_text(text)] if profile.observation == "elements" else [_text(text), _image(now)]


def _done(step: Step) -> str:
    """`verb intent [text]`, and ` *` behind what left the page unchanged."""
    action = step.decision.action
    assert action is not None
    said = action.text if isinstance(action, act.Type | act.SelectOption) else ""
    words = [COMPACT_VERBS.get(action.action, action.action), one_line(step.decision.intent, 60), one_line(said, 60)]
    # A literal like "scroll" names itself; the word is not said twice.
    words = list(dict.fromkeys(word for word in words if word)) if not said else [word for word in words if word]
    return " ".join(words) + ("" if step.effect.changed else " *")


# The full layout.


@cache
def _tool() -> str:
    return json.dumps(json.loads(resources.files("rmsweb").joinpath("prompts", "tool.json").read_text("utf-8")))


def _system(profile: ProfileConfig) -> str:
    coordinates, viewport = PROFILES[profile.coordinates], Viewport(*profile.viewport)
    example = act.LeftClick(point=act.Point(x=viewport.width // 2, y=viewport.height // 4))
    call = format_call(example, viewport, coordinates).split("\n")[1]
    return fill_prompt("system", tool=_tool(), scale=_scale(coordinates, viewport), example=call)


def _scale(coordinates: Coordinates, viewport: Viewport) -> str:
    if coordinates.scale is None:
        size = resized_size(viewport, coordinates.factor)
        return (
            f"A coordinate is [x, y] in pixels of the screenshot as you see it, {size.width} wide and "
            f"{size.height} high; [0, 0] is its top left corner."
        )
    top = coordinates.scale
    return (
        f"A coordinate is [x, y] in whole numbers from 0 to {top} on both axes, relative to the screenshot: "
        f"[0, 0] is its top left corner, [{top}, {top}] its bottom right corner."
    )


def _full(profile: ProfileConfig, task: Task, history: Sequence[Step], now: Observation) -> list[Part]:
    text = f"Task: {neutral(task.goal)}\n\n{_history(profile, history)}"
    facts = [one_line(s.decision.action.fact) for s in history if isinstance(s.decision.action, act.Memorize)]
    if facts:
        text += "\n\nMemorized:\n" + "\n".join(f"- {fact}" for fact in facts)
    parts: list[Part] = []
    earlier = history[len(history) - profile.images :] if 0 < profile.images < len(history) else history
    if profile.images and profile.observation != "elements":
        for step in earlier:
            parts += [_text(f"{text}\n\nScreenshot before step {step.index + 1}:\n"), _image(step.before)]
            text = ""
    text += f"\n\n{_facts(profile, now, history)}"
    if profile.observation != "screenshot":
        text += "\n" + _elements(profile, now.elements or ())
    if profile.observation == "elements":
        return [*parts, _text(text)]
    return [*parts, _text(f"{text}\n\nScreenshot now:\n"), _image(now)]


def _history(profile: ProfileConfig, history: Sequence[Step]) -> str:
    if not history:
        return "Steps so far: none."
    shown = history[-profile.history :] if profile.history else []
    lines = [_line(profile, step) for step in shown]
    if len(shown) < len(history):
        lines.insert(0, f"(the first {len(history) - len(shown)} are not shown)")
    return "Steps so far:\n" + "\n".join(lines)


def _line(profile: ProfileConfig, step: Step) -> str:
    """One numbered line: what was meant, what was done, what followed."""
    decision, effect = step.decision, step.effect
    if decision.action is None:
        return f"{step.index + 1}. (no action: {decision.fault.kind if decision.fault else 'no call'})"
    said = one_line(decision.intent, 160)
    did = describe(decision.action, Viewport(*profile.viewport), PROFILES[profile.coordinates])
    then = []
    if effect.error:
        then.append(f"failed: {one_line(effect.error, 160)}")
    if effect.hit is not None:
        then.append(f"it reached {effect.hit.role} {json.dumps(one_line(effect.hit.name, 60), ensure_ascii=False)}")
    if effect.moved == 0:
        then.append("nothing moved")
    then.append("page changed" if effect.changed else "page unchanged")
    return f"{step.index + 1}. {said + ' ' if said else ''}({did}) -> {', '.join(then)}"


def describe(action: Action, viewport: Viewport, coordinates: Coordinates) -> str:
    """An action in a few words, with the numbers a model of this profile writes."""
    fields = {name: value for name, value in call_fields(action, viewport, coordinates).items() if name != "action"}
    said = ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
    return one_line(f"{action.action} {said}".strip(), 300)


def _facts(profile: ProfileConfig, now: Observation, history: Sequence[Step]) -> str:
    lines = ["The page now:", f"URL: {one_line(now.url, 300)}"]
    if now.title.strip():
        lines.append(f"Title: {one_line(now.title, 200)}")
    if len(now.tabs) > 1:
        tabs = "; ".join(f"{i}{' (shown)' if i == now.tab else ''}: {one_line(t, 60)}" for i, t in enumerate(now.tabs))
        lines.append(f"Tabs: {tabs}")
    if now.status is not None and now.status >= 400:
        lines.append(f"HTTP status: {now.status}")
    lines += [f"Browser: {one_line(message, 300)}" for message in now.messages]
    if now.blank:
        lines.append("Browser: the page is still blank")
    fault = history[-1].decision.fault if history and history[-1].decision.action is None else None
    if fault is not None:  # Said once: the next reply has its own last step.
        lines.append(f"Your last reply was not carried out: {one_line(fault.message, 200)}")
    return "\n".join(lines)


def _elements(profile: ProfileConfig, elements: Sequence[Element]) -> str:
    """The page as a list: role, name, middle in the model's own numbers, value."""
    viewport, coordinates = Viewport(*profile.viewport), PROFILES[profile.coordinates]
    lines = []
    for element in elements[:ELEMENTS]:
        box = element.box
        x = min(max(round(box.x + box.width / 2), 0), viewport.width - 1)
        y = min(max(round(box.y + box.height / 2), 0), viewport.height - 1)
        name = json.dumps(one_line(element.name, 80), ensure_ascii=False)
        line = f"{element.role} {name} {written_point(act.Point(x=x, y=y), viewport, coordinates)}"
        if element.value:
            line += f" value {json.dumps(one_line(element.value, 80), ensure_ascii=False)}"
        lines.append(line + (" covered" if element.covered else ""))
    if len(elements) > ELEMENTS:
        lines.append(f"({len(elements) - ELEMENTS} more are not listed)")
    return "Elements:\n" + "\n".join(lines)
