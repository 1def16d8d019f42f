"""LocalModel: the ChatModel seam over a Qwen3-VL checkpoint in this process, tiny or real.

Owns the micro-batching: requests that come within a few milliseconds share one forward, and the n replies of a request
share its prefill. The forward runs in one worker thread, so that the event loop lives. Promises the same reply for the
same request and seed whatever else runs beside it (up to float rounding). Reads pictures by their hash.
"""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rmsweb.chat import Message, Reply
from rmsweb.errors import DataError, EndpointError
from rmsweb.train.sampling import Draw, Sampled, sample_shared
from rmsweb.train.tiny import load_model


@dataclass(slots=True)
class _Request:
    messages: list[Message]
    draws: list[Draw]
    result: asyncio.Future[list[Reply]]


class LocalModel:
    """A ChatModel; single use of one model by one event loop at a time."""

    def __init__(
        self,
        model: Any,
        processor: Any,
        images: Mapping[str, bytes],
        *,
        name: str = "local",
        batch: int = 16,
        wait_s: float = 0.003,
    ) -> None:
        self.name, self.model, self.processor = name, model, processor
        self._images, self._batch, self._wait = images, batch, wait_s
        self._pending: list[_Request] = []
        self._worker: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="local-model")
        processor.tokenizer.padding_side = "left"
        model.eval()

    @classmethod
    def load(cls, path: str | Path, images: Mapping[str, bytes], *, name: str = "", batch: int = 16) -> LocalModel:
        """A checkpoint folder, or the shipped base for "tiny" or an empty path. Raises MissingPartError without one."""
        model, processor = load_model(path)
        return cls(model, processor, images, name=name or str(path) or "tiny", batch=batch)

    async def complete(
        self,
        messages: list[Message],
        *,
        n: int = 1,
        temperature: float = 0.0,
        top_p: float = 1.0,
        max_tokens: int = 512,
        seed: int | None = None,
    ) -> list[Reply]:
        """`n` replies; reply i is drawn from the stream of `seed` and i (no seed: 0)."""
        start = (seed or 0) * 1_000_003
        draws = [Draw(temperature, top_p, start + i, max_tokens) for i in range(n)]
        request = _Request(messages, draws, asyncio.get_running_loop().create_future())
        self._pending.append(request)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._serve())
        return await request.result

    async def close(self) -> None:
        """Waits for what was asked and ends the thread."""
        if self._worker is not None:
            await asyncio.gather(self._worker, return_exceptions=True)
        self._thread.shutdown(wait=True)

    async def _serve(self) -> None:
        """Works off what is pending; while one batch runs the next one gathers."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._wait)
        while self._pending:
            batch, self._pending = self._pending[: self._batch], self._pending[self._batch :]
            try:
                replies = await loop.run_in_executor(self._thread, self._forward, batch)
            except Exception as error:  # attributed to those who asked; the worker goes on with the next batch
                for request in batch:
                    if not request.result.done():
                        request.result.set_exception(error)
                continue
            for request, reply in zip(batch, replies, strict=True):
                if not request.result.done():
                    request.result.set_result(reply)

    def _forward(self, batch: list[_Request]) -> list[list[Reply]]:
        import torch

        torch.set_num_threads(1)
        conversations = [[self._conversation(message) for message in request.messages] for request in batch]
        inputs = self.processor.apply_chat_template(
            conversations,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs={"padding": True},
        )
        tensors = {name: tensor.to(self.model.device) for name, tensor in inputs.items()}
        sampled = sample_shared(self.model, tensors, [request.draws for request in batch])
        lengths = inputs["attention_mask"].sum(1).tolist()
        return [[self._reply(one, length) for one in group] for group, length in zip(sampled, lengths, strict=True)]

    def _reply(self, sampled: Sampled, prompt_tokens: int) -> Reply:
        if not all(map(math.isfinite, sampled.logprobs)):
            raise EndpointError(f"{self.name}: its numbers are no numbers (NaN): the checkpoint diverged", "http")
        ids = sampled.ids[:-1] if sampled.ended else sampled.ids
        text = self.processor.tokenizer.decode(ids, skip_special_tokens=True)
        finish: Literal["stop", "length", "empty"] = "length" if not sampled.ended else "stop" if text else "empty"
        return Reply(
            text=text,
            token_ids=sampled.ids,
            logprobs=sampled.logprobs,
            prompt_tokens=prompt_tokens,
            completion_tokens=len(sampled.ids),
            finish=finish,
        )

    def _conversation(self, message: Message) -> dict[str, Any]:
        parts = [
            {"type": "image", "image": self._picture(part["image"])} if part["type"] == "image" else dict(part)
            for part in message["content"]
        ]
        return {"role": message["role"], "content": parts}

    def _picture(self, sha: str) -> Any:
        from PIL import Image

        try:
            data = self._images[sha]
        except KeyError:
            raise DataError(f"picture {sha} is not in the image store; the run directory is incomplete") from None
        return Image.open(io.BytesIO(data)).convert("RGB")
