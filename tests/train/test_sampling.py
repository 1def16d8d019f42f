"""One prefill for many replies: same tokens and probabilities as plain forwards, whatever runs beside."""

import asyncio
import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from rmsweb.chat import Message
from rmsweb.errors import DataError
from rmsweb.train.local import LocalModel
from rmsweb.train.processor import build_processor
from rmsweb.train.sampling import Draw, Sampled, sample_shared, suppressed_ids
from rmsweb.train.tiny import build_model, fast_vision
from rmsweb.train.tokenizer import build_tokenizer

TOKENIZER = build_tokenizer()
PROCESSOR = build_processor(TOKENIZER)
MODEL = build_model(TOKENIZER, seed=4).eval()
fast_vision(MODEL)
with torch.no_grad():
    MODEL.model.language_model.embed_tokens.weight.mul_(2)


def png(seed: int) -> bytes:
    data = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (224, 320, 3), dtype=np.uint8)).save(data, "PNG")
    return data.getvalue()


IMAGES = {str(seed): png(seed) for seed in range(4)}


def ask(seed: int) -> list[Message]:
    text = "Task: add red mug" + " to cart" * seed + "\nDone: "
    return [{"role": "user", "content": [{"type": "text", "text": text}, {"type": "image", "image": str(seed)}]}]


def inputs(*seeds: int) -> dict[str, torch.Tensor]:
    turns = [
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": ask(seed)[0]["content"][0]["text"]},
                    {"type": "image", "image": Image.open(io.BytesIO(IMAGES[str(seed)]))},
                ],
            }
        ]
        for seed in seeds
    ]
    made = PROCESSOR.apply_chat_template(
        turns,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={"padding": True},
    )
    return dict(made)


def plain_logprobs(given: dict[str, torch.Tensor], reply: Sampled, temperature: float) -> list[float]:
    """From one forward over prompt and reply, positions left to transformers."""
    count = len(reply.ids)
    tail = torch.tensor([reply.ids])
    whole = {
        **given,
        "input_ids": torch.cat([given["input_ids"], tail], 1),
        "attention_mask": torch.cat([given["attention_mask"], torch.ones_like(tail)], 1),
        "mm_token_type_ids": torch.cat([given["mm_token_type_ids"], torch.zeros_like(tail)], 1),
    }
    with torch.no_grad():
        logits = MODEL(**whole).logits[0, -count - 1 : -1]
    logits[:, suppressed_ids(MODEL)] = -1e4
    return (logits / temperature).log_softmax(-1).gather(1, tail[0][:, None])[:, 0].tolist()


def sample_groups(
    model: Any, inputs: dict[str, Any], n: int, *, temperature: float = 1.0, max_tokens: int = 64, seed: int = 0
) -> list[list[Sampled]]:
    """`n` replies to each prompt with one setting; seeds follow from `seed`, row and reply."""
    rows = inputs["input_ids"].shape[0]
    draws = [
        [Draw(temperature, 1.0, seed * 1_000_003 + row * n + i, max_tokens) for i in range(n)] for row in range(rows)
    ]
    return sample_shared(model, inputs, draws)


def test_shared_prefill_gives_plain_log_probabilities() -> None:
    groups = sample_groups(MODEL, inputs(0, 1, 2), 3, temperature=0.8, max_tokens=12, seed=5)
    assert len({reply.ids for group in groups for reply in group}) > 3
    for seed, group in enumerate(groups):
        for reply in group:
            assert reply.logprobs == pytest.approx(plain_logprobs(inputs(seed), reply, 0.8), abs=2e-4)


def test_replies_do_not_depend_on_batch_mates() -> None:
    draws = [[Draw(0.0, 1.0, 0, 10), Draw(1.0, 0.9, 7, 10)], [Draw(1.0, 1.0, 8, 6)], [Draw(0.0, 1.0, 0, 10)]]
    together = sample_shared(MODEL, inputs(0, 1, 2), draws)
    for seed, wanted in enumerate(together):
        alone = sample_shared(MODEL, inputs(seed), [draws[seed]])[0]
        assert [reply.ids for reply in alone] == [reply.ids for reply in wanted]
    assert len(together[1][0].ids) <= 6


def test_greedy_equals_generate_and_image_ids_never_come() -> None:
    given = inputs(3)
    with torch.no_grad():
        wanted = MODEL.generate(**given, max_new_tokens=10, do_sample=False, suppress_tokens=suppressed_ids(MODEL))
    reply = sample_shared(MODEL, given, [[Draw(max_tokens=10)]])[0][0]
    assert list(reply.ids) == wanted[0, given["input_ids"].shape[1] :].tolist()
    hot = sample_groups(MODEL, given, 64, temperature=50.0, max_tokens=20)
    assert not {token for reply in hot[0] for token in reply.ids} & set(suppressed_ids(MODEL))


async def test_local_model_batches_concurrent_requests() -> None:
    model = LocalModel(MODEL, PROCESSOR, IMAGES, batch=3)
    alone = [await model.complete(ask(seed), max_tokens=8) for seed in range(4)]
    together = await asyncio.gather(*(model.complete(ask(seed), max_tokens=8) for seed in range(4)))
    assert [r[0].token_ids for r in together] == [r[0].token_ids for r in alone]
    several = await model.complete(ask(1), n=5, temperature=1.0, max_tokens=8, seed=3)
    again = await model.complete(ask(1), n=5, temperature=1.0, max_tokens=8, seed=3)
    assert [r.token_ids for r in several] == [r.token_ids for r in again]
    assert len({r.token_ids for r in several}) > 1
    for reply in several:
        assert reply.token_ids is not None and reply.logprobs is not None
        assert len(reply.token_ids) == len(reply.logprobs) == reply.completion_tokens
        assert (reply.finish == "length") == (reply.token_ids[-1] != TOKENIZER.eos_token_id)
    assert together[0][0].prompt_tokens == inputs(0)["input_ids"].shape[1]
    await model.close()


async def test_local_model_names_a_missing_picture() -> None:
    model = LocalModel(MODEL, PROCESSOR, {}, batch=3)
    with pytest.raises(DataError, match="not in the image store"):
        await model.complete(ask(0), max_tokens=4)
    await model.close()
