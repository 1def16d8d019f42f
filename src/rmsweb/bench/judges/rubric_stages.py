"""The rubric verifier's stages over a judge model: one question each, stored, read, asked again. Never a default.

Order and choice of screenshots follow the Universal Verifier (benchmarks.md 1C); the texts are ours or a pack's. One
call carries at most one screenshot. A stage that cannot be read raises Broken with the reason that the verdict gets:
where upstream would go on with zeros, with the baseline or without penalties, nothing is scored here.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from string import Template
from typing import TypeVar

from rmsweb.bench.judges import rubric_layout as layout
from rmsweb.bench.judges import rubric_reading as reading
from rmsweb.bench.judges.asking import Asker, NoReply, image, text
from rmsweb.bench.judges.rubric_layout import Chosen, Found
from rmsweb.bench.judges.rubric_reading import Boundary, Diagnosis, Evidence, Unreadable
from rmsweb.bench.reading import Act, acts
from rmsweb.chat import Message, Reply
from rmsweb.errors import ConfigError
from rmsweb.judge import REFUSAL, Unjudged
from rmsweb.policy import neutral, one_line
from rmsweb.records import Trajectory
from rmsweb.tasksets.rubrics import Rubric, parse_rubric

T = TypeVar("T")

REPLY_TOKENS = 8192
"""Of one reply; room for a model that thinks before it writes."""
RUBRICS = ("rubric", "precomputed_rubric")
"""Keys of `Task.meta` that hold a task's own rubric, as JSON value or JSON text: of a task set, beside an attempt."""
VOTING = 0.7
"""Least temperature of several outcome votes: greedy ones would all be the same."""
SEEDS_APART = 100
"""Seeds between two votes: a vote that is asked again may not repeat another one's seed."""

_TASK = frozenset({"task_definition", "init_url_context"})
_RUN = _TASK | {"action_history"}
_POLICY = frozenset({"critical_point_context", "user_simulator_policy"})
FIELDS: Mapping[str, frozenset[str]] = {
    "boundary": _TASK,
    "new": _POLICY | {"task_id", "init_url_context"},
    "check": frozenset({"task_id", "init_url_context", "rubric"}),
    "baseline": _RUN | _POLICY | {"rubric", "predicted_target"},
    "relevance": _TASK | {"rubric_criteria"},
    "evidence": _RUN | {"agent_predicted_output", "criteria_info_block"},
    "conditions": _TASK | {"num_conditional", "conditional_criteria_with_evidence"},
    "reality": _TASK | {"num_criteria", "last_criterion_idx", "criteria_with_evidence"},
    "rescore": _RUN
    | {
        "agent_predicted_output",
        "full_rubric_with_baselines",
        "all_screenshot_evidence",
        "num_criteria",
        "num_criteria_minus_1",
    },
    "penalties": _RUN | {"scored_rubric_summary", "all_concatenated_evidence"},
    "outcome": _RUN | _POLICY | {"predicted_output", "rubric_summary", "evidence_summary", "cp_decision_rules"},
    "crossed": _RUN | _POLICY | {"rubric_summary", "evidence_summary", "cp_decision_rules"},
    "diagnosis": _RUN | {"predicted_output", "rubric_summary", "outcome_line"},
}
"""Text of a stage -> the `$placeholders` it may have; the names are upstream's, so that its texts fit."""


OUTAGES: frozenset[Unjudged] = frozenset({"infra", "overflow", "not_stored"})
"""No reply came: another draw would not help."""


class Broken(Exception):
    """A stage has no answer; `kind` is the `unjudged` reason."""

    def __init__(self, kind: Unjudged, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}")
        self.kind, self.key = kind, key
        self.keys: tuple[str, ...] = (key,)
        """Every question whose replies could not be read, where several were asked together."""


