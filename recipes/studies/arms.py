"""Study: what does step-level RL on mined states add to more SFT, at equal sampled replies and equal updates?

    .venv/bin/python recipes/studies/arms.py -o runs/studies/arms --write docs/studies/arms.md

Every seed is a replicate: its own training tasks, explorer draws, SFT, mined states and samples; one base, the same
held-out tasks. Main arms, on every seed: sft, sft_continued, ce_references, grpo, salvage_ds. Further arms, on the
first `--more-seeds` seeds: sft_plain (SFT on plain resampling's successes), rehearsal_only, dapo, and salvage_uniform
(the same number of uniformly drawn states). Intervals are crossed bootstraps over seeds and tasks. Resumable: the
same command goes on; every number is read from the runs.

Settings were chosen on other seeds and tasks: `--first-seed 900 --seeds 1 --more-seeds 0 --set eval.split=dev`.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rmsweb.bench.metrics import result_of
from rmsweb.demo import plain_budget
from rmsweb.pieces import Piece, run_pieces
from rmsweb.progress import progress
from rmsweb.records import Trajectory, Verdict
from rmsweb.statistics import crossed_bootstrap
from rmsweb.store import Run

RECIPE = Path(__file__).with_suffix(".toml")
MAIN = ("sft", "sft_continued", "ce_references", "grpo", "salvage_ds")
MORE = ("sft_plain", "rehearsal_only", "dapo", "salvage_uniform")
PAIRS = (
    ("salvage_ds", "sft_continued"), ("salvage_ds", "grpo"), ("salvage_ds", "ce_references"), ("salvage_ds", "dapo"),
    ("salvage_ds", "rehearsal_only"), ("salvage_ds", "salvage_uniform"), ("salvage_ds", "sft"),
    ("grpo", "sft_continued"), ("ce_references", "sft_continued"), ("sft_continued", "sft"), ("sft", "sft_plain"),
)  # fmt: skip
TASKS_A_SEED = 400
"""Training tasks that a seed may use: collected on, then mined on."""

Outcomes = dict[str, dict[str, tuple[bool, int]]]
"""arm -> task id -> (solved, steps)."""


def plan(seed: int) -> tuple[list[Piece], list[Piece]]:
    """The stages of one replicate, in folders `seed-N/<stage>`: the main arms', and the further ones'."""
    home = f"seed-{seed}"

    def piece(name: str, verb: str, sources: Sequence[str], after: Sequence[str], *settings: str) -> Piece:
        pairs = [source.partition("=") for source in sources]
        inputs = tuple(f"{name}={home}/{folder or name}" for name, _, folder in pairs)
        sets = (f"seed={seed}", f"suite.offset={seed * TASKS_A_SEED}", *settings)
        return Piece(f"{home}/{name}", verb, inputs, lambda out: sets, tuple(f"{home}/{one}" for one in after))

    def rl(arm: str, method: str = "", mine: str = "mine") -> Piece:
        return piece(arm, "rl", (f"mine={mine}", "sft", "samples"), (mine,), f"rl.method={method or arm}")

    def exam(name: str, arms: Sequence[str]) -> Piece:
        return piece(name, "eval", (*arms, "samples"), arms)

    def plain() -> Piece:
        made = piece("collect-plain", "collect", (), ("collect",))
        return replace(made, sets=lambda out: (*made.sets(out), *plain_budget(out / home)))

    main = [
        piece("collect", "collect", (), (), "collect.arm=reflect"),
        piece("samples", "samples", ("collect",), ("collect",)),
        piece("sft", "sft", ("samples",), ("samples",)),
        piece("mine", "mine", ("sft", "collect"), ("sft",)),
        piece("sft_continued", "sft", ("samples", "start=sft"), ("sft",)),
        *map(rl, ("ce_references", "grpo", "salvage_ds")),
        exam("eval-main", MAIN),
    ]
    further = [
        plain(),
        piece("samples-plain", "samples", ("collect-plain",), ("collect-plain",)),
        piece("sft_plain", "sft", ("samples=samples-plain",), ("samples-plain",)),
        piece("mine-uniform", "mine", ("sft", "collect", "rollouts=mine"), ("mine",), "mine.sampling=uniform"),
        *map(rl, ("rehearsal_only", "dapo")),
        rl("salvage_uniform", "salvage_ds", "mine-uniform"),
        exam("eval-more", MORE),
    ]
    return main, further


def outcomes(out: Path, exams: Sequence[str]) -> Outcomes:
    """What the exams of one seed found."""
    found: Outcomes = {}
    for exam in exams:
        run = Run.read_only(out / exam)
        verdicts = {v.trajectory_id: v for v in run.read("verdict", Verdict)}
        for trajectory in run.read("trajectory", Trajectory):
            arm = trajectory.id.partition("/")[0]
            result = result_of(arm, trajectory, verdicts.get(trajectory.id))
            found.setdefault(arm, {})[result.task.id] = (result.success is True, result.steps)
    return found


def table(found: Sequence[Outcomes], command: str) -> str:
    """Success of every arm and the paired differences, as Markdown."""
    tasks = sorted(found[0]["sft"])
    lines = [f"`{command}`", "", f"{len(found)} seeds, {len(tasks)} held-out tasks each, greedy, real Chromium.", ""]
    lines += ["| arm | success of each seed | mean | steps on solved |", "|---|---|---|---|"]
    for arm in (*MAIN, *MORE):
        seeds = [seed[arm] for seed in found if arm in seed]
        if seeds:
            rates = [sum(solved for solved, _ in seed.values()) / len(seed) for seed in seeds]
            steps = [steps for seed in seeds for solved, steps in seed.values() if solved]
            each = " ".join(f"{rate:.3f}" for rate in rates)
            lines.append(f"| {arm} | {each} | {sum(rates) / len(rates):.3f} | {sum(steps) / max(1, len(steps)):.2f} |")
    lines += ["", "| pair | difference [95 %] | each seed | steps on commonly solved |", "|---|---|---|---|"]
    for a, b in PAIRS:
        both = [(seed[a], seed[b]) for seed in found if a in seed and b in seed]
        if both:
            lines.append(f"| {a} - {b} | {_difference(both, tasks)} | {_common(both)} |")
    return "\n".join(lines) + "\n"


Both = Sequence[tuple[dict[str, tuple[bool, int]], dict[str, tuple[bool, int]]]]


def _difference(both: Both, tasks: Sequence[str]) -> str:
    a, b = ([[float(pair[side][task][0]) for task in tasks] for pair in both] for side in (0, 1))
    paired = crossed_bootstrap(a, b)
    each = " ".join(f"{(sum(x) - sum(y)) / len(tasks):+.3f}" for x, y in zip(a, b, strict=True))
    return f"{paired.difference:+.3f} [{paired.interval.low:+.3f}, {paired.interval.high:+.3f}] | {each}"


def _common(both: Both) -> str:
    pairs = [(x[task][1], y[task][1]) for x, y in both for task in x if x[task][0] and y[task][0]]
    if not pairs:
        return "none"
    return f"{sum(p for p, _ in pairs) / len(pairs):.2f} vs {sum(q for _, q in pairs) / len(pairs):.2f} ({len(pairs)})"


def main() -> None:
    """Runs what is owed, writes results.json and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--more-seeds", type=int, default=3, help="seeds that run the further arms too")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="Markdown page to write")
    parser.add_argument("--set", action="append", default=[], help="a.b=value, in every run")
    options = parser.parse_args()
    command = f".venv/bin/python recipes/studies/arms.py -o {options.out}"
    if (options.seeds, options.more_seeds, options.first_seed) != (5, 3, 0):
        command += f" --seeds {options.seeds} --more-seeds {options.more_seeds} --first-seed {options.first_seed}"
    command += "".join(f" --set {item}" for item in options.set)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    further = seeds[: options.more_seeds]
    for seed in seeds:
        (options.out / f"seed-{seed}").mkdir(parents=True, exist_ok=True)
    with progress() as show:
        plans = {seed: plan(seed) for seed in seeds}
        first = [piece for main, _ in plans.values() for piece in main]
        then = [piece for seed in further for piece in plans[seed][1]]
        run_pieces([*first, *then], options.out, RECIPE, options.set, show)
    exams = {seed: ["eval-main", "eval-more"] if seed in further else ["eval-main"] for seed in seeds}
    found = [outcomes(options.out / f"seed-{seed}", exams[seed]) for seed in seeds]
    (options.out / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    page = table(found, command)
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(page)
    print(page)


if __name__ == "__main__":
    main()
