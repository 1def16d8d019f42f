"""HTTP 200 with anything in it: an error that can be acted on, or a reply with what is missing estimated."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from rmsweb import chat
from rmsweb.chat import EndpointModel, Message
from rmsweb.config import ModelConfig
from rmsweb.errors import ConfigError, EndpointError

ASK: list[Message] = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]


@contextmanager
def answering(body: str, kind: str = "application/json", length: int = 0, status: int = 200) -> Iterator[str]:
    """A server that answers every request with the same body; `length`: what it says of it, where that is a lie.

    With another `status` the body is repeated without end.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-type", kind)
            if length:
                self.send_header("content-length", str(length))
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(body.encode())
                while status != 200:
                    self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            return None

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def completion(**changes: Any) -> str:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello there"}}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return json.dumps({**body, "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, **changes})


def choice(**message: Any) -> list[Any]:
    return [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}]


async def ask(body: str, kind: str = "application/json") -> tuple[str, EndpointModel]:
    with answering(body, kind) as url:
        model = EndpointModel(ModelConfig(base_url=url, name="m", attempts=1), {})
        try:
            return (await model.complete(ASK))[0].text, model
        finally:
            await model.close()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("<html>Please log in</html>", "text/html"),
        ("busy", "text/plain"),
        ("{", "application/json"),
        ("null", "application/json"),
        ("[]", "application/json"),
        ("[" * 100000, "application/json"),
        ('{"error": {"message": "overloaded"}}', "application/json"),
        (completion(choices="abc"), "application/json"),
        (completion(choices=[{"index": 0, "finish_reason": "stop", "message": None}]), "application/json"),
        (completion(choices=[{"index": 0, "finish_reason": "stop"}]), "application/json"),
        (completion(choices=choice(content=5)), "application/json"),
        (completion(choices=choice(content={"a": 1})), "application/json"),
        (completion(choices=choice(content=[5])), "application/json"),
    ],
)
async def test_what_is_no_completion_is_an_error_of_the_endpoint(body: str, kind: str) -> None:
    with pytest.raises(EndpointError, match="cannot be read"):
        await ask(body, kind)


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": None, "completion_tokens": None}, {"completion_tokens": "x"}]
)
async def test_a_good_reply_without_counts_is_kept_and_the_counts_are_estimated(usage: Any) -> None:
    text, model = await ask(completion(usage=usage))
    assert text == "hello there" and model.usage.estimated == 3 and model.usage.completion_tokens == 3


async def test_fractions_parts_and_odd_ids_are_read() -> None:
    text, model = await ask(completion(usage={"prompt_tokens": 2.5, "completion_tokens": 1.2, "total_tokens": 3}))
    assert text == "hello there" and model.usage.completion_tokens == 1 and model.usage.estimated == 0
    assert (await ask(completion(choices=choice(content=[{"type": "text", "text": "a"}, {"text": "b"}]))))[0] == "ab"
    thought = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}]
    assert (await ask(completion(choices=choice(content=thought))))[0] == "a"
    odd = [{**choice(content="c")[0], "token_ids": "abc"}]
    assert (await ask(completion(choices=odd)))[0] == "c"


async def test_odd_calls_and_logprobs_beside_a_good_reply() -> None:
    calls = [
        {"id": "1", "type": "function", "function": {"name": "computer_use", "arguments": {"action": "wait"}}},
        {"id": "2", "type": "function", "function": {"arguments": "{}"}},
        {"id": "3", "type": "function"},
        None,
    ]
    text, _ = await ask(completion(choices=choice(content=None, tool_calls=calls)))
    assert text == '<tool_call>\n{"name": "computer_use", "arguments": {"action": "wait"}}\n</tool_call>'
    for odd in ("abc", [], {"content": "abc"}, {"content": [None]}, {"content": [{"logprob": "x"}]}):
        assert (await ask(completion(choices=[{**choice(content="c")[0], "logprobs": odd}])))[0] == "c"


async def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "LONGEST_BYTES", 1 << 20)
    with pytest.raises(EndpointError, match="cannot be read: it is longer than 1 MB"):
        await ask(completion() + " " * (3 << 20))


@pytest.mark.parametrize(("status", "reason"), [(401, "http"), (429, "rate_limit"), (500, "http"), (300, "http")])
async def test_an_error_without_end_is_read_to_its_beginning_only(status: int, reason: str) -> None:
    with answering("no, " * 1000, status=status) as url:
        model = EndpointModel(ModelConfig(base_url=url, name="m", attempts=1, timeout_s=20), {})
        with pytest.raises(EndpointError, match=f"HTTP {status}: no, no") as caught:
            await model.complete(ASK)
        await model.close()
    assert caught.value.reason == reason and len(str(caught.value)) < 1000


async def test_a_connection_that_breaks_within_an_answer_is_the_networks() -> None:
    with answering(completion(), length=10**6) as url:
        model = EndpointModel(ModelConfig(base_url=url, name="m", attempts=1), {})
        with pytest.raises(EndpointError, match="cannot be reached") as caught:
            await model.complete(ASK)
        await model.close()
    assert caught.value.reason == "network"


async def test_a_key_is_not_carried_on_and_a_broken_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key-4711")
    assert "4711" not in (await ask(completion(choices=choice(content="you sent planted-key-4711"))))[0]
    monkeypatch.setenv("OPENAI_API_KEY", "two\nlines")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        EndpointModel(ModelConfig(), {})
