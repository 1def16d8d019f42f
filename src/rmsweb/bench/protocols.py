"""Several judges on the same attempts: success by each of them, how far they agree, what they cost.

Owns the reading of runs of `judge` and their way back to the runs they judged. Promises that verdicts of unlike judges
are never merged: each judge has its own rows, and a trajectory that one of them could not judge is left out of
their comparison and counted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from rmsweb.bench import costs, metrics, rates, setting
from rmsweb.bench.judges.asking import Call
from rmsweb.bench.judges.naming import judge_parts
from rmsweb.bench.layout import Stage
from rmsweb.bench.metrics import Result
from rmsweb.bench.scores import arm_of, is_control, models_of
from rmsweb.errors import DataError, RunError
from rmsweb.records import Score, Task, Trajectory, Verdict
from rmsweb.statistics import kappa
from rmsweb.store import Run, file_hash

JUDGE = "judge"
"""The verb of runs that hold verdicts on other runs."""
REPLIES = "replies"
"""The input of a judge run that is no judged run: where its stored replies came from."""


@dataclass(slots=True, frozen=True)
class Bench:
    """One judge's verdicts on attempts of one exam."""

    name: str
    """The judge's whole name; the run's behind it where two have the same one."""
    stage: Stage
    rows: list[Result]
    run: str = ""
    """Where two judges have one name: the run's name, or `own` for the verdicts that the attempts came with."""

    @property
    def judge(self) -> str:
        """The judge's name without the run's."""
        return self.name.removesuffix(f" ({self.run})")

    @property
    def parts(self) -> tuple[str, str]:
        """Protocol and model."""
        return judge_parts(self.judge)


class Agreement(NamedTuple):
    """Two judges on the trajectories that both could judge."""

    a: str
    b: str
    n: int
    differ: int
    a_only: int
    """Success by `a` only."""
    b_only: int
    kappa: float | None
    """Cohen's; None where both give one and the same label throughout."""
    left_out: int
    """Trajectories that only one of them could judge."""


def with_judged(stages: Sequence[Stage]) -> tuple[list[Stage], dict[Stage, list[Stage]]]:
    """(the stages and those that were judged but not given, judge run -> the runs it judged).

    Raises RunError for a judged run that is nowhere to be found.
    """
    every, judged = list(stages), dict[Stage, list[Stage]]()
    for stage in stages:
        if stage.verb == JUDGE:
            judged[stage] = judged_stages(stage, every)
            every += [one for one in judged[stage] if one not in every]
    return every, judged


def judged_stages(stage: Stage, given: Sequence[Stage]) -> list[Stage]:
    """The runs that a run of `judge` judged: given ones, else where its manifest says they lie.

    Raises RunError for a run that is at neither place, DataError for one whose records are not those that were judged.
    """
    found = []
    inputs: Mapping[str, Any] = stage.manifest.get("inputs", {})
    for name, item in inputs.items():
        if name == REPLIES:
            continue
        path, others = Path(str(item["path"])), [s for s in given if s is not stage]
        here = next((s for s in others if s.path.resolve() == path), None)
        if here is None and (path / "run.json").exists():
            here = Stage(name, path)
        if here is None or file_hash(here.path) != item.get("sha256"):  # given under another path, perhaps
            moved = next((s for s in others if file_hash(s.path) == item.get("sha256")), None)
            if here is not None and moved is None:
                raise changed(stage.path, here.path)
            here = moved
        if here is None:
            raise RunError(f"{stage.path} judged the run {path}, which is not there; give it with --from {name}=RUN")
        found.append(here)
    return found


def changed(judged: Path, source: Path) -> DataError:
    """The error for a run of `judge` whose source holds other records by now: its verdicts are not on those."""
    said = f"its verdicts are on what {source} held before; that run has changed since (SHA-256 in run.json)"
    return DataError(f"{said}: judge it again into another -o, or give the old one back", judged)


def verdicts_of(stage: Stage) -> dict[str, Verdict]:
    """trajectory id -> its latest verdict."""
    return {v.trajectory_id: v for v in stage.run.read("verdict", Verdict)}


