"""What a chat model is asked in mining: the first harmful step, and the failure mode. Owns the two prompts' rendering.

Promises: a reply that cannot be read counts as no answer, never as step 0 or a default mode; the reference answer of a
task is not known here, the verdict's reason is shown as the judge wrote it.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING

from rmsweb.errors import ConfigError
from rmsweb.mine.label import Case
from rmsweb.mine.meaning import hit_of
from rmsweb.mine.taxonomy import Taxonomy
from rmsweb.records import Step, Trajectory, Verdict
from rmsweb.rollout import derive_seed

if TYPE_CHECKING:
    from rmsweb.chat import ChatModel, Message

REPLY_TOKENS = 200
PICTURES = 4
NAME_CHARS = 80


def fill(name: str, values: Mapping[str, str]) -> str:
    """A prompt file with its `{placeholders}` filled. Raises ConfigError when file and values do not fit."""
    text = resources.files("rmsweb").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
    wanted = set(re.findall(r"\{([a-z_]+)\}", text))
    if wanted != set(values):
        raise ConfigError(f"prompts/{name}.md has the placeholders {sorted(wanted)}, it is given {sorted(values)}")
    return re.sub(r"\{([a-z_]+)\}", lambda found: values[found.group(1)], text)


def line(step: Step) -> str:
    """One step of the numbered log."""
    decision, effect, hit = step.decision, step.effect, hit_of(step)
    did = decision.action.model_dump_json(exclude_defaults=True) if decision.action else "no readable action"
    got = f"; got {hit.role} {hit.name[:NAME_CHARS]!r}" if hit else ""
    then = effect.error or ("the page changed" if effect.changed else "nothing changed")
    return f"{step.index}: {decision.intent[:NAME_CHARS]!r} {did}{got}; {then}"


def first_error_messages(trajectory: Trajectory, verdict: Verdict) -> list["Message"]:
    """The question for the first harmful step."""
    shown = _pictures(trajectory.steps)
    values = {
        "goal": trajectory.task.goal,
        "log": "\n".join(line(step) for step in trajectory.steps),
        "end": f"{trajectory.stop.value}; answer {trajectory.answer!r}",
        "verdict": verdict.reason or "failed",
        "pictures": _named(shown),
    }
    return [_message(fill("mine_first_error", values), shown)]


def label_messages(case: Case, taxonomy: Taxonomy) -> list["Message"]:
    """The question for the failure mode of a case."""
    steps = (*case.trajectory.steps[: case.step.index], case.step)
    right = case.reference.action.model_dump_json(exclude_defaults=True) if case.reference else "not known"
    target = f" on {case.reference.hit.name!r}" if case.reference and case.reference.hit else ""
    values = {
        "goal": case.trajectory.task.goal,
        "log": "\n".join(line(step) for step in steps),
        "reference": right + target,
        "modes": "\n".join(f"- {mode.code}: {mode.text}" for mode in taxonomy.modes.values()),
        "pictures": _named(steps[-1:]),
    }
    return [_message(fill("mine_label", values), steps[-1:])]


async def first_error(
    trajectory: Trajectory, verdict: Verdict, model: "ChatModel", calls: int, wanted: float, seed: int
) -> int | None:
    """The step that at least `wanted` of `calls` replies name; None when they do not agree or name none."""
    chosen = derive_seed(seed, "first_error", trajectory.id)
    messages = first_error_messages(trajectory, verdict)
    replies = await model.complete(messages, n=calls, temperature=0.7, max_tokens=REPLY_TOKENS, seed=chosen)
    named = [read_step(reply.text, len(trajectory.steps)) for reply in replies]
    votes = Counter(step for step in named if step is not None)
    if not votes:
        return None
    step, count = min(votes.items(), key=lambda vote: (-vote[1], vote[0]))
    return step if count >= wanted * calls else None


async def label(case: Case, taxonomy: Taxonomy, model: "ChatModel", seed: int) -> str | None:
    """The code the model gives; None when its reply is none of the list."""
    chosen = derive_seed(seed, "label", case.trajectory.id, case.step.index)
    messages = label_messages(case, taxonomy)
    replies = await model.complete(messages, n=1, temperature=0.0, max_tokens=REPLY_TOKENS, seed=chosen)
    return read_code(replies[0].text, taxonomy) if replies else None


def read_step(text: str, steps: int) -> int | None:
    """The step number of a reply; also of one that was cut behind it. None: none named, or out of range."""
    found = re.search(r'"first_error"\s*:\s*"?(\d+|null)', text)
    if found is None or found.group(1) == "null":
        return None
    return int(found.group(1)) if int(found.group(1)) < steps else None


def read_code(text: str, taxonomy: Taxonomy) -> str | None:
    """The code of a reply, if it is one of the taxonomy."""
    found = re.search(r'"code"\s*:\s*("(?:[^"\\]|\\.)*")', text)
    code = json.loads(found.group(1)) if found else ""
    return code if code in taxonomy.modes else None


def _pictures(steps: Sequence[Step]) -> list[Step]:
    """First, last, and evenly spaced between."""
    if len(steps) <= PICTURES:
        return list(steps)
    return [steps[round(i * (len(steps) - 1) / (PICTURES - 1))] for i in range(PICTURES)]


def _named(shown: Sequence[Step]) -> str:
    return "before step " + ", ".join(str(step.index) for step in shown) if shown else "none"


def _message(text: str, shown: Sequence[Step]) -> "Message":
    pictures = [{"type": "image", "image": step.before.image} for step in shown]
    return {"role": "user", "content": [{"type": "text", "text": text}, *pictures]}
