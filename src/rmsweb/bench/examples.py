"""Example trajectories for the report: which are shown, and their pictures made small enough for one file.

The choice is by rule, not by taste: the first task (in task order) of each kind below that the runs contain and of
which a picture is stored (imported attempts may have none; a step without one is shown blank).
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from rmsweb.bench.drawing import describe, overlay_svg
from rmsweb.bench.modes import Judged
from rmsweb.bench.scores import arm_of, is_control
from rmsweb.records import Reflection, Trajectory, Verdict
from rmsweb.store import Images

THUMBNAIL = 360
"""Pixels wide at most."""
MOST_STEPS = 8
"""Frames of one trajectory; the middle ones are left out when there are more."""
BLANK = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA="
"""One transparent pixel."""


class Frame(NamedTuple):
    """One step of an example."""

    number: int
    source: str
    """Data address of the small picture."""
    overlay: Markup
    said: str
    intent: str


@dataclass(slots=True, frozen=True)
class Example:
    """One trajectory as the report shows it."""

    title: str
    run: Path
    trajectory: Trajectory
    verdict: Verdict | None
    frames: tuple[Frame, ...]
    left_out: int
    reflection: Reflection | None = None

    @property
    def arm(self) -> str:
        return arm_of(self.trajectory) or self.trajectory.policy


def exam_examples(runs: Mapping[Path, Sequence[Judged]], before: str, after: str) -> list[Example]:
    """A task that `after` solves and `before` does not (both shown), the reverse, and a failure of `after`."""
    places = {t.id: path for path, judged in runs.items() for t, _ in judged}
    by_task: dict[str, dict[str, Judged]] = {}
    for judged in runs.values():
        for t, v in judged:
            if not is_control(arm_of(t)) and t.attempt == 0 and _pictured(t):
                by_task.setdefault(t.task.id, {})[arm_of(t)] = (t, v)
    both = [pair for _, pair in sorted(by_task.items()) if before in pair and after in pair]

    def first(won_before: bool, won_after: bool) -> dict[str, Judged] | None:
        return next((p for p in both if (_won(p[before]), _won(p[after])) == (won_before, won_after)), None)

    found: list[Example] = []
    for pair, title, names in (
        (first(False, True), f"Solved by {after}, not by {before}", (before, after)),
        (first(True, False), f"Solved by {before}, not by {after}", (before, after)),
        (first(False, False), f"Solved by neither {before} nor {after}", (after,)),
    ):
        found += [_example(title, places[pair[n][0].id], pair[n]) for n in names] if pair else []
    return found


def retry_example(path: Path, judged: Sequence[Judged], reflections: Mapping[str, Reflection]) -> list[Example]:
    """A failed attempt, its reflection, and the retry that succeeded."""
    by_task: dict[str, list[Judged]] = {}
    for t, v in judged:
        if _pictured(t):
            by_task.setdefault(t.task.id, []).append((t, v))
    for _, tries in sorted(by_task.items()):
        tries = sorted(tries, key=lambda one: one[0].attempt)
        for earlier, later in pairwise(tries):
            reflection = reflections.get(earlier[0].id)
            if reflection is not None and not _won(earlier) and _won(later):
                title = "A failed attempt, the reflection on it, and the retry"
                return [_example(title, path, earlier, reflection), _example(title, path, later)]
    return []


def _pictured(trajectory: Trajectory) -> bool:
    return any(step.before.image for step in trajectory.steps)


def _won(judged: Judged) -> bool:
    return bool(judged[1] is not None and judged[1].success)


def _example(title: str, path: Path, judged: Judged, reflection: Reflection | None = None) -> Example:
    trajectory, verdict = judged
    images, steps = Images(path / "images"), trajectory.steps
    shown = steps if len(steps) <= MOST_STEPS else (*steps[: MOST_STEPS - 3], *steps[-3:])
    frames = tuple(
        Frame(
            step.index + 1,
            thumbnail(images[step.before.image]) if step.before.image else BLANK,
            Markup(overlay_svg(step, trajectory.viewport)),
            describe(step.decision.action),
            step.decision.intent,
        )
        for step in shown
    )
    return Example(title, path, trajectory, verdict, frames, len(steps) - len(shown), reflection)


def thumbnail(png: bytes) -> str:
    """A data address of the picture, at most `THUMBNAIL` pixels wide."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        if image.width <= THUMBNAIL:
            return "data:image/png;base64," + base64.b64encode(png).decode()
        small = image.convert("RGB").resize((THUMBNAIL, round(image.height * THUMBNAIL / image.width)))
        out = io.BytesIO()
        small.save(out, "WEBP", quality=72, method=4)
    return "data:image/webp;base64," + base64.b64encode(out.getvalue()).decode()
