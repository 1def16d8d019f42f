"""Writes reflections: the seam, the embedded writer and the one that asks a chat model.

Owns what a chat writer is shown (goal, numbered log with thoughts, how it ended, the verdict, pictures of the first
bad step and its neighbours and of the last) and how its reply is read. Promises that nothing a rule judge knows reaches
the prompt, that a reply which repeats words known from the verdict's reason alone is refused, and that a reply that
cannot be used costs the retry its guidance, never the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rmsweb.actions import Answer, Terminate
from rmsweb.config import CollectConfig
from rmsweb.judge import outcome
from rmsweb.policy import fill_prompt
from rmsweb.records import Outcome, Reflection, Step, Task, Trajectory, Verdict
from rmsweb.reflect.leaks import judge_only_words
from rmsweb.reflect.rules import AUTHOR, CHARS, capped, reflect
from rmsweb.reflect.yields import public_texts
from rmsweb.replies.repair import MalformedJson, read_json
from rmsweb.rollout import derive_seed

if TYPE_CHECKING:
    from rmsweb.chat import ChatModel, Message

TRIES = 2
STEPS = 40
"""Longest log that is written out; of a longer one the middle is left out, and said so."""
TOKENS = 1024

CODES = (
    *(f"grounding.{mode}" for mode in ("missed", "beside", "no_field", "covered")),
    *(f"wrong_element.{mode}" for mode in ("near_miss", "other", "wrong_act")),
    *(f"wrong_value.{mode}" for mode in ("text", "option", "missed_control")),
    *(f"navigation.{mode}" for mode in ("wrong_page", "left_page", "not_scrolled")),
    *(f"loop.{mode}" for mode in ("repeat", "cycle", "no_effect", "step_cap")),
    *(f"premature_stop.{mode}" for mode in ("claimed_done", "early_answer", "gave_up")),
    *(f"answer.{mode}" for mode in ("wrong", "missing", "form")),
    *("hallucination.unseen_answer", "hallucination.unseen_target", "tool_misuse.unreadable", "tool_misuse.illegal"),
    "unknown.unknown",
)
"""Modes of the taxonomy (mine/taxonomy.toml) that a reflection may name; a test holds the two together."""


class Reflector(Protocol):
    """Writes a reflection on one attempt, given those on the attempts before it."""

    name: str

    async def __call__(
        self, task: Task, trajectory: Trajectory, verdict: Verdict, earlier: Sequence[Reflection] = ()
    ) -> Reflection: ...


class RuleReflector:
    """The embedded writer (rules.py). `step_budget`: what a success should have needed."""

    name = AUTHOR

    def __init__(self, step_budget: int = 8, chars: int = CHARS) -> None:
        self.step_budget, self.chars = step_budget, chars

    async def __call__(
        self, task: Task, trajectory: Trajectory, verdict: Verdict, earlier: Sequence[Reflection] = ()
    ) -> Reflection:
        return reflect(task, trajectory, verdict, step_budget=self.step_budget, chars=self.chars)


class ChatReflector:
    """Asks `model`; pictures that are not in `images` are not sent."""

    def __init__(self, model: ChatModel, images: Mapping[str, bytes], config: CollectConfig) -> None:
        self.model, self.images, self.chars = model, images, config.reflection_chars
        self.name = model.name

    async def __call__(
        self, task: Task, trajectory: Trajectory, verdict: Verdict, earlier: Sequence[Reflection] = ()
    ) -> Reflection:
        """The model's reflection; one without guidance (`cause` says why) when no reply could be used."""
        messages = reflection_messages(task, trajectory, verdict, earlier, self.images)
        refused = ""
        for number in range(TRIES):
            seed = derive_seed(trajectory.id, "reflect", number)
            temperature = 0.0 if number == 0 else 0.7
            replies = await self.model.complete(messages, temperature=temperature, max_tokens=TOKENS, seed=seed)
            found = read_reflection(replies[0].text if replies else "", trajectory)
            if isinstance(found, str):
                refused = found
                continue
            texts = capped(found["cause"], found["lesson"], found["plan"], self.chars)
            leaked = judge_only_words(" ".join(texts.values()), verdict.reason, seen_texts(trajectory))
            if leaked:
                refused = "the reply repeats what only the judge knows"
                continue
            return self._record(trajectory, verdict, found, texts)
        bare = {"first_bad_step": None, "code": "unknown.unknown", "evidence": ()}
        return self._record(trajectory, verdict, bare, {"cause": f"no guidance: {refused}", "lesson": "", "plan": ""})

    def _record(
        self, trajectory: Trajectory, verdict: Verdict, found: Mapping[str, Any], texts: Mapping[str, str]
    ) -> Reflection:
        return Reflection(
            trajectory_id=trajectory.id,
            outcome=outcome(trajectory, verdict),
            first_bad_step=found["first_bad_step"],
            code=found["code"],
            evidence=tuple(found["evidence"]),
            cause=texts["cause"],
            lesson=texts["lesson"],
            plan=texts["plan"],
            author=self.name,
        )


