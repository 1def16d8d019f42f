"""Known answers through a protocol's real path, before anybody pays for a judging run.

A judge that turns every reply into one label, or compares a truth value with a text, gives a whole run of wrong numbers
without a sign. Here a reply that means success and one that means failure go through the very messages, parser and
verdict that will judge. Asks no endpoint, stores nothing.
"""

import hashlib
import io
from collections.abc import Mapping
from typing import NamedTuple

from rmsweb.actions import Action, Answer, LeftClick, Point
from rmsweb.bench.judges import build, plain_name
from rmsweb.bench.judges.rubric_reading import read_outcome
from rmsweb.config import JudgeConfig
from rmsweb.errors import RunError
from rmsweb.records import Decision, Effect, Observation, Step, Stop, Task, Trajectory
from rmsweb.tasksets.rubrics import Points
from rmsweb.testing import ScriptModel


class Known(NamedTuple):
    """A reply that means success and one that means failure; each answers every question of the protocol."""

    success: str
    failure: str


def _status(seen: str = "") -> Known:
    start = f"**Key Points**:\n1. A known point.\n\n{seen}\n\n" if seen else ""
    return Known(f"{start}Thoughts: known\nStatus: success", f"{start}Thoughts: known\nStatus: failure")


KNOWN: Mapping[str, Known] = {
    "webvoyager/original": Known("SUCCESS", "NOT SUCCESS"),
    "webvoyager/fara": Known("SUCCESS", "NOT SUCCESS"),
    "webvoyager/molmoweb": Known(
        '{"thought": "known", "verdict": "SUCCESS"}', '{"thought": "known", "verdict": "FAILURE"}'
    ),
    "webvoyager/osu": Known("SUCCESS", "FAILURE"),
    "webjudge/om2w": _status("**Reasoning**: known\n\n**Score**: 5"),
    "webjudge/general": _status("### Reasoning: known\n\n### Score: 5"),
    "agenttrek": _status(),
    "autonomous": _status(),
    "rmsweb/chat": Known("VERDICT: SUCCESS", "VERDICT: FAILURE"),
}
"""Protocol -> its known replies. The rubric verifier asks a dozen kinds of questions: its sums and votes are tried."""


async def self_test(config: JudgeConfig, known: Mapping[str, Known] = KNOWN) -> None:
    """Raises RunError when the protocol of the config does not tell a known success from a known failure."""
    name = plain_name(config.protocol)
    if name.startswith("rubric/"):
        found = [Points(8, 10).passed(), Points(7.9, 10).passed()]
        found += [read_outcome(f'{{"output_success": {word}, "reasoning": "known"}}')[0] for word in ("true", "false")]
        wanted = [True, False, True, False]
    else:
        trajectory, images = _attempt()
        judges = [build(config, ScriptModel([text], repeat=True), images) for text in known[name]]
        found, wanted = [(await judge(trajectory)).success for judge in judges], [True, False]
    if found != wanted:
        raise RunError(
            f"{config.protocol} reads known replies as {found}, not as {wanted}: nothing was asked or judged"
        )


def _attempt() -> tuple[Trajectory, dict[str, bytes]]:
    """An attempt of two steps with a picture."""
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (32, 32), "white").save(out, "PNG")
    image = hashlib.sha256(out.getvalue()).hexdigest()
    seen = Observation(image=image, url="http://known.test/")
    acts: tuple[Action, ...] = (LeftClick(point=Point(x=1, y=1)), Answer(text="known"))
    steps = tuple(
        Step(index=k, before=seen, decision=Decision(intent="known", action=act), effect=Effect(), after=seen)
        for k, act in enumerate(acts)
    )
    task = Task(id="known", suite="known", site="known", template="known", split="exam", goal="A known task.",
                start_url="http://known.test/")  # fmt: skip
    attempt = Trajectory(id="known#0", task=task, steps=steps, answer="known", stop=Stop.ANSWERED, viewport=(32, 32))
    return attempt, {image: out.getvalue()}
