"""How far a judge agrees with people. Pure: labels and judgements in, plain values out.

Owns which label counts where several people labelled a trajectory, how judgements find their labels, the confusion
table (could-not-judge is a row of its own, never a failure in silence), and the rates made of it. Every rate is given
twice: `unjudged_as_failure` (what a script does that stores 0) and `unjudged_left_out`; a third reading, `as_upstream`,
takes what the upstream script would have stored, where that differs.

Intervals: Wilson's for rates, which takes trajectories as independent; percentile bootstrap for kappa and F1, drawing
tasks with all their trajectories, since agents share tasks (`clustered` says whether they do: then the Wilson intervals
are somewhat too narrow and `interval_by_task` stands beside them).

Agreement is bounded by the people: see `human_agreement`, and labels.py for why 100 % is not reachable.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

from rmsweb.bench.labels import NOT_EXECUTABLE, UNSURE, Judgement, Label
from rmsweb.errors import ConfigError
from rmsweb.statistics import cluster_bootstrap, kappa, wilson

Rule = Literal["first", "majority", "all"]
RULES: tuple[Rule, ...] = ("first", "majority", "all")
"""`first`: the first row in file order, as AgentRewardBench's own scores and the published recount have it. `majority`:
most votes; a tie is no label. `all`: every annotator's label counts as one comparison."""
TIE = "tie"
"""Note of a label that the majority did not decide."""


@dataclass(slots=True, frozen=True)
class Settled:
    """The labels that count, under one rule."""

    labels: tuple[Label, ...]
    """For every trajectory at least one; without a success (`note` unsure or tie) where nothing was decided."""
    several: int
    """Trajectories that more than one person labelled."""
    contradictory: tuple[str, ...]
    """Keys of those that got both answers."""
    ties: tuple[str, ...]
    """Keys without a majority: as many successes as failures (under `majority` they have no label)."""
    undecided: tuple[str, ...]
    """Keys that were left without a label: unsure, or tied."""
    not_executable: int
    """Labels `not_executable`, counted as failures: the task stays in the denominator."""


def counted(label: Label) -> bool | None:
    """Success as it counts: a task that could not be executed was not solved; unsure is no label."""
    return False if label.note == NOT_EXECUTABLE else label.success


def settle(labels: Iterable[Label], rule: Rule = "first") -> Settled:
    """Which label counts for each trajectory. Raises ConfigError for an unknown rule."""
    if rule not in RULES:
        raise ConfigError(f"the rule for several annotators {rule!r} is unknown; choose {', '.join(RULES)}")
    kept: list[Label] = []
    several, contradictory, ties, undecided = 0, [], [], []
    for key, rows in _by_key(labels).items():
        votes = Counter(counted(label) for label in rows)
        yes, no = votes[True], votes[False]
        several += len(rows) > 1
        if yes and no:
            contradictory.append(key)
        if yes == no > 0:
            ties.append(key)
        chosen = rows[:1] if rule == "first" else [label for label in rows if counted(label) is not None]
        if rule == "majority":
            chosen = [label for label in chosen if counted(label) is (yes > no)][:1] if yes != no else []
        if not chosen or counted(chosen[0]) is None:
            undecided.append(key)
            chosen = [replace(rows[0], success=None, note=TIE if yes else UNSURE)]
        kept += chosen
    apart = sum(label.note == NOT_EXECUTABLE for label in kept)
    return Settled(tuple(kept), several, tuple(contradictory), tuple(ties), tuple(undecided), apart)


def _by_key(labels: Iterable[Label]) -> dict[str, list[Label]]:
    found: dict[str, list[Label]] = defaultdict(list)
    for label in labels:
        found[label.key].append(label)
    return found