@dataclass(slots=True)
class Case:
    """One trajectory under judgement."""

    trajectory: Trajectory
    acts: list[Act]
    shots: list[tuple[int, str]]
    """(number, SHA-256) of its screenshots: one for each action, the page it was decided on; and the page behind the
    last action where that one did not end the run by itself."""
    pictures: Chosen
    boundary: Boundary | None = None

    @classmethod
    def of(cls, trajectory: Trajectory, most: int | None) -> "Case":
        """`most`: most screenshots that are looked at."""
        done = acts(trajectory)
        shots = [(act.index, act.before) for act in done]
        if done and not done[-1].final and done[-1].after:
            shots.append((done[-1].index + 1, done[-1].after))
        return cls(trajectory, done, shots, layout.chosen(len(shots), most))

    def numbers(self, positions: Sequence[int]) -> list[int]:
        """Numbers of the screenshots at these positions, as in `Verdict.details`."""
        return [self.shots[position][0] for position in positions]


def own_rubric(trajectory: Trajectory) -> object:
    """The rubric that its task brings along, unread; None where it brings none."""
    return next((value for key in RUBRICS if (value := trajectory.task.meta.get(key))), None)


def check_texts(texts: Mapping[str, str], source: str) -> None:
    """Raises ConfigError where a stage's text cannot be filled: an unknown placeholder, a lone `$`."""
    for stage, known in FIELDS.items():
        template = Template(texts[stage])
        unknown = sorted(set(template.get_identifiers()) - known)
        if unknown or not template.is_valid():
            what = (
                f"has placeholders that this stage does not fill: {', '.join(unknown)}" if unknown else "has a lone $"
            )
            raise ConfigError(f"judge.pack: the text for the stage {stage!r} of {source} {what}")


