"""Study: what does step-level RL on mined states add, at equal updates and, between RL arms, equal sampled replies?

    .venv/bin/python recipes/studies/arms.py -o runs/studies/arms --write docs/studies/arms.md

Every seed is a replicate: its own training tasks, explorer draws, SFT, mined states and samples; one base, the same
held-out tasks. The main arms run on every seed, the groups of further arms on the first `--more-seeds` seeds:

    main     sft, sft_continued (more updates on the same samples), ce_references (cross-entropy on the references of
             the same states), grpo (no gate, no anchor), salvage_ds
    methods  rehearsal_only, dapo (groups without contrast are dropped), other settings as in salvage_ds
    states   salvage_few and salvage_uniform: equal numbers of mined and of uniformly drawn visited states
    plain    sft_plain: SFT on plain resampling's successes, collected at equal browser steps
    data     sft_more: as many updates of SFT, on what the explorer collects on the mining tasks for the browser steps
             that mining took, together with the old samples

ce_references gets the same new states as the RL arms: it is the control for RL. sft_continued gets no new data and is
the control for further updates only. Resumable: the same command goes on; every number is read from the runs.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rmsweb.bench.metrics import result_of
from rmsweb.config import load
from rmsweb.demo import plain_budget
from rmsweb.pieces import Piece, run_pieces
from rmsweb.progress import progress
from rmsweb.records import Outcome, Trajectory, Verdict
from rmsweb.statistics import crossed_bootstrap
from rmsweb.store import Run

RECIPE = Path(__file__).with_suffix(".toml")
MAIN = ("sft", "sft_continued", "ce_references", "grpo", "salvage_ds")
FURTHER = {
    "methods": ("rehearsal_only", "dapo"),
    "states": ("salvage_few", "salvage_uniform"),
    "plain": ("sft_plain",),
    "data": ("sft_more",),
}
FEW = 300
"""States of `salvage_few` and `salvage_uniform`: well below what was visited, so that the two draws differ."""
PAIRS = (
    ("salvage_ds", "ce_references"), ("salvage_ds", "grpo"), ("salvage_ds", "sft_continued"), ("salvage_ds", "sft"),
    ("grpo", "ce_references"), ("ce_references", "sft_continued"), ("sft_continued", "sft"),
    ("salvage_ds", "dapo"), ("salvage_ds", "rehearsal_only"), ("salvage_ds", "sft_more"),
    ("salvage_few", "salvage_uniform"), ("sft", "sft_plain"),
)  # fmt: skip
TASKS_A_SEED = 400
"""Training tasks that a seed may use: collected on, then mined on."""

Outcomes = dict[str, dict[str, tuple[bool, int, bool]]]
"""arm -> task id -> (solved, steps, broken by the browser)."""


def plan(seed: int) -> dict[str, list[Piece]]:
    """The stages of one replicate by group, in folders `seed-N/<stage>`."""
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

    def later(made: Piece, sets: Callable[[Path], tuple[str, ...]]) -> Piece:
        """With settings that follow from what an earlier stage spent."""
        return replace(made, sets=lambda out: (*made.sets(out), *sets(out / home)))

    drawn = ("sft", "collect", "rollouts=mine")
    beyond = (f"suite.offset={seed * TASKS_A_SEED + _count('suite')}", f"suite.count={_count('mine')}")
    return {
        "main": [
            piece("collect", "collect", (), (), "collect.arm=reflect"),
            piece("samples", "samples", ("collect",), ("collect",)),
            piece("sft", "sft", ("samples",), ("samples",)),
            piece("mine", "mine", ("sft", "collect"), ("sft",)),
            piece("sft_continued", "sft", ("samples", "start=sft"), ("sft",)),
            *map(rl, ("ce_references", "grpo", "salvage_ds")),
            exam("eval-main", MAIN),
        ],
        "methods": [*map(rl, FURTHER["methods"]), exam("eval-methods", FURTHER["methods"])],
        "states": [
            piece("mine-few", "mine", drawn, ("mine",), f"mine.states={FEW}"),
            piece("mine-uniform", "mine", drawn, ("mine",), f"mine.states={FEW}", "mine.sampling=uniform"),
            rl("salvage_few", "salvage_ds", "mine-few"),
            rl("salvage_uniform", "salvage_ds", "mine-uniform"),
            exam("eval-states", FURTHER["states"]),
        ],
        "plain": [
            later(piece("collect-plain", "collect", (), ("collect",)), plain_budget),
            piece("samples-plain", "samples", ("collect-plain",), ("collect-plain",)),
            piece("sft_plain", "sft", ("samples=samples-plain",), ("samples-plain",)),
            exam("eval-plain", FURTHER["plain"]),
        ],
        "data": [
            later(piece("collect-more", "collect", (), ("mine",), *beyond), mining_budget),
            piece("samples-more", "samples", ("collect", "collect-more"), ("collect-more",)),
            piece("sft_more", "sft", ("samples=samples-more", "start=sft"), ("samples-more",)),
            exam("eval-data", FURTHER["data"]),
        ],
    }  # fmt: skip


def _count(section: str) -> int:
    config = load(RECIPE)
    return config.suite.count if section == "suite" else config.mine.tasks


def mining_budget(out: Path) -> tuple[str, ...]:
    """The explorer may spend what mining spent: rollouts, and the teacher's tries with their replays."""
    return ("collect.arm=reflect", f"collect.browser_steps={summary(out / 'mine')['browser_steps']}")