def human_agreement(labels: Iterable[Label], *, resamples: int = 2000, seed: int = 0) -> dict[str, Any]:
    """Do people agree with each other? Trajectories with two labels or more, each pair of annotators, and pooled.

    A pair's order is that of the file (upstream's primary and secondary annotator), which kappa depends on a little
    where annotators differ. Unsure labels are left out and counted.
    """
    by_key = _by_key(labels)
    pooled: list[_Comparison] = []
    people: dict[tuple[str, str], list[_Comparison]] = defaultdict(list)
    unsure = 0
    for rows in by_key.values():
        for one, other in combinations(rows, 2):
            a, b = counted(one), counted(other)
            if a is None or b is None:
                unsure += 1
                continue
            names = sorted((one.annotator, other.annotator))
            turned = names[0] != one.annotator
            pooled.append(_Comparison(one, a, b))
            people[names[0], names[1]].append(_Comparison(one, b, a) if turned else _Comparison(one, a, b))
    return {
        "trajectories": sum(len(rows) > 1 for rows in by_key.values()),
        "pairs": len(pooled),
        "left_out_unsure": unsure,
        **_two_raters(pooled, resamples, seed),
        "annotators": [
            {"a": a, "b": b, "pairs": len(rows), **_two_raters(rows, 0, seed)}
            for (a, b), rows in sorted(people.items())
        ],
    }


@dataclass(slots=True, frozen=True)
class _Comparison:
    label: Label
    a: bool
    b: bool


def _two_raters(rows: Sequence[_Comparison], resamples: int, seed: int) -> dict[str, Any]:
    table = _clusters(
        (_task(row.label), (row.a and row.b, row.a > row.b, row.a < row.b, not (row.a or row.b))) for row in rows
    )
    both, a_only, b_only, neither = _totals(table, 4)
    n = len(rows)
    found: dict[str, Any] = {
        "agree": both + neither,
        "agreement": (both + neither) / n if n else None,
        "interval": list(wilson(both + neither, n)),
        "kappa": kappa(both, a_only, b_only, neither),
    }
    if resamples:
        found["kappa_interval"] = _interval(table, kappa, resamples, seed)
    return found


@dataclass(slots=True, frozen=True)
class Pair:
    """One judgement beside one label."""

    judgement: Judgement
    label: Label
    human: bool


@dataclass(slots=True, frozen=True)
class Joined:
    """Judgements of one judge and the labels they belong to."""

    pairs: tuple[Pair, ...]
    without_label: tuple[str, ...]
    """Trajectory ids that were judged and have no label."""
    without_judgement: tuple[str, ...]
    """Keys of labels that nothing judged."""
    ambiguous: tuple[str, ...]
    """Trajectory ids that fit several labels, or share one label with another trajectory: left out."""
    undecided: tuple[str, ...]
    """Trajectory ids whose label is unsure or tied: left out."""


def join(judgements: Sequence[Judgement], labels: Sequence[Label]) -> Joined:
    """Which judgement belongs to which label.

    By the trajectory's id where the labels name ids; else by task, and by agent and benchmark where both sides know
    them (names compare without case and punctuation). What fits several labels of different trajectories, and several
    trajectories that fit one label (attempts at a task), are left out and named.
    """
    finder = _Finder(labels)
    keys = [finder.keys(judgement) for judgement in judgements]
    takers = Counter(found[0] for found in keys if len(found) == 1)
    pairs: list[Pair] = []
    ambiguous, without_label, undecided = [], [], []
    for judgement, found in zip(judgements, keys, strict=True):
        if not found:
            without_label.append(judgement.key)
        elif len(found) > 1 or takers[found[0]] > 1:
            ambiguous.append(judgement.key)
        else:
            said = [(label, counted(label)) for label in finder.by_key[found[0]]]
            here = [Pair(judgement, label, human) for label, human in said if human is not None]
            pairs += here
            undecided += [] if here else [judgement.key]
    touched = {key for found in keys for key in found}
    missing = tuple(key for key in finder.by_key if key not in touched)
    return Joined(tuple(pairs), tuple(without_label), missing, tuple(ambiguous), tuple(undecided))


