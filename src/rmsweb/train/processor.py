"""Qwen3-VL processors with and without torchvision.

transformers exports the video processors only where torchvision is installed, and `Qwen3VLProcessor` demands one even
for pictures. Here the processor is put together from its parts with the PIL image backend (same grid, same pixels);
where torchvision works, `AutoProcessor` is used as it stands.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rmsweb.errors import MissingPartError
from rmsweb.web.compact import HEIGHT, WIDTH

IMAGE_MEAN, IMAGE_STD = 0.93, 0.25
"""Puts the page background of the compact theme near 0 (tiny model only)."""
PATCH = 32


def load_processor(path: str | Path, **image_options: Any) -> Any:
    """The processor saved at `path` (or named so on the hub), as a `Qwen3VLProcessor`.

    `image_options` go to the image processor, for instance `size={"shortest_edge": ..., "longest_edge": ...}` (pixels).
    Raises MissingPartError when the folder holds no processor.
    """
    from transformers import AutoImageProcessor, AutoProcessor, AutoTokenizer
    from transformers.utils import is_torchvision_available

    try:
        if is_torchvision_available():
            return AutoProcessor.from_pretrained(str(path), **image_options)
        images = AutoImageProcessor.from_pretrained(str(path), **image_options)
        tokenizer = AutoTokenizer.from_pretrained(str(path))
    except (OSError, ValueError) as error:
        raise MissingPartError(f"no processor at {path}: {error}") from error
    return assemble(images, tokenizer, _video_options(Path(path)))


def build_processor(tokenizer: Any) -> Any:
    """The tiny model's processor: patches of 32 px, one per visual token, 320x224 never resized."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    images = Qwen2VLImageProcessorPil(
        patch_size=PATCH,
        temporal_patch_size=1,
        merge_size=1,
        size={"shortest_edge": 2 * PATCH * PATCH, "longest_edge": WIDTH * HEIGHT},
        image_mean=[IMAGE_MEAN] * 3,
        image_std=[IMAGE_STD] * 3,
    )
    return assemble(images, tokenizer, {"patch_size": PATCH, "temporal_patch_size": 1, "merge_size": 1})


def assemble(images: Any, tokenizer: Any, video_options: dict[str, Any]) -> Any:
    """A `Qwen3VLProcessor` from its parts, whether torchvision is there or not."""
    import transformers.processing_utils as processing
    from transformers import Qwen3VLProcessor
    from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
    from transformers.utils import is_torchvision_available
    from transformers.video_processing_utils import VideoProcessorMixin

    if not is_torchvision_available():
        # the type check of the constructor looks its classes up here and would find a stand-in that only raises
        processing.transformers_module.VideoProcessorMixin = VideoProcessorMixin
    video = Qwen3VLVideoProcessor(**video_options)
    return Qwen3VLProcessor(images, tokenizer, video, chat_template=tokenizer.chat_template)


def _video_options(folder: Path) -> dict[str, Any]:
    for name in ("processor_config.json", "video_preprocessor_config.json"):
        file = folder / name
        if file.is_file():
            stored = json.loads(file.read_text(encoding="utf-8"))
            options = dict(stored.get("video_processor", {}) if name == "processor_config.json" else stored)
            options.pop("video_processor_type", None)
            return options
    return {}
