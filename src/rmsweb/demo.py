"""The whole recipe on the embedded default: what `make demo` runs.

Owns the order of the stages and the demo's summary. Each stage is the same verb that a user can type, run as a process
of its own, two at a time where they do not need each other (one mostly uses the browser, the other the learner). The
same command goes on after a kill; every number in summary.json is read from the stages' own files.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import rmsweb
from rmsweb.config import Config, load
from rmsweb.errors import ConfigError
from rmsweb.manifest import read_summary
from rmsweb.pieces import Piece, finished, run_pieces
from rmsweb.progress import progress
from rmsweb.store import git_revision, write_atomic

RECIPE = Path(rmsweb.__file__).parents[2] / "recipes" / "demo.toml"


def pieces() -> list[Piece]:
    """The demo; what needs nothing from each other stands side by side."""

    def no_controls(out: Path) -> tuple[str, ...]:
        return ("eval.controls=0",)

    return [
        Piece("collect", "collect", sets=lambda out: ("collect.arm=reflect",)),
        Piece("eval-base", "eval", ("base=tiny",), no_controls),
        Piece("samples", "samples", ("collect",), after=("collect",)),
        Piece("sft", "sft", ("samples",), after=("samples",)),
        # The control spends what the reflect arm spent, no more: equal cost in browser steps.
        Piece("collect-plain", "collect", sets=plain_budget, after=("collect",)),
        Piece("mine", "mine", ("sft", "collect"), after=("sft",)),
        Piece("eval-sft", "eval", ("sft=sft", "samples"), no_controls, after=("sft",)),
        Piece("rl", "rl", ("mine", "sft", "samples"), after=("mine",)),
        Piece("sft_continued", "sft", ("samples", "start=sft"), after=("sft",)),
        Piece("eval-rl", "eval", ("rl=rl", "control=sft", "samples"), after=("rl",)),
        Piece("eval-continued", "eval", ("sft_continued=sft_continued", "samples"), no_controls, ("sft_continued",)),
    ]


def main(out: Path, recipe: Path | None, sets: Sequence[str], quiet: bool) -> None:
    """Run what is owed, write summary.json and report.html, print the table. Raises RmswebError when a stage fails.

    Of a demo that owes nothing, summary and report stay as they are, unless another rmsweb wrote them.
    """
    from rmsweb.bench.tables import demo_table

    if recipe is None and not RECIPE.exists():
        raise ConfigError(f"the demo's recipe is not at {RECIPE}; give it with -c recipes/demo.toml")
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; choose a folder for -o")
    recipe = recipe or RECIPE
    config, plan = load(recipe, list(sets)), pieces()
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    owed = [piece.name for piece in plan if not finished(out / piece.name)]
    if len(owed) < len(plan) and not quiet:
        print(f"{len(plan) - len(owed)} of {len(plan)} stages of {out} are finished and kept", flush=True)
    with progress(quiet) as show:
        run_pieces(plan, out, recipe, sets, show)
    summary = None if owed else _written(out)
    if summary is None:
        summary = _write(out, config, _spent(out, time.monotonic() - started if owed else 0.0))
    if not quiet:
        demo_table(summary)
        for line in summary["warnings"]:
            print(f"warning  {line}")
        wall = f"{summary['wall_s']:.0f} s"
        print(f"report   {out / 'report.html'}\nsummary  {out / 'summary.json'}\nwall     {wall}")


def _write(out: Path, config: Config, wall_s: float) -> dict[str, Any]:
    """Write summary.json and the report; returns the summary."""
    from rmsweb import stages

    summary = summarize(out, config, wall_s)
    write_atomic(out / "summary.json", json.dumps(summary, indent=2, default=str).encode() + b"\n")
    stages.report({piece.name: out / piece.name for piece in pieces()}, out / "report.html", summary)
    return summary


def _written(out: Path) -> dict[str, Any] | None:
    """The summary that this very rmsweb wrote before, its report beside it; None when there is none."""
    try:
        summary = _read(out)
    except (OSError, ValueError):
        return None
    here = (out / "report.html").exists() and "warnings" in summary
    return summary if here and summary.get("versions", {}).items() >= _own_versions().items() else None


def _own_versions() -> dict[str, str]:
    return {"rmsweb": rmsweb.__version__, "git": git_revision()}


def plain_budget(out: Path) -> tuple[str, ...]:
    """Settings of the control arm: it may spend the browser steps that the reflecting arm spent, no more.

    More resampling than the reflecting arm has retries is allowed, or it could not spend them.
    """
    spent = _read(out / "collect", "browser_steps")["browser_steps"]
    return ("collect.arm=plain", f"collect.browser_steps={spent}", "collect.retries=6")


def _read(folder: Path, *names: str) -> dict[str, Any]:
    return read_summary(folder / "summary.json", *names)


def _spent(out: Path, this_time: float) -> float:
    """Wall seconds over all calls of this demo that did work and ended: its wall time even after a resume."""
    path = out / "wall.json"
    try:
        before = float(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # it says how long things took, and nothing else
        before = 0.0
    total = this_time + before
    write_atomic(path, json.dumps(total).encode())
    return float(total)


def summarize(out: Path, config: Config, wall_s: float) -> dict[str, Any]:
    """The demo's summary (its keys are a contract, see docs/run-directory.md), read from the stages' files."""
    from rmsweb.bench.heldout import heldout_summary
    from rmsweb.bench.layout import Stage
    from rmsweb.bench.training_sections import warnings_of

    manifest = json.loads((out / "sft" / "run.json").read_text())
    collect: Mapping[str, Any] = {"reflect": _read(out / "collect"), "plain": _read(out / "collect-plain")}
    return {
        "wall_s": round(wall_s, 1),
        "collect": collect,
        "samples": _read(out / "samples"),
        "sft": _read(out / "sft"),
        "mine": _read(out / "mine"),
        "rl": _read(out / "rl"),
        "gate": _read(out / "rl", "gate")["gate"],
        "heldout": heldout_summary([out / p.name for p in pieces() if p.verb == "eval"], config),
        "seed": config.seed,
        "versions": {**manifest["versions"], **_own_versions()},
        "observation": config.profile.observation,
        "warnings": [line for piece in pieces() for line in warnings_of(Stage(piece.name, out / piece.name))],
    }
