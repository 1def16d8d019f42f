"""A judge's whole name: what changes a reply is in it, and names from before the sampling was recorded say so."""

from typing import Any

import pytest

from rmsweb.bench.judges import build, names
from rmsweb.bench.judges.naming import NOT_RECORDED, judge_parts, said_sampling, split_sampling
from rmsweb.config import JudgeConfig
from rmsweb.errors import ConfigError

OURS = ["rmsweb/chat", *(name for name in names() if name.startswith("rmsweb/"))]


def name(protocol: str, **config: Any) -> str:
    settings = JudgeConfig.model_validate({"protocol": protocol, **config})
    return build(settings, None, {}, model_name="o4-mini").name


@pytest.mark.parametrize("protocol", OURS)
def test_what_changes_a_reply_is_in_the_name_and_what_does_not_is_not(protocol: str) -> None:
    plain = name(protocol)
    assert judge_parts(plain) == (protocol, "o4-mini") and said_sampling(plain).endswith("tokens, 3 attempts")
    extra = {"extra_body": {"top_k": 1, "seed": 3}}
    turned = {"extra_body": {"seed": 3, "top_k": 1}}
    reasoning = {"parameters": "reasoning"}
    others = [name(protocol, model=model) for model in (extra, reasoning)] + [name(protocol, attempts=1)]
    assert len({plain, *others}) == 4
    assert name(protocol, model=extra) == name(protocol, model=turned) != name(protocol, model={"extra_body": {"a": 1}})
    for other in others:
        assert split_sampling(other)[0] == split_sampling(plain)[0] and said_sampling(other) != said_sampling(plain)
    reached = {"base_url": "http://127.0.0.1:1/v1", "timeout_s": 5, "attempts": 1, "concurrency": 1}
    assert name(protocol, model=reached) == plain


@pytest.mark.parametrize("protocol", ["rmsweb/chat", "rmsweb/rubric-process"])
def test_a_temperature_that_the_config_sets_is_in_the_name(protocol: str) -> None:
    assert "temperature 0.7" in said_sampling(name(protocol, model={"temperature": 0.7}))


@pytest.mark.parametrize("protocol", ["rmsweb/webjudge-om2w", "rmsweb/webvoyager-fara"])
def test_a_temperature_that_the_protocol_fixes_is_not_that_of_the_config(protocol: str) -> None:
    fixed = "temperature 1, 4" if "fara" in protocol else "temperature 0, 0.7 when asked again"
    assert said_sampling(name(protocol)).startswith(fixed)
    with pytest.raises(ConfigError, match=r"asks at temperature [01], whatever .* it is 0.7: leave it out"):
        name(protocol, model={"temperature": 0.7})


def test_reasoning_endpoints_are_told_no_temperature() -> None:
    said = said_sampling(name("rmsweb/webjudge-om2w", model={"parameters": "reasoning"}))
    assert said == "reasoning parameters, 8192 tokens, 3 attempts"


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        ("rmsweb/chat:m:prompt=1:images=8", NOT_RECORDED),
        ("webvoyager/molmoweb:gpt-4o", NOT_RECORDED),
        ("imported:scores/x:temperature=0", NOT_RECORDED),
        ("rules:sites", ""),
        ("rules", ""),
        ("", ""),
        ("a:h:8/m:temperature=0.5:tokens=9:attempts=2:extra=0", "temperature 0.5, 9 tokens, 2 attempts, extra_body 0"),
    ],
)  # fmt: skip
def test_sampling_in_words(judge: str, said: str) -> None:
    assert said_sampling(judge) == said
    rest, found = split_sampling(judge)
    assert (rest == judge) is (not found) and judge.startswith(rest)
