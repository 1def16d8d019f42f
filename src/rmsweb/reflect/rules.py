"""The embedded reflection rules: what a failed or wasteful attempt teaches, read from goal, trajectory and success.

Owns the rules, their failure codes (mine/taxonomy.toml) and the length cap. Promises
that nothing of the verdict but `success` is read, so that no reference can get in. Pure. Sentences are for chat
policies and people, hints for the explorer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rmsweb.actions import Answer, SelectOption, Type
from rmsweb.judge import outcome
from rmsweb.records import Outcome, Reflection, Stop, Task, Trajectory, Verdict
from rmsweb.reflect.hints import Hints
from rmsweb.reflect.reading import (
    ONWARD,
    Goal,
    Move,
    View,
    acts,
    half_filled,
    move_of,
    page_key,
    read_goal,
    searches,
    share,
    start_of,
    words,
)

NOTHING_FOUND = frozenset({"no", "nothing", "empty", "none"})
INCOMPLETE = frozenset({"missing", "required", "invalid", "incomplete"})
"""Words by which pages say that a search found nothing, or that a form lacks something."""
CHARS = 800
"""Default cap of a reflection."""
AUTHOR = "rules"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that went wrong."""

    code: str
    step: int
    cause: str
    plan: str


@dataclass(slots=True)
class _Case:
    """An attempt as the rules read it."""

    goal: Goal
    trajectory: Trajectory
    moves: list[Move | None]
    before: list[View]
    after: list[View]
    hints: Hints = field(default_factory=Hints)
    findings: list[Finding] = field(default_factory=list)

    def found(self, code: str, step: int, cause: str, plan: str) -> None:
        self.findings.append(Finding(code, step, cause, plan))

    def coverage(self, view: View) -> float:
        return share(view.said, self.goal.keys)


def reflect(
    task: Task, trajectory: Trajectory, verdict: Verdict, *, step_budget: int = 8, chars: int = CHARS
) -> Reflection:
    """Rules over goal, trajectory and `verdict.success`; a success is read for its detours only."""
    case = _read(task, trajectory)
    result = outcome(trajectory, verdict)
    if result is Outcome.SUCCESS:
        _detours(case)
        if not case.findings:
            case.found("loop.step_cap", len(trajectory.steps) - 1, f"it took more than {step_budget} steps",
                       "take a shorter way")  # fmt: skip
    else:
        for rule in (_repeats, _dead_ends, _wrong_acts, _half_forms, _refusals, _answers, _unused, _strayed):
            rule(case)
        _promising(case)
        if trajectory.stop is Stop.STEP_LIMIT:
            case.found("loop.step_cap", len(trajectory.steps) - 1, "the step limit was reached", "take fewer detours")
        if not case.findings:
            case.hints.strict = True
            case.found("unknown.unknown", len(trajectory.steps) - 1, "nothing that a rule names",
                       "take only what fits every word of the goal")  # fmt: skip
    return _compose(trajectory, result, case, chars)


def _read(task: Task, trajectory: Trajectory) -> _Case:
    steps = trajectory.steps
    start = start_of(steps, steps[0].before) if steps else ""
    return _Case(
        goal=read_goal(task.goal),
        trajectory=trajectory,
        moves=[move_of(step, start) for step in steps],
        before=[View(step.before, page_key(step.before.url, start)) for step in steps],
        after=[View(step.after, page_key(step.after.url, start)) for step in steps],
    )


def _compose(trajectory: Trajectory, result: Outcome, case: _Case, chars: int) -> Reflection:
    findings = sorted(case.findings, key=lambda finding: finding.step)
    worst = findings[0] if findings else Finding("unknown.unknown", 0, "", "")
    cause = "; ".join(dict.fromkeys(finding.cause for finding in findings))
    plan = "; ".join(dict.fromkeys(finding.plan for finding in findings))
    lesson = worst.plan
    return Reflection(
        trajectory_id=trajectory.id,
        outcome=result,
        first_bad_step=worst.step if findings and trajectory.steps else None,
        code=worst.code,
        evidence=tuple(sorted({finding.step for finding in findings if finding.step >= 0})),
        **capped(cause, lesson, plan, chars),
        author=AUTHOR,
        hints=case.hints.to_json(),
    )


