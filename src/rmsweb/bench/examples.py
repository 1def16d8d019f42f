"""Example trajectories for the report: which are shown, and their pictures made small enough for one file.

The choice is by rule, not by taste: the first task (by its id) of each kind below that the runs contain and of
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
from rmsweb.records import INFRA_STOPS, Reflection, Trajectory, Verdict
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
    arm: str
    """Whose attempt it is: a model of an exam, an arm of a collection."""
    trajectory: Trajectory
    verdict: Verdict | None
    frames: tuple[Frame, ...]
    left_out: int
    reflection: Reflection | None = None


class Attempt(NamedTuple):
    """One episode of an exam."""

    run: Path
    model: str
    """Its name in the tables."""
    judged: Judged


def exam_examples(attempts: Sequence[Attempt], before: str, after: str = "") -> list[Example]:
    """A task that `after` solves and `before` does not (both shown), the reverse, and a failure of `after`; of one
    model a success and a failure. Where nothing was judged, the first episode."""
    last = after or before
    by_task: dict[str, dict[str, Attempt]] = {}
    for one in attempts:
        t = one.judged[0]
        if not is_control(one.model) and _pictured(t):
            by_task.setdefault(t.task.id, {}).setdefault(one.model, one)
    tasks = [by_task[ident] for ident in sorted(by_task)]

    def show(title: str, of: Mapping[str, bool], shown: Sequence[str]) -> list[Example]:
        """The first task with these verdicts."""
        fits = (t for t in tasks if of.items() <= {m: _said(one.judged) for m, one in t.items()}.items())
        return [_example(title, t[m].run, m, t[m].judged) for t in [next(fits, None)] if t for m in shown]

    found = []
    if after:
        found += show(f"Solved by {after}, not by {before}", {before: False, after: True}, (before, after))
        found += show(f"Solved by {before}, not by {after}", {before: True, after: False}, (before, after))
        found += show(f"Solved by neither {before} nor {after}", {before: False, after: False}, (after,))
    if not found:
        found += show(f"Solved by {last}", {last: True}, (last,))
        found += show(f"Not solved by {last}", {last: False}, (last,))
    if not found:
        first = next((t[last] for t in tasks if last in t), None)
        found = [_example(f"Not judged: {last}", first.run, last, first.judged)] if first else []
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
            if reflection is not None and not _said(earlier) and _said(later):
                title = "A failed attempt, the reflection on it, and the retry"
                arm = arm_of(later[0]) or later[0].policy
                return [_example(title, path, arm, earlier, reflection), _example(title, path, arm, later)]
    return []


def _pictured(trajectory: Trajectory) -> bool:
    return any(step.before.image for step in trajectory.steps)


def _said(judged: Judged) -> bool | None:
    """What was judged; nothing of an attempt that the machine broke, whatever a file says of it, as in the tables."""
    trajectory, verdict = judged
    return None if verdict is None or trajectory.stop in INFRA_STOPS else verdict.success


def _example(title: str, path: Path, arm: str, judged: Judged, reflection: Reflection | None = None) -> Example:
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
    return Example(title, path, arm, trajectory, verdict, frames, len(steps) - len(shown), reflection)


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
