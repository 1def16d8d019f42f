"""The stage `judge-eval`: a judge against human labels, from what is stored; asks no endpoint.

Owns where judgements come from: verdicts of any run that has them (judge, eval, collect, import), stored WebJudge
records of others, and verdicts that a label file holds itself. Promises: what was judged and has no label, what is
labelled and was not judged, and what could not be told apart is counted and named, never left out in silence.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rmsweb.bench import agreement, labelled
from rmsweb.bench.agreement import Joined, Rule, Settled
from rmsweb.bench.judge_tables import table
from rmsweb.bench.labelled import LabelledAttempt
from rmsweb.bench.labels import AUTO, Judgement, Label, LabelFile, read_labels
from rmsweb.bench.metrics import result_of
from rmsweb.bench.protocols import JUDGE, REPLIES, changed
from rmsweb.bench.reading import without_seed
from rmsweb.bench.scores import arm_of
from rmsweb.errors import ConfigError, DataError, RunError
from rmsweb.records import INFRA_STOPS, Record, Trajectory, Verdict
from rmsweb.store import Run, file_hash

__all__ = ["JudgedAttempt", "evaluate", "judgements_of", "run", "table"]

SHOWN = 20
"""Most ids that a list of the summary names; counts are whole."""


@dataclass(slots=True, frozen=True)
class JudgedAttempt:
    """One judgement and what is known of the attempt behind it."""

    judgement: Judgement
    agents: tuple[str, ...] = ()
    """Names that the agent may go by, the most telling first."""
    attempt: LabelledAttempt | None = None


class Settings(Record):
    """What a summary depends on besides its inputs; kept in the manifest."""

    labels_format: str
    rule: str
    resamples: int
    seed: int


def run(
    sources: Mapping[str, Path],
    labels: Path,
    *,
    labels_format: str = AUTO,
    rule: Rule = "first",
    out: Path | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> dict[str, Any]:
    """Judge every judge of the sources against the labels; with `out` a run directory with summary.json, pairs.json.

    `sources`: name -> run directory, or folder of stored WebJudge records; a name that is an agent of the labels says
    whose trajectories they are. None are needed where the labels hold verdicts themselves. `rule`: whose label counts
    where several people labelled (agreement.RULES). Raises DataError when no judgement belongs to any label.
    """
    known = read_labels(labels, labels_format)
    by_source = {name: judgements_of(path, name) for name, path in sources.items()}
    judged = [one for found in by_source.values() for one in found] + [JudgedAttempt(one) for one in known.judgements]
    if not judged:
        raise ConfigError(f"{labels} holds no verdicts of a judge itself: give --from RUN")
    summary, pairs = evaluate(judged, known, rule=rule, resamples=resamples, seed=seed)
    summary["sources"] = {
        name: {
            "path": str(sources[name]),
            "judgements": len(found),
            "sha256": digest((one.judgement.judge, one.judgement.key, one.judgement.success) for one in found),
        }
        for name, found in by_source.items()
    }
    if out is not None:
        settings = Settings(labels_format=labels_format, rule=rule, resamples=resamples, seed=seed)
        with Run.open(out, "judge-eval", settings, {"labels": labels, **sources}) as store:
            _refuse_others(store, summary)
            store.write_json("summary.json", summary)
            store.write_json("pairs.json", pairs)
            store.finish(pairs=len(pairs))
    return summary


def _refuse_others(store: Run, summary: Mapping[str, Any]) -> None:
    """Raise RunError when the run's summary is one of other labels or judgements: of a folder the manifest knows only
    record files."""
    path = store.path / "summary.json"
    if not path.exists():
        return
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        old, new = ({"labels": s["labels"], **s["sources"]} for s in (before, summary))
        other = [name for name in old if name in new and old[name]["sha256"] != new[name]["sha256"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError("is no summary of judge-eval; choose another -o", path) from None
    if other:
        said = ", ".join(f"{name} ({new[name]['path']})" for name in other)
        raise RunError(f"{store.path} is about other settings or inputs: {said} changed since; choose another -o")


def evaluate(
    judged: Sequence[JudgedAttempt], known: LabelFile, *, rule: Rule = "first", resamples: int = 2000, seed: int = 0
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(summary, one row a comparison). Raises DataError when no judgement belongs to any label."""
    settled = agreement.settle(known.labels, rule)
    names = _Names(settled.labels)
    judged = [names.of(one) for one in judged]
    by_judge: dict[str, list[JudgedAttempt]] = {}
    for one in judged:
        by_judge.setdefault(one.judgement.judge, []).append(one)
    joins = {name: agreement.join([one.judgement for one in rows], settled.labels) for name, rows in by_judge.items()}
    if not any(joined.pairs for joined in joins.values()):
        raise _nothing_joined(judged, known, joins.values())
    summary: dict[str, Any] = {
        "labels": _labels_summary(known, settled, rule),
        "humans": agreement.human_agreement(known.labels, resamples=resamples, seed=seed),
        "judges": {name: _judge_summary(joined, resamples, seed) for name, joined in sorted(joins.items())},
    }
    attempts = {id(one.judgement): one.attempt for one in judged}
    seen = [
        (attempt, pair.human)
        for joined in joins.values()
        for pair in joined.pairs
        if (attempt := attempts[id(pair.judgement)]) is not None
    ]
    rows = labelled.distinct(seen)
    if any(attempt.steps is not None for attempt, _ in rows):
        summary["agents"] = labelled.agents(rows)
        summary["paired_steps"] = labelled.paired(rows, resamples=resamples, seed=seed)
    return summary, [_pair_row(name, pair) for name, joined in sorted(joins.items()) for pair in joined.pairs]


