"""Study: what does step-level RL on mined states add to more SFT, at equal sampled replies and equal updates?

    .venv/bin/python recipes/studies/arms.py -o runs/studies/arms --write docs/studies/arms.md

Every seed is a replicate: its own training tasks, explorer draws, SFT, mined states and samples; one base, the same
held-out tasks. Arms: sft, sft_plain (SFT on plain resampling's successes), sft_continued, rehearsal_only,
ce_references, grpo, dapo, salvage_ds, and salvage_uniform (the same number of uniformly drawn states). Intervals are
crossed bootstraps over seeds and tasks. Resumable: the same command goes on; every number is read from the runs.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rmsweb.bench.metrics import result_of
from rmsweb.bench.statistics import crossed_bootstrap
from rmsweb.demo import Piece, plain_budget, run_pieces
from rmsweb.progress import progress
from rmsweb.records import Trajectory, Verdict
from rmsweb.store import Run

RECIPE = Path(__file__).with_suffix(".toml")
RL_ARMS = ("rehearsal_only", "ce_references", "grpo", "dapo", "salvage_ds")
TRAINED = ("sft", "sft_plain", "sft_continued", *RL_ARMS, "salvage_uniform")
PAIRS = (
    ("salvage_ds", "sft_continued"), ("salvage_ds", "grpo"), ("salvage_ds", "dapo"), ("salvage_ds", "ce_references"),
    ("salvage_ds", "rehearsal_only"), ("salvage_ds", "salvage_uniform"), ("salvage_ds", "sft"),
    ("grpo", "sft_continued"), ("sft_continued", "sft"), ("sft", "sft_plain"),
)  # fmt: skip
TASKS_A_SEED = 400  # 192 collected on, 192 mined on
"""Training tasks that a seed may use: collected on, then mined on."""


def plan(seed: int) -> list[Piece]:
    """The stages of one replicate, in an order in which two can run side by side."""

    def sets(*more: str) -> tuple[str, ...]:
        return (f"seed={seed}", f"suite.offset={seed * TASKS_A_SEED}", *more)

    uniform = ("mine=mine-uniform", "sft", "samples")
    rl = [
        Piece(arm, "rl", ("mine", "sft", "samples"), lambda out, a=arm: sets(f"rl.method={a}"), after=("mine",))
        for arm in RL_ARMS
    ]
    exams = [
        Piece(f"eval-{arm}", "eval", (f"{arm}={arm}", "samples"), lambda out: sets(), after=(arm,)) for arm in TRAINED
    ]
    return [
        Piece("collect", "collect", sets=lambda out: sets("collect.arm=reflect")),
        Piece("samples", "samples", ("collect",), lambda out: sets(), after=("collect",)),
        Piece("collect-plain", "collect", sets=lambda out: sets(*plain_budget(out)), after=("collect",)),
        Piece("sft", "sft", ("samples",), lambda out: sets(), after=("samples",)),
        Piece("samples-plain", "samples", ("collect-plain",), lambda out: sets(), after=("collect-plain",)),
        Piece("mine", "mine", ("sft", "collect"), lambda out: sets(), after=("sft",)),
        Piece("sft_plain", "sft", ("samples=samples-plain",), lambda out: sets(), after=("samples-plain",)),
        Piece("sft_continued", "sft", ("samples", "start=sft"), lambda out: sets(), after=("sft",)),
        Piece("mine-uniform", "mine", ("sft", "collect"), lambda out: sets("mine.sampling=uniform"), after=("sft",)),
        *rl,
        Piece("salvage_uniform", "rl", uniform, lambda out: sets(), after=("mine-uniform",)),
        *exams,
    ]  # fmt: skip


def outcomes(out: Path, seeds: Sequence[int]) -> dict[str, list[dict[str, tuple[bool, int]]]]:
    """arm -> one mapping a seed: task id -> (solved, steps)."""
    found: dict[str, list[dict[str, tuple[bool, int]]]] = {}
    for arm in TRAINED:
        for seed in seeds:
            run = Run.read_only(out / f"seed-{seed}" / f"eval-{arm}")
            verdicts = {v.trajectory_id: v for v in run.read("verdict", Verdict)}
            results = [result_of(arm, t, verdicts.get(t.id)) for t in run.read("trajectory", Trajectory)]
            found.setdefault(arm, []).append({r.task.id: (r.success is True, r.steps) for r in results})
    return found


def table(found: dict[str, list[dict[str, tuple[bool, int]]]], command: str) -> str:
    """Success of every arm and the paired differences, as Markdown."""
    tasks = sorted(next(iter(found.values()))[0])
    lines = [f"`{command}`", "", f"{len(next(iter(found.values())))} seeds, {len(tasks)} held-out tasks, greedy.", ""]
    lines += ["| arm | success of each seed | mean |", "|---|---|---|"]
    grids = {arm: [[float(seed[t][0]) for t in tasks] for seed in seeds] for arm, seeds in found.items()}
    for arm, grid in grids.items():
        rates = [sum(row) / len(row) for row in grid]
        lines.append(f"| {arm} | {' '.join(f'{r:.3f}' for r in rates)} | {sum(rates) / len(rates):.3f} |")
    lines += ["", "| pair | difference [95 %] | each seed | steps on commonly solved |", "|---|---|---|---|"]
    for a, b in PAIRS:
        paired = crossed_bootstrap(grids[a], grids[b])
        each = [(sum(x) - sum(y)) / len(tasks) for x, y in zip(grids[a], grids[b], strict=True)]
        low, high = paired.interval
        lines.append(
            f"| {a} - {b} | {paired.difference:+.3f} [{low:+.3f}, {high:+.3f}] | "
            f"{' '.join(f'{e:+.3f}' for e in each)} | {_common(found[a], found[b])} |"
        )
    return "\n".join(lines) + "\n"


def _common(a: list[dict[str, tuple[bool, int]]], b: list[dict[str, tuple[bool, int]]]) -> str:
    pairs = [(x[t][1], y[t][1]) for x, y in zip(a, b, strict=True) for t in x.keys() & y.keys() if x[t][0] and y[t][0]]
    if not pairs:
        return "none"
    return f"{sum(p for p, _ in pairs) / len(pairs):.2f} vs {sum(q for _, q in pairs) / len(pairs):.2f} ({len(pairs)})"


def main() -> None:
    """Runs what is owed, writes results.json and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", type=Path, help="Markdown page to write")
    parser.add_argument("--set", action="append", default=[], help="a.b=value, in every run")
    options = parser.parse_args()
    with progress() as show:
        for seed in range(options.seeds):
            out = options.out / f"seed-{seed}"
            out.mkdir(parents=True, exist_ok=True)
            run_pieces(plan(seed), out, RECIPE, options.set, show)
    found = outcomes(options.out, range(options.seeds))
    (options.out / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    page = table(found, f".venv/bin/python recipes/studies/arms.py -o {options.out} --seeds {options.seeds}")
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(page)
    print(page)


if __name__ == "__main__":
    main()
