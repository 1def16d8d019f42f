"""`rubric/process`, `rubric/outcome`, `rubric/both`: the rubric verifier of WebTailBench as judges.

One pipeline for all three (rubric_stages.py): process and outcome are both computed and stored, the protocol only says
which of them is the success. Source: Universal Verifier, benchmarks.md 1C.

Exact upstream wording cannot be promised: beside prompts.py, upstream's questions are made of Jinja templates and a
YAML file (point of no return), a Markdown file (taxonomy of failures) and text blocks in the code. `rubric/*` therefore
refuses. With `judge.changed_pack` upstream's stage texts fill our layout, under the name `changed-<hash>/rubric-*`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from rmsweb.bench.judges.asking import Asker
from rmsweb.bench.judges.naming import judge_name
from rmsweb.bench.judges.packs import Pack, Wording
from rmsweb.bench.judges.rubric_layout import Found, kept
from rmsweb.bench.judges.rubric_reading import Diagnosis
from rmsweb.bench.judges.rubric_score import success_labels
from rmsweb.bench.judges.rubric_stages import (
    OUTAGES,
    REPLY_TOKENS,
    VOTING,
    Broken,
    Case,
    Stages,
    check_texts,
    own_rubric,
)
from rmsweb.bench.judges.verdicts import evidence_missing, infra, without_call
from rmsweb.bench.reading import acts, stored_screenshots
from rmsweb.config import JudgeConfig
from rmsweb.errors import ConfigError, DataError
from rmsweb.judge import Unjudged, could_not_tell
from rmsweb.policy import one_line, prompt_text
from rmsweb.records import Stop, Trajectory, Verdict
from rmsweb.tasksets.rubrics import PASS, Rubric

OWN_TEXTS: Mapping[str, str] = {
    **{
        stage: f"rubric_{stage}"
        for stage in (
            "boundary", "new", "check", "baseline", "relevance", "evidence", "conditions", "reality", "rescore",
            "penalties", "outcome", "crossed", "diagnosis", "rules_none", "rules_permitted", "rules_not_permitted",
        )
    },
    "user_rubric": "rubric_user",
    "user_outcome": "rubric_user",
}  # fmt: skip
ELSEWHERE = "templates/cp_classifier_*.j2, critical_point_types.yaml, the error taxonomy, text blocks in the code"
"""What upstream's questions are made of beside the pack's file."""
ENDED = frozenset({Stop.ANSWERED, Stop.GAVE_UP, Stop.DONE})
"""Ends that count as the agent's own or the suite's, whatever the last recorded action is."""
APART = 2
"""Actions and screenshots that differ in number by so many: scored 0 without a call."""


class Process:
    """Success: at least 0.8 of the rubric's points; blockers that the agent cannot help are forgiven."""

    PACK = Pack(
        source="microsoft/fara (as in tbalt88/fara@9b8af39)",
        file="webeval/src/webeval/rubric_agent/prompts.py",
        sha256="645fcab0670d29d8",
        texts={
            "new": "RUBRIC_GENERATION_PROMPT_TEMPLATE",
            "check": "RUBRIC_DEPENDENCY_CHECKING_PROMPT",
            "baseline": "ACTION_ONLY_RUBRIC_SCORER_PROMPT",
            "relevance": "MM_SCREENSHOT_CRITERION_RELEVANCE_PROMPT",
            "evidence": "MM_SCREENSHOT_BATCHED_EVIDENCE_ANALYSIS_PROMPT",
            "conditions": "CONDITIONAL_CRITERIA_DISAMBIGUATION_PROMPT",
            "reality": "RUBRIC_REALITY_CHECK_PROMPT",
            "rescore": "MM_RUBRIC_RESCORING_PROMPT",
            "penalties": "PENALIZE_UNSOLICITED_SIDE_EFFECTS_PROMPT",
            "outcome": "OUTCOME_VERIFICATION_PROMPT",
            "crossed": "CP_VIOLATION_CHECK_PROMPT",
            "user_rubric": "USER_SIMULATOR_DISABLED_RUBRIC_BLOCK",
            "user_outcome": "USER_SIMULATOR_DISABLED_OUTCOME_BLOCK",
            "rules_none": "_CP_RULES_NO_CRITICAL_POINT",
            "rules_permitted": "_CP_RULES_PERMISSION_GRANTED",
            "rules_not_permitted": "_CP_RULES_NO_PERMISSION",
        },
    )
    OWN = OWN_TEXTS
    CRITERION: ClassVar[Literal["process", "outcome", "both"]] = "process"

    def __init__(self, asker: Asker, wording: Wording, config: JudgeConfig) -> None:
        """Raises ConfigError: an even number of votes, exact wording, a pack whose texts do not fit the stages."""
        if config.votes % 2 == 0:
            raise ConfigError(f"judge.votes is {config.votes}: a majority needs an odd number")
        wording = _usable(wording, config, self.CRITERION)
        texts = {key: prompt_text(f"exams/{file}") for key, file in OWN_TEXTS.items()} | dict(wording.texts)
        check_texts(texts, wording.source)
        digest = hashlib.sha256("\0".join(texts[key] for key in sorted(texts)).encode()).hexdigest()[:8]
        most = "" if config.images is None else f"images={config.images}"
        self.name = judge_name(
            wording.name(f"rubric/{self.CRITERION}"), asker.name, f"prompt={digest}", f"votes={config.votes}",
            "" if config.votes == 1 else f"votes_at={max(config.model.temperature, VOTING):g}", most,
            config=config, temperature=config.model.temperature, max_tokens=REPLY_TOKENS,
        )  # fmt: skip
        self.asker, self.config = asker, config
        self.stages = Stages(asker, texts, self.name, config.model.temperature, config.votes)

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """The verdict. Raises BudgetError."""
        if (broken := infra(self.name, trajectory)) is not None:
            return broken
        if (rule := zero_rule(trajectory)) is not None:
            facts = {"rule": rule[0], "process_score": 0.0, "process_passed": False, "outcome": False}
            return without_call(self.name, False, rule[1], success_criterion=self.CRITERION, **facts)
        case = Case.of(trajectory, self.config.images)
        shots = [case.shots[position] for position in case.pictures.positions]
        lost = [number for number, name in shots if name not in self.asker.pictures]
        if lost:
            return evidence_missing(self.name, lost)
        details: dict[str, Any] = {
            "success_criterion": self.CRITERION, "pictures": [number for number, _ in shots],
            "not_looked_at": case.pictures.gaps, "upstream_label": None, "unread": {},
            "critical_point": None, "first_failure": None, "validity": None,
        }  # fmt: skip
        try:
            rubric, found = await self._process(case, details)
        except Broken as failed:
            details["failed"] = list(failed.keys)
            return could_not_tell(self.name, failed.kind, str(failed)).model_copy(update={"details": details})
        except DataError as error:
            verdict = could_not_tell(self.name, "no_verdict", f"the task's own rubric cannot be used: {error}")
            return verdict.model_copy(update={"details": details})
        broken_vote = await self._outcome(case, rubric, found, details)
        success = success_labels(details["process_passed"], details["outcome"])[self.CRITERION]
        if success is None and broken_vote is not None:
            # Nothing is asked behind the question that failed: asked for again, it is the last one that is asked anew.
            return self._verdict(case, details, broken_vote, None)
        diagnosis = await self._asides(case, rubric, found, details)
        return self._verdict(case, details, broken_vote, diagnosis)

    async def _process(self, case: Case, details: dict[str, Any]) -> tuple[Rubric, Found]:
        """Everything up to the process score. Raises Broken, DataError."""
        stages = self.stages
        try:
            case.boundary = await stages.boundary(case)
        except Broken as failed:
            if failed.kind in OUTAGES:
                raise  # The other questions depend on it: an outage may not change them.
            details["unread"][failed.key] = f"{failed.kind}: {failed}"
        details["rubric"] = "written" if own_rubric(case.trajectory) is None else "given"
        rubric = await stages.baseline(case, await stages.rubric(case))
        kept_for = kept(await stages.relevance(case, rubric), len(rubric.items))
        details["pictures_by_criterion"] = {
            str(index): case.numbers(positions) for index, positions in kept_for.items()
        }
        found = await stages.evidence(case, rubric, kept_for)
        rubric = await stages.conditions(case, rubric, found)
        rubric = await stages.reality(case, rubric, found)
        rubric = await stages.penalties(case, await stages.rescore(case, rubric, found), found)
        points = rubric.points()
        details |= {
            "process_score": points.score, "process_passed": points.passed(), "earned": points.earned,
            "max": points.maximum, "criteria": [_criterion(rubric, index) for index in range(len(rubric.items))],
        }  # fmt: skip
        return rubric, found

    async def _outcome(self, case: Case, rubric: Rubric, found: Found, details: dict[str, Any]) -> Broken | None:
        """The votes and their majority, up to the first vote that cannot be read, which is returned."""
        votes: list[bool] = []
        reasons: list[str] = []
        broken = None
        for vote in range(self.config.votes):
            try:
                success, why = await self.stages.outcome(case, rubric, found, vote)
            except Broken as failed:
                broken = failed
                details["unread"][failed.key] = f"{failed.kind}: {failed}"
                break
            votes.append(success)
            reasons.append(why)
        outcome = majority(votes, self.config.votes)
        agreeing = [why for vote, why in zip(votes, reasons, strict=True) if vote == outcome and why]
        details |= {"outcome": outcome, "outcome_votes": votes, "outcome_reason": agreeing[0] if agreeing else ""}
        return broken

    async def _asides(self, case: Case, rubric: Rubric, found: Found, details: dict[str, Any]) -> Diagnosis | None:
        """What changes no score: the point of no return, the first failure, the state of the task."""
        kind, violation, why, diagnosis = case.boundary.kind if case.boundary else None, None, "", None
        try:
            violation, why = await self.stages.crossed(case, rubric, found)
        except Broken as failed:
            details["unread"][failed.key] = f"{failed.kind}: {failed}"
        try:
            diagnosis = await self.stages.diagnosis(case, rubric, _result(details))
        except Broken as failed:
            details["unread"][failed.key] = f"{failed.kind}: {failed}"
        details["critical_point"] = {"kind": kind, "violation": violation, "reason": why}
        if diagnosis is not None:
            details["validity"] = {"code": diagnosis.validity, "reason": diagnosis.validity_reason}
            if diagnosis.step is not None:
                details["first_failure"] = {
                    "step": case.acts[diagnosis.step - 1].index, "code": diagnosis.family, "reason": diagnosis.reason,
                }  # fmt: skip
        return diagnosis

    def _verdict(
        self, case: Case, details: dict[str, Any], broken: Broken | None, diagnosis: Diagnosis | None
    ) -> Verdict:
        success = success_labels(details["process_passed"], details["outcome"])[self.CRITERION]
        # Upstream counts an outcome that it could not read, and a rubric without points, as no success.
        stored = success_labels(details["process_passed"] is True, details["outcome"] is True)[self.CRITERION]
        details["upstream_label"] = int(stored is True)
        reason = one_line(f"{_result(details)}. {details['outcome_reason']}", 1000)
        # Named although the verdict may be known without it: the outcome beside it is not, and can be asked for again.
        details["failed"] = [broken.key] if broken else []
        if success is None:
            kind: Unjudged = broken.kind if broken else "no_verdict"
            why = f"{broken}. {reason}" if broken else reason
            return could_not_tell(self.name, kind, why).model_copy(update={"details": details})
        first = diagnosis.step if diagnosis is not None and not success else None
        return Verdict(
            success=success,
            judge=self.name,
            reason=reason,
            first_error=None if first is None else case.acts[first - 1].index,
            details=details,
        )