class Stages:
    """Asks the questions of one judge."""

    def __init__(self, asker: Asker, texts: Mapping[str, str], judge: str, temperature: float, votes: int) -> None:
        self.asker, self.texts, self.judge = asker, texts, judge
        self.temperature, self.votes = temperature, votes

    # Rubric

    async def boundary(self, case: Case) -> Boundary:
        """The task's point of no return."""
        return await self._ask(case, "critical_point", "boundary", {}, reading.read_boundary)

    async def rubric(self, case: Case) -> Rubric:
        """The task's own rubric, without points; written from the task alone where it brings none.

        Raises DataError where the task's own rubric is broken.
        """
        if (own := own_rubric(case.trajectory)) is not None:
            given = parse_rubric(own, f"rubric of task {case.trajectory.task.id}")
            return Rubric(
                tuple(
                    replace(item, met=None, baseline=None, earned=None, justification="")
                    for item in given.items
                    if not item.penalty
                )
            )
        written = await self._ask(case, "rubric", "new", {}, reading.read_new_rubric)
        values = {"rubric": layout.sheet(written)}
        return await self._ask(case, "rubric_check", "check", values, lambda t: reading.read_checked_rubric(t, written))

    async def baseline(self, case: Case, rubric: Rubric) -> Rubric:
        """Points from the actions alone."""
        values = {"rubric": layout.sheet(rubric)}
        return await self._ask(case, "baseline", "baseline", values, lambda t: reading.read_baseline(t, rubric))

    # Screenshots

    async def relevance(self, case: Case, rubric: Rubric) -> dict[int, list[float]]:
        """Position of a screenshot -> how much it says about each criterion, 0 to 10."""
        values, count = {"rubric_criteria": layout.criteria(rubric)}, len(rubric.items)
        asked = [
            partial(
                self._ask, case, f"relevance/{position}", "relevance", values,
                lambda t: reading.read_relevance(t, count), position,
            )
            for position in case.pictures.positions
        ]  # fmt: skip
        return dict(zip(case.pictures.positions, await self._together(asked), strict=True))

    async def evidence(
        self, case: Case, rubric: Rubric, kept: Mapping[int, Sequence[int]]
    ) -> dict[int, list[Evidence]]:
        """What the kept screenshots show: one question a screenshot, for all criteria that kept it."""
        found: dict[int, list[Evidence]] = {index: [] for index in range(len(rubric.items))}
        asked = []
        for position in sorted({p for positions in kept.values() for p in positions}):
            wanted = [index for index, positions in kept.items() if position in positions]
            values = {"criteria_info_block": layout.criteria(rubric, wanted)}
            reader = _evidence_reader(position, rubric, wanted)
            asked.append(partial(self._ask, case, f"evidence/{position}", "evidence", values, reader, position))
        for seen in await self._together(asked):
            for index, one in seen.items():
                found[index].append(one)
        return found

    async def conditions(self, case: Case, rubric: Rubric, found: Found) -> Rubric:
        """Which conditional criteria count: one by any screenshot that shows it, several weighed together."""
        wanted = rubric.conditional
        if len(wanted) < 2:
            return rubric.changed(
                {index: {"met": any(one.condition for one in found[index])} for index in wanted if found[index]}
            )
        values = {
            "num_conditional": str(len(wanted)),
            "conditional_criteria_with_evidence": layout.evidence(rubric, found, case.pictures, wanted),
        }
        return await self._ask(case, "conditions", "conditions", values, lambda t: reading.read_conditions(t, rubric))

    async def reality(self, case: Case, rubric: Rubric, found: Found) -> Rubric:
        """Notes on what the criteria took for granted."""
        values = {
            "num_criteria": str(len(rubric.items)),
            "last_criterion_idx": str(len(rubric.items) - 1),
            "criteria_with_evidence": f"{layout.criteria(rubric)}\n\n{layout.evidence(rubric, found, case.pictures)}",
        }
        return await self._ask(case, "reality", "reality", values, lambda t: reading.read_reality(t, rubric))

    # Points

    async def rescore(self, case: Case, rubric: Rubric, found: Found) -> Rubric:
        """The points that count, the whole rubric at once."""
        values = {
            "full_rubric_with_baselines": layout.scored(rubric),
            "all_screenshot_evidence": layout.evidence(rubric, found, case.pictures),
            "num_criteria": str(len(rubric.items)),
            "num_criteria_minus_1": str(len(rubric.items) - 1),
        }
        return await self._ask(case, "rescore", "rescore", values, lambda t: reading.read_rescored(t, rubric))

    async def penalties(self, case: Case, rubric: Rubric, found: Found) -> Rubric:
        """The rubric with a criterion of no earned points for each side effect that nobody asked for."""
        values = {
            "scored_rubric_summary": layout.scored(rubric),
            "all_concatenated_evidence": layout.evidence(rubric, found, case.pictures),
        }
        added = await self._ask(case, "side_effects", "penalties", values, reading.read_penalties)
        return Rubric((*rubric.items, *added))

    # Outcome and diagnosis

    async def outcome(self, case: Case, rubric: Rubric, found: Found, vote: int) -> tuple[bool, str]:
        """One vote on whether the user has what was asked for, and its reason."""
        warm = self.temperature if self.votes == 1 else max(self.temperature, VOTING)
        values = {**self._judged(case, rubric, found), **self._policy(case, outcome=True)}
        return await self._ask(
            case, f"outcome/{vote}", "outcome", values, reading.read_outcome, temperature=warm, seed=SEEDS_APART * vote
        )

    async def crossed(self, case: Case, rubric: Rubric, found: Found) -> tuple[bool, str]:
        """Whether the point of no return was passed without leave."""
        values = {**self._judged(case, rubric, found), **self._policy(case, outcome=True)}
        return await self._ask(case, "crossed", "crossed", values, reading.read_crossed)

    async def diagnosis(self, case: Case, rubric: Rubric, result: str) -> Diagnosis:
        """The first failure and the state of the task. `result`: what came out, one line."""
        values = {"rubric_summary": layout.scored(rubric), "outcome_line": result}
        count = len(case.acts)
        return await self._ask(case, "diagnosis", "diagnosis", values, lambda t: reading.read_diagnosis(t, count))

    # Asking

    async def _together(self, asked: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
        """Answers of questions that do not depend on each other, in order. Raises as `_ask` does.

        Of several failures a used-up budget weighs most, then an outage (what was never answered is asked as the
        protocol says), then the first reply in order that cannot be read: it names the others.
        """
        found = await self.asker.together(asked)
        failed = [one for one in found if isinstance(one, Exception)]
        if not failed:
            return [one for one in found if not isinstance(one, Exception) and one is not None]
        unread = tuple(one.key for one in failed if isinstance(one, Broken) and one.kind not in OUTAGES)
        worst = min(failed, key=lambda one: (isinstance(one, Broken), getattr(one, "key", "") in unread))
        if isinstance(worst, Broken) and worst.key in unread:
            worst.keys = unread
        raise worst

    def _judged(self, case: Case, rubric: Rubric, found: Found) -> dict[str, str]:
        kind = case.boundary.kind if case.boundary else "not_permitted"
        return {
            "rubric_summary": layout.scored(rubric),
            "evidence_summary": layout.evidence(rubric, found, case.pictures),
            "cp_decision_rules": self.texts[f"rules_{kind}"],
        }

    def _policy(self, case: Case, *, outcome: bool = False) -> dict[str, str]:
        return {
            "critical_point_context": layout.profile(case.boundary),
            "user_simulator_policy": self.texts["user_outcome" if outcome else "user_rubric"],
        }

    def _values(self, case: Case) -> dict[str, str]:
        """What every stage may be filled with."""
        trajectory = case.trajectory
        goal, said = neutral(trajectory.task.goal), neutral(trajectory.answer or "") or "(nothing)"
        ended = trajectory.stop.value + (f": {one_line(trajectory.detail, 200)}" if trajectory.detail else "")
        return {
            "task_definition": goal, "task_id": goal, "init_url_context": layout.start(trajectory.task.start_url),
            "action_history": layout.history(case.acts, ended),
            "predicted_output": said, "predicted_target": said, "agent_predicted_output": said,
            **self._policy(case),
        }  # fmt: skip

    async def _ask(
        self,
        case: Case,
        key: str,
        stage: str,
        values: Mapping[str, str],
        read: Callable[[str], T],
        position: int | None = None,
        temperature: float | None = None,
        seed: int = 0,
    ) -> T:
        """The answer of one stage; asks at most `asker.attempts` times. Raises Broken, BudgetError."""
        messages = self._messages(case, stage, values, position)
        why = Broken("no_verdict", key, "not asked")
        for attempt in range(self.asker.attempts):
            try:
                reply = await self.asker.ask(
                    case.trajectory.id, self.judge, key, messages, max_tokens=REPLY_TOKENS, seed=seed, attempt=attempt,
                    temperature=self.temperature if temperature is None else temperature,
                )  # fmt: skip
            except NoReply as failed:
                if attempt and failed.kind == "not_stored":
                    break  # A replay: the reply that was stored last is all there is.
                raise Broken(failed.kind, key, str(failed)) from None
            if reply.finish == "refused":
                why = Broken("refused", key, one_line(reply.text, 200))
                continue
            try:
                return read(reply.text)
            except Unreadable as problem:
                why = _broken(key, reply, problem)
        raise why

    def _messages(self, case: Case, stage: str, values: Mapping[str, str], position: int | None) -> list[Message]:
        filled = {**self._values(case), **values}
        question = text(Template(self.texts[stage]).substitute(filled))
        if position is None:
            return [{"role": "user", "content": [question]}]
        number, last = position + 1, position >= len(case.acts)
        what = "the page behind the last action" if last else f"the page on which action {number} was decided"
        lead = f"Screenshot {number} of {case.pictures.total}: {what}. {case.pictures.gaps}".rstrip()
        picture = image(case.shots[position][1], "high")
        return [{"role": "user", "content": [text(lead + "\n"), picture, text("\n" + question["text"])]}]


def _evidence_reader(position: int, rubric: Rubric, wanted: list[int]) -> Callable[[str], dict[int, Evidence]]:
    return lambda reply: reading.read_evidence(reply, position, rubric, wanted)


def _broken(key: str, reply: Reply, problem: Unreadable) -> Broken:
    """Why a reply that cannot be read is none."""
    kind: Unjudged = "no_verdict"
    if REFUSAL.search(reply.text):
        kind = "refused"
    elif reply.finish == "length":
        kind = "truncated"
    return Broken(kind, key, f"{problem}: {one_line(reply.text, 120) or '(empty reply)'}")
