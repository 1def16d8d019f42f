"""Asking a chat model: the protocol, and any OpenAI-compatible endpoint.

Owns the only retry layer (bounded, with jitter, one shared pace for all workers), time limits, the token budget and
the usage count. Promises: empty, refused, truncated, rate-limited, timed-out and unreachable are different outcomes; no
request carries more pictures than allowed; no key and no Authorization header stands in an error. Never parses
actions, never logs a request.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import math
import os
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

from rmsweb.config import ModelConfig
from rmsweb.errors import BudgetError, ConfigError, DataError, EndpointError
from rmsweb.redact import redact

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Part = dict[str, str]
"""{"type": "text", "text": ...} or {"type": "image", "image": sha256}; an image may carry "detail" (an endpoint's)."""


class Message(TypedDict):
    """One turn; pictures are named, not carried."""

    role: Literal["system", "user", "assistant"]
    content: list[Part]


@dataclass(slots=True, frozen=True)
class Reply:
    """One completion."""

    text: str
    token_ids: tuple[int, ...] | None = None
    """Sampled ids, end mark included; None where the model gives none."""
    logprobs: tuple[float, ...] | None = None
    """Natural log-probability of each sampled id; None where the model gives none."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish: Literal["stop", "length", "refused", "empty"] = "stop"
    source: str = "content"
    """Where the text stood: content, reasoning_content, reasoning or tool_calls."""


class ChatModel(Protocol):
    """Messages in, replies out."""

    name: str

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
        """`n` replies. Raises EndpointError after the bounded tries, BudgetError when the budget is used up."""
        ...

    async def close(self) -> None:
        """Lets go of connections and memory."""
        ...


@dataclass(slots=True)
class Usage:
    """What a model has cost so far."""

    requests: int = 0
    """HTTP requests sent, failed ones included."""
    replies: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    images: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """Failed or worthless tries by reason."""
    estimated: int = 0
    """Tokens among the above that the server did not report: a quarter of the letters."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


RETRY_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
BACKOFF_S = 0.5
"""Base of the wait before the second try; doubles, with full jitter."""
LONGEST_WAIT_S = 30.0
LONGEST_BYTES = 32 << 20
"""Most bytes of one answer; hundreds of replies with their logprobs are far below."""
ERROR_BYTES = 16 << 10
"""What is read of the text beside an error status."""


class _Pace:
    """Who may send now: a bound on requests at once, and one pause for all when the server asks for it."""

    def __init__(self, concurrency: int) -> None:
        self.slots = asyncio.Semaphore(concurrency)
        self.resume_at = 0.0

    def pause(self, seconds: float) -> None:
        self.resume_at = max(self.resume_at, time.monotonic() + min(seconds, LONGEST_WAIT_S))

    async def wait(self) -> None:
        while (left := self.resume_at - time.monotonic()) > 0:
            await asyncio.sleep(left)


class EndpointModel:
    """A model behind an OpenAI-compatible HTTP endpoint. One event loop; share one object among all workers."""

    def __init__(self, config: ModelConfig, images: Mapping[str, bytes], *, max_images: int | None = None) -> None:
        """`max_images`: most pictures of one request; None: as many as the caller lays out."""
        self.config, self.images, self.max_images = config, images, max_images
        self.name = config.name
        self.usage = Usage()
        self._key = os.environ.get(config.api_key_env, "") or "none"
        if not self._key.isascii() or not self._key.isprintable():
            raise ConfigError(f"the key in {config.api_key_env} has a line break or letters that no header can carry")
        self._pace = _Pace(config.concurrency)
        self._client: AsyncOpenAI | None = None
        self._jitter = random.Random(config.name)

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
        """See ChatModel. A server that gives fewer than `n` choices is asked again for the rest."""
        body: dict[str, Any] = {
            "model": self.config.name,
            "messages": self._wire(messages),
        }
        if self.config.parameters == "reasoning":
            body["max_completion_tokens"] = max_tokens
        else:
            body |= {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
        pictures = sum(part["type"] == "image" for message in messages for part in message["content"])
        replies: list[Reply] = []
        while len(replies) < n:
            if seed is not None and self.config.parameters == "chat":
                body["seed"] = (seed + len(replies)) % 2**31
            replies += await self._one_call({**body, "n": n - len(replies)}, pictures)
        return replies[:n]

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _wire(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Messages as the endpoint wants them, pictures as data URLs. Raises DataError, ConfigError."""
        named = [part["image"] for message in messages for part in message["content"] if part["type"] == "image"]
        if self.max_images is not None and len(named) > self.max_images:
            raise ConfigError(
                f"a request would carry {len(named)} pictures, {self.max_images} are allowed; lower profile.images"
            )
        wired = []
        for message in messages:
            parts: list[dict[str, Any]] = []
            for part in message["content"]:
                if part["type"] == "image":
                    detail = {"detail": part["detail"]} if "detail" in part else {}
                    parts.append({"type": "image_url", "image_url": {"url": self._data_url(part["image"]), **detail}})
                else:
                    parts.append({"type": "text", "text": part["text"]})
            plain = all(part["type"] == "text" for part in parts)
            wired.append({"role": message["role"], "content": "".join(p["text"] for p in parts) if plain else parts})
        return wired

    def _data_url(self, sha: str) -> str:
        try:
            data = self.images[sha]
        except KeyError:
            raise DataError(
                f"picture {sha[:12]} is not in the image store; the run it belongs to is incomplete"
            ) from None
        kind = "webp" if data[8:12] == b"WEBP" else "jpeg" if data[:2] == b"\xff\xd8" else "png"
        return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"

    async def _one_call(self, body: dict[str, Any], pictures: int) -> list[Reply]:
        """One call with its bounded tries; at least one reply. Raises EndpointError, BudgetError."""
        failure = EndpointError(f"{self.name}: not asked", "network")
        worthless: list[Reply] = []
        for attempt in range(self.config.attempts):
            if attempt:
                bound = min(BACKOFF_S * 2 ** (attempt - 1), LONGEST_WAIT_S)
                await asyncio.sleep(self._jitter.uniform(bound / 4, bound))
            async with self._pace.slots:
                await self._pace.wait()
                self._check_budget()
                try:
                    replies = self._read(await self._send(body, pictures))
                except _Failed as failed:
                    failure = failed.error
                    self.usage.failures[failure.reason] += 1
                    if not failed.again:
                        raise failure from None
                    self._pace.pause(failed.pause_s)
                    continue
            if any(reply.finish != "empty" for reply in replies):
                return replies
            self.usage.failures["empty"] += 1
            worthless = replies
        if worthless:
            return worthless
        tries = f"{self.config.attempts} tries"
        raise EndpointError(f"{failure} (gave up after {tries})", failure.reason)

    def _check_budget(self) -> None:
        budget = self.config.token_budget
        if budget is not None and self.usage.tokens >= budget:
            raise BudgetError(
                f"{self.name}: {self.usage.tokens} tokens used of a budget of {budget} (token_budget); "
                "what was done is stored: raise it and run the same command to go on"
            )

    async def _send(self, body: dict[str, Any], pictures: int) -> bytes:
        """One HTTP request and the body of its answer. Raises _Failed."""
        import openai

        self.usage.requests += 1
        self.usage.images += pictures
        try:
            async with asyncio.timeout(self.config.timeout_s):
                extra = self.config.extra_body or None
                asking = self._connected().chat.completions.with_streaming_response
                async with asking.create(**body, extra_body=extra) as response:
                    return await _body(response)
        except (TimeoutError, openai.APITimeoutError):
            limits = f"{self.config.timeout_s:g} s (connect {self.config.connect_timeout_s:g} s)"
            raise self._failed(f"no answer within {limits}", "timeout", again=True) from None
        except _Status as error:
            raise self._status(error) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            raise self._failed(f"cannot be reached: {cause}", "network", again=True) from None
        except (openai.APIError, ValueError) as error:
            raise self._failed(f"the answer cannot be read: {error}", "http", again=True) from None

    def _status(self, error: _Status) -> _Failed:
        """What an HTTP error status means."""
        status = error.status
        text = f"HTTP {status}: {error.text[:500]}"
        if status == 429 and "insufficient_quota" not in error.text:
            return self._failed(text, "rate_limit", again=True, pause_s=error.pause_s)
        if status in RETRY_STATUS and status != 429:
            return self._failed(text, "http", again=True, pause_s=error.pause_s)
        if status in (401, 403):
            text += f"; the key is read from the environment variable {self.config.api_key_env}"
        if status == 404:
            text += f"; is {self.config.name!r} the name the server serves, and does base_url end in /v1?"
        return self._failed(text, "rate_limit" if status == 429 else "http", again=False)

    def _failed(self, text: str, reason: str, *, again: bool, pause_s: float = 0.0) -> _Failed:
        where = f"{self.name} at {self.config.base_url}: {text}"
        return _Failed(EndpointError(redact(where, self._key), reason), again, pause_s)

    def _connected(self) -> AsyncOpenAI:
        if self._client is None:
            import openai

            limits = openai.Timeout(self.config.timeout_s, connect=self.config.connect_timeout_s)
            client = openai.DefaultAsyncHttpxClient(event_hooks={"response": [_refuse]})
            self._client = openai.AsyncOpenAI(
                api_key=self._key, base_url=self.config.base_url, max_retries=0, timeout=limits, http_client=client
            )
        return self._client

    def _read(self, answer: bytes) -> list[Reply]:
        """The replies of an answer; counts usage. Raises _Failed for what is no answer."""
        from rmsweb.completions import Unreadable, read_answer

        try:
            found = read_answer(answer, self._key)
        except Unreadable as error:
            raise self._failed(f"the answer cannot be read: {error}", "http", again=True) from None
        self.usage.estimated += found.estimated
        self.usage.prompt_tokens += found.prompt_tokens
        self.usage.completion_tokens += found.completion_tokens
        self.usage.replies += found.choices
        return list(found.replies)


class _Failed(Exception):
    """One try failed: why, whether another may help, and how long everyone should wait."""

    def __init__(self, error: EndpointError, again: bool, pause_s: float) -> None:
        super().__init__(str(error))
        self.error, self.again, self.pause_s = error, again, pause_s


class _Status(Exception):
    """An HTTP error status and the beginning of what stands beside it."""

    def __init__(self, status: int, text: str, pause_s: float) -> None:
        super().__init__(text)
        self.status, self.text, self.pause_s = status, text, pause_s


async def _refuse(response: Any) -> None:
    """Raises _Status for what is no success: the client would read all that stands beside it, which may have no end."""
    if response.is_success or response.has_redirect_location:
        return
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= ERROR_BYTES:
            break
    text = " ".join(bytes(body[:ERROR_BYTES]).decode("utf-8", "replace").split())
    raise _Status(int(response.status_code), text, _retry_after(response.headers))


async def _body(response: Any) -> bytes:
    """The whole body. Raises ValueError for one without end, APIConnectionError where the connection breaks in it."""
    import openai

    body = bytearray()
    try:
        async for chunk in response.iter_bytes():
            body += chunk
            if len(body) > LONGEST_BYTES:
                break
    except Exception as error:  # the HTTP library's own, which goes by several names; openai does the same with it
        raise openai.APIConnectionError(request=response.http_request) from error
    if len(body) > LONGEST_BYTES:
        raise ValueError(f"it is longer than {LONGEST_BYTES >> 20} MB")
    return bytes(body)


def _retry_after(headers: Any) -> float:
    """Seconds the server asks to wait, given as a number or a date; 0 when it does not say."""
    said = headers.get("retry-after", "0")
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(said).timestamp() - time.time()
        except (ValueError, TypeError):
            return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


_LOCAL = "rmsweb.train.local:LocalModel"
_SCRIPT = "rmsweb.testing:ScriptModel"
"""Looked up by name: both lie above this module, and the first loads torch."""


def build_model(config: ModelConfig, images: Mapping[str, bytes], *, max_images: int | None = None) -> ChatModel:
    """The model a config names. Raises ConfigError; MissingPartError where a checkpoint's packages are missing."""
    match config.kind:
        case "endpoint":
            return EndpointModel(config, images, max_images=max_images)
        case "tiny":
            return _look_up(_LOCAL).load("tiny", images, batch=config.batch)  # type: ignore[no-any-return]
        case "local":
            if not config.path:
                raise ConfigError("a model of kind 'local' needs path: the checkpoint's folder")
            return _look_up(_LOCAL).load(config.path, images, batch=config.batch)  # type: ignore[no-any-return]
        case "script":
            if not config.path:
                raise ConfigError("a model of kind 'script' needs path: a file of replies, one JSON line each")
            return _look_up(_SCRIPT).from_file(Path(config.path))  # type: ignore[no-any-return]
        case "explorer":
            raise ConfigError("kind 'explorer' is an agent, not a chat model; choose endpoint, tiny, local or script")


def _look_up(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
