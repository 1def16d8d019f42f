"""The viewer's two pages as HTML. Pure: rows and stories in, text out; the caller says how addresses are built.

All text is escaped by the template engine; the one piece of ready markup is the overlay, which escapes itself.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from rmsweb.bench.drawing import describe, overlay_svg
from rmsweb.bench.reading import viewport_of
from rmsweb.records import Step, Stop
from rmsweb.view.index import Row, Story, headline

if TYPE_CHECKING:
    from jinja2 import Environment

CSP = "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'none'"
"""Nothing but the viewer's own pictures, style and script; `frame-ancestors` is added where a header carries it."""

FILTERS = (
    ("verdict", "verdict"),
    ("outcome", "outcome"),
    ("run", "run"),
    ("arm", "model or arm"),
    ("template", "template"),
    ("site", "site"),
    ("split", "split"),
)

STOPS: dict[Stop, str] = {
    Stop.ANSWERED: "the policy answered or said that it is done",
    Stop.GAVE_UP: "the policy gave up",
    Stop.STEP_LIMIT: "the step limit was reached",
    Stop.DONE: "the suite ended the episode",
    Stop.NO_PROGRESS: "the same action on the same picture again and again",
    Stop.INVALID_OUTPUT: "too many replies in a row that are no action",
    Stop.BLOCKED: "a bot wall, a login wall or an access error",
    Stop.INVALID_TASK: "the task cannot be done as given",
    Stop.MODEL_ERROR: "the model could not be reached or refused",
    Stop.BROWSER_ERROR: "the browser broke or hung",
    Stop.BUDGET: "the run's budget was used up",
}


@dataclass(slots=True, frozen=True)
class Addresses:
    """How a page links to the others; relative in an export, absolute on the server."""

    home: str
    assets: str
    story: Callable[[str], str]
    image: Callable[[str], str]
    policy: str = ""
    """Content-Security-Policy to put into the page itself, where no header can carry it."""


@lru_cache(maxsize=1)
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rmsweb.view"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False, indent=1)
    return environment


def asset(name: str) -> bytes:
    """A file of the viewer's own: by its name in `ASSETS`."""
    return (resources.files("rmsweb.view") / "assets" / name).read_bytes()


ASSETS = {
    "view.css": "text/css; charset=utf-8",
    "view.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def list_page(title: str, rows: Sequence[Row], addresses: Addresses) -> str:
    """The list with its filters; a filter with one single value is left out."""
    choices = []
    for name, label in FILTERS:
        values = sorted({str(getattr(row, name)) for row in rows} - {""})
        if len(values) > 1:
            choices.append((name, label, values))
    return _environment().get_template("list.html.jinja").render(
        title=title, rows=rows, said="; ".join(headline(rows)), choices=choices, at=addresses,
        filters=[name for name, _ in FILTERS],
    )  # fmt: skip


def story_page(title: str, story: Story, before: str | None, after: str | None, addresses: Addresses) -> str:
    """One trajectory; `before` and `after` are the keys of its neighbours in the list."""
    trajectory = story.trajectory
    return _environment().get_template("story.html.jinja").render(
        title=title,
        story=story,
        t=trajectory,
        viewport=viewport_of(trajectory),
        steps=[_step(step, trajectory.viewport) for step in trajectory.steps],
        last=trajectory.steps[-1].after if trajectory.steps else None,
        stop=STOPS[trajectory.stop],
        before=before,
        after=after,
        at=addresses,
    )  # fmt: skip


def _step(step: Step, viewport: tuple[int, int]) -> dict[str, Any]:
    """What the template shows of a step; nothing in it is markup but the overlay."""
    decision, effect = step.decision, step.effect
    hit = effect.hit
    facts = [
        ("hit", f"{hit.role} \u201c{hit.name}\u201d" + (f" in frame {hit.frame}" if hit.frame else "") if hit else ""),
        ("page", "changed" if effect.changed else "unchanged"),
        ("moved", f"{effect.moved} px" if effect.moved is not None else ""),
        ("field now", f"\u201c{effect.value}\u201d" if effect.value is not None else ""),
        ("error", effect.error),
        ("writes", "; ".join(_write(w.method, w.url, w.status, w.stopped) for w in effect.writes)),
        ("downloads", ", ".join(effect.downloads)),
        ("browser says", " \u00b7 ".join(step.after.messages)),
    ]
    notes = [f"repaired: {', '.join(decision.repairs)}"] if decision.repairs else []
    notes += ["cut at the token limit"] if decision.truncated else []
    if decision.prompt_tokens or decision.completion_tokens:
        notes.append(f"{decision.prompt_tokens} tokens read, {decision.completion_tokens} written")
    return {
        "index": step.index,
        "seen": step.before,
        "thought": decision.thought,
        "intent": decision.intent,
        "said": describe(decision.action),
        "action": decision.action.model_dump(mode="json", exclude_defaults=True) if decision.action else None,
        "fault": decision.fault,
        "raw": decision.raw,
        "notes": notes,
        "facts": [(name, value) for name, value in facts if value],
        "unchanged": not effect.changed,
        "overlay": Markup(overlay_svg(step, viewport)),
    }


def _write(method: str, url: str, status: int | None, stopped: bool) -> str:
    return f"{method} {url} \u2192 {'stopped' if stopped else status if status is not None else 'no reply'}"
