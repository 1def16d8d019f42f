"""Supervised steps as dataset rows for TRL: prompt, completion, pictures. The prompt is `policy.render_messages`'s.

Rows keep pictures as encoded PNG bytes (datasets decodes them when a batch is made), so that memory does not grow with
the number of steps. A row never holds guidance: a `TrainSample` has none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rmsweb.actions import Viewport
from rmsweb.chat import Message
from rmsweb.config import ProfileConfig
from rmsweb.errors import DataError
from rmsweb.policy import render_messages, render_reply
from rmsweb.records import TrainSample

Row = dict[str, Any]


def split_pictures(
    messages: Sequence[Message], images: Mapping[str, bytes]
) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Messages with named pictures -> messages with bare placeholders, and the pictures in their order (PNG bytes)."""
    bare: list[dict[str, Any]] = []
    pictures: list[bytes] = []
    for message in messages:
        parts: list[dict[str, Any]] = []
        for part in message["content"]:
            if part["type"] == "image":
                pictures.append(images[part["image"]])
                parts.append({"type": "image", "text": None})
            else:
                parts.append({"type": "text", "text": part["text"]})
        bare.append({"role": message["role"], "content": parts})
    return bare, pictures


def row(sample: TrainSample, profile: ProfileConfig, images: Mapping[str, bytes]) -> Row:
    """One row: `prompt` and `completion` (conversational), `images` (PNG bytes, order of the placeholders).

    Raises DataError naming the sample when it has no action to imitate.
    """
    if sample.decision.action is None:
        raise DataError(f"sample {sample.id} has no action to imitate; run `rmsweb samples` again")
    prompt, pictures = split_pictures(render_messages(profile, sample.task, sample.history, sample.now), images)
    reply = render_reply(profile, sample.decision, Viewport(*profile.viewport))
    completion = [{"role": "assistant", "content": [{"type": "text", "text": reply}]}]
    return {"prompt": prompt, "completion": completion, "images": pictures}


def dataset(rows: Sequence[Row]) -> Any:
    """A `datasets.Dataset` whose pictures are decoded when a batch is made."""
    from datasets import Dataset, Features, Image, List, Value

    text = [{"role": Value("string"), "content": List({"type": Value("string"), "text": Value("string")})}]
    features = Features({"prompt": text, "completion": text, "images": List(Image())})
    packed = [{**r, "images": [{"bytes": png, "path": None} for png in r["images"]]} for r in rows]
    return Dataset.from_list(packed, features=features)
