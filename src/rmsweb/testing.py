"""Models with scripted replies, in this process and behind a real HTTP server on loopback.

Product code, not mocks: a user tries a recipe, a parser or a judge against them before paying for an endpoint. The
server speaks the part of the OpenAI protocol that rmsweb uses and can misbehave on request. Never listens beyond
127.0.0.1.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rmsweb.chat import ChatModel, Message, Part, Reply
from rmsweb.errors import DataError, EndpointError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

Scripted = str | Reply
Answering = Callable[[list[Message]], Scripted]


class ScriptModel:
    """A ChatModel that says what it was told to say, in order; the messages it got are in `calls`."""

    def __init__(self, replies: Iterable[Scripted] | Answering, name: str = "script", *, repeat: bool = False) -> None:
        """`replies`: in order, or a function of the messages. `repeat`: the last one is said again and again."""
        self.name = name
        self.calls: list[list[Message]] = []
        self.seeds: list[int | None] = []
        self._answering = replies if callable(replies) else None
        self._left = [] if callable(replies) else list(replies)
        self._repeat = repeat

    @classmethod
    def from_file(cls, path: Path) -> ScriptModel:
        """One JSON line per reply: a string, or an object with the fields of Reply. The last is repeated."""
        replies: list[Scripted] = []
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", path) from None
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
                replies.append(value if isinstance(value, str) else Reply(**value))
            except (ValueError, TypeError) as error:
                message = f"neither a JSON string nor an object with the fields of a Reply: {error}"
                raise DataError(message, path, number) from None
        return cls(replies, name=f"script:{path.name}", repeat=True)

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
        """The next `n` replies. Raises EndpointError when the script is used up."""
        self.calls.append(messages)
        self.seeds.append(seed)
        return [self._next(messages) for _ in range(n)]

    async def close(self) -> None:
        """Nothing to let go of."""

    def _next(self, messages: list[Message]) -> Reply:
        if self._answering is not None:
            said = self._answering(messages)
        elif not self._left:
            raise EndpointError(f"{self.name}: the script is used up", "empty")
        else:
            said = self._left[0] if self._repeat and len(self._left) == 1 else self._left.pop(0)
        if isinstance(said, Reply):
            return said
        return Reply(said, completion_tokens=len(said.split()), finish="stop" if said.strip() else "empty")


@dataclass(frozen=True, slots=True)
class Odd:
    """One answer of the server that is not simply text."""

    status: int = 200
    body: str = ""
    """Of an error status."""
    retry_after: float | None = None
    hang_s: float = 0.0
    """Accepts the request and says nothing for so long."""
    content: str | None = None
    reasoning: str = ""
    reasoning_field: str = "reasoning_content"
    finish: str = "stop"
    refusal: str | None = None
    tool_call: str = ""
    """Arguments (JSON text) of a structured call to computer_use."""
    logprobs: tuple[float, ...] = ()
    token_ids: tuple[int, ...] = ()
    no_choices: bool = False


@dataclass(slots=True)
class Recorded:
    """One request as the server got it."""

    body: dict[str, Any]
    authorization: str
    pictures: int = 0
    at: float = field(default_factory=time.monotonic)


class ScriptServer:
    """An OpenAI-compatible server in a thread: `with ScriptServer([...]) as server: ... server.base_url`."""

    def __init__(
        self,
        source: Iterable[str | Odd] | ChatModel,
        *,
        images: MutableMapping[str, bytes] | None = None,
        max_images: int | None = None,
        name: str = "script",
        usage: bool = True,
        choices: int | None = None,
    ) -> None:
        """`source`: answers in order, the last one repeated; or a model to serve.

        `images`: where pictures of requests are put by SHA-256 (the mapping a served model looks them up in).
        `max_images`: a request with more is refused, as vLLM does. `choices`: most choices of one answer. `usage`:
        whether answers say what they cost.
        """
        self._model: ChatModel | None = None
        self._answers: list[str | Odd] = []
        if isinstance(source, Iterable):
            self._answers = list(source)
        else:
            self._model = source
        self.images: MutableMapping[str, bytes] = {} if images is None else images
        self.max_images, self.name, self.usage, self.choices = max_images, name, usage, choices
        self.requests: list[Recorded] = []
        self._lock = threading.Lock()
        self._server: Any = None
        self._thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        """`http://127.0.0.1:PORT/v1`."""
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    def __enter__(self) -> Self:
        import uvicorn

        config = uvicorn.Config(
            self._app(), host="127.0.0.1", port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="script-server", daemon=True)
        self._thread.start()
        deadline = time.monotonic() + 10
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise EndpointError("the script server did not start", "network")
            time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        if self._thread is not None:
            self._thread.join(10)

    def _app(self) -> Starlette:
        from starlette.applications import Starlette
        from starlette.routing import Route

        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/v1/models", self._models),
            ]
        )

    async def _models(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse({"object": "list", "data": [{"id": self.name, "object": "model"}]})

    async def _complete(self, request: Request) -> Response:
        from starlette.responses import JSONResponse, Response

        body = await request.json()
        record = Recorded(body, request.headers.get("authorization", ""))
        messages = self._messages(body["messages"], record)
        with self._lock:
            self.requests.append(record)
        if self.max_images is not None and record.pictures > self.max_images:
            message = f"At most {self.max_images} image(s) may be provided in one prompt."
            return JSONResponse({"error": {"message": message, "type": "BadRequestError", "code": 400}}, 400)
        if self._model is not None:
            return JSONResponse(await self._served(self._model, messages, body))
        with self._lock:
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        odd = answer if isinstance(answer, Odd) else Odd(content=answer)
        if odd.hang_s:
            await asyncio.sleep(odd.hang_s)
        if odd.status != 200:
            headers = {} if odd.retry_after is None else {"retry-after": str(odd.retry_after)}
            text = odd.body or json.dumps({"error": {"message": f"scripted status {odd.status}"}})
            return Response(text, odd.status, headers, media_type="application/json")
        count = min(int(body.get("n") or 1), self.choices or 10**6)
        found = self._envelope([] if odd.no_choices else [_choice(odd, i) for i in range(count)], body)
        return Response(json.dumps(found), media_type="application/json")  # escapes: half a letter can be sent too

    async def _served(self, model: ChatModel, messages: list[Message], body: dict[str, Any]) -> dict[str, Any]:
        replies = await model.complete(
            messages,
            n=int(body.get("n") or 1),
            temperature=float(body.get("temperature") or 0.0),
            top_p=float(body.get("top_p") or 1.0),
            max_tokens=int(body.get("max_tokens") or 512),
            seed=body.get("seed"),
        )
        odds = [
            Odd(
                content=reply.text,
                finish="length" if reply.finish == "length" else "stop",
                logprobs=reply.logprobs or (),
                token_ids=reply.token_ids or (),
            )
            for reply in replies
        ]
        return self._envelope([_choice(odd, i) for i, odd in enumerate(odds)], body, replies)

    def _envelope(
        self, choices: list[dict[str, Any]], body: dict[str, Any], replies: list[Reply] | None = None
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "id": "script",
            "object": "chat.completion",
            "created": 0,
            "model": body.get("model", self.name),
            "choices": choices,
        }
        if self.usage:
            said = sum(len(str(choice["message"].get("content") or "").split()) for choice in choices)
            completion = sum(reply.completion_tokens for reply in replies) if replies else said
            prompt = replies[0].prompt_tokens if replies else len(json.dumps(body["messages"]).split())
            total = prompt + completion
            answer["usage"] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
        return answer

    def _messages(self, wired: list[dict[str, Any]], record: Recorded) -> list[Message]:
        """The request's messages with pictures named; the pictures go to `images`."""
        messages: list[Message] = []
        for message in wired:
            parts: list[Part] = []
            content = message["content"]
            given: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for part in given:
                if part["type"] == "text":
                    parts.append({"type": "text", "text": part["text"]})
                    continue
                data = base64.b64decode(part["image_url"]["url"].partition("base64,")[2])
                sha = hashlib.sha256(data).hexdigest()
                if sha not in self.images:
                    self.images[sha] = data
                parts.append({"type": "image", "image": sha})
                record.pictures += 1
            messages.append({"role": message["role"], "content": parts})
        return messages


def _choice(odd: Odd, index: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": odd.content, "refusal": odd.refusal}
    if odd.reasoning:
        message[odd.reasoning_field] = odd.reasoning
    if odd.tool_call:
        function = {"name": "computer_use", "arguments": odd.tool_call}
        message["tool_calls"] = [{"id": "call", "type": "function", "function": function}]
    choice: dict[str, Any] = {"index": index, "message": message, "finish_reason": odd.finish}
    if odd.logprobs:
        entries: list[dict[str, Any]] = [
            {"token": "", "logprob": value, "bytes": None, "top_logprobs": []} for value in odd.logprobs
        ]
        choice["logprobs"] = {"content": entries, "refusal": None}
    if odd.token_ids:
        choice["token_ids"] = list(odd.token_ids)
    return choice
