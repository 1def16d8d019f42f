"""A small run for the stage: compact profile, the tiny architecture with random weights, states with references.

Also the program of the kill test: `python -m tests.salvage.stage_world CHECKPOINT RUN [SECONDS]` runs the stage.
"""

import random
import sys
import time
from pathlib import Path
from typing import Any

from rmsweb.actions import Answer, LeftClick, Point
from rmsweb.config import Config, load
from rmsweb.records import Box, CriticalState, Decision, Element, Observation, ReferenceAction, Task, TrainSample
from rmsweb.store import Run
from tests.salvage.conftest import picture, png

OVERRIDES = [
    "rl.group=4",
    "rl.steps=6",
    "rl.states_per_step=4",
    "rl.rehearsal=2",
    "rl.save_steps=2",
    "rl.optimizer.learning_rate=1e-3",
    "rl.optimizer.warmup_steps=2",
    "profile.max_new_tokens=8",
]
PROFILE = [
    'profile.name="embedded"',
    "profile.viewport=[320, 224]",
    'profile.coordinates="compact"',
    'profile.layout="compact"',
    "profile.images=0",
    "profile.history=2",
]


def config(*more: str) -> Config:
    return load(None, [*PROFILE, *OVERRIDES, *more])


def checkpoint(folder: Path) -> Path:
    """A random tiny model that writes clicks: its output layer prefers the tokens of a click's reply."""
    import torch

    from rmsweb.train.processor import build_processor
    from rmsweb.train.tiny import build_model
    from rmsweb.train.tokenizer import build_tokenizer

    processor = build_processor(build_tokenizer())
    model = build_model(processor.tokenizer, seed=1)
    torch.nn.init.normal_(model.lm_head.weight, std=0.1)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def states(run: Run, count: int = 6) -> list[CriticalState]:
    made = []
    for i in range(count):
        sha = run.images.put(png(picture(i, (320, 224))))
        task = Task(
            id=f"shop/{i}", suite="sites", site="shop", template="add", split="train", goal=f"add mug {i} to cart"
        )
        x, y = 32 * (i % 9), 32 * (i % 6)
        hit = Element(role="button", name="red mug", box=Box(x=x, y=y, width=90, height=28), selector=f"#b{i}")
        reference = ReferenceAction(action=LeftClick(point=Point(x=x + 16, y=y + 14)), intent="red mug", hit=hit)
        references = (reference,) if i != 5 else ()
        made.append(CriticalState(id=f"t{i}@0", task=task, history=(), now=_now(sha), references=references))
    return made


def samples(run: Run, count: int = 4) -> list[TrainSample]:
    made = []
    for i, state in enumerate(states(run, count)):
        decision = Decision(intent="done", action=Answer(text=str(i)))
        made.append(TrainSample(id=f"s{i}@0", task=state.task, history=(), now=state.now, decision=decision))
    return made


def _now(sha: str) -> Observation:
    return Observation(image=sha, url="http://127.0.0.1/")


def play(path: Path, start: Path, settings: Config, wait_s: float = 0.0) -> dict[str, Any]:
    """Run the stage; `wait_s` slows every update, so that a kill finds it at work."""
    from rmsweb.salvage import stage

    def slow(step: int, steps: int, _: dict[str, float]) -> None:
        time.sleep(wait_s * random.random() if wait_s else 0)

    with Run.open(path, "rl", settings) as run:
        return stage.run(settings, run, states(run), samples(run), start, progress=slow)


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    play(Path(sys.argv[2]), Path(sys.argv[1]), config(), float(sys.argv[3]))
