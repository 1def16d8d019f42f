"""The tiny base model: a real `Qwen3VLForConditionalGeneration` of about 1.5 M parameters, and where its weights lie.

Owns the architecture, the shipped checkpoint's folder and `fast_vision`. The checkpoint is a stand-in for what a real
Qwen3-VL brings from its pretraining: it reads one closed vocabulary in one known rendering and nothing else.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rmsweb.errors import MissingPartError
from rmsweb.train.processor import load_processor
from rmsweb.train.tokenizer import token_id
from rmsweb.web.compact import COLUMNS, ROWS

if TYPE_CHECKING:
    from transformers import Qwen3VLForConditionalGeneration

BASE = Path(__file__).parent / "data" / "base"
"""The shipped checkpoint: weights, processor, recipe.json."""
GRID = (1, ROWS, COLUMNS)
"""Visual tokens of a 320x224 picture: time, rows, columns."""
VISUAL_TOKENS = ROWS * COLUMNS


class Shape(NamedTuple):
    """Sizes of the tiny model. Four text layers: with three, position and value were not learned together."""

    hidden: int = 128
    layers: int = 4
    intermediate: int = 256
    heads: int = 4
    key_value_heads: int = 2
    vision_hidden: int = 128
    vision_layers: int = 2
    vision_intermediate: int = 256
    positions: int = 100
    """Learned vision positions (a square), resampled to each picture's grid."""


def build_model(tokenizer: Any, shape: Shape | None = None, seed: int = 0) -> Qwen3VLForConditionalGeneration:
    """A randomly initialised model for this tokenizer, float32."""
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    shape = shape or Shape()
    half = shape.hidden // shape.heads // 2
    section = half // 3
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": shape.hidden,
            "intermediate_size": shape.intermediate,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.key_value_heads,
            "head_dim": shape.hidden // shape.heads,
            "max_position_embeddings": 4096,
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5e6,
                "mrope_section": [half - 2 * section, section, section],
                "mrope_interleaved": True,
            },
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        },
        vision_config={
            "depth": shape.vision_layers,
            "hidden_size": shape.vision_hidden,
            "intermediate_size": shape.vision_intermediate,
            "num_heads": 4,
            "patch_size": 32,
            "spatial_merge_size": 1,
            "temporal_patch_size": 1,
            "out_hidden_size": shape.hidden,
            "num_position_embeddings": shape.positions,
            "deepstack_visual_indexes": [],
        },
        image_token_id=token_id(tokenizer, "<|image_pad|>"),
        video_token_id=token_id(tokenizer, "<|video_pad|>"),
        vision_start_token_id=token_id(tokenizer, "<|vision_start|>"),
        vision_end_token_id=token_id(tokenizer, "<|vision_end|>"),
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(config)
    # transformers' 0.02 is far too small for a tower this narrow that starts from pixels
    patch = model.model.visual.patch_embed.proj.weight
    torch.nn.init.normal_(patch, std=0.3 / patch[0].numel() ** 0.5)
    torch.nn.init.normal_(model.model.visual.pos_embed.weight, std=0.3)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


class Loaded(NamedTuple):
    model: Any
    processor: Any


