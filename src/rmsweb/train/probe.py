"""Can the base read? Accuracy by kind on fresh synthetic pages, drawn, and in this machine's own Chromium.

Owns the kinds that are reported: never one pooled figure, because a pooled one has hidden a skill that was missing. A
reply counts as right when the greedy reply equals the reference in every token (teacher-forced arg max is the same).
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from rmsweb.train.batches import Encoder, patches
from rmsweb.train.canvas import standard_glyphs
from rmsweb.train.draw import drawn_html, screenshots
from rmsweb.train.pages import sample
from rmsweb.train.queries import Sample

BATCH = 25
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


def reading_probe(model: Any, processor: Any, count: int = 40, executable: str = "") -> dict[str, Any]:
    """The same pages drawn and as this machine's Chromium shows them.

    Returns drawn and browser accuracy, the largest pixel difference and `ok`: False when reading is worse by more than
    DROP in the browser, which means that this machine renders differently from the one the base was made on.
    """
    encoder = Encoder(processor.tokenizer, standard_glyphs(executable))
    rng = random.Random("machine probe")
    samples = _fresh(rng, encoder, count)
    pages = [made.page for made in samples]
    shots = screenshots([drawn_html(p.drawn(), p.background, p.accent) for p in pages], executable)
    drawn = _right(model, encoder, samples, rng)
    real = _right(model, encoder, samples, rng, [patches(shot) for shot in shots])
    apart = [abs(patches(shot) - encoder.pixels(page)).max() for shot, page in zip(shots, pages, strict=True)]
    before, after = sum(drawn) / count, sum(real) / count
    return {
        "pages": count,
        "drawn": round(before, 3),
        "browser": round(after, 3),
        "largest_difference": round(float(max(apart)) * 0.25 * 255, 1),
        "ok": after >= before - DROP,
    }


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
