"""The command line: verbs, messages, exit codes; no stage is run here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rmsweb.config import Config
from rmsweb.store import Run

VERBS = "collect samples sft mine rl eval report view demo parse pretrain doctor".split()


def rmsweb(*arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "rmsweb", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_version_and_verbs() -> None:
    assert rmsweb("--version").stdout.startswith("rmsweb 0.")
    page = rmsweb("--help").stdout
    assert all(f"  {verb} " in page for verb in VERBS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("collect", "-o", "x", "-c", "no.toml"), "recipe no.toml does not exist"),
        (("collect", "-o", "x", "--set", "rl.grup=3"), "rl.grup"),
        (("collect", "-o", "x", "--set", "rl.group=one"), "rl.group"),
        (("collect", "-o", "x", "--set", "rl.group"), "key.path=value"),
        (("sft", "-o", "x", "--from", "nowhere"), "nowhere is no run directory"),
        (("sft", "-o", "x"), "needs --from SAMPLES"),
        (("eval", "-o", "x"), "needs models"),
        (("report",), "needs --from"),
        (("view", "nowhere"), "nowhere"),
        (("collect", "-o", "x", "--fast"), "No such option"),
        (("collect", "-o", "x", "--set", "sft.epochs=nan"), "sft.epochs"),
        (("collect", "-o", "x", "--set", "sft.batch=0"), "sft.batch"),
        (("collect", "-o", "/dev/null/x"), "Not a directory"),
        (("collect", "-o", "x", "-c", "/tmp"), "Is a directory"),
        (("samples", "-o", "x", "--from", "collect=nowhere"), "nowhere is no run directory"),
    ],
)
def test_a_users_mistake_ends_with_one_message_and_code_2(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = rmsweb(*arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr


def test_parse_prints_one_object() -> None:
    call = '{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [769, 70]}}'
    reply = f"<tool_call>\n{call}\n</tool_call>"
    done = rmsweb("parse", "--viewport", "640x480", text=reply)
    assert done.returncode == 0 and json.loads(done.stdout)["action"]["point"] == {"x": 492, "y": 34}
    done = rmsweb("parse", text="I would click the button.")
    assert done.returncode == 2 and json.loads(done.stdout)["error"] == "no_call"
    assert rmsweb("parse", "--viewport", "wide", text=reply).returncode == 2


def test_a_key_in_place_of_its_name_is_refused_and_not_repeated(tmp_path: Path) -> None:
    for setting in ("policy.api_key_env=sk-secret123", "policy.base_url=http://u:sk-secret123@host/v1"):
        done = rmsweb("collect", "-o", str(tmp_path / "x"), "--set", setting)
        assert done.returncode == 2 and "sk-secret123" not in done.stderr.partition("--set")[0]
        assert not (tmp_path / "x").exists()


def test_a_run_of_another_verb_is_refused(tmp_path: Path) -> None:
    Run.open(tmp_path / "sft", "sft", Config()).close()
    done = rmsweb("samples", "-o", str(tmp_path / "x"), "--from", f"collect={tmp_path / 'sft'}")
    assert done.returncode == 2 and "is a run of `sft`" in done.stderr
