"""Study: do reflection-conditioned retries beat plain resampling at equal cost?

    .venv/bin/python recipes/studies/reflection.py -o runs/studies/reflection --write docs/studies/reflection.md

Fresh train worlds (seeds from 60000 on; the explorer and its rules were tuned on 50000..50299 and frozen at commit
779adfc), several seeds, each with tasks of its own. First the reflecting arm, then the plain one with as many browser
steps as that one spent: the same first attempts, the same temperature, and further resampling (up to `PLAIN_RETRIES`)
while steps are left. Then the same on two sites that the explorer was never tuned on. The gym is as old as it;
the library was built after the freeze by an author who had not seen the explorer, with the same closed list of words.
Resumable: the same command goes on; every number is read from the runs.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rmsweb import stages
from rmsweb.config import load
from rmsweb.progress import progress
from rmsweb.records import Trajectory, Verdict
from rmsweb.reflect.yields import TaskFigures, compare, per_task
from rmsweb.statistics import mean_interval, ratio_interval, wilson
from rmsweb.store import Run

RECIPE = Path(__file__).with_suffix(".toml")
FIRST_SEED = 60_000
TEMPLATES = {"sites": 16, "gym": 4, "library": 4}
WHERE = {
    "sites": "four sites",
    "gym": "gym (never tuned on)",
    "library": "library (built after the explorer was frozen, by an author who had not seen it)",
}
PLAIN_RETRIES = 6
ATTEMPTS = 3


def main() -> None:
    """Runs what is owed, writes results.json and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--worlds", type=int, default=13, help="worlds of each template and seed (13: 208 tasks a seed)"
    )
    parser.add_argument("--write", type=Path, help="Markdown page to write")
    parser.add_argument("--set", action="append", default=[], help="a.b=value, in every run")
    options = parser.parse_args()
    results = {}
    for name in TEMPLATES:
        runs = [collect_both(options.out, name, seed, options.worlds, options.set) for seed in range(options.seeds)]
        results[name] = pooled(runs)
    (options.out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    page = table(results, options)
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(page)
    print(page)


def collect_both(out: Path, name: str, seed: int, worlds: int, sets: Sequence[str]) -> dict[str, Path]:
    """Both arms of one seed; the plain one gets the browser steps that the reflecting one spent."""
    count = worlds * TEMPLATES[name]
    common = [
        f"seed={seed}", f"suite.count={count}", f"suite.offset={FIRST_SEED * TEMPLATES[name] + seed * count}",
        *([f'suite.sites=["{name}"]'] if name != "sites" else []), *sets,
    ]  # fmt: skip
    folders = {arm: out / f"{name}-{arm}-{seed}" for arm in ("reflect", "plain")}
    reflect = _collect(folders["reflect"], [*common, "collect.arm=reflect"])
    plain = [f"collect.retries={PLAIN_RETRIES}", f"collect.browser_steps={reflect['browser_steps']}"]
    _collect(folders["plain"], [*common, "collect.arm=plain", *plain])
    return folders


def _collect(folder: Path, sets: Sequence[str]) -> dict[str, Any]:
    with progress() as show:
        return stages.collect(load(RECIPE, list(sets)), folder, {}, show)


def pooled(runs: Sequence[Mapping[str, Path]]) -> dict[str, Any]:
    """Figures of both arms over all seeds, and their paired differences."""
    figures: dict[str, dict[str, TaskFigures]] = {"reflect": {}, "plain": {}}
    summaries: dict[str, list[dict[str, Any]]] = {"reflect": [], "plain": []}
    templates: dict[str, dict[str, list[int]]] = {}
    differing = 0
    for seed, folders in enumerate(runs):
        first: dict[str, dict[str, object]] = {}
        for arm, folder in folders.items():
            run = Run.read_only(folder)
            verdicts = {v.trajectory_id: v for v in run.read("verdict", Verdict)}
            trajectories = run.read("trajectory", Trajectory)
            found = per_task(trajectories, verdicts)
            figures[arm] |= {f"{seed}/{task}": value for task, value in found.items()}
            summaries[arm].append(json.loads((folder / "summary.json").read_text()))
            for trajectory in (t for t in trajectories if t.attempt == 0):
                seen = [(step.before.image, step.decision.action) for step in trajectory.steps]
                first.setdefault(trajectory.task.id, {})[arm] = (seen, trajectory.stop)
                solved = found[trajectory.task.id].solved_at
                row = templates.setdefault(trajectory.task.template, {}).setdefault(arm, [0] * (ATTEMPTS + 1))
                row[0] += 1
                for k in range(ATTEMPTS):
                    row[k + 1] += solved is not None and solved <= k
        differing += sum(both.get("reflect") != both.get("plain") for both in first.values() if len(both) == 2)
    return {
        "seeds": len(runs),
        "first_attempts_that_differ": differing,
        **{arm: _arm(figures[arm], summaries[arm]) for arm in figures},
        "reflect_minus_plain": compare(figures["plain"], figures["reflect"], ATTEMPTS),
        "templates": templates,
    }


def _arm(figures: Mapping[str, TaskFigures], summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    values = list(figures.values())
    solved = [f for f in values if f.solved_at is not None]
    counts = [sum(f.solved_at is not None and f.solved_at <= k for f in values) for k in range(ATTEMPTS)]
    wins, costs = [float(f.solved_at is not None) for f in values], [float(f.cost) for f in values]
    steps = [float(f.kept_steps) for f in values if f.kept_steps is not None]
    missed = [f for f in values if f.solved_at != 0]
    second = sum(f.solved_at == 1 for f in missed)
    thoughts = sum(s["advised_thoughts"] for s in summaries)
    return {
        "tasks": len(values),
        "yield_at": [round(c / len(values), 4) for c in counts],
        "yield_interval": [wilson(c, len(values)) for c in counts],
        "yield": round(len(solved) / len(values), 4),
        "final_interval": wilson(len(solved), len(values)),
        "retry_success": round(second / len(missed), 4) if missed else None,
        "retry_interval": wilson(second, len(missed)),
        "steps_of_kept": round(sum(steps) / len(steps), 3) if steps else None,
        "steps_interval": mean_interval(steps),
        "browser_steps": int(sum(costs)),
        "browser_steps_per_success": round(sum(costs) / len(solved), 3) if solved else None,
        "cost_interval": ratio_interval(costs, wins),
        "leaks": sum(s["leaks"] for s in summaries),
        "advised_thoughts": thoughts,
        "by_seed": [s["yield_at"][:ATTEMPTS] for s in summaries],
    }


def table(results: Mapping[str, Any], options: argparse.Namespace) -> str:
    """The page."""
    lines = [
        "# Study: reflection-conditioned retries against plain resampling",
        "",
        "Written by `recipes/studies/reflection.py`; every number is measured. Embedded explorer and rule reflector,",
        "compact theme, real Chromium, same temperature in both arms. The plain arm may resample further while it has",
        "browser steps left of what the reflecting arm spent: *at equal cost* is the comparison that counts, @2 and @3",
        "are at equal numbers of attempts. Intervals are 95 %.",
        "",
        "```",
        f".venv/bin/python recipes/studies/reflection.py -o {options.out} "
        f"--seeds {options.seeds} --worlds {options.worlds}" + "".join(f" --set {item}" for item in options.set),
        "```",
    ]
    for name, result in results.items():
        lines += ["", f"## {WHERE[name]}: {result['reflect']['tasks']} fresh tasks, {result['seeds']} seeds", ""]
        lines += _arms_table(result)
        lines += [
            "",
            f"First attempts are drawn alike in both arms; {result['first_attempts_that_differ']} of "
            f"{result['reflect']['tasks']} differ (a page was looked at while it changed).",
        ]
        lines += ["", "Difference reflect - plain, paired over tasks:", ""]
        lines += _difference_table(result["reflect_minus_plain"])
        lines += [
            "",
            "| template | n | first attempt | plain @2 | reflect @2 | plain @3 | reflect @3 |",
            "|" + "---|" * 7,
        ]
        for template, row in sorted(result["templates"].items()):
            plain, reflect = row["plain"], row["reflect"]
            shares = [plain[1], plain[2], reflect[2], plain[3], reflect[3]]
            lines.append(f"| {template} | {plain[0]} | " + " | ".join(f"{s / plain[0]:.2f}" for s in shares) + " |")
    leaks = results["sites"]["reflect"]
    lines += [
        "",
        f"Leak scan: {leaks['leaks']} of {leaks['advised_thoughts']} thoughts of advised, kept successes. The explorer",
        "writes no thoughts, so this says nothing about chat models.",
    ]
    return "\n".join(lines) + "\n"


def _arms_table(result: Mapping[str, Any]) -> list[str]:
    rows = [
        "| arm | yield @1 | @2 | @3 | at equal cost | retry 1, first failed | kept steps | browser steps / success |",
        "|" + "---|" * 8,
    ]
    for arm in ("plain", "reflect"):
        a = result[arm]
        yields = " | ".join(f"{y:.3f} {_interval(i)}" for y, i in zip(a["yield_at"], a["yield_interval"], strict=True))
        rows.append(
            f"| {arm} | {yields} | {a['yield']:.3f} {_interval(a['final_interval'])} | {a['retry_success']:.3f} "
            f"{_interval(a['retry_interval'])} | {a['steps_of_kept']:.2f} {_interval(a['steps_interval'], 2)} | "
            f"{a['browser_steps_per_success']:.2f} {_interval(a['cost_interval'], 2)} |"
        )
    return rows


def _difference_table(difference: Mapping[str, Any]) -> list[str]:
    rows = ["| | difference | interval | n |", "|---|---|---|---|"]
    named = {f"yield @{k + 1}": d for k, d in enumerate(difference["yield_at"])}
    named |= {"yield at equal cost": difference["yield"], "retry 1 given a failed first": difference["retry_success"]}
    named |= {"steps of kept, both solved": difference["steps_common"], "browser steps a task": difference["cost"]}
    for label, d in named.items():
        rows.append(f"| {label} | {d['mean']:+.3f} | {_interval(d['interval'])} | {d['n']} |")
    return rows


def _interval(interval: Sequence[float] | None, digits: int = 3) -> str:
    return "" if interval is None else f"[{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"


if __name__ == "__main__":
    main()