def load_model(start: str | Path, *, fast: bool = True, precise: bool = False) -> Loaded:
    """Model (eval mode) and processor of a Qwen3-VL checkpoint folder; "tiny" or "" is the shipped base.

    float32 on the CPU, bfloat16 where there is a GPU. `precise`: float32 there too, for training all weights: small
    updates vanish in bfloat16's rounding. Raises MissingPartError without a checkpoint.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForImageTextToText
    from transformers.utils import logging

    folder = BASE if str(start) in ("", "tiny") else Path(start)
    logging.disable_progress_bar()
    try:
        dtype = torch.bfloat16 if torch.cuda.is_available() and not precise else torch.float32
        model = AutoModelForImageTextToText.from_pretrained(str(folder), dtype=dtype)
    except (OSError, ValueError) as error:
        raise MissingPartError(f"no checkpoint at {folder}: {error}") from error
    except (SafetensorError, RuntimeError) as error:
        if isinstance(error, torch.cuda.OutOfMemoryError):
            raise
        said = str(error).strip().splitlines()[0]
        raise MissingPartError(
            f"the weights at {folder} cannot be loaded: {said}; were they cut, or is config.json another model's?"
        ) from error
    if torch.cuda.is_available():
        model = model.cuda()
    if fast:
        fast_vision(model)
    return Loaded(model.eval(), load_processor(folder))


def save_model(model: Any, processor: Any, folder: Path, *, half: bool = False) -> None:
    """Weights, tokenizer and processor in transformers' own layout.

    `half` stores 16-bit weights (half the file) that are still loaded as float32; the model is left as it was.
    """
    import copy

    from transformers.utils import logging

    logging.disable_progress_bar()
    folder.mkdir(parents=True, exist_ok=True)
    if half:
        small = copy.deepcopy(model).half()
        small.save_pretrained(folder)
        # the weights' own type would otherwise become the type that they are computed in
        config = folder / "config.json"
        config.write_text(config.read_text(encoding="utf-8").replace('"float16"', '"float32"'), encoding="utf-8")
        (folder / "model.safetensors").chmod(0o644)
    else:
        model.save_pretrained(folder)
    processor.save_pretrained(folder)


def fast_vision(model: Any) -> None:
    """Same maths, fewer calls: attention over equal grids in one batch, patches through a linear in place of a Conv3d.

    transformers loops over the pictures of a batch; with 70 visual tokens each that loop is most of the tower's time.
    Pictures of unequal grids take the original path. Weights, names and outputs stay the same (tested to 1e-5). A model
    that is not a Qwen3-VL is left alone.
    """
    from transformers.models.qwen3_vl import modeling_qwen3_vl as stock

    visual = getattr(getattr(model, "model", None), "visual", None)
    if not isinstance(visual, stock.Qwen3VLVisionModel):
        return
    attention, embed = _fast_classes()
    for block in visual.blocks:
        block.attn.__class__ = attention
    visual.patch_embed.__class__ = embed


@cache
def _fast_classes() -> tuple[type, type]:
    import torch
    from torch.nn import functional
    from transformers.models.qwen3_vl import modeling_qwen3_vl as stock

    class EqualGridAttention(stock.Qwen3VLVisionAttention):  # type: ignore[misc]
        """Vision attention with all pictures of a batch in one call when their grids are equal."""

        def forward(
            self,
            hidden_states: Any,
            cu_seqlens: Any,
            position_embeddings: Any = None,
            max_seqlen: Any = None,
            **rest: Any,
        ) -> Any:
            count, total = len(cu_seqlens) - 1, hidden_states.shape[0]
            if hidden_states.device.type != "cpu" or int((cu_seqlens.diff() != total // count).sum()):
                return super().forward(hidden_states, cu_seqlens, position_embeddings, max_seqlen, **rest)
            q, k, v = self.qkv(hidden_states).reshape(total, 3, self.num_heads, -1).permute(1, 0, 2, 3).unbind(0)
            q, k = stock.apply_rotary_pos_emb_vision(q, k, *position_embeddings)
            q, k, v = (t.reshape(count, total // count, self.num_heads, -1).transpose(1, 2) for t in (q, k, v))
            mixed = functional.scaled_dot_product_attention(q, k, v, scale=self.scaling)
            return self.proj(mixed.transpose(1, 2).reshape(total, -1))

    class LinearPatchEmbed(stock.Qwen3VLVisionPatchEmbed):  # type: ignore[misc]
        """The patch convolution as the matrix product that it is."""

        def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
            weight = self.proj.weight
            pixels = hidden_states.to(weight.dtype).view(-1, weight[0].numel())
            return functional.linear(pixels, weight.view(weight.shape[0], -1), self.proj.bias)

    return EqualGridAttention, LinearPatchEmbed