def capped(cause: str, lesson: str, plan: str, chars: int) -> dict[str, str]:
    """The three texts cut to `chars` characters in all: the plan first gives way, then the cause, last the lesson."""
    lesson = _cut(lesson, chars)
    cause = _cut(cause, (chars - len(lesson)) // 2)
    return {"cause": cause, "lesson": lesson, "plan": _cut(plan, chars - len(lesson) - len(cause))}


def _cut(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    head = text[:chars].rsplit(" ", 1)[0]
    return head.rstrip(" ;,.")


def _repeats(case: _Case) -> None:
    """The same move on the same page twice or more."""
    seen: dict[Move, int] = {}
    for index, move in enumerate(case.moves):
        if move is None or move.kind in ("answer", "wait", "scroll"):
            continue
        seen[move] = seen.get(move, 0) + 1
        if seen[move] == 2:
            case.hints.avoid.add(move)
            case.found(
                "loop.repeat", index, f"{_said(move)} was done again on the same page", "do something else there"
            )


def _dead_ends(case: _Case) -> None:
    """A search that found nothing: search for one word only, the one that names the kind of thing."""
    goal = case.goal
    for index, move in enumerate(case.moves):
        if move is None or move.kind != "type" or not isinstance(case.trajectory.steps[index].decision.action, Type):
            continue
        fresh = case.after[index].said - case.before[index].said
        if not fresh & NOTHING_FOUND or not goal.keys:
            continue
        case.hints.avoid.add(Move("", "type", move.label, move.text))
        case.hints.query = next((key for key in reversed(goal.keys) if key != move.text), "")
        case.found("wrong_value.text", index, f"{move.text!r} found nothing", f"search only for {case.hints.query!r}")


def _wrong_acts(case: _Case) -> None:
    """An acting control was used on a page or row that does not show all words of the goal."""
    goal = case.goal
    entered: set[str] = set()
    seen = frozenset().union(*(view.said for view in (*case.before, *case.after)))
    known = [key for key in goal.keys if key in seen]
    for index, move in enumerate(case.moves):
        if move is None:
            continue
        entered.update(words(move.text) if move.kind in ("type", "select") else ())
        if move.kind != "click" or goal.question or not acts(case.trajectory.steps[index], goal):
            continue
        lacking = [key for key in known or goal.keys if key not in case.before[index].said | entered]
        if lacking:
            case.hints.strict = True
            if not any(e.role in ("input", "select") and not searches(e) for e in case.before[index].elements):
                case.hints.avoid.add(move)  # a form's button may be right once the form is filled in
            case.found("wrong_element.wrong_act", index,
                       f"{move.label!r} was used where the page does not show {' '.join(lacking)!r}",
                       "act only where the page shows every word of the goal")  # fmt: skip


def _half_forms(case: _Case) -> None:
    """A form was sent before it was filled in."""
    entered: set[str] = set()
    for index, move in enumerate(case.moves):
        entered.update(words(move.text) if move is not None and move.kind in ("type", "select") else ())
        if move is None or move.kind not in ("click", "type"):
            continue
        acted = acts(case.trajectory.steps[index], case.goal)
        waiting = acted and half_filled(case.before[index], case.goal, entered)
        if waiting or (case.after[index].said - case.before[index].said) & INCOMPLETE:
            case.hints.fill = True
            case.found("wrong_value.missed_control", index, "the form was sent before it was filled in",
                       "fill in every field, then send")  # fmt: skip


def _refusals(case: _Case) -> None:
    """The browser said that the action is impossible."""
    for index, (move, step) in enumerate(zip(case.moves, case.trajectory.steps, strict=True)):
        if move is not None and step.effect.error:
            case.hints.avoid.add(Move("", move.kind, move.label, move.text))
            text = step.decision.action.text if isinstance(step.decision.action, (SelectOption, Type)) else ""
            case.found(
                "tool_misuse.illegal", index, f"{_said(move)} had no effect", f"do not try {text or move.label!r} again"
            )


def _answers(case: _Case) -> None:
    """The attempt ended with an answer that was not accepted."""
    steps, goal = case.trajectory.steps, case.goal
    if not steps or not isinstance(steps[-1].decision.action, Answer):
        return
    last, text = len(steps) - 1, steps[-1].decision.action.text
    if goal.question:
        case.hints.verify = True
        case.hints.avoid.add(Move("", "answer", "", text))
        code = "answer.wrong" if case.coverage(case.before[last]) == 1 else "premature_stop.early_answer"
        case.found(code, last, f"the answer {text!r} was not accepted",
                   "answer only with a value that stands beside all words of the goal")  # fmt: skip
        return
    case.hints.strict = True
    if not any(acts(step, goal) for step in steps):
        case.hints.avoid.add(Move(case.before[last].key, "answer", "", text))
    case.found("premature_stop.claimed_done", last, "it was called done and was not",
               "take only what fits every word of the goal, and act on it once")  # fmt: skip


def _unused(case: _Case) -> None:
    """Controls that were in sight and would have helped."""
    goal = case.goal
    views = [*case.before, *case.after[-1:]]
    seen = frozenset().union(*(view.said for view in views)) if views else frozenset()
    labels = {
        " ".join(words(e.name)) for view in views for e in view.elements if e.role in ("link", "button", "select")
    }
    used = {move.label for move in case.moves if move is not None}
    last = max(0, len(case.moves) - 1)
    if goal.extreme and "sort" in labels and "sort" not in used:
        case.hints.prefer["sort"] += 1
        case.found("wrong_value.missed_control", last, "'sort' was in sight and was not used", "use 'sort' first")
    for label in ONWARD:
        if label in labels and label not in used and not set(goal.keys) <= seen:
            case.hints.prefer[label] += 1
            case.found(
                "navigation.not_scrolled", last, f"{label!r} was not tried and not all was found", f"try {label!r}"
            )


def _strayed(case: _Case) -> None:
    """A click after which fewer of the goal's words were in sight."""
    for index, move in enumerate(case.moves):
        if move is None or move.kind != "click" or move.label in (*ONWARD, *case.goal.controls):
            continue
        if case.coverage(case.after[index]) < case.coverage(case.before[index]):
            case.hints.avoid.add(move)
            case.found("navigation.left_page", index, f"{move.label!r} led away from the goal's words",
                       f"do not take {move.label!r} there")  # fmt: skip


def _promising(case: _Case) -> None:
    """Moves that brought more of the goal's words into sight than any before: worth taking again."""
    best = case.coverage(case.before[0]) if case.before else 0.0
    for index, move in enumerate(case.moves):
        reached = case.coverage(case.after[index])
        if move is None or move.kind not in ("click", "select") or move in case.hints.avoid:
            continue
        # A link that names nothing of the goal is worth it only when it led to all of it.
        names = move.label in ONWARD or bool(set(words(move.label)) & set(case.goal.keys))
        if reached > best and (reached == 1 or names):
            case.hints.prefer[move.label] = 1
        best = max(best, reached)


def _detours(case: _Case) -> None:
    """Of a success: what lay between two visits of the same page, and what was on the straight way."""
    last_visit = {view.key: index for index, view in enumerate(case.before)}
    index = 0
    while index < len(case.moves):
        move, back = case.moves[index], last_visit[case.before[index].key]
        if back > index and move is not None:
            case.hints.avoid.add(move)
            case.found("loop.cycle", index, f"{_said(move)} led back to the same page {back - index} steps later",
                       f"skip {_said(move)} there")  # fmt: skip
        straight = case.moves[back]
        if straight is not None and straight.kind in ("click", "select") and straight not in case.hints.avoid:
            case.hints.prefer[straight.label] = 1
        index = back + 1


def _said(move: Move) -> str:
    """A move in words."""
    return f"{move.kind} {move.label!r}" + (f" {move.text!r}" if move.text else "")
