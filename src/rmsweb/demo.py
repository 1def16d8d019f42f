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
from rmsweb.pieces import Piece, run_pieces
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
    """Run what is owed, write summary.json and report.html, print the table. Raises RmswebError when a stage fails."""
    from rmsweb import stages
    from rmsweb.bench.tables import demo_table

    if recipe is None and not RECIPE.exists():
        raise ConfigError(f"the demo's recipe is not at {RECIPE}; give it with -c recipes/demo.toml")
    recipe = recipe or RECIPE
    config = load(recipe, list(sets))
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    with progress(quiet) as show:
        run_pieces(pieces(), out, recipe, sets, show)
    spent = _spent(out, time.monotonic() - started)
    summary = summarize(out, config, spent)
    write_atomic(out / "summary.json", json.dumps(summary, indent=2, default=str).encode() + b"\n")
    page = stages.report({piece.name: out / piece.name for piece in pieces()}, out / "report.html", summary)
    if not quiet:
        demo_table(summary)
        print(f"report   {page}\nsummary  {out / 'summary.json'}\nwall     {spent:.0f} s")


def plain_budget(out: Path) -> tuple[str, ...]:
    """Settings of the control arm: it may spend the browser steps that the reflecting arm spent, no more.

    More resampling than the reflecting arm has retries is allowed, or it could not spend them.
    """
    spent = _read(out / "collect")["browser_steps"]
    return ("collect.arm=plain", f"collect.browser_steps={spent}", "collect.retries=6")


def _read(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return value


def _spent(out: Path, this_time: float) -> float:
    """Wall seconds over all calls of this demo: what the report calls its wall time even after a resume."""
    path = out / "wall.json"
    total = this_time + (json.loads(path.read_text()) if path.exists() else 0.0)
    write_atomic(path, json.dumps(total).encode())
    return float(total)


def summarize(out: Path, config: Config, wall_s: float) -> dict[str, Any]:
    """The demo's summary (its keys are a contract, see docs/run-directory.md), read from the stages' files."""
    from rmsweb.bench.heldout import heldout_summary

    manifest = json.loads((out / "sft" / "run.json").read_text())
    collect: Mapping[str, Any] = {"reflect": _read(out / "collect"), "plain": _read(out / "collect-plain")}
    return {
        "wall_s": round(wall_s, 1),
        "collect": collect,
        "samples": _read(out / "samples"),
        "sft": _read(out / "sft"),
        "mine": _read(out / "mine"),
        "rl": _read(out / "rl"),
        "gate": _read(out / "rl")["gate"],
        "heldout": heldout_summary([out / p.name for p in pieces() if p.verb == "eval"], config),
        "seed": config.seed,
        "versions": {**manifest["versions"], "rmsweb": rmsweb.__version__, "git": git_revision()},
        "observation": config.profile.observation,
    }
