"""Pretraining of the tiny base model on synthetic pages: the `pretrain` stage.

Owns the two stages and their losses. Vision stage: the tower alone reads every cell (words, kind, place, what stands
beside), tied to the word embeddings. Then visual tokens and words get one residual scale. Grounding stage: goal,
picture, reply through the whole model, with a match label at layer 1 and a value label at layer 2; pages grow with
accuracy. Promises that the same configuration, seed and machine give the same weights; renders no page or goal of a
built-in site.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rmsweb.config import PretrainConfig
from rmsweb.train.batches import Batch, Encoder
from rmsweb.train.canvas import NAVIGATION as LINKS
from rmsweb.train.canvas import Canvas, Page, fill, navigation
from rmsweb.train.optimizer import build_optimizer, rate
from rmsweb.train.pages import TOP, sample
from rmsweb.train.tiny import GRID, VISUAL_TOKENS
from rmsweb.train.tokenizer import token_id

if TYPE_CHECKING:
    import torch

Progress = Callable[[str, int, int, dict[str, float]], None]
"""Called with stage, step, steps and the current measurements."""

RESIDUAL_RMS, NORM_WEIGHT = 0.25, 0.12
"""Scale of words and visual tokens before the grounding stage; rms 1.0 starts at loss 21 (the head copies its input)."""
LEVEL_UP = (0.6, 0.65, 0.7)
"""Share of right replies at which the curriculum moves on."""
WINDOW = 40
"""Updates that a moving accuracy covers."""


class VisionLosses(NamedTuple):
    loss: torch.Tensor
    first: float
    second: float
    beside: float


def random_page(rng: random.Random, encoder: Encoder, fewest: int = 3, most: int = 12) -> Page:
    """A page without a task."""
    canvas = Canvas(rng, encoder.glyphs)
    if rng.random() < 0.5:
        navigation(canvas, LINKS, rng.randint(1, 4))
    fill(canvas, rng.randint(fewest, most))
    return canvas.page()


def reading_heads(hidden: int) -> Any:
    """Projections that only the vision stage uses: further words, kind, place, what stands beside."""
    from torch import nn

    names = ("second", "third", "column", "row", "beside")
    heads = {name: nn.Linear(hidden, hidden) for name in names}
    return nn.ModuleDict({**heads, "kind": nn.Linear(hidden, 6)})


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
    first = seen @ directions
    weight = torch.where(there, 1.0, 0.15)
    loss = (functional.cross_entropy(first, words[:, 0], reduction="none") * weight).sum() / weight.sum()
    found = seen[there]
    second, side = heads["second"](found) @ directions, heads["beside"](found) @ directions
    loss = loss + functional.cross_entropy(second, words[there, 1]) + functional.cross_entropy(side, beside[there])
    loss = loss + 0.5 * functional.cross_entropy(heads["third"](found) @ directions, words[there, 2])
    loss = loss + 0.3 * functional.cross_entropy(heads["kind"](seen), kinds)
    columns, rows = _place_tokens(encoder)
    for name, target in (("column", columns), ("row", rows)):
        loss = loss + 0.2 * functional.cross_entropy(heads[name](seen) @ directions, target.repeat(len(pages)))
    valued = beside[there] != encoder.end
    return VisionLosses(
        loss,
        _share(first[there].argmax(-1) == words[there, 0]),
        _share(second.argmax(-1) == words[there, 1]),
        _share((side.argmax(-1) == beside[there])[valued]),
    )


def _place_tokens(encoder: Encoder) -> tuple[torch.Tensor, torch.Tensor]:
    """Coordinate tokens of every cell's middle, in reading order."""
    import torch

    from rmsweb.train.queries import place_text
    from rmsweb.web.compact import COLUMNS, Cell

    columns, rows = [], []
    for place in range(VISUAL_TOKENS):
        x, y = encoder.ids(place_text(Cell("link", "", place % COLUMNS, place // COLUMNS, 2)))
        columns.append(x)
        rows.append(y)
    return torch.tensor(columns), torch.tensor(rows)


def _share(right: torch.Tensor) -> float:
    return float(right.float().mean()) if right.numel() else float("nan")


def vision_stage(model: Any, encoder: Encoder, config: PretrainConfig, seed: int, progress: Progress) -> None:
    """Teaches the vision tower (and the word embeddings) to read, then equalises the residual scale."""
    rng = random.Random(f"{seed}/vision")
    heads = reading_heads(model.config.text_config.hidden_size)
    language = model.model.language_model
    tower = _Group(visual=model.model.visual, embed_words=language.embed_tokens, heads=heads)
    trainer = _Trainer(tower.module, config, config.vision_steps)
    recent: deque[tuple[float, ...]] = deque(maxlen=WINDOW)
    for step in range(config.vision_steps):
        pages = [random_page(rng, encoder) for _ in range(config.vision_batch)]
        losses = vision_losses(model, heads, encoder, pages, rng)
        trainer.update(losses.loss)
        recent.append((float(losses.loss.detach()), *losses[1:]))
        progress("vision", step + 1, config.vision_steps, _means(("loss", "first", "second", "beside"), recent))
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


class GroundingLosses(NamedTuple):
    loss: torch.Tensor
    right: torch.Tensor
    """(B,) bool: the greedy reply is right in every token."""
    recall: float
    """Named elements that the match label finds."""
    reject: float
    value: float


def grounding_losses(model: Any, encoder: Encoder, batch: Batch, config: PretrainConfig) -> GroundingLosses:
    """Reply loss plus the two dense labels; one forward."""
    import torch
    from torch.nn import functional

    language = model.model.language_model
    out = model.model(**batch.inputs, output_hidden_states=True, use_cache=False)
    width = batch.labels.shape[1]
    logits = model.lm_head(out.last_hidden_state[:, -width - 1 : -1])
    kept = batch.labels != -100
    token_loss = functional.cross_entropy(logits[kept], batch.labels[kept], reduction="none")
    weights = batch.weights[kept]
    loss = (token_loss * weights).sum() / weights.sum().clamp(min=1.0)
    image = batch.inputs["input_ids"] == model.config.image_token_id
    at_one = model.lm_head(language.norm(out.hidden_states[1][image]))
    pair = torch.tensor([token_id(encoder.tokenizer, "▁no"), token_id(encoder.tokenizer, "▁on")])
    match = batch.match.flatten()
    there = match >= 0
    guess, match = at_one[there][:, pair], match[there]
    weight = torch.where(match == 1, 1.0, 0.4)
    match_loss = (functional.cross_entropy(guess, match, reduction="none") * weight).sum() / weight.sum()
    loss = loss + config.match_weight * match_loss
    values = batch.values.flatten()
    read = model.lm_head(language.norm(out.hidden_states[2][image][values > 0]))
    loss = loss + config.value_weight * functional.cross_entropy(read, values[values > 0])
    right = ((logits.argmax(-1) == batch.labels) | ~kept).all(1)
    said = guess.argmax(-1)
    return GroundingLosses(
        loss,
        right.detach(),
        _share(said[match == 1] == 1),
        _share(said[match == 0] == 0),
        _share(read.argmax(-1) == values[values > 0]),
    )


def grounding_stage(model: Any, encoder: Encoder, config: PretrainConfig, seed: int, progress: Progress) -> None:
    """Teaches the whole model to answer goals on pages that grow with its accuracy."""
    rng = random.Random(f"{seed}/grounding")
    trainer = _Trainer(model, config, config.grounding_steps)
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
        recent.append(
            (
                float(losses.loss.detach()),
                _mean(right),
                _mean(clicks),
                _mean(reads),
                losses.recall,
                losses.reject,
                losses.value,
            )
        )
        means = _means(("loss", "right", "click", "read", "recall", "reject", "value"), recent)
        # growing pages are forced in the first half, so that a slow start still sees whole pages before the decay
        forced = step > config.grounding_steps * 0.5 * (level + 1) / TOP
        if level < TOP and len(recent) == WINDOW and (means["right"] >= LEVEL_UP[level] or forced):
            level += 1
            recent.clear()
        progress("grounding", step + 1, config.grounding_steps, {**means, "level": float(level)})


class _Group:
    """Parts of a model under names that the optimizer can tell apart."""

    def __init__(self, **parts: Any) -> None:
        from torch import nn

        self.module = nn.ModuleDict(parts)


class _Trainer:
    """Optimizer, schedule and gradient clipping of one stage."""

    def __init__(self, module: Any, config: PretrainConfig, steps: int) -> None:
        self.module, self.config, self.steps, self.step = module, config.optimizer, steps, 0
        self.optimizer = build_optimizer(module, self.config)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]

    def update(self, loss: torch.Tensor) -> None:
        import torch

        factor = rate(self.step, self.steps, self.config)
        for group, base in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = base * factor
        self.module.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.config.max_grad_norm)
        self.optimizer.step()
        self.step += 1


def _mean(values: list[float]) -> float:
    known = [v for v in values if v == v]
    return sum(known) / len(known) if known else float("nan")


def _means(names: tuple[str, ...], recent: deque[tuple[float, ...]]) -> dict[str, float]:
    return {name: round(_mean([row[i] for row in recent]), 4) for i, name in enumerate(names)}
