"""Endpoints against a real server on loopback: every way in which they fail is told apart, bounded and counted."""

import asyncio
import time
from pathlib import Path

import pytest

from rmsweb.chat import EndpointModel, Message, build_model
from rmsweb.config import ModelConfig
from rmsweb.errors import BudgetError, ConfigError, DataError, EndpointError
from rmsweb.redact import redact
from rmsweb.testing import Odd, ScriptModel, ScriptServer

ASK: list[Message] = [{"role": "user", "content": [{"type": "text", "text": "what now?"}]}]
PNG = b"\x89PNG fake"
LOOK: list[Message] = [
    {"role": "system", "content": [{"type": "text", "text": "look"}]},
    {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image", "image": "a" * 64}]},
]


def model(server: ScriptServer, images: dict[str, bytes] | None = None, **settings: object) -> EndpointModel:
    config = ModelConfig.model_validate(
        {"base_url": server.base_url, "name": "script", "timeout_s": 5, "attempts": 3, **settings}
    )
    return EndpointModel(config, images or {}, max_images=4)


async def test_text_and_usage() -> None:
    with ScriptServer(["hello there"]) as server:
        asked = model(server)
        replies = await asked.complete(ASK, n=3, temperature=0.7, seed=5)
        await asked.close()
    assert [reply.text for reply in replies] == ["hello there"] * 3
    assert replies[0].finish == "stop" and replies[0].source == "content"
    assert asked.usage.requests == 1 and asked.usage.replies == 3 and asked.usage.completion_tokens == 6
    assert server.requests[0].body["seed"] == 5 and server.requests[0].body["n"] == 3


async def test_a_server_with_one_choice_is_asked_for_each() -> None:
    with ScriptServer(["a", "b", "c"], choices=1) as server:
        asked = model(server)
        replies = await asked.complete(ASK, n=3, temperature=1.0, seed=1)
        await asked.close()
    assert [reply.text for reply in replies] == ["a", "b", "c"]
    assert [record.body["seed"] for record in server.requests] == [1, 2, 3]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_the_whole_answer_stands_in_the_reasoning(name: str) -> None:
    with ScriptServer([Odd(content=None, reasoning="think CALL", reasoning_field=name)]) as server:
        asked = model(server)
        reply = (await asked.complete(ASK))[0]
        await asked.close()
    assert (reply.text, reply.source, reply.finish) == ("think CALL", name, "stop")


async def test_structured_calls_are_read() -> None:
    with ScriptServer([Odd(tool_call='{"action": "wait", "time": 2}', finish="tool_calls")]) as server:
        asked = model(server)
        reply = (await asked.complete(ASK))[0]
        await asked.close()
    assert reply.source == "tool_calls"
    assert reply.text.startswith('<tool_call>\n{"name": "computer_use", "arguments": {"action": "wait"')


@pytest.mark.parametrize(
    ("answer", "finish"),
    [
        (Odd(content="cut of", finish="length"), "length"),
        (Odd(content="", refusal="I will not"), "refused"),
        (Odd(content=None, finish="content_filter"), "refused"),
        (Odd(content=""), "empty"),
        (Odd(no_choices=True), "empty"),
    ],
)
async def test_ends_are_told_apart(answer: Odd, finish: str) -> None:
    with ScriptServer([answer]) as server:
        asked = model(server)
        reply = (await asked.complete(ASK))[0]
        await asked.close()
    assert reply.finish == finish
    assert len(server.requests) == (3 if finish == "empty" else 1)


async def test_an_empty_reply_may_be_followed_by_a_good_one() -> None:
    with ScriptServer(["", "fine"]) as server:
        asked = model(server)
        reply = (await asked.complete(ASK))[0]
        await asked.close()
    assert reply.text == "fine" and asked.usage.failures == {"empty": 1}


async def test_tries_are_bounded_over_all_workers() -> None:
    with ScriptServer([Odd(status=429, retry_after=0)]) as server:
        asked = model(server, concurrency=2)
        errors = await asyncio.gather(*(asked.complete(ASK) for _ in range(4)), return_exceptions=True)
        await asked.close()
    assert [error.reason for error in errors if isinstance(error, EndpointError)] == ["rate_limit"] * 4
    assert len(server.requests) == 12 == asked.usage.requests
    assert "3 tries" in str(errors[0])


async def test_a_busy_server_recovers_and_all_wait_as_it_asks() -> None:
    with ScriptServer([Odd(status=429, retry_after=0.4), Odd(status=500), "ok"]) as server:
        asked = model(server)
        reply = (await asked.complete(ASK))[0]
        await asked.close()
    assert reply.text == "ok"
    assert server.requests[1].at - server.requests[0].at >= 0.4
    assert asked.usage.failures == {"rate_limit": 1, "http": 1}


async def test_a_server_that_never_answers() -> None:
    with ScriptServer([Odd(hang_s=30)]) as server:
        asked = model(server, timeout_s=0.3, attempts=2)
        started = time.monotonic()
        with pytest.raises(EndpointError, match=r"no answer within 0\.3 s") as caught:
            await asked.complete(ASK)
        await asked.close()
    assert caught.value.reason == "timeout" and time.monotonic() - started < 5


async def test_nobody_listens() -> None:
    asked = EndpointModel(ModelConfig(base_url="http://127.0.0.1:9/v1", attempts=2), {})
    with pytest.raises(EndpointError, match="cannot be reached") as caught:
        await asked.complete(ASK)
    await asked.close()
    assert caught.value.reason == "network"


async def test_errors_that_no_retry_cures(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "planted-key-0123456789"
    monkeypatch.setenv("SOME_KEY", key)
    echo = f'{{"error": {{"message": "bad key, headers were Authorization: Bearer {key} x-api-key={key}"}}}}'
    with ScriptServer([Odd(status=401, body=echo)]) as server:
        asked = model(server, api_key_env="SOME_KEY")
        with pytest.raises(EndpointError) as caught:
            await asked.complete(ASK)
        await asked.close()
    assert server.requests[0].authorization == f"Bearer {key}" and len(server.requests) == 1
    assert key not in str(caught.value) and "SOME_KEY" in str(caught.value) and "401" in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


async def test_budget_is_a_hard_stop() -> None:
    with ScriptServer(["one two three four five six"]) as server:
        asked = model(server, token_budget=12)
        await asked.complete(ASK)
        await asked.complete(ASK)
        with pytest.raises(BudgetError, match="token_budget"):
            await asked.complete(ASK)
        await asked.close()
    assert len(server.requests) == 2


async def test_tokens_of_a_silent_server_are_estimated() -> None:
    with ScriptServer(["x" * 40], usage=False) as server:
        asked = model(server)
        await asked.complete(ASK)
        await asked.close()
    assert asked.usage.completion_tokens == asked.usage.estimated == 10


async def test_pictures_travel_as_they_are_and_never_too_many() -> None:
    with ScriptServer(["ok"]) as server:
        asked = model(server, {"a" * 64: PNG})
        await asked.complete(LOOK)
        with pytest.raises(ConfigError, match="5 pictures"):
            await asked.complete([{"role": "user", "content": [{"type": "image", "image": "a" * 64}] * 5}])
        with pytest.raises(DataError, match="not in the image store"):
            await asked.complete([{"role": "user", "content": [{"type": "image", "image": "b" * 64}]}])
        await asked.close()
    assert list(server.images.values()) == [PNG] and server.requests[0].pictures == 1
    assert server.requests[0].body["messages"][0] == {"role": "system", "content": "look"}
    assert asked.usage.images == 1 and len(server.requests) == 1


async def test_token_ids_and_logprobs_travel_when_given() -> None:
    with ScriptServer([Odd(content="a b", logprobs=(-0.5, -0.25), token_ids=(7, 8))]) as server:
        asked = model(server, extra_body={"return_token_ids": True})
        reply = (await asked.complete(ASK))[0]
        await asked.close()
    assert reply.token_ids == (7, 8) and reply.logprobs == (-0.5, -0.25) and reply.completion_tokens == 2
    assert server.requests[0].body["return_token_ids"] is True


async def test_any_chat_model_can_be_served() -> None:
    images: dict[str, bytes] = {}
    inner = ScriptModel(["first", "second"])
    with ScriptServer(inner, images=images) as server:
        asked = model(server, {"a" * 64: PNG})
        assert (await asked.complete(LOOK))[0].text == "first"
        assert (await asked.complete(ASK))[0].text == "second"
        await asked.close()
    assert images[inner.calls[0][1]["content"][1]["image"]] == PNG


async def test_build_model(tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text('"one"\n{"text": "two", "finish": "length"}\n')
    built = build_model(ModelConfig(kind="script", path=str(script)), {})
    replies = [(await built.complete(ASK))[0] for _ in range(3)]
    assert [(r.text, r.finish) for r in replies] == [("one", "stop"), ("two", "length"), ("two", "length")]
    script.write_text("nonsense\n")
    with pytest.raises(DataError, match=r"replies\.jsonl:1: "):
        build_model(ModelConfig(kind="script", path=str(script)), {})
    assert isinstance(build_model(ModelConfig(), {}), EndpointModel)
    for config in (ModelConfig(kind="explorer"), ModelConfig(kind="script"), ModelConfig(kind="local")):
        with pytest.raises(ConfigError):
            build_model(config, {})


async def test_a_script_that_is_used_up_says_so() -> None:
    asked = ScriptModel(["only"])
    await asked.complete(ASK)
    with pytest.raises(EndpointError, match="used up"):
        await asked.complete(ASK)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer s3cr3t-value",
        '{"authorization": "s3cr3t-value"}',
        "api_key=s3cr3t-value&x=1",
        '"api-key": "s3cr3t-value"',
        "http://user:s3cr3t-value@host/",
        "key sk-s3cr3t-value-0000",
        "session=eyJhbGciOi12.s3cr3t-value-00.sig",
        "id AIza" + "s3cr3t" * 5 + "-s3cr",
        "the s3cr3t-value itself",
    ],
)
def test_secrets_are_taken_out(text: str) -> None:
    assert "s3cr3t" not in redact(text, "s3cr3t-value")
    if "itself" not in text:
        assert "s3cr3t" not in redact(text)


def test_ordinary_text_stays() -> None:
    for text in ("HTTP 500: none of the tokens fit", "secretary", "http://127.0.0.1:80/a", "token_budget 5"):
        assert redact(text, "none") == text
