"""The figures of a mining run, for summary.json and the report. Pure; every number is counted here from records."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmsweb.config import Config
from rmsweb.mine.fix import Spent
from rmsweb.mine.pool import Found
from rmsweb.mine.taxonomy import ROUTINE, Taxonomy
from rmsweb.records import CriticalState, FailureMode, Trajectory, Verdict

if TYPE_CHECKING:
    from rmsweb.mine.stage import Mined


def summary(
    config: Config,
    rollouts: Sequence[tuple[Trajectory, Verdict]],
    mined: "Mined",
    spent: Spent,
    probes: int,
    overlap: Mapping[str, int],
    taxonomy: Taxonomy,
) -> dict[str, Any]:
    """What was rolled out, located, fixed, drawn; modes with counts, shares, examples and success before training."""
    chosen, pool = mined.chosen, mined.pool
    routine = sum(state.mode == ROUTINE for state in chosen)
    hard = [one for one in pool if one.kind == "hard"]
    return {
        "rollouts": len(rollouts),
        "tasks": len({t.task.id for t, _ in rollouts}),
        "success": _share(sum(bool(v.success) for _, v in rollouts), len(rollouts)),
        "stops": dict(Counter(t.stop.value for t, _ in rollouts)),
        "browser_steps": sum(len(t.steps) for t, _ in rollouts) + spent.browser_steps,
        "states": len(chosen),
        "sampling": config.mine.sampling,
        "routine_share": _share(routine, len(chosen)),
        "pool": {
            "visited": sum(one.kind != "continuation" for one in pool),
            **{kind: sum(one.kind == kind for one in pool) for kind in ("hard", "routine", "off_path", "continuation")},
            "unverified": sum(not one.state.references for one in pool),
        },
        "hard": {
            "verified": sum(bool(one.state.references) for one in hard),
            "evaluation_only": len(mined.held_back),
            "detectors": dict(Counter(name for one in hard for name in one.state.detectors)),
        },
        "references": dict(Counter(state.references[0].source for state in chosen)),
        "teacher": {
            "episodes": spent.episodes,
            "successes": spent.successes,
            "browser_steps": spent.browser_steps,
            "other_state": spent.other_state,
        },
        "probed": probes,
        "by_site": dict(Counter(state.task.site for state in chosen)),
        "by_template": dict(Counter(f"{state.task.site}/{state.task.template}" for state in chosen)),
        "taxonomy": taxonomy.version,
        "modes": [_mode(mode, pool, chosen, taxonomy) for mode in mined.modes],
        "disjoint": dict(overlap),
    }


def _mode(
    mode: FailureMode, pool: Sequence[Found], chosen: Sequence[CriticalState], taxonomy: Taxonomy
) -> dict[str, Any]:
    here = [one.state for one in pool if one.kind == "hard" and one.state.mode == mode.code]
    rates = {state.task.id: state.success for state in here if state.success is not None}
    return {
        "code": mode.code,
        "group": taxonomy[mode.code].title,
        "text": taxonomy[mode.code].text,
        "count": mode.count,
        "share": round(mode.share, 4),
        "success": None if mode.success is None else round(mode.success, 4),
        "task_success": _share(sum(rates.values()), len(rates)),
        "verified": sum(bool(state.references) for state in here),
        "drawn": sum(state.mode == mode.code for state in chosen),
        "trained": mode.trained,
        "examples": list(mode.examples),
    }


def _share(part: float, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