def _pair_row(judge: str, pair: agreement.Pair) -> dict[str, Any]:
    said, label = pair.judgement, pair.label
    return {
        "judge": judge, "trajectory": said.key, "label": label.key, "judged": said.success, "human": pair.human,
        "unjudged": said.unjudged, "upstream_label": said.upstream, "annotator": label.annotator, "raw": label.raw,
    }  # fmt: skip


def _judge_summary(joined: Joined, resamples: int, seed: int) -> dict[str, Any]:
    return {
        **agreement.agreement(joined.pairs, resamples=resamples, seed=seed),
        "by_agent": agreement.breakdown(joined.pairs, "agent", seed=seed),
        "by_benchmark": agreement.breakdown(joined.pairs, "benchmark", seed=seed),
        "judged_without_label": _listed(joined.without_label),
        "judged_with_undecided_label": _listed(joined.undecided),
        "labels_without_judgement": _listed(joined.without_judgement),
        "ambiguous": _listed(joined.ambiguous),
    }


def _labels_summary(known: LabelFile, settled: Settled, rule: Rule) -> dict[str, Any]:
    return {
        "path": str(known.path),
        "sha256": digest((label.key, label.annotator, label.raw) for label in known.labels),
        "format": known.format,
        "rows": len(known.labels),
        "trajectories": len({label.key for label in known.labels}),
        "annotators": len({label.annotator for label in known.labels}),
        "rule": rule,
        "several_annotators": settled.several,
        "contradictory": _listed(settled.contradictory),
        "ties": _listed(settled.ties),
        "undecided": _listed(settled.undecided),
        "not_executable": settled.not_executable,
        "success": {agent: table["all"] for agent, table in agreement.success_rates(settled.labels).items()},
        "notes": list(known.notes),
    }


def digest(rows: Iterable[tuple[object, ...]]) -> str:
    """Names a set of judgements or labels, whatever files they lay in: SHA-256, 16 hexadecimal digits."""
    return hashlib.sha256("\n".join(sorted(map(repr, rows))).encode()).hexdigest()[:16]


def _listed(keys: Sequence[str]) -> dict[str, Any]:
    return {"count": len(keys), "keys": list(keys[:SHOWN])}


class _Names:
    """Names of the labels' agents, benchmarks and tasks; gives a judgement those that it has under another spelling."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self.agents = {agreement.plain(label.agent): label.agent for label in labels if label.agent}
        self.benchmarks = {agreement.plain(label.benchmark) for label in labels}
        self.tasks = {label.task_id for label in labels if label.task_id}

    def of(self, one: JudgedAttempt) -> JudgedAttempt:
        """What the labels do not know (the suite of a run, a seed) says nothing about which label it is; an agent does.

        Two seeds of a task that the labels know without seeds fit one label: both are left out and named.
        """
        said, arm = one.judgement, ""
        task = said.task_id
        if task not in self.tasks and (base := without_seed(task)) in self.tasks:
            task = base
        elif task not in self.tasks:
            arm, task = self._place(said.key) or ("", task)
        names = (agreement.plain(name) for name in (said.agent, *one.agents, arm) if name)
        agent = next((self.agents[name] for name in names if name in self.agents), said.agent)
        benchmark = said.benchmark if agreement.plain(said.benchmark) in self.benchmarks else ""
        attempt = replace(one.attempt, agent=agent) if one.attempt else None
        return replace(one, judgement=replace(said, agent=agent, benchmark=benchmark, task_id=task), attempt=attempt)

    def _place(self, ident: str) -> tuple[str, str] | None:
        """(arm, task) of a trajectory's id (`arm/task#attempt`; either may hold slashes), where the labels know it."""
        parts = ident.rpartition("#")[0].split("/")
        places = (("/".join(parts[:i]), "/".join(parts[i:])) for i in range(len(parts)))
        return next((place for place in places if place[1] in self.tasks), None)


