"""Was the task done? The judge protocol, the rule judge, what our chat judge is asked and how it is read, outcomes.

Promises: success comes from a verdict only, never from the agent's own claim or from why an episode ended; a judge
that could not tell says so and why (`Verdict.unjudged`) and is never counted as a failure; the verdict word is read
whole and anchored, negative forms first. Never sees a browser: stored trajectories can be judged again.

Pictures of the chat judge (`rmsweb/chat`, asked in bench/judges/chat.py): the first and the last screenshot, and as
many as fit, evenly spaced, between (`shown`); steps without a picture are named in the prompt. What was sent is named
in `Verdict.reason`, prompt and rule in `Verdict.judge`.
"""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeVar

from rmsweb.chat import Message, Part
from rmsweb.policy import fill_prompt, neutral, one_line, prompt_text
from rmsweb.records import INFRA_STOPS, Outcome, Step, Stop, Trajectory, Verdict

if TYPE_CHECKING:
    from rmsweb.web.suite import Suite

T = TypeVar("T")

Unjudged = Literal["no_verdict", "refused", "overflow", "missing_evidence", "truncated", "infra", "not_stored"]
"""Why a judge could not tell."""
LOG_STEPS = 60
"""Most steps of the log in the prompt; the middle is left out and named."""

_NEGATIVE = (
    r"unsuccessful|not[ _-]+success(?:ful)?|no[ _-]+success|failure|failed|fail|incorrect|not[ _-]+correct|false|no"
)
_UNKNOWN = r"cannot[ _-]*tell|can't[ _-]+tell|unclear|uncertain|undecided|unknown|unjudged|undetermined"
_POSITIVE = r"successful|success|correct|pass(?:ed)?|true|yes"
_VERDICT = re.compile(
    rf"^[\s*_#>`\"'{{]*(?P<label>(?:final[ _-]+)?(?:verdict|status|result|success)[*_`\"']*\s*[:=]\s*)?[\s*_`\"'(]*"
    rf"(?:(?P<no>{_NEGATIVE})|(?P<unknown>{_UNKNOWN})|(?P<yes>{_POSITIVE}))"
    r"(?![\w'])[*_`\"')]*\s*(?:$|[.;:}].*|,\s*\".*|(?<=\s)[—–-]+\s.*)$",
    re.IGNORECASE,
)
_FIRST_ERROR = re.compile(r"first[ _-]?error[*_`\"']*\s*[:=]\s*[*_`\"']*(?:step\s*)?(\d+)", re.IGNORECASE)
_REASON = re.compile(r"(?:reason|why)[*_`\"']*\s*[:=]\s*(.+)", re.IGNORECASE | re.DOTALL)
REFUSAL = re.compile(
    r"^\W*(?:(?:i am|i'm|we are|we're) )?(?:so |very )?(?:sorry|afraid|unable)\b"
    r"|^\W*(?:i|we) (?:can't|cannot|can not|won't|will not|am not able to|must decline)\W+"
    r"(?:help|assist|comply|view|see|analy|process|provide|identif|discuss)"
    r"|^\W*as an ai\b",
    re.IGNORECASE,
)
OVERFLOW = re.compile(
    r"context.{0,20}(?:length|window|size)|too (?:many|long|large).{0,20}(?:token|prompt|input|image)"
    r"|maximum.{0,30}token|(?:prompt|input|request).{0,30}too (?:long|large)|at most \d+ image|HTTP 413",
    re.IGNORECASE | re.DOTALL,
)


class Judge(Protocol):
    """Says whether a trajectory did its task."""

    name: str

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """The verdict; `success` None where it cannot tell. Raises BudgetError only."""
        ...


class RuleJudge:
    """The suite's own check of the answer and of what its server recorded."""

    def __init__(self, suite: "Suite") -> None:
        self.suite = suite
        self.name = f"rules:{suite.name}"

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        if trajectory.stop in INFRA_STOPS:
            return could_not_tell(self.name, "infra", trajectory.detail)
        # How the episode ended belongs to what a rule may look at: giving up is right where nothing can be done.
        evidence = {**trajectory.evidence, "stop": trajectory.stop.value}
        return self.suite.check(trajectory.task, trajectory.answer, evidence)


class ReadVerdict(NamedTuple):
    """What a judge's reply says. `success` None: the judge itself says that it cannot tell. Steps count from 1."""

    success: bool | None
    first_error: int | None = None
    reason: str = ""


def read_verdict(text: str) -> ReadVerdict | None:
    """Reads a judge's reply; None when it holds no verdict, or two that differ.

    The verdict is a whole word that stands alone in the first line, or in a line that begins with a label (`Verdict:`,
    `"success":`). A reply that was cut behind it is still read.
    """
    body = re.split(r"</think(?:ing)?>", text, flags=re.IGNORECASE)[-1].strip()
    lines = [line for line in body.splitlines() if line.strip() and not line.strip().startswith("```")]
    found: set[bool | None] = set()
    for number, line in enumerate(lines):
        match = _VERDICT.match(line)
        if match and (match["label"] or number == 0):
            found.add(False if match["no"] else None if match["unknown"] else True)
    if len(found) != 1:
        return None
    error, reason = _FIRST_ERROR.search(body), _REASON.search(body)
    why = reason.group(1) if reason else " ".join(lines[1:])
    return ReadVerdict(found.pop(), int(error.group(1)) if error else None, one_line(why.strip(' "}'), 500))