def seen_texts(trajectory: Trajectory) -> list[str]:
    """Everything that the attempt itself showed or said."""
    texts = public_texts(trajectory, len(trajectory.steps))
    for step in trajectory.steps:
        texts += [step.after.title, *(e.name for e in step.after.elements or ()), step.decision.thought]
        texts += [step.decision.intent, str(getattr(step.decision.action, "text", ""))]
    return [*texts, trajectory.answer or ""]


def reflection_messages(
    task: Task,
    trajectory: Trajectory,
    verdict: Verdict,
    earlier: Sequence[Reflection],
    pictures: Container[str],
) -> list[Message]:
    """The prompt as one user message: text, then the key screenshots in the order in which they are named."""
    shown = [i for i in key_steps(trajectory, verdict) if trajectory.steps[i].before.image in pictures]
    before = "\n".join(f"- {r.lesson} {r.plan}".rstrip() for r in earlier)
    text = fill_prompt(
        "reflect",
        goal=task.goal,
        log=attempt_log(trajectory.steps),
        end=f"{trajectory.stop}. {trajectory.detail}".strip(),
        verdict=verdict_text(outcome(trajectory, verdict), verdict),
        earlier=f"\nWhat was written after attempts before this one:\n{before}\n" if before else "",
        pictures=", ".join(f"before step {i}" for i in shown) or "none",
        codes=" ".join(CODES),
    )
    images = [{"type": "image", "image": trajectory.steps[i].before.image} for i in shown]
    return [{"role": "user", "content": [{"type": "text", "text": text}, *images]}]


def verdict_text(result: Outcome, verdict: Verdict) -> str:
    """What the writer may know of the verdict. The reason of a judge that holds the reference stays outside."""
    if result is Outcome.SUCCESS:
        return "it succeeded, but took more steps than it should"
    named = verdict.reason if verdict.judge.startswith("chat") else ""
    return f"it failed. {named}".strip()


def key_steps(trajectory: Trajectory, verdict: Verdict) -> list[int]:
    """Steps whose pictures are shown: the first bad one and its neighbours, and the last."""
    count = len(trajectory.steps)
    if not count:
        return []
    bad = verdict.first_error
    if bad is None:
        bad = reflect(trajectory.task, trajectory, verdict).first_bad_step
    around = [] if bad is None else [bad - 1, bad, bad + 1]
    return sorted({i for i in (*around, count - 1) if 0 <= i < count})


def attempt_log(steps: Sequence[Step]) -> str:
    """Numbered lines: thought, what was done, what came of it."""
    skipped = len(steps) - STEPS
    lines = []
    for step in steps:
        if skipped > 0 and STEPS // 2 <= step.index < STEPS // 2 + skipped:
            if step.index == STEPS // 2:
                lines.append(f"... {skipped} steps left out ...")
            continue
        decision, effect = step.decision, step.effect
        done = f"unreadable reply ({decision.fault.kind})" if decision.fault else decision.intent or "-"
        action = "" if decision.action is None else decision.action.model_dump_json(exclude_defaults=True)
        came = effect.error or ("page changed" if effect.changed else "nothing changed")
        if isinstance(decision.action, (Answer, Terminate)):
            came = "the attempt ended"
        thought = f" Thought: {decision.thought}" if decision.thought else ""
        page = step.before.title or step.before.url
        lines.append(f"{step.index}. at {page}:{thought} Did: {done} {action} -> {came}")
    return "\n".join(lines) or "(no step)"


def read_reflection(text: str, trajectory: Trajectory) -> dict[str, Any] | str:
    """The fields of a reply, or why it cannot be used. Unknown codes become unknown, steps out of range fall away."""
    for match in re.finditer(r"\{", text):
        try:
            value = read_json(text, match.start()).value
        except (MalformedJson, json.JSONDecodeError):
            continue
        if isinstance(value, dict) and isinstance(value.get("lesson"), str) and value["lesson"].strip():
            break
    else:
        return "the reply is no JSON object with a lesson"
    count = len(trajectory.steps)
    step, code, evidence = value.get("first_bad_step"), value.get("code"), value.get("evidence")
    within = [i for i in (evidence if isinstance(evidence, list) else []) if type(i) is int and 0 <= i < count]
    return {
        "first_bad_step": step if type(step) is int and 0 <= step < count else None,
        "code": code if code in CODES else "unknown.unknown",
        "evidence": within,
        **{name: _text(value.get(name)) for name in ("cause", "lesson", "plan")},
    }


def _text(value: Any) -> str:
    """A sentence; a list of them is joined (plans often come as lists)."""
    parts = value if isinstance(value, list) else [value]
    return " ".join(" ".join(str(part).split()) for part in parts if isinstance(part, str | int | float))
