"""Study: what is left of the RL gain on tasks of another kind: held-out templates, and MiniWoB++?

    .venv/bin/python recipes/studies/transfer.py -o runs/studies/arms --write docs/studies/transfer.md

Takes the checkpoints of the RL study (`arms.py`, same folder) and examines them on templates that none of them was
trained on, and on MiniWoB++ pages, whose look none has ever seen. Nothing is trained, nothing chosen here. Resumable.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import mean

from rmsweb.bench.metrics import result_of
from rmsweb.pieces import Piece, run_pieces
from rmsweb.progress import progress
from rmsweb.records import Trajectory, Verdict
from rmsweb.statistics import crossed_bootstrap
from rmsweb.store import Run

RECIPE = Path(__file__).with_name("arms.toml")
ARMS = ("sft", "sft_continued", "ce_references", "salvage_ds")
SETTINGS = ("eval.tasks=1", "eval.template_tasks=96", "eval.miniwob_tasks=64", "eval.controls=0")
"""The exam of trained templates has been held by arms.py; one task of it is the least an eval run takes."""

Solved = Mapping[str, Mapping[str, bool]]
"""arm -> task id -> solved."""


def outcomes(run: Run, exam: str) -> dict[str, dict[str, bool]]:
    """What the arms solved of one exam: `heldout_template` or `miniwob`."""
    verdicts = {v.trajectory_id: v for v in run.read("verdict", Verdict)}
    found: dict[str, dict[str, bool]] = {}
    for trajectory in run.read("trajectory", Trajectory):
        task = trajectory.task
        if exam in (task.split, task.suite):
            arm = trajectory.id.partition("/")[0]
            found.setdefault(arm, {})[task.id] = result_of(arm, trajectory, verdicts.get(trajectory.id)).success is True
    return found


def table(title: str, found: Mapping[int, Solved]) -> list[str]:
    """One exam: rates of every arm, and the differences to `sft`."""
    tasks = sorted(next(iter(found.values()))["sft"])
    lines = [f"## {title}: {len(tasks)} tasks, {len(found)} seeds", ""]
    lines += [
        "| arm | success of each seed | mean | minus sft | 95 %, seeds and tasks redrawn |",
        "|---|---|---|---|---|",
    ]
    for arm in ARMS:
        table_RT = [[float(arms[arm][task]) for task in tasks] for arms in found.values()]
        sft_RT = [[float(arms["sft"][task]) for task in tasks] for arms in found.values()]
        rates = [mean(row) for row in table_RT]
        pair = crossed_bootstrap(table_RT, sft_RT)
        beside = (
            "| |"
            if arm == "sft"
            else f"| {pair.difference:+.3f} | [{pair.interval[0]:+.3f}, {pair.interval[1]:+.3f}] |"
        )
        lines.append(f"| {arm} | {' '.join(f'{rate:.3f}' for rate in rates)} | {mean(rates):.3f} {beside}")
    return [*lines, ""]


def main() -> None:
    """Runs what is owed and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True, help="folder of the RL study")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", type=Path, help="Markdown page to write")
    options = parser.parse_args()
    seeds = range(options.seeds)
    pieces = [
        Piece(
            f"seed-{seed}/eval-transfer",
            "eval",
            tuple(f"{name}=seed-{seed}/{name}" for name in (*ARMS, "samples")),
            lambda out, seed=seed: (f"seed={seed}", *SETTINGS),  # type: ignore[misc]
            (),
        )
        for seed in seeds
    ]
    with progress() as show:
        run_pieces(pieces, options.out, RECIPE, [], show)
    runs = {seed: Run.read_only(options.out / f"seed-{seed}" / "eval-transfer") for seed in seeds}
    lines = [
        "# Study: the same policies on tasks of another kind",
        "",
        "Written by `recipes/studies/transfer.py` from the checkpoints of [arms.md](arms.md); real Chromium, greedy.",
        "",
        *("```", " ".join([".venv/bin/python", *sys.argv]), "```", ""),
    ]
    lines += table("Held-out templates", {seed: outcomes(run, "heldout_template") for seed, run in runs.items()})
    lines += table("MiniWoB++", {seed: outcomes(run, "miniwob") for seed, run in runs.items()})
    page = "\n".join(lines)
    if options.write:
        options.write.write_text(page)
    print(page)


if __name__ == "__main__":
    main()