def shown(trajectory: Trajectory, most: int) -> list[tuple[int, str]]:
    """Screenshots for the judge as (number, image): number k stands after step k, 0 before the first step.

    At most `most`: the first, the last, and evenly spaced ones between.
    """
    steps = trajectory.steps
    if not steps:
        return []
    return spread([(0, steps[0].before.image), *((step.index + 1, step.after.image) for step in steps)], most)


def spread(every: Sequence[T], most: int) -> list[T]:
    """At most `most` of these: the first, the last, and evenly spaced ones between."""
    if len(every) <= most:
        return list(every)
    if most < 2:
        return [every[-1]][:most]
    return [every[round(i * (len(every) - 1) / (most - 1))] for i in range(most)]


def judge_messages(trajectory: Trajectory, pictures: Sequence[tuple[int, str]]) -> list[Message]:
    """The judge's prompt: rules, task, log, how it ended, what the agent claims, the pictures and the gaps."""
    last = len(trajectory.steps)
    numbers = [number for number, _ in pictures]
    gaps = [str(number) for number in range(last + 1) if number not in numbers]
    text = f"{len(pictures)}, in order, each with the number of the step it follows (0: before the first step)."
    if gaps:
        text += f" Not shown, for lack of room: {', '.join(gaps)}. These steps were taken all the same."
    case = fill_prompt(
        "judge_case",
        goal=neutral(trajectory.task.goal),
        log="\n".join(_log(trajectory.steps)) or "(no step)",
        end=f"{trajectory.stop.value}{': ' + one_line(trajectory.detail, 200) if trajectory.detail else ''}",
        claim=_claim(trajectory),
        shown=text,
    )
    parts: list[Part] = [{"type": "text", "text": case + "\n"}]
    for number, image in pictures:
        parts += [{"type": "text", "text": f"\nScreenshot {number}:\n"}, {"type": "image", "image": image}]
    parts.append({"type": "text", "text": "\nYour verdict:"})
    system: Message = {"role": "system", "content": [{"type": "text", "text": prompt_text("judge")}]}
    return [system, {"role": "user", "content": parts}]


def _claim(trajectory: Trajectory) -> str:
    if trajectory.answer:
        return f"the answer {json.dumps(one_line(trajectory.answer, 1000), ensure_ascii=False)}"
    return {Stop.ANSWERED: "that the task is done", Stop.GAVE_UP: "that the task cannot be done"}.get(
        trajectory.stop, "nothing"
    )


def _log(steps: Sequence[Step]) -> list[str]:
    """Numbered lines, from 1; the middle of a very long log is left out and named."""
    lines = [_line(step) for step in steps]
    if len(lines) <= LOG_STEPS:
        return lines
    half = LOG_STEPS // 2
    return [*lines[:half], f"(steps {half + 1} to {len(lines) - half} are not listed)", *lines[-half:]]


def _line(step: Step) -> str:
    decision, effect = step.decision, step.effect
    if decision.action is None:
        # An imported act that has no name among ours stands as it was written.
        foreign = decision.fault is None and decision.intent
        return f"{step.index + 1}. {one_line(decision.intent, 300) if foreign else 'a reply that is no action'}"
    fields = decision.action.model_dump(mode="json", exclude_defaults=True)
    did = " ".join(
        [
            decision.action.action,
            *(f"{name} {json.dumps(v, ensure_ascii=False)}" for name, v in fields.items() if name != "action"),
        ]
    )
    then = [f"it reached {effect.hit.role} {one_line(effect.hit.name, 60)!r}"] if effect.hit else []
    then += [f"failed: {one_line(effect.error, 120)}"] if effect.error else []
    for write in effect.writes:
        state = "HELD BACK by the safety rule" if write.stopped else f"HTTP {write.status}"
        then.append(f"sent {write.method} {one_line(write.url, 120)} ({state})")
    then.append("page changed" if effect.changed else "page unchanged")
    return f"{step.index + 1}. {one_line(decision.intent, 160) or '-'}; {one_line(did, 300)}; {', '.join(then)}"


def could_not_tell(judge: str, kind: Unjudged, reason: str) -> Verdict:
    """A verdict that says neither yes nor no."""
    return Verdict(success=None, judge=judge, unjudged=kind, reason=reason)


def outcome(trajectory: Trajectory, verdict: Verdict | None, step_budget: int | None = None) -> Outcome:
    """Typed outcome of an attempt (method.md 1.2): the verdict first, then why the episode ended.

    `over_budget` is an attempt without success that used up its steps: the task's limit, or `step_budget` where one is
    given. A success that took more steps than the budget is still a success; see `inefficient`.
    """
    if trajectory.stop in INFRA_STOPS:
        return Outcome.INFRA_ERROR
    if verdict is not None and verdict.success:
        return Outcome.SUCCESS
    if trajectory.stop is Stop.BLOCKED:
        return Outcome.BLOCKED
    if trajectory.stop is Stop.INVALID_TASK:
        return Outcome.INVALID_TASK
    if verdict is None or verdict.success is None:
        return Outcome.JUDGE_FAILED
    used_up = step_budget is not None and len(trajectory.steps) > step_budget
    return Outcome.OVER_BUDGET if trajectory.stop is Stop.STEP_LIMIT or used_up else Outcome.FAILURE


def inefficient(trajectory: Trajectory, verdict: Verdict | None, step_budget: int) -> bool:
    """Whether a success took more steps than the budget and so earns a retry."""
    return bool(verdict and verdict.success) and len(trajectory.steps) > step_budget