def _nothing_joined(judged: Sequence[JudgedAttempt], known: LabelFile, joins: Iterable[Joined]) -> DataError:
    joins = list(joins)
    undecided = sum(len(joined.undecided) for joined in joins)
    if undecided:
        return DataError(
            f"no comparison is left: of {len(judged)} judged {undecided} belong to labels that are unsure or tied; "
            "take another --rule (first, all), or have them labelled again",
            known.path,
        )
    ambiguous = sum(len(joined.ambiguous) for joined in joins)
    ours = sorted({name for one in judged for name in (one.judgement.agent, *one.agents) if name})
    theirs = sorted({label.agent for label in known.labels if label.agent})
    said = f"no judgement belongs to any label: judged are {len(judged)}, such as {judged[0].judgement.key}"
    said += f"; labels are of {known.labels[0].key} and {len(known.labels) - 1} more"
    if ambiguous:
        said += f"; {ambiguous} fit labels of several agents or attempts"
    if theirs:
        said += f"; the labels' agents are {', '.join(theirs)}, the judged ones {', '.join(ours) or 'not named'}: "
        said += "name whose trajectories they are, --from AGENT=RUN"
    return DataError(said, known.path)


def judgements_of(path: Path, name: str = "") -> list[JudgedAttempt]:
    """Judgements of a run directory, or of a folder (or file) of stored WebJudge records."""
    if (path / "run.json").exists():
        return _from_run(Run.read_only(path), name)
    from rmsweb.bench.judges.webjudge_records import by_key, read_records

    found = []
    for record in by_key(read_records(path).runs).values():
        key = "/".join(part for part in record.key if part)
        why = "" if record.said is not None else "no_verdict"
        judgement = Judgement(
            record.judge or f"webjudge/{record.mode}", key, record.said, why, record.label,
            record.agent, record.benchmark, record.task_id,
        )  # fmt: skip
        summary = record.summary
        attempt = LabelledAttempt(
            record.benchmark, record.agent, record.task_id,
            summary.n_steps if summary else None,
            summary.input_tokens if summary else None,
            summary.output_tokens if summary else None,
            summary.cost if summary else None,
        )  # fmt: skip
        found.append(JudgedAttempt(judgement, (name,), attempt))
    return found


def _from_run(run: Run, name: str) -> list[JudgedAttempt]:
    """Latest verdict of every trajectory; a run of `judge` finds its trajectories in the runs that it judged.

    What the machine broke and the run's one judge was never asked about could not be judged (`infra`), as `rmsweb
    judge` stores it: the labels of such attempts count like all others.
    """
    verdicts = {verdict.trajectory_id: verdict for verdict in run.read("verdict", Verdict)}
    if not verdicts:
        raise DataError(f"holds no verdict; judge it first: rmsweb judge --from {run.path} -o JUDGED", run.path)
    trajectories: dict[str, Trajectory] = {}
    for source in [run, *(_judged_runs(run) if run.manifest["verb"] == JUDGE else ())]:
        trajectories |= {trajectory.id: trajectory for trajectory in source.read("trajectory", Trajectory)}
    judges = {verdict.judge for verdict in verdicts.values()}
    if run.manifest["verb"] != JUDGE and len(judges) == 1:
        broken = [ident for ident, t in trajectories.items() if t.stop in INFRA_STOPS and ident not in verdicts]
        for ident in broken:
            verdicts[ident] = Verdict(success=None, judge=min(judges), unjudged="infra", trajectory_id=ident)
    return [_from_verdict(verdict, trajectories.get(ident), name) for ident, verdict in verdicts.items()]


def _judged_runs(run: Run) -> list[Run]:
    """The runs that a run of `judge` judged, as far as they are there. Raises DataError for one that has changed."""
    found = []
    for name, item in run.manifest["inputs"].items():
        folder = Path(item["path"])
        if name == REPLIES or not (folder / "run.json").exists():
            continue
        if file_hash(folder) != item["sha256"]:
            raise changed(run.path, folder)
        found.append(Run.read_only(folder))
    return found


def _from_verdict(verdict: Verdict, trajectory: Trajectory | None, name: str) -> JudgedAttempt:
    upstream = verdict.details.get("upstream_label")
    label = upstream if isinstance(upstream, int) else None
    ident = verdict.trajectory_id
    if trajectory is None:  # the judged run is gone: the id is all there is
        return JudgedAttempt(Judgement(verdict.judge, ident, verdict.success, verdict.unjudged, label), (name,))
    own = arm_of(trajectory) or trajectory.policy
    judgement = Judgement(
        verdict.judge, ident, verdict.success, verdict.unjudged, label, own, "", trajectory.task.id
    )  # fmt: skip
    row = result_of(own, trajectory, verdict)
    attempt = LabelledAttempt(
        "", own, trajectory.task.id, row.steps, row.prompt_tokens, row.completion_tokens, row.cost,
        trajectory=trajectory,
    )  # fmt: skip
    return JudgedAttempt(judgement, (trajectory.policy, name), attempt)
