"""The fast path feeds the model what the processor and the model's own position index make of the same turns."""

import random

import torch
from PIL import Image

from rmsweb.config import OptimizerConfig, PretrainConfig
from rmsweb.train.batches import Encoder
from rmsweb.train.canvas import label_pool
from rmsweb.train.draw import Glyphs, draw
from rmsweb.train.grounding import grounding_losses
from rmsweb.train.optimizer import build_optimizer, rate
from rmsweb.train.pages import match_sample, sample
from rmsweb.train.processor import build_processor
from rmsweb.train.reading import random_page, reading_heads, vision_losses
from rmsweb.train.tiny import build_model, fast_vision
from rmsweb.train.tokenizer import build_tokenizer

TOKENIZER = build_tokenizer()
ENCODER = Encoder(TOKENIZER, Glyphs.blank(label_pool()))
MODEL = build_model(TOKENIZER)


def test_batch_equals_the_processors() -> None:
    processor, rng = build_processor(TOKENIZER), random.Random(0)
    samples = [sample(rng, ENCODER.glyphs) for _ in range(6)]
    batch = ENCODER.batch(samples, rng)
    pixels = batch.inputs["pixel_values"].view(len(samples), 70, -1)
    for row, made in enumerate(samples):
        shown = Image.fromarray(draw(made.page.drawn(), ENCODER.glyphs, made.page.background, made.page.accent))
        asked = [{"type": "text", "text": made.prompt()}, {"type": "image", "image": shown}]
        said = [{"type": "text", "text": made.move.text()}]
        turns = [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]
        wanted = processor.apply_chat_template([turns], tokenize=True, return_dict=True, return_tensors="pt")
        there = batch.inputs["attention_mask"][row] > 0
        assert batch.inputs["input_ids"][row][there].tolist() == wanted["input_ids"][0, :-1].tolist()
        assert (pixels[row] - wanted["pixel_values"]).abs().max() < 1e-5
        positions, _ = MODEL.model.get_rope_index(
            wanted["input_ids"],
            mm_token_type_ids=wanted["mm_token_type_ids"],
            image_grid_thw=wanted["image_grid_thw"],
            attention_mask=wanted["attention_mask"],
        )
        assert torch.equal(positions[:, 0, :-1], batch.inputs["position_ids"][:, row][:, there])
        labels = batch.labels[row][batch.labels[row] >= 0]
        assert TOKENIZER.decode(labels) == made.move.text() + "<|im_end|>"


def test_match_samples_label_named_cells() -> None:
    rng = random.Random(1)
    samples = [match_sample(rng, ENCODER.glyphs, simple=True) for _ in range(8)]
    batch = ENCODER.batch(samples, rng, replies=False)
    assert batch.labels.shape == (8, 0)
    assert (batch.match == 1).any(1).all()
    for row, made in enumerate(samples):
        for item in made.page.items:
            assert batch.match[row, item.place] == int(set(item.key) <= set(made.goal.words))


def test_losses_train_every_part() -> None:
    model, rng = build_model(TOKENIZER, seed=3), random.Random(2)
    fast_vision(model)
    heads = reading_heads(128)
    vision = vision_losses(model, heads, ENCODER, [random_page(rng, ENCODER) for _ in range(2)], rng)
    batch = ENCODER.batch([sample(rng, ENCODER.glyphs) for _ in range(3)], rng)
    grounding = grounding_losses(model, ENCODER, batch, PretrainConfig())
    (vision.loss + grounding.loss).backward()
    assert [name for name, p in [*model.named_parameters(), *heads.named_parameters()] if p.grad is None] == []
    assert grounding.right.shape == (3,)


def test_optimizer_splits_matrices_from_tables() -> None:
    config = OptimizerConfig(learning_rate=1e-3, muon=True)
    optimizer = build_optimizer(MODEL, config)
    assert [group["lr"] for group in optimizer.param_groups] == [1e-2, 1e-3]
    count = sum(p.numel() for group in optimizer.param_groups for p in group["params"])
    assert count == sum(p.numel() for p in MODEL.parameters())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
    assert [group["lr"] for group in optimizer.param_groups] == [5e-3, 5e-4]
    assert schedule.get_last_lr() == [5e-3, 5e-4]
    assert isinstance(build_optimizer(MODEL, OptimizerConfig()), torch.optim.AdamW)
    adapters = torch.nn.Linear(4, 4, bias=False)  # LoRA has matrices only
    assert isinstance(build_optimizer(adapters, config), torch.optim.Muon)


def test_optimizer_state_goes_round() -> None:
    layer = torch.nn.Linear(4, 4)
    config = OptimizerConfig(learning_rate=1e-2, muon=True)
    first = build_optimizer(layer, config)
    layer(torch.ones(2, 4)).sum().backward()
    first.step()
    second = build_optimizer(layer, config)
    second.load_state_dict(first.state_dict())
    assert str(second.state_dict()) == str(first.state_dict())


def test_rate_warms_up_and_falls() -> None:
    config = OptimizerConfig(warmup_steps=10, schedule="linear")
    rates = [rate(step, 100, config) for step in range(100)]
    assert rates[0] == 0.1
    assert rates[30] == 1.0
    assert rates[-1] == 0.05
