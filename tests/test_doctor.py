"""The doctor against real servers that behave and misbehave, and against this machine."""

import json
from datetime import date
from pathlib import Path

import pytest

from rmsweb.bench.judges import names, plain_name
from rmsweb.bench.judges.known import KNOWN
from rmsweb.chat import Message
from rmsweb.config import (
    BrowserConfig,
    CollectConfig,
    Config,
    EvalConfig,
    JudgeConfig,
    ModelConfig,
    ProfileConfig,
    SuiteConfig,
)
from rmsweb.doctor import (
    Check,
    browser_check,
    check_all,
    disk_check,
    endpoint_checks,
    endpoints,
    judge_check,
    judge_endpoint_checks,
    show,
    tasks_check,
)
from rmsweb.testing import Odd, ScriptModel, ScriptServer

CALL = '<tool_call>\n{"name":"computer_use","arguments":{"action":"left_click","coordinate":[500,500]}}\n</tool_call>'
SITES = SuiteConfig()
SMALL = ProfileConfig(viewport=(320, 224), images=1)


def by_name(rows: list[Check]) -> dict[str, Check]:
    return {row.name: row for row in rows}


def model(server: ScriptServer, name: str = "m") -> ModelConfig:
    return ModelConfig(base_url=server.base_url, name=name, timeout_s=5)


def judging(server: ScriptServer, protocol: str, **more: int) -> Config:
    judge = JudgeConfig(protocol=protocol, model=model(server, "gpt-4o"), **more)
    return Config(profile=SMALL, judge=judge, eval=EvalConfig(max_steps=30))


async def test_a_good_endpoint() -> None:
    with ScriptServer([CALL]) as server:
        rows = by_name(await endpoint_checks(model(server), SMALL))
    assert rows["endpoint"].ok and rows["pictures"].ok and rows["pictures"].detail == "takes 2 in one request"
    assert rows["reply"].ok and rows["reply"].detail == "is read as left_click"
    assert rows["thinking"].detail == "the text comes in 'content'; no think block in the text"
    assert max(record.pictures for record in server.requests) == 2


async def test_a_server_that_takes_one_picture() -> None:
    with ScriptServer([CALL], max_images=1) as server:
        rows = by_name(await endpoint_checks(model(server), SMALL))
    assert rows["pictures"].ok is False
    assert (
        "At most 1 image" in rows["pictures"].detail
        and "--limit-mm-per-prompt '{\"image\": 2}'" in rows["pictures"].cure
    )


async def test_how_thinking_is_split() -> None:
    with ScriptServer([Odd(content=None, reasoning=f"hm\n{CALL}", reasoning_field="reasoning")]) as server:
        rows = by_name(await endpoint_checks(model(server), SMALL))
    assert "comes in 'reasoning'" in rows["thinking"].detail
    assert "read_from:reasoning" in rows["reply"].detail
    with ScriptServer([f"hm</think>{CALL}"]) as server:
        rows = by_name(await endpoint_checks(model(server), SMALL))
    assert "a think block stands in the text" in rows["thinking"].detail and rows["reply"].ok


async def test_replies_that_cannot_be_read() -> None:
    with ScriptServer([Odd(content="<tool_call>{", finish="length")]) as server:
        row = by_name(await endpoint_checks(model(server), SMALL))["reply"]
    assert row.ok is False and "truncated" in row.detail and "max_new_tokens" in row.cure


async def test_a_hidden_system_prompt_and_resized_pictures_are_seen() -> None:
    def cost(messages: list[Message], hidden: int) -> int:
        total = 12
        for message in messages:
            total += 6 if message["role"] == "system" else 0
            total += sum(22 if part["type"] == "image" else 0 for part in message["content"])
        return total + (hidden if messages[0]["role"] != "system" else 0)

    for hidden, ok in ((0, True), (6, False)):

        class Counting(ScriptModel):
            async def complete(self, messages, **how):  # type: ignore[no-untyped-def]
                replies = await super().complete(messages, **how)
                from dataclasses import replace

                return [replace(reply, prompt_tokens=cost(messages, hidden)) for reply in replies]  # noqa: B023

        with ScriptServer(Counting([CALL], repeat=True)) as server:
            rows = by_name(await endpoint_checks(model(server, "Qwen/Qwen3-VL-8B-Instruct"), SMALL))
            other = by_name(await endpoint_checks(model(server, "gpt-4o"), SMALL))
        assert rows["template"].ok is ok
        assert rows["picture tokens"].ok is None and "would need 72" in rows["picture tokens"].detail
        assert other["picture tokens"].detail == "22 each", "a model that is no Qwen has a count of its own"