def stored_benches(stage: Stage, trajectories: Sequence[Trajectory]) -> list[Bench]:
    """Judges whose verdicts an imported run came with and that are not its own (imported_verdicts.jsonl)."""
    own = {v.judge for v in verdicts_of(stage).values()}
    by_judge: dict[str, dict[str, Verdict]] = {}
    for verdict in stage.run.read("imported_verdict", Verdict):
        by_judge.setdefault(verdict.judge, {})[verdict.trajectory_id] = verdict
    return [
        Bench(judge, stage, rows_by(verdicts, trajectories, with_end=stage.with_end))
        for judge, verdicts in by_judge.items()
        if judge not in own
    ]


def rows_by(
    verdicts: Mapping[str, Verdict], trajectories: Iterable[Trajectory], *, with_end: bool = True
) -> list[Result]:
    """Rows of trajectories by the given verdicts (by trajectory id); trajectories without one are left out."""
    return [
        metrics.result_of(arm_of(t) or t.policy, t, verdicts[t.id], with_end=with_end)
        for t in trajectories
        if t.id in verdicts
    ]


def told_apart(benches: Sequence[Bench]) -> list[Bench]:
    """The same judge several times (a second try of the same protocol) gets its run's name behind its own."""
    names = [bench.name for bench in benches]
    runs = [b.stage.name if b.stage.verb == JUDGE else "own" for b in benches]
    return [
        Bench(f"{b.name} ({run})", b.stage, b.rows, run) if names.count(b.name) > 1 else b
        for b, run in zip(benches, runs, strict=True)
    ]


def bench_of(stage: Stage, rows: list[Result]) -> Bench | None:
    """The judge of rows. None where nobody judged; raises DataError where several did."""
    names = sorted({r.judge for r in rows if r.judge and r.success is not None}) or sorted(
        {r.judge for r in rows if r.judge}
    )
    if len(names) > 1:
        raise DataError(f"holds verdicts of {' and '.join(names)} on one exam; judge them alike", stage.path)
    return Bench(names[0], stage, rows) if names else None


def score_table(
    benches: Sequence[Bench], tasks: Sequence[Task], *, runs: int = 1, found: bool = False, **drawn: int
) -> list[tuple[Bench, str, Score]]:
    """(judge, model, score) for every judge and every model that it judged (`drawn`: resamples, seed)."""
    table = []
    for bench in benches:
        facts = setting.facts_of(tasks, None, {}, bench.judge)
        for model in models_of(bench.rows):
            rows = [r for r in bench.rows if r.model == model]
            one = rates.score("judged", model, tasks, rows, runs=runs, found=found, facts=facts, **drawn)
            table.append((bench, model, one))
    return table


def agreement(benches: Sequence[Bench]) -> list[Agreement]:
    """Every pair of judges, over the trajectories that both were given; control runs are left out."""
    return [_pair(a, b) for a, b in combinations(benches, 2)]


def _pair(a: Bench, b: Bench) -> Agreement:
    said_a, said_b = ({r.trajectory_id: r.success for r in bench.rows if not is_control(r.model)} for bench in (a, b))
    shared = said_a.keys() & said_b.keys()
    both = [(said_a[t], said_b[t]) for t in shared if said_a[t] is not None and said_b[t] is not None]
    one = sum((said_a[t] is None) != (said_b[t] is None) for t in shared)
    a_only, b_only = sum(x and not y for x, y in both), sum(y and not x for x, y in both)  # type: ignore[misc]
    yes = sum(bool(x and y) for x, y in both)
    beyond = kappa(yes, a_only, b_only, len(both) - yes - a_only - b_only)
    return Agreement(a.name, b.name, len(both), a_only + b_only, a_only, b_only, beyond, one)


class JudgeUse(NamedTuple):
    """What one judge asked and used. Stored replies that answered again cost nothing and are not in it."""

    calls: int
    pictures: int
    prompt_tokens: int
    completion_tokens: int
    money: float | None


def judge_use(run: Run, prices: Mapping[str, Any] | None = None) -> dict[str, JudgeUse]:
    """judge -> its use, from the run's calls.jsonl; money where the price table has the judge's model."""
    table: dict[str, list[int]] = {}
    for call in run.read("call", Call):
        row = table.setdefault(call.protocol, [0, 0, 0, 0])
        for i, count in enumerate((1, call.pictures, call.prompt_tokens, call.completion_tokens)):
            row[i] += count
    found = {}
    for name, (asked, pictures, read, written) in table.items():
        price = costs.price_of(prices, judge_parts(name)[1], name)
        money = costs.at_price(price, read, written) if price and read + written else None
        found[name] = JudgeUse(asked, pictures, read, written, money)
    return found