def summary(run: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return value


def outcomes(out: Path, groups: Sequence[str]) -> Outcomes:
    """What the exams of one seed found."""
    found: Outcomes = {}
    for group in groups:
        run = Run.read_only(out / f"eval-{group}")
        verdicts = {v.trajectory_id: v for v in run.read("verdict", Verdict)}
        for trajectory in run.read("trajectory", Trajectory):
            arm = trajectory.id.partition("/")[0]
            result = result_of(arm, trajectory, verdicts.get(trajectory.id))
            broken = result.outcome is Outcome.INFRA_ERROR
            found.setdefault(arm, {})[result.task.id] = (result.success is True, result.steps, broken)
    return found


def table(found: Mapping[int, Outcomes], out: Path, command: str) -> str:
    """The page: budgets, success of every arm, paired differences, the level that RL started from."""
    tasks = sorted(next(iter(found.values()))["sft"])
    lines = [
        "# Study: step-level RL on mined states against its controls",
        "",
        "Written by `recipes/studies/arms.py`; every number is measured in real Chromium. What each arm is stands at",
        "the head of that script. Greedy success; steps include the final answer.",
        "",
        *("```", command, "```", ""),
        f"{len(found)} seeds, {len(tasks)} held-out tasks each, the same for all.",
        "",
        "| arm | seeds | success of each | mean | steps on solved | infra | updates | replies | new states |",
        "|" + "---|" * 9,
        *_arms(found, out),
        "",
        "Updates, sampled replies and new states are those of the first seed. Common steps below: mean steps of the",
        "episodes in which both solved the task (how many in brackets). Nothing is corrected for the number of pairs.",
        "",
        "| pair | n | difference | 95 %, seeds and tasks redrawn | 95 %, t over seeds | each seed | common steps |",
        "|" + "---|" * 7,
    ]
    for a, b in PAIRS:
        both = [(arms[a], arms[b]) for arms in found.values() if a in arms and b in arms]
        if both:
            lines.append(f"| {a} - {b} | {len(both)} | {_difference(both, tasks)} | {_common(both)} |")
    return "\n".join([*lines, *_starts(found, out)]) + "\n"


def _arms(found: Mapping[int, Outcomes], out: Path) -> list[str]:
    lines = []
    for arm in (*MAIN, *(arm for arms in FURTHER.values() for arm in arms)):
        seeds = {seed: arms[arm] for seed, arms in found.items() if arm in arms}
        if not seeds:
            continue
        rates = [mean(float(solved) for solved, _, _ in tasks.values()) for tasks in seeds.values()]
        steps = [steps for tasks in seeds.values() for solved, steps, _ in tasks.values() if solved]
        broken = sum(infra for tasks in seeds.values() for _, _, infra in tasks.values())
        each = " ".join(f"{rate:.3f}" for rate in rates)
        spent = summary(out / f"seed-{min(seeds)}" / arm)
        states = 0 if arm == "rehearsal_only" else spent.get("states", 0)  # it has them and trains on none
        row = (arm, len(seeds), each, f"{mean(rates):.3f}", f"{mean(steps or [0]):.2f}", broken, spent["updates"])
        lines.append("| " + " | ".join(map(str, (*row, spent.get("replies", 0), states))) + " |")
    return lines


def _starts(found: Mapping[int, Outcomes], out: Path) -> list[str]:
    """Where RL started and where it ended, on states that it was not trained on."""
    lines = [
        "",
        "Right replies at temperature 1 (in brackets: groups without one) on states set apart from training. RL",
        "should start from .60 (.20 at most).",
        "",
        "| seed | states | before | ce_references | grpo | salvage_ds |",
        "|---|---|---|---|---|---|",
    ]
    for seed in found:
        levels = [summary(out / f"seed-{seed}" / arm)["dev"] for arm in MAIN[2:]]
        shown = [levels[0]["before"], *(level["after"] for level in levels)]
        cells = [f"{one['reply_right']:.2f} ({one['all_wrong']:.2f})" for one in shown]
        lines.append(f"| {seed} | {levels[0]['states']} | {' | '.join(cells)} |")
    return lines


Both = Sequence[tuple[dict[str, tuple[bool, int, bool]], dict[str, tuple[bool, int, bool]]]]


def _difference(both: Both, tasks: Sequence[str]) -> str:
    a, b = ([[float(pair[side][task][0]) for task in tasks] for pair in both] for side in (0, 1))
    low, high = crossed_bootstrap(a, b).interval
    each = [(sum(x) - sum(y)) / len(tasks) for x, y in zip(a, b, strict=True)]
    over = "one seed"
    if len(each) > 1:
        from scipy.stats import t

        half = float(t.ppf(0.975, len(each) - 1)) * stdev(each) / len(each) ** 0.5
        over = f"[{mean(each) - half:+.3f}, {mean(each) + half:+.3f}]"
    shown = " ".join(f"{one:+.3f}" for one in each)
    return f"{mean(each):+.3f} | [{low:+.3f}, {high:+.3f}] | {over} | {shown}"


def _common(both: Both) -> str:
    pairs = [(x[task][1], y[task][1]) for x, y in both for task in x if x[task][0] and y[task][0]]
    if not pairs:
        return "none"
    return f"{mean(p for p, _ in pairs):.2f} vs {mean(q for _, q in pairs):.2f} ({len(pairs)})"


def main() -> None:
    """Runs what is owed, writes results.json and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--more-seeds", type=int, default=3, help="seeds that run the further groups too")
    parser.add_argument("--groups", nargs="*", choices=FURTHER, default=list(FURTHER), help="further groups")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="Markdown page to write")
    parser.add_argument("--set", action="append", default=[], help="a.b=value, in every run")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    groups = {s: ["main", *(options.groups if s in seeds[: options.more_seeds] else [])] for s in seeds}
    for seed in seeds:
        (options.out / f"seed-{seed}").mkdir(parents=True, exist_ok=True)
    # All main arms first, then one further group after the other: what is cut short is cut at the end.
    order = [(group, seed) for group in ("main", *options.groups) for seed in seeds if group in groups[seed]]
    pieces = [piece for group, seed in order for piece in plan(seed)[group]]
    with progress() as show:
        run_pieces(pieces, options.out, RECIPE, options.set, show)
    found = {seed: outcomes(options.out / f"seed-{seed}", groups[seed]) for seed in seeds}
    (options.out / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    page = table(found, options.out, " ".join([".venv/bin/python", *sys.argv]))
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(page)
    print(page)


if __name__ == "__main__":
    main()