async def test_nobody_answers() -> None:
    config = ModelConfig(base_url="http://127.0.0.1:9/v1", attempts=4)
    rows = await endpoint_checks(config, SMALL)
    assert [row.name for row in rows] == ["endpoint"] and rows[0].ok is False and "cannot be reached" in rows[0].detail
    assert rows[0].cure


OWN = ["rmsweb/chat", *(name for name in names() if name.startswith("rmsweb/") and "rubric" not in name)]
MOST = {"chat": 8, "webvoyager-original": 15, "autonomous": 1, "agenttrek": 1}
"""Pictures of one question about an attempt of 30 steps; the others send 30 (or 31: a page behind the last act)."""


@pytest.mark.parametrize("protocol", OWN)
async def test_a_judge_is_asked_as_a_judge_and_read_by_its_protocol(protocol: str) -> None:
    known = KNOWN[plain_name(protocol)]
    for said, ok, what in ((known.success, True, "success"), (known.failure, None, "failure"), ("Fine.", False, "")):
        with ScriptServer([said]) as server:
            rows = by_name(await judge_endpoint_checks(judging(server, protocol)))
        asked = json.dumps([record.body["messages"] for record in server.requests])
        assert "You are a web agent" not in asked and "Click the button named OK" in asked
        assert not {"picture tokens", "template"} & rows.keys() and rows["judge endpoint"].ok
        most = MOST.get(protocol.removeprefix("rmsweb/"), 30)
        assert max(record.pictures for record in server.requests) in (most, most + 1 if most == 30 else most)
        if what:
            assert rows["judge reply"].ok is ok and f"is read as {what}" in rows["judge reply"].detail
            assert "the text comes in 'content'; no think block" in rows["judge reply"].detail
        else:
            assert rows["judge reply"].ok is False and "no verdict (no_verdict)" in rows["judge reply"].detail


async def test_a_judge_that_takes_too_few_pictures_or_does_not_answer() -> None:
    with ScriptServer(["Verdict: SUCCESS"], max_images=10) as server:
        row = by_name(await judge_endpoint_checks(judging(server, "rmsweb/webvoyager-fara")))["judge pictures"]
        assert row.ok is False and "At most 10 image" in row.detail and "judge.images" in row.cure
        fewer = by_name(await judge_endpoint_checks(judging(server, "rmsweb/webvoyager-fara", images=10)))
        assert fewer["judge pictures"].detail.startswith("takes 10 in") and fewer["judge reply"].ok
    with ScriptServer(["I see."]) as server:
        rows = by_name(await judge_endpoint_checks(judging(server, "rmsweb/rubric-both")))
        assert rows["judge pictures"].detail.startswith("takes 1 ") and rows["judge reply"].ok is None
        rows = by_name(await judge_endpoint_checks(judging(server, "webvoyager/fara")))
        assert list(rows) == ["judge endpoint"], "its wording is missing: `judge_check` says so"
    with ScriptServer([Odd(content="")]) as server:
        rows = by_name(await judge_endpoint_checks(judging(server, "rmsweb/webvoyager-fara")))
        assert list(rows) == ["judge endpoint"] and rows["judge endpoint"].ok is False
    with ScriptServer(["yes", Odd(content="")]) as server:
        row = by_name(await judge_endpoint_checks(judging(server, "rmsweb/webvoyager-fara")))["judge pictures"]
        assert row.ok is False and "answered with nothing in it" in row.detail
    nobody = JudgeConfig(protocol="rmsweb/chat", model=ModelConfig(base_url="http://127.0.0.1:9/v1"))
    found = await judge_endpoint_checks(Config(judge=nobody))
    assert [(row.name, row.ok) for row in found] == [("judge endpoint", False)] and found[0].cure


