"""Model and processor: plain transformers classes, fast path equal to the stock path, save and load."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from rmsweb.chat import Message
from rmsweb.errors import EndpointError, MissingPartError
from rmsweb.train.local import LocalModel
from rmsweb.train.processor import build_processor, load_processor
from rmsweb.train.tiny import build_model, fast_vision, load_model, save_model
from rmsweb.train.tokenizer import build_tokenizer

TOKENIZER = build_tokenizer()
PROCESSOR = build_processor(TOKENIZER)


def picture(seed: int, width: int = 320, height: int = 224) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8))


def inputs(*pictures: Image.Image) -> dict[str, torch.Tensor]:
    turns = [
        [
            {
                "role": "user",
                "content": [{"type": "text", "text": f"Task: add {i} mug\nDone: "}, {"type": "image", "image": p}],
            }
        ]
        for i, p in enumerate(pictures)
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


def test_size_and_grid() -> None:
    model = build_model(TOKENIZER)
    assert 1.2e6 < sum(p.numel() for p in model.parameters()) < 1.7e6
    assert inputs(picture(0))["image_grid_thw"].tolist() == [[1, 7, 10]]


def test_fast_vision_changes_nothing() -> None:
    model = build_model(TOKENIZER, seed=1).eval()
    for pictures in ((picture(0), picture(1), picture(2)), (picture(0), picture(1, 160, 96))):
        given = inputs(*pictures)
        with torch.no_grad():
            stock = model(**given).logits
            fast_vision(model)
            fast = model(**given).logits
        assert (stock - fast).abs().max() < 1e-5


def test_saved_checkpoint_loads_with_plain_transformers(tmp_path: Path) -> None:
    from transformers import AutoModelForImageTextToText

    model = build_model(TOKENIZER, seed=2).eval()
    save_model(model, PROCESSOR, tmp_path)
    given = inputs(picture(3))
    with torch.no_grad():
        wanted = model(**given).logits
        plain = AutoModelForImageTextToText.from_pretrained(str(tmp_path)).eval()(**given).logits
        ours = load_model(tmp_path)
        assert torch.equal(wanted, plain)
        assert (ours.model(**given).logits - wanted).abs().max() < 1e-5
    again = load_processor(tmp_path)
    assert again.tokenizer.get_vocab() == TOKENIZER.get_vocab()
    assert again.image_processor.size == PROCESSOR.image_processor.size


@pytest.mark.parametrize("torn", [b"", b"half", "other size"])
def test_weights_that_cannot_be_loaded_name_the_folder(tmp_path: Path, torn: bytes | str) -> None:
    save_model(build_model(TOKENIZER), PROCESSOR, tmp_path)
    if isinstance(torn, bytes):
        (tmp_path / "model.safetensors").write_bytes(torn)
    else:
        config = json.loads((tmp_path / "config.json").read_text())
        config["text_config"]["intermediate_size"] *= 2
        (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(MissingPartError, match=f"the weights at {tmp_path} cannot be loaded: .*another model's"):
        load_model(tmp_path)


async def test_a_diverged_checkpoint_is_an_error_and_no_reply() -> None:
    model = LocalModel.load("tiny", {})
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.fill_(float("nan"))
    ask: list[Message] = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    for temperature in (0.0, 1.0):
        with pytest.raises(EndpointError, match=r"no numbers \(NaN\): the checkpoint diverged"):
            await model.complete(ask, temperature=temperature, max_tokens=4)
    await model.close()
