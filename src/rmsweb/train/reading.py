"""Vision stage of pretraining: the tower alone reads every cell of random pages, tied to the word embeddings.

Owns the dense reading loss (words, kind, place, what stands beside) and the rescaling after it: visual tokens and word
embeddings leave this stage on one residual scale. Without the stage a screenshot is not read in any budget tried.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from rmsweb.config import PretrainConfig
from rmsweb.train.batches import Encoder
from rmsweb.train.canvas import NAVIGATION, Canvas, Page, fill, navigation
from rmsweb.train.tiny import GRID
from rmsweb.train.updates import WINDOW, Observer, Trainer, means, share

if TYPE_CHECKING:
    import torch

RESIDUAL_RMS, NORM_WEIGHT = 0.25, 0.12
"""Scale of words and visual tokens after this stage; rms 1.0 starts at loss 21 (the tied head copies its input)."""


def random_page(rng: random.Random, encoder: Encoder, fewest: int = 3, most: int = 12) -> Page:
    """A page without a task."""
    canvas = Canvas(rng, encoder.glyphs)
    if rng.random() < 0.5:
        navigation(canvas, NAVIGATION, rng.randint(1, 4))
    fill(canvas, rng.randint(fewest, most))
    return canvas.page()


def reading_heads(hidden: int) -> Any:
    """Projections that only the vision stage uses: further words, kind, what stands beside."""
    from torch import nn

    names = ("second", "third", "beside")
    heads = {name: nn.Linear(hidden, hidden) for name in names}
    return nn.ModuleDict({**heads, "kind": nn.Linear(hidden, 6)})


class VisionLosses(NamedTuple):
    loss: torch.Tensor
    first: float
    second: float
    beside: float


def vision_losses(model: Any, heads: Any, encoder: Encoder, pages: list[Page], rng: random.Random) -> VisionLosses:
    """Dense reading of a batch of pages: 70 targets a page through the vision tower alone."""
    import numpy as np
    import torch
    from torch.nn import functional

    shifts = [(rng.randint(0, encoder.shift), rng.randint(0, encoder.shift)) for _ in pages]
    pixels = np.concatenate([encoder.pixels(page, *by) for page, by in zip(pages, shifts, strict=True)])
    truths = [encoder.truth(page) for page in pages]
    words = torch.from_numpy(np.concatenate([t.words for t in truths]))
    kinds = torch.from_numpy(np.concatenate([t.kinds for t in truths]))
    beside = torch.from_numpy(np.concatenate([t.beside for t in truths]))
    table = model.model.language_model.embed_tokens.weight
    hidden = table.shape[1]
    seen = model.model.visual(torch.from_numpy(pixels), grid_thw=torch.tensor([GRID] * len(pages))).pooler_output
    seen = functional.rms_norm(seen, (hidden,))
    directions = functional.rms_norm(table, (hidden,)).T * (4.0 / hidden**0.5)
    there = words[:, 0] > 0
    columns, rows = encoder.axes
    all_words = seen @ directions
    # Place and first word share the vector, not the softmax: a reply can then copy either from the cell it attends to.
    first = all_words.index_fill(1, torch.cat([columns.tokens, rows.tokens]), -1e4)
    weight = torch.where(there, 1.0, 0.15)
    loss = (functional.cross_entropy(first, words[:, 0], reduction="none") * weight).sum() / weight.sum()
    for axis in (columns, rows):
        loss = loss + 0.3 * functional.cross_entropy(all_words[:, axis.tokens], axis.target.repeat(len(pages)))
    found = seen[there]
    second, side = heads["second"](found) @ directions, heads["beside"](found) @ directions
    loss = loss + functional.cross_entropy(second, words[there, 1]) + functional.cross_entropy(side, beside[there])
    loss = loss + 0.5 * functional.cross_entropy(heads["third"](found) @ directions, words[there, 2])
    loss = loss + 0.3 * functional.cross_entropy(heads["kind"](seen), kinds)
    valued = beside[there] != encoder.end
    return VisionLosses(
        loss,
        share(first[there].argmax(-1) == words[there, 0]),
        share(second.argmax(-1) == words[there, 1]),
        share((side.argmax(-1) == beside[there])[valued]),
    )


def vision_stage(model: Any, encoder: Encoder, config: PretrainConfig, seed: int, observe: Observer) -> None:
    """Teaches the vision tower (and the word embeddings) to read, then equalises the residual scale."""
    from torch import nn

    rng = random.Random(f"{seed}/vision")
    heads = reading_heads(model.config.text_config.hidden_size)
    language = model.model.language_model
    parts = nn.ModuleDict({"visual": model.model.visual, "embed_words": language.embed_tokens, "heads": heads})
    trainer = Trainer(parts, config, config.vision_steps)
    recent: deque[tuple[float, ...]] = deque(maxlen=WINDOW)
    for step in range(config.vision_steps):
        pages = [random_page(rng, encoder) for _ in range(config.vision_batch)]
        losses = vision_losses(model, heads, encoder, pages, rng)
        trainer.update(losses.loss)
        recent.append((float(losses.loss.detach()), *losses[1:]))
        observe("vision", step + 1, config.vision_steps, means(("loss", "first", "second", "beside"), recent))
    equalise(model, encoder, [random_page(rng, encoder) for _ in range(config.vision_batch)])


def equalise(model: Any, encoder: Encoder, pages: list[Page]) -> None:
    """Brings visual tokens and word embeddings to one scale; after the vision stage they differ fifty-fold."""
    import numpy as np
    import torch
    from torch.nn import functional

    with torch.no_grad():
        pixels = torch.from_numpy(np.concatenate([encoder.pixels(page) for page in pages]))
        seen = model.model.visual(pixels, grid_thw=torch.tensor([GRID] * len(pages))).pooler_output
        factor = RESIDUAL_RMS / float(seen.pow(2).mean().sqrt())
        last = model.model.visual.merger.linear_fc2
        last.weight.mul_(factor)
        last.bias.mul_(factor)
        table = model.model.language_model.embed_tokens.weight
        table.copy_(RESIDUAL_RMS * functional.rms_norm(table, (table.shape[1],)))
        model.model.language_model.norm.weight.fill_(NORM_WEIGHT)