def test_only_named_endpoints_are_asked() -> None:
    assert endpoints(Config()) == []
    named = ModelConfig(name="a")
    collect = CollectConfig(reflector="chat", reflector_model=ModelConfig(name="c"))
    config = Config(policy=named, collect=collect, judge=JudgeConfig(protocol="rmsweb/chat"))
    assert [(one.model.name, one.acts) for one in endpoints(config)] == [("a", True), ("c", False)]
    assert endpoints(Config(policy=ModelConfig(kind="tiny"))) == []


async def test_who_writes_reflections_is_not_asked_for_an_action() -> None:
    with ScriptServer(["I would look again."]) as server:
        rows = by_name(await endpoint_checks(model(server), SMALL, acts=False))
    assert "reply" not in rows and all(row.ok is not False for row in rows.values() if row.name != "template")


def test_the_task_file_and_its_dates(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    row = {
        "web_name": "Booking",
        "id": "Booking--5",
        "ques": "A hotel for Jan 1 to Jan 4, 2024.",
        "web": "https://b.test/",
    }
    path.write_text(json.dumps(row))
    config = Config(suite=SuiteConfig(name="file", path=str(path)))
    passed = tasks_check(config, date(2024, 1, 2))
    assert passed.ok is None and "1 have dates before 2024-01-02: Booking--5" in passed.detail and passed.cure
    assert passed.detail.startswith("webvoyager ")
    open_still = tasks_check(config, date(2024, 1, 1))
    assert open_still.ok is True and "no task has a date" in open_still.detail
    answers = {"Booking": {"notice": "", "answers": [{"id": 5, "type": "possible", "ans": "x"}]}}
    (tmp_path / "reference_answer.json").write_text(json.dumps(answers))
    for day in (1, 2):
        detail = tasks_check(config, date(2024, 1, day)).detail
        assert "for 1 of 1 tasks (0 golden, 1 possible); 1 answer another text" in detail and "Booking--5" in detail
    path.write_text("{}")
    assert tasks_check(config, date(2024, 1, 1)).ok is False
    path.unlink()
    assert "rmsweb tasks get NAME -o data" in tasks_check(config, date(2024, 1, 1)).cure


def test_a_judge_that_cannot_be_built_is_said(tmp_path: Path) -> None:
    def found(protocol: str, suite: SuiteConfig = SITES) -> Check | None:
        return judge_check(Config(suite=suite, judge=JudgeConfig(protocol=protocol, pack=pack)))

    pack = ""
    assert found("rules") is None
    for protocol, what in (
        ("webvoyager", "is unknown; choose"),
        ("webvoyager/original", "set judge.pack to a checkout"),
        ("webjudge/om2w", "set judge.pack to a checkout"),
    ):
        row = found(protocol)
        assert row is not None and row.ok is False and what in row.detail
    row = found("rules", SuiteConfig(name="file", path="tasks.jsonl"))
    assert row is not None and row.ok is False and "judge.protocol" in row.cure
    row = found("rmsweb/webjudge-om2w")
    assert row is not None and row.ok and row.detail.startswith("rmsweb/webjudge-om2w:Qwen")
    pack = str(tmp_path)
    row = found("webvoyager/original")
    assert row is not None and row.ok is False, "a folder without the pack's file"


async def test_without_a_browser_the_cure_is_named() -> None:
    row = browser_check(Config(browser=BrowserConfig(executable="/nowhere/chromium")))
    assert row.ok is False and "browser.executable" in row.cure
    row = browser_check(Config(browser=BrowserConfig(executable="/bin/false")))
    assert row.ok is False and "ends with 1" in row.detail


def test_disk(tmp_path: Path) -> None:
    assert "GB free" in disk_check(tmp_path).detail


@pytest.mark.browser
async def test_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    rows = by_name(await check_all(Config()))
    assert rows["browser"].ok and "Chrom" in rows["browser"].detail
    assert rows["endpoint"].ok is None


def test_rows_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code = show(Config(browser=BrowserConfig(executable="/nowhere/chromium")), probe=False)
    out = capsys.readouterr().out
    assert code == 1 and out.startswith("NO  browser: no Chromium found\n    -> ") and "\n--  endpoint:" in out