class _Finder:
    """Labels by key and by task."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self.by_key = _by_key(labels)
        self.by_task: dict[str, list[Label]] = defaultdict(list)
        for label in labels:
            if label.task_id:
                self.by_task[label.task_id].append(label)

    def keys(self, judgement: Judgement) -> list[str]:
        """Keys of the labels that fit: one where it is clear, none, or several."""
        if judgement.key in self.by_key:
            return [judgement.key]
        fitting = self.by_task.get(judgement.task_id, [])
        for field in ("benchmark", "agent"):
            wanted = plain(getattr(judgement, field))
            if wanted:
                fitting = [label for label in fitting if plain(getattr(label, field)) in ("", wanted)]
        return list(dict.fromkeys(label.key for label in fitting))


def plain(name: str) -> str:
    """A name without case and punctuation: `Browser_Use` and `browser-use` are one agent."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


Reading = Callable[[Judgement], bool | None]
READINGS: Mapping[str, Reading] = {
    "unjudged_as_failure": lambda judgement: bool(judgement.success),
    "unjudged_left_out": lambda judgement: judgement.success,
    "as_upstream": lambda said: bool(said.success) if said.upstream is None else said.upstream == 1,
}


def agreement(pairs: Sequence[Pair], *, resamples: int = 2000, seed: int = 0) -> dict[str, Any]:
    """Confusion table and every rate of one judge against its labels, JSON-ready. Positive means success."""
    table = {
        said: {"success": 0, "failure": 0} for said in ("judged_success", "judged_failure", "could_not_judge")
    }  # fmt: skip
    for pair in pairs:
        said = pair.judgement.success
        row = "could_not_judge" if said is None else "judged_success" if said else "judged_failure"
        table[row]["success" if pair.human else "failure"] += 1
    tasks = Counter(_task(pair.label) for pair in pairs)
    clustered = any(n > 1 for n in tasks.values())
    found: dict[str, Any] = {
        "n": len(pairs),
        "tasks": len(tasks),
        "clustered": clustered,
        "confusion": table,
        "could_not_judge": dict(
            sorted(Counter(p.judgement.unjudged or "no_verdict" for p in pairs if p.judgement.success is None).items())
        ),
    }
    for name, reading in READINGS.items():
        if name == "as_upstream" and all(reading(p.judgement) == bool(p.judgement.success) for p in pairs):
            continue
        found[name] = _rates(pairs, reading, clustered, resamples, seed)
    return found


def _rates(pairs: Sequence[Pair], reading: Reading, clustered: bool, resamples: int, seed: int) -> dict[str, Any]:
    cells = []
    for pair in pairs:
        said = reading(pair.judgement)
        if said is not None:
            human = pair.human
            cells.append((_task(pair.label), (said and human, said > human, said < human, not (said or human))))
    table = _clusters(cells)
    hit, false_alarm, missed, right_no = _totals(table, 4)
    n = len(cells)
    found: dict[str, Any] = {"n": n}
    for name, (above, below) in RATES.items():
        counts = _totals(table, 4)
        won, of = above(*counts), below(*counts)
        rate: dict[str, Any] = {
            "value": won / of if of else None,
            "count": won,
            "of": of,
            "interval": list(wilson(won, of)) if of else None,
        }
        if clustered and resamples:
            rate["interval_by_task"] = _interval(table, _ratio(above, below), resamples, seed)
        found[name] = rate
    for name, statistic in (("f1", f1), ("kappa", kappa)):
        found[name] = {"value": statistic(hit, false_alarm, missed, right_no)}
        if resamples:
            found[name]["interval"] = _interval(table, statistic, resamples, seed)
    gap = _interval(table, _gap, resamples, seed) if resamples else None
    found["success_rate"] = {
        "judge": (hit + false_alarm) / n if n else None,
        "human": (hit + missed) / n if n else None,
        "gap": _gap(hit, false_alarm, missed, right_no),
        "interval": gap,
    }
    return found


