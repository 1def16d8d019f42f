"""The recipe in small, the shipped base, and the reading probe."""

import hashlib
import json
from pathlib import Path

import pytest

from rmsweb.config import Config, PretrainConfig
from rmsweb.progress import Silent
from rmsweb.store import Run
from rmsweb.train import pretrain
from rmsweb.train.draw import screenshots
from rmsweb.train.pages import grounding_examples
from rmsweb.train.probe import reading_probe
from rmsweb.train.tiny import BASE, load_model

SHORT = PretrainConfig(
    vision_steps=160, vision_batch=16, matching_steps=12, grounding_steps=12, grounding_batch=8, probe_pages=25
)


@pytest.mark.browser
@pytest.mark.slow
def test_a_short_version_learns_to_read_and_is_recorded(tmp_path: Path) -> None:
    config = Config(seed=1, pretrain=SHORT)
    with Run.open(tmp_path / "base", "pretrain", config, {}) as run:
        recipe = pretrain.run(config, run, Silent())
    reading = [point["first"] for point in recipe["curves"] if point["stage"] == "vision"]
    assert reading[-1] > 0.4 > 0.3 > 1 / 300
    stored = json.loads((tmp_path / "base" / "checkpoint" / "recipe.json").read_text())
    weights = (tmp_path / "base" / "checkpoint" / "model.safetensors").read_bytes()
    assert stored["weights_sha256"] == hashlib.sha256(weights).hexdigest()
    assert len(weights) < 3.2e6
    assert load_model(tmp_path / "base" / "checkpoint").model.dtype.itemsize == 4


def test_shipped_weights_are_the_recorded_ones() -> None:
    recipe = json.loads((BASE / "recipe.json").read_text())
    assert recipe["weights_sha256"] == hashlib.sha256((BASE / "model.safetensors").read_bytes()).hexdigest()
    assert {"settings", "seed", "accuracy", "curves"} <= set(recipe)


@pytest.mark.browser
@pytest.mark.slow
def test_shipped_base_reads_this_machines_chromium() -> None:
    model, processor = load_model("tiny")
    found = reading_probe(model, processor)
    assert found["ok"], found
    assert found["largest_difference"] <= 6


@pytest.mark.browser
def test_grounding_examples_are_rows_for_supervised_training() -> None:
    rows = grounding_examples(3, seed=1)
    assert rows == grounding_examples(3, seed=1)
    assert rows[0]["prompt"][0]["content"][0]["text"].startswith("Task: ")
    assert rows[0]["completion"][0]["content"][0]["text"].startswith("Action: ")
    assert rows[0]["images"][0].startswith(b"\x89PNG")


@pytest.mark.browser
async def test_screenshots_work_inside_an_event_loop() -> None:
    assert screenshots(["<body style='background:#123456'></body>"])[0][5, 5].tolist() == [0x12, 0x34, 0x56]