class Outcome(Process):
    """Success: the user has what was asked for, whatever stood in the way."""

    CRITERION = "outcome"


class Both(Process):
    """Success: process and outcome."""

    CRITERION = "both"


def majority(votes: Sequence[bool], of: int) -> bool | None:
    """What more than half of `of` votes say; None where too few could be read. (Upstream: half of the read ones.)"""
    for said in (True, False):
        if 2 * sum(vote is said for vote in votes) > of:
            return said
    return None


def zero_rule(trajectory: Trajectory) -> tuple[str, str] | None:
    """The rule under which an attempt is scored 0 without a call, as (code, sentence); None: it has to be judged.

    A used-up step budget, no action, an end that is neither an answer nor a stop, or numbers of actions and screenshots
    that differ by two or more. (A single one that is missing is missing evidence, not a zero.)
    """
    done = acts(trajectory)
    if trajectory.stop is Stop.STEP_LIMIT:
        return "over_budget", "the step budget was used up: scored 0 and counted"
    if not done:
        return "no_actions", "there is no action: scored 0"
    if not done[-1].final and trajectory.stop not in ENDED:
        return "not_ended", f"the last action is neither an answer nor a stop ({trajectory.stop.value}): scored 0"
    # Of our own runs only what is missing tells: a reply that was no action has a screenshot, and no action.
    listed = stored_screenshots(trajectory)
    recorded = len(listed) if listed else sum(bool(act.before) for act in done)
    if abs(len(done) - recorded) >= APART:
        return "unaligned", f"{len(done)} actions and {recorded} screenshots: scored 0"
    return None