Count = Callable[[float, float, float, float], Any]
RATES: Mapping[str, tuple[Count, Count]] = {
    "accuracy": (lambda tp, fp, fn, tn: tp + tn, lambda tp, fp, fn, tn: tp + fp + fn + tn),
    "precision": (lambda tp, fp, fn, tn: tp, lambda tp, fp, fn, tn: tp + fp),
    "recall": (lambda tp, fp, fn, tn: tp, lambda tp, fp, fn, tn: tp + fn),
    "false_positive_rate": (lambda tp, fp, fn, tn: fp, lambda tp, fp, fn, tn: fp + tn),
    "false_negative_rate": (lambda tp, fp, fn, tn: fn, lambda tp, fp, fn, tn: tp + fn),
}
"""Name -> (counted, out of), from true and false positives, false and true negatives."""


def f1(tp: float, fp: float, fn: float, tn: float) -> float | None:
    """Harmonic mean of precision and recall; None where neither the judge nor the people said success."""
    return 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else None


def _gap(tp: float, fp: float, fn: float, tn: float) -> float | None:
    n = tp + fp + fn + tn
    return (fp - fn) / n if n else None


def _ratio(above: Count, below: Count) -> Callable[..., float | None]:
    def ratio(*counts: float) -> float | None:
        of = below(*counts)
        return above(*counts) / of if of else None

    return ratio


def breakdown(pairs: Sequence[Pair], field: Literal["agent", "benchmark"], *, seed: int = 0) -> dict[str, Any]:
    """name -> agreement of that part (no bootstrap), and over its parts the mean accuracy and mean size of the gap.

    The mean over agents is what Online-Mind2Web publishes as agreement: every agent weighs the same.
    """
    parts: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        parts[getattr(pair.label, field) or getattr(pair.judgement, field)].append(pair)
    if set(parts) <= {""}:
        return {}
    tables = {name: agreement(rows, resamples=0, seed=seed) for name, rows in sorted(parts.items())}
    means: dict[str, Any] = {}
    for reading in READINGS:
        if not any(reading in table for table in tables.values()):
            continue
        rates = [table.get(reading, table["unjudged_as_failure"]) for table in tables.values()]
        rates = [rate for rate in rates if rate["n"]]
        means[reading] = {
            "mean_accuracy": _mean([rate["accuracy"]["value"] for rate in rates]),
            "mean_absolute_gap": _mean([abs(rate["success_rate"]["gap"]) for rate in rates]),
        }
    return {"parts": tables, "mean_over_parts": means}


def success_rates(
    labels: Iterable[Label], group: Callable[[Label], str] = lambda label: ""
) -> dict[str, dict[str, tuple[int, int, int]]]:
    """agent -> group -> (successes, n, not executable), with the group `all` first; unsure labels are left out."""
    found: dict[str, dict[str, tuple[int, int, int]]] = {}
    for label in labels:
        said = counted(label)
        if said is None:
            continue
        table = found.setdefault(label.agent, {"all": (0, 0, 0)})
        for name in filter(None, ("all", group(label))):
            won, n, apart = table.get(name, (0, 0, 0))
            table[name] = (won + said, n + 1, apart + (label.note == NOT_EXECUTABLE))
    return found


def _task(label: Label) -> str:
    return f"{label.benchmark}/{label.task_id}" if label.task_id else label.key


def _clusters(cells: Iterable[tuple[str, Sequence[bool]]]) -> list[list[int]]:
    table: dict[str, list[int]] = {}
    for task, flags in cells:
        row = table.setdefault(task, [0] * len(flags))
        for i, flag in enumerate(flags):
            row[i] += flag
    return [table[task] for task in sorted(table)]


def _totals(table: Sequence[Sequence[int]], width: int) -> list[int]:
    return [sum(row[i] for row in table) for i in range(width)]


def _interval(
    table: Sequence[Sequence[int]], statistic: Callable[..., float | None], resamples: int, seed: int
) -> list[float] | None:
    found = cluster_bootstrap(table, statistic, resamples=resamples, seed=seed)
    return list(found) if found else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
