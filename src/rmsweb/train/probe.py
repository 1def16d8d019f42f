"""Can the base read? Accuracy by kind on fresh synthetic pages, drawn, and in this machine's own Chromium.

Owns the kinds that are reported: never one pooled figure, because a pooled one has hidden a skill that was missing. A
reply counts as right when the greedy reply equals the reference in every token (teacher-forced arg max is the same).
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import Any

from rmsweb.errors import DataError
from rmsweb.train.batches import Encoder, patches
from rmsweb.train.canvas import standard_glyphs
from rmsweb.train.draw import drawn_html, screenshots
from rmsweb.train.pages import sample
from rmsweb.train.processor import IMAGE_STD
from rmsweb.train.queries import Sample
from rmsweb.train.tiny import BASE

BATCH = 25
PROBE_PAGES = 60
DROP = 0.1
"""Loss of accuracy in the real browser that counts as a different rendering."""
KINDS = {"click": "coordinate", "fallback": "absence", "by value": "backwards", "type": "fields", "select": "fields"}


def kind_of(made: Sample) -> str:
    """Skill that a sample tests: coordinate, number, name, absence, backwards, fields or other."""
    if made.move.kind == "read":
        said = made.move.call.split('"text": "')[1].split('"')[0]
        return "number" if said.lstrip("$").isdigit() else "name"
    return KINDS.get(made.move.kind, "other")


def reading_accuracy(model: Any, encoder: Encoder, count: int = 400, seed: str = "probe") -> dict[str, Any]:
    """Share of right replies by kind on `count` fresh pages of the top level, with the number of pages of each."""
    rng = random.Random(seed)
    samples = _fresh(rng, encoder, count)
    return _by_kind(samples, _right(model, encoder, samples, rng))


def reading_probe(
    model: Any, processor: Any, count: int = PROBE_PAGES, executable: str = "", expected: float | None = None
) -> dict[str, Any]:
    """Reads `count` fixed pages as this machine's Chromium shows them.

    Returns the share of right replies in the `browser`, the share that was `drawn` where the base was made (`expected`;
    None: the shipped base's record), the largest pixel difference between this browser and the drawing, and `ok`: False
    when reading is worse by more than DROP, which means that this machine renders differently.
    """
    encoder = Encoder(processor.tokenizer, standard_glyphs(executable))
    rng, samples = _probe_samples(encoder, count)
    pages = [made.page for made in samples]
    shots = screenshots([drawn_html(p.drawn(), p.background, p.accent) for p in pages], executable)
    right = _right(model, encoder, samples, rng, [patches(shot) for shot in shots])
    apart = [abs(patches(shot) - encoder.pixels(page)).max() for shot, page in zip(shots, pages, strict=True)]
    wanted = float(recorded()["probe"]) if expected is None else expected
    return {
        "pages": count,
        "drawn": wanted,
        "browser": round(sum(right) / count, 3),
        "largest_difference": round(float(max(apart)) * IMAGE_STD * 255, 1),
        "ok": sum(right) / count >= wanted - DROP,
    }


def drawn_accuracy(model: Any, encoder: Encoder, count: int = PROBE_PAGES) -> float:
    """What `reading_probe` expects: the share of right replies on its pages as they are drawn here."""
    rng, samples = _probe_samples(encoder, count)
    return round(sum(_right(model, encoder, samples, rng)) / count, 3)


def recorded() -> dict[str, Any]:
    """The shipped base's recipe.json. Raises DataError when it cannot be read."""
    try:
        stored: dict[str, Any] = json.loads((BASE / "recipe.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"the shipped base's record cannot be read ({error}); install rmsweb again", BASE) from error
    return stored


def _probe_samples(encoder: Encoder, count: int) -> tuple[random.Random, list[Sample]]:
    rng = random.Random("machine probe")
    return rng, _fresh(rng, encoder, count)


def _fresh(rng: random.Random, encoder: Encoder, count: int) -> list[Sample]:
    """Samples whose reply counts (matching practice has none)."""
    samples: list[Sample] = []
    while len(samples) < count:
        made = sample(rng, encoder.glyphs)
        if made.goal.literal != "match":
            samples.append(made)
    return samples


def _right(
    model: Any, encoder: Encoder, samples: list[Sample], rng: random.Random, pixels: list[Any] | None = None
) -> list[bool]:
    import numpy as np
    import torch

    right: list[bool] = []
    with torch.no_grad():
        for start in range(0, len(samples), BATCH):
            batch = encoder.batch(samples[start : start + BATCH], rng)
            if pixels is not None:
                batch.inputs["pixel_values"] = torch.from_numpy(np.concatenate(pixels[start : start + BATCH]))
            width = batch.labels.shape[1]
            logits = model(**batch.inputs, logits_to_keep=width + 1).logits[:, :-1]
            right += ((logits.argmax(-1) == batch.labels) | (batch.labels == -100)).all(1).tolist()
    return right


def _by_kind(samples: list[Sample], right: list[bool]) -> dict[str, Any]:
    found: dict[str, list[bool]] = defaultdict(list)
    for made, good in zip(samples, right, strict=True):
        found[kind_of(made)].append(good)
    shares = {kind: round(sum(rights) / len(rights), 3) for kind, rights in sorted(found.items())}
    return {
        **shares,
        "all": round(sum(right) / len(right), 3),
        "n": {kind: len(r) for kind, r in sorted(found.items())},
    }
