"""Pretraining of the tiny base model on synthetic pages: the `pretrain` stage.

Owns the order of the stages and the record of how a checkpoint was made (recipe.json: settings, seed, curves, reading
accuracy by kind, hash of the weights). Promises that the same settings, seed and machine give the same weights; renders
no page or goal of a built-in site. The shipped checkpoint in `data/base` was made by `rmsweb pretrain` with
`recipes/pretrain.toml`.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

from rmsweb.config import Config
from rmsweb.progress import Progress
from rmsweb.store import Run
from rmsweb.train.batches import Encoder
from rmsweb.train.canvas import standard_glyphs
from rmsweb.train.grounding import grounding_stage, matching_stage
from rmsweb.train.probe import drawn_accuracy, reading_accuracy
from rmsweb.train.processor import build_processor
from rmsweb.train.reading import vision_stage
from rmsweb.train.tiny import Shape, build_model, fast_vision, load_model, save_model
from rmsweb.train.tokenizer import build_tokenizer

if TYPE_CHECKING:
    from rmsweb.train.updates import Observer

LOG_EVERY = 50
"""Updates between two points of the stored curves."""


def run(config: Config, run: Run, progress: Progress) -> dict[str, Any]:
    """Makes RUN/checkpoint from random weights; returns the recipe, which also lies beside the weights."""
    import torch

    torch.set_num_threads(1)
    settings, started = config.pretrain, time.process_time()
    tokenizer = build_tokenizer()
    encoder = Encoder(tokenizer, standard_glyphs(config.browser.executable), settings.shift)
    model = build_model(tokenizer, Shape(vision_layers=settings.vision_layers), config.seed)
    fast_vision(model)
    observe = _observer(run, progress, started)
    for stage in (vision_stage, matching_stage, grounding_stage):
        stage(model, encoder, settings, config.seed, observe)
    folder = run.path / "checkpoint"
    save_model(model, build_processor(tokenizer), folder, half=True)
    # what is measured is what is stored, rounding included
    stored = load_model(folder).model
    accuracy = reading_accuracy(stored, encoder, settings.probe_pages, seed=f"{config.seed}/probe")
    recipe = {
        "what": "tiny base model: stands for the pretraining of a real one; closed vocabulary, one known rendering",
        "settings": settings.model_dump(mode="json"),
        "seed": config.seed,
        "parameters": sum(p.numel() for p in model.parameters()),
        "cpu_minutes": round((time.process_time() - started) / 60, 2),
        "accuracy": accuracy,
        "probe": drawn_accuracy(stored, encoder),
        "curves": run.metrics(),
        "weights_sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
        "torch": torch.__version__,
    }
    run.write_json("checkpoint/recipe.json", recipe)
    run.write_json("summary.json", recipe)
    run.finish(updates=settings.vision_steps + settings.matching_steps + settings.grounding_steps)
    return recipe


def _observer(run: Run, progress: Progress, started: float) -> Observer:
    def observe(stage: str, step: int, steps: int, measured: dict[str, float]) -> None:
        progress(f"pretrain {stage}", step, steps, " ".join(f"{k} {v:.2f}" for k, v in measured.items()))
        if step % LOG_EVERY == 0 or step == steps:
            minutes = round((time.process_time() - started) / 60, 2)
            run.log({"stage": stage, "step": step, "cpu_minutes": minutes, **measured})

    return observe
