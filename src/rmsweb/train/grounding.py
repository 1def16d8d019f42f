"""Matching and grounding stages of pretraining: the goal first, then the picture, then the reply.

Owns the dense labels (does the goal name this element: layer 1; which value stands here, and where is it: layer 2), the
reply loss and the curriculum. The matching stage trains the dense labels alone, through two layers, on crowded pages;
the grounding stage trains whole replies on pages that grow with accuracy.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from rmsweb.config import PretrainConfig
from rmsweb.train.batches import Batch, Encoder
from rmsweb.train.pages import TOP, match_sample, sample
from rmsweb.train.tokenizer import token_id
from rmsweb.train.updates import WINDOW, Observer, Trainer, mean, means, share

if TYPE_CHECKING:
    import torch

LEVEL_UP = (0.6, 0.55, 0.6)
"""Share of right replies at which the curriculum moves on."""


class CellLosses(NamedTuple):
    loss: torch.Tensor
    recall: float
    """Named elements that the match label finds."""
    reject: float
    """Other elements that it leaves alone."""
    value: float


def cell_losses(
    model: Any, encoder: Encoder, batch: Batch, first: Any, second: Any, config: PretrainConfig
) -> CellLosses:
    """The dense labels: match at the output of layer 1, value and place at that of layer 2; both (B, L, hidden)."""
    import torch
    from torch.nn import functional

    norm = model.model.language_model.norm
    image = batch.inputs["input_ids"] == model.config.image_token_id
    match, values = batch.match.flatten(), batch.values.flatten()
    there = match >= 0
    pair = torch.tensor([token_id(encoder.tokenizer, "▁no"), token_id(encoder.tokenizer, "▁on")])
    guess, match = model.lm_head(norm(first[image][there]))[:, pair], match[there]
    weight = torch.where(match == 1, 1.0, 0.4)
    match_loss = (functional.cross_entropy(guess, match, reduction="none") * weight).sum() / weight.sum()
    at_two = model.lm_head(norm(second[image][there]))
    place_loss = sum(
        functional.cross_entropy(at_two[:, axis.tokens], axis.target.repeat(len(batch.match))[there])
        for axis in encoder.axes
    )
    read = model.lm_head(norm(second[image][values > 0]))
    value_loss = functional.cross_entropy(read, values[values > 0])
    said = guess.argmax(-1)
    return CellLosses(
        config.match_weight * match_loss + config.value_weight * (value_loss + place_loss),
        share(said[match == 1] == 1),
        share(said[match == 0] == 0),
        share(read.argmax(-1) == values[values > 0]),
    )


def matching_stage(model: Any, encoder: Encoder, config: PretrainConfig, seed: int, observe: Observer) -> None:
    """The dense labels alone, through the first two layers, on crowded pages: finding words is learned here.

    With replies in the loss from the start the match circuit took several times as long to form.
    """
    from torch import nn

    rng = random.Random(f"{seed}/matching")
    language = model.model.language_model
    every, language.layers = language.layers, nn.ModuleList(list(language.layers)[:2])
    trainer = Trainer(model, config, config.matching_steps)
    recent: deque[tuple[float, ...]] = deque(maxlen=WINDOW)
    simple = True
    for step in range(config.matching_steps):
        samples = [match_sample(rng, encoder.glyphs, simple) for _ in range(config.grounding_batch)]
        batch = encoder.batch(samples, rng, replies=False)
        hidden = model.model(**batch.inputs, output_hidden_states=True, use_cache=False)
        # the last entry is normed already, and norming twice changes nothing but the rounding
        losses = cell_losses(model, encoder, batch, hidden.hidden_states[1], hidden.hidden_states[2], config)
        trainer.update(losses.loss)
        recent.append((float(losses.loss.detach()), *losses[1:]))
        average = means(("loss", "recall", "reject", "value"), recent)
        simple = simple and step < config.matching_steps * 0.5 and min(average["recall"], average["reject"]) < 0.9
        observe("matching", step + 1, config.matching_steps, {**average, "simple": float(simple)})
    language.layers = every


class GroundingLosses(NamedTuple):
    loss: torch.Tensor
    right: torch.Tensor
    """(B,) bool: the greedy reply is right in every token."""
    cells: CellLosses


def grounding_losses(model: Any, encoder: Encoder, batch: Batch, config: PretrainConfig) -> GroundingLosses:
    """Reply loss plus the two dense labels; one forward."""
    from torch.nn import functional

    out = model.model(**batch.inputs, output_hidden_states=True, use_cache=False)
    width = batch.labels.shape[1]
    logits = model.lm_head(out.last_hidden_state[:, -width - 1 : -1])
    kept = batch.labels != -100
    token_loss = functional.cross_entropy(logits[kept], batch.labels[kept], reduction="none")
    weights = batch.weights[kept]
    cells = cell_losses(model, encoder, batch, out.hidden_states[1], out.hidden_states[2], config)
    loss = (token_loss * weights).sum() / weights.sum().clamp(min=1.0) + cells.loss
    right = ((logits.argmax(-1) == batch.labels) | ~kept).all(1)
    return GroundingLosses(loss, right.detach(), cells)


def grounding_stage(model: Any, encoder: Encoder, config: PretrainConfig, seed: int, observe: Observer) -> None:
    """Teaches the whole model to answer goals on pages that grow with its accuracy."""
    rng = random.Random(f"{seed}/grounding")
    trainer = Trainer(model, config, config.grounding_steps)
    recent: deque[tuple[float, ...]] = deque(maxlen=WINDOW)
    level = 0
    for step in range(config.grounding_steps):
        samples = [sample(rng, encoder.glyphs, level) for _ in range(config.grounding_batch)]
        losses = grounding_losses(model, encoder, encoder.batch(samples, rng), config)
        trainer.update(losses.loss)
        right = [
            float(r) if s.goal.literal != "match" else float("nan") for r, s in zip(losses.right, samples, strict=True)
        ]
        reads = [r for r, s in zip(right, samples, strict=True) if s.move.kind == "read"]
        clicks = [r for r, s in zip(right, samples, strict=True) if s.move.kind == "click"]
        recent.append((float(losses.loss.detach()), mean(right), mean(clicks), mean(reads), *losses.cells[1:]))
        average = means(("loss", "right", "click", "read", "recall", "reject", "value"), recent)
        # growing pages are forced in the first half, so that a slow start still sees whole pages before the decay
        forced = step > config.grounding_steps * 0.5 * (level + 1) / TOP
        if level < TOP and len(recent) == WINDOW and (average["right"] >= LEVEL_UP[level] or forced):
            level += 1
            recent.clear()
        observe("grounding", step + 1, config.grounding_steps, {**average, "level": float(level)})
