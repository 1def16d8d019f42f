"""A small random Qwen3-VL with everything of the real one: merged patches, deepstack, M-RoPE, grouped heads."""

import io
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

TEXTS = [
    'Action: red mug\n<tool_call>\n{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [250, '
    "700]}}\n</tool_call>",
    "Thought: the page shows a blue button. Task: click the green button. Done: click mug; type mug search *",
]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"]
SPECIAL += ["<|image_pad|>", "<|video_pad|>"]


def picture(seed: int, size: tuple[int, int] = (96, 64)) -> Image.Image:
    dice = random.Random(seed)
    image = Image.new("RGB", size, (240, 240, 240))
    draw = ImageDraw.Draw(image)
    for _ in range(4):
        x, y = dice.randrange(size[0]), dice.randrange(size[1])
        draw.rectangle([x, y, x + 20, y + 12], fill=tuple(dice.randrange(256) for _ in range(3)))
    return image


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "png")
    return buffer.getvalue()


def build_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=340, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXTS * 4, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left"
    )
    fast.add_special_tokens({"additional_special_tokens": [s for s in SPECIAL if s not in fast.all_special_tokens]})
    fast.add_tokens(["<tool_call>", "</tool_call>"])
    import trl

    fast.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3_vl.jinja").read_text()
    return fast


def build_processor() -> Any:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    from rmsweb.train.processor import assemble

    options = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2}
    images = Qwen2VLImageProcessorPil(
        size={"shortest_edge": 32 * 32, "longest_edge": 256 * 256}, image_mean=[0.5] * 3, image_std=[0.5] * 3, **options
    )
    return assemble(images, build_tokenizer(), options)


def build_model(processor: Any, seed: int = 0) -> Any:
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    tokenizer = processor.tokenizer
    one = {name: tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in ("image_pad", "video_pad", "vision_start")}
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "max_position_embeddings": 2048,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "mrope_section": [4, 2, 2],
                "mrope_interleaved": True,
            },
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 64,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=one["image_pad"],
        video_token_id=one["video_pad"],
        vision_start_token_id=one["vision_start"],
        vision_end_token_id=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(config)
    torch.nn.init.normal_(model.lm_head.weight, std=0.08)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def processor() -> Any:
    return build_processor()


@pytest.fixture
def model(processor: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build_model(processor)


def messages(text: str, *images: Image.Image) -> list[dict[str, Any]]:
    parts = [{"type": "text", "text": text}, *({"type": "image", "image": image} for image in images)]
    return [{"role": "user", "content": parts}]