def _usable(wording: Wording, config: JudgeConfig, criterion: str) -> Wording:
    """The wording under a name that is true. Raises ConfigError for exact wording, which one file cannot give."""
    if wording.prefix:
        return wording
    if not config.changed_pack:
        raise ConfigError(
            f"judge.protocol rubric/{criterion} cannot be worded exactly from {Process.PACK.file}: upstream's "
            f"questions are also made of {ELSEWHERE}. Set judge.changed_pack = true to fill our layout with "
            f"upstream's stage texts (named changed-.../rubric-{criterion}), or choose rmsweb/rubric-{criterion}"
        )
    return replace(wording, prefix=f"changed-{wording.source.split()[-1][:8]}/")


def _criterion(rubric: Rubric, index: int) -> dict[str, Any]:
    item = rubric.items[index]
    return {
        "criterion": item.criterion, "max": item.max_points, "baseline": item.baseline, "earned": item.earned,
        "condition": item.condition, "counts": item.counts, "penalty": item.penalty, "reason": item.justification,
    }  # fmt: skip


def _result(details: Mapping[str, Any]) -> str:
    """Both numbers in one line."""
    words = {True: "success", False: "failure", None: "could not be told"}
    score = details["process_score"]
    share = "no criterion applies" if score is None else f"{score:.3f}, {'passed' if score >= PASS else 'not passed'}"
    votes = "".join("+" if vote else "-" for vote in details["outcome_votes"]) or "none"
    process = f"process {details['earned']:g} of {details['max']:g} points ({share})"
    return f"{process}; outcome {words[details['outcome']]} (votes {votes})"
