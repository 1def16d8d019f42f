"""Asking a judge model: every question and reply is stored, and stored replies can answer again without a model.

Owns the noun `Call`, the bounded asking-again for a reply without a verdict, and pictures that a protocol wants
re-encoded. Never parses a verdict: that is each protocol's own.
"""

import asyncio
import hashlib
import io
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from pydantic import Field

from rmsweb.bench.judges.naming import WARMER
from rmsweb.chat import ChatModel, Message, Part, Reply
from rmsweb.errors import DataError, EndpointError
from rmsweb.judge import OVERFLOW
from rmsweb.records import Record

T = TypeVar("T")

KEPT = 64
"""Re-encoded pictures that are kept in memory; older ones are made again when they are asked for."""


class Call(Record):
    """One question to a judge model and its reply (`calls.jsonl`)."""

    trajectory_id: str
    protocol: str
    """The judge's whole name, model included."""
    key: str
    """Which question of the protocol: `verdict`, `key_points`, `picture/3` ..."""
    prompt: str
    """SHA-256 of the messages, 16 hexadecimal digits: a stored reply only answers the same question."""
    text: str
    finish: Literal["stop", "length", "refused", "empty"] = "stop"
    attempt: int = 0
    pictures: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    sampling: dict[str, float | int | None] = Field(default_factory=dict)


class NoReply(Exception):
    """A question has no answer; `kind` is the `unjudged` reason: infra, overflow, or not_stored (a replay)."""

    def __init__(self, kind: Literal["infra", "overflow", "not_stored"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Pictures(Mapping[str, bytes]):
    """A run's pictures, and re-encoded ones made from them on demand (never stored)."""

    def __init__(self, stored: Mapping[str, bytes]) -> None:
        self.stored = stored
        self._made: OrderedDict[str, bytes] = OrderedDict()
        self._from: dict[str, str] = {}

    def jpeg(self, image: str) -> str:
        """Name of the picture as RGB JPEG at Pillow's default quality (what the Online-Mind2Web scripts send)."""
        data = _jpeg(self.stored[image])
        name = hashlib.sha256(data).hexdigest()
        self._from[name] = image
        self._keep(name, data)
        return name

    def _keep(self, name: str, data: bytes) -> None:
        self._made[name] = data
        while len(self._made) > KEPT:
            self._made.popitem(last=False)

    def __getitem__(self, image: str) -> bytes:
        if image in self._made:
            return self._made[image]
        if image in self._from:
            self._keep(image, _jpeg(self.stored[self._from[image]]))
            return self._made[image]
        return self.stored[image]

    def __contains__(self, image: object) -> bool:
        """Whether it can be read: a file that is torn or altered is as good as missing."""
        try:
            return image in self._from or (image in self.stored and bool(self.stored[str(image)]))
        except (DataError, OSError):
            return False

    def __iter__(self) -> Iterator[str]:
        return iter((*self.stored, *self._from))

    def __len__(self) -> int:
        return len(self.stored) + len(self._from)


def _jpeg(png: bytes) -> bytes:
    """Raises OSError, ValueError or SyntaxError for what is no picture, or one too large to decode."""
    from PIL import Image

    out = io.BytesIO()
    try:
        Image.open(io.BytesIO(png)).convert("RGB").save(out, format="JPEG")
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from None
    return out.getvalue()


class Asker:
    """Puts questions to one model, or to stored replies, and hands every call to `store`."""

    def __init__(
        self,
        model: ChatModel | None,
        pictures: Pictures,
        *,
        store: Callable[[Call], None] = lambda call: None,
        replies: Iterable[Call] = (),
        attempts: int = 3,
        name: str = "",
        rounds: Mapping[tuple[str, str], int] | None = None,
        concurrency: int = 8,
    ) -> None:
        """`model` None: only `replies` answer. `attempts`: tries of one question, see `ask`. `name`: of the model.
        `concurrency`: questions of `together` at once, over all trajectories.

        `rounds`: (trajectory id, key) -> how often the command has asked that question in vain before: other seeds,
        other replies.
        """
        self.model, self.pictures, self.attempts, self._store = model, pictures, attempts, store
        self.rounds = rounds or {}
        self._slots = asyncio.Semaphore(concurrency)
        self.name = name or (model.name if model else "stored")
        self._replies: dict[tuple[str, str, str, int], Call] = {
            (call.trajectory_id, call.key, call.prompt, call.attempt): call for call in replies
        }

    async def ask(
        self,
        trajectory_id: str,
        protocol: str,
        key: str,
        messages: list[Message],
        *,
        temperature: float = 0.0,
        max_tokens: int = 512,
        seed: int | None = None,
        attempt: int = 0,
    ) -> Reply:
        """One reply. `attempt` > 0 asks again: warmer, another seed, since the same reply would only come again.

        Raises NoReply when the endpoint failed, the prompt was too long or no reply is stored, BudgetError.
        """
        prompt = prompt_hash(messages)
        stored = self._replies.get((trajectory_id, key, prompt, attempt))
        if stored is not None:
            return Reply(
                stored.text, finish=stored.finish, prompt_tokens=stored.prompt_tokens,
                completion_tokens=stored.completion_tokens,
            )  # fmt: skip
        if self.model is None:
            raise NoReply("not_stored", f"no reply to {key} of {trajectory_id} is stored for this very question")
        before = self.rounds.get((trajectory_id, key), 0)
        warmth = temperature if attempt == before == 0 else max(temperature, WARMER)
        seed = attempt if seed is None and attempt else None if seed is None else seed + attempt + 1000 * before
        try:
            reply = (await self.model.complete(messages, temperature=warmth, max_tokens=max_tokens, seed=seed))[0]
        except EndpointError as error:
            raise NoReply("overflow" if OVERFLOW.search(str(error)) else "infra", str(error)) from None
        # Half a surrogate pair is valid in JSON and no UTF-8: it could not be stored.
        reply = replace(reply, text=reply.text.encode("utf-8", "replace").decode())
        pictures = sum(part["type"] == "image" for message in messages for part in message["content"])
        call = Call(
            trajectory_id=trajectory_id, protocol=protocol, key=key, prompt=prompt, text=reply.text,
            finish=reply.finish, attempt=attempt, pictures=pictures, prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            sampling={"temperature": warmth, "max_tokens": max_tokens, "seed": seed},
        )  # fmt: skip
        self._store(call)
        return reply

    async def together(self, questions: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception | None]:
        """Answers to questions that do not depend on each other, in the order given, whatever order they come in.

        A question that fails gives its error in its place, and none is begun after it (None): what was under way comes
        to its end and is stored. Replies are stored as they come, so that a kill repeats no paid one; they are told
        apart by their key, and their order says nothing.
        """
        failed = False

        async def one(question: Callable[[], Awaitable[T]]) -> T | Exception | None:
            nonlocal failed
            async with self._slots:
                if failed:
                    return None
                try:
                    return await question()
                except Exception as error:  # every kind: the others' replies must be stored before it is raised
                    failed = True
                    return error

        return list(await asyncio.gather(*(one(question) for question in questions)))


def prompt_hash(messages: list[Message]) -> str:
    """Names a question: SHA-256 over its messages (pictures by their own hash), 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:16]


def text(words: str) -> Part:
    """A text part."""
    return {"type": "text", "text": words}


def image(name: str, detail: str = "") -> Part:
    """A picture part; `detail`: what an OpenAI endpoint is told."""
    return {"type": "image", "image": name, **({"detail": detail} if detail else {})}
