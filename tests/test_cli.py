"""The command line: verbs, messages, exit codes; no stage is run here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rmsweb.actions import Answer
from rmsweb.bench.formats.registry import names
from rmsweb.config import Config
from rmsweb.records import Decision, Effect, Observation, Step, Stop, Task, Trajectory, Verdict
from rmsweb.store import PNG_MAGIC, Run

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
    page = " ".join(rmsweb("export", "--help").stdout.split())
    assert all(name in page for name in names(writable=True)), "every format that can be written is named"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("collect", "-o", "x", "-c", "no.toml"), "recipe no.toml does not exist"),
        (("collect", "-o", "x", "--set", "rl.grup=3"), "rl.grup"),
        (("collect", "-o", "x", "--set", "rl.group=one"), "rl.group"),
        (("collect", "-o", "x", "--set", "rl.group"), "key.path=value"),
        (("sft", "-o", "x", "--from", "nowhere"), "nowhere does not exist"),
        (("sft", "-o", "x"), "needs --from SAMPLES"),
        (("eval", "-o", "x"), "needs models"),
        (("report",), "needs --from"),
        (("view", "nowhere"), "nowhere"),
        (("collect", "-o", "x", "--fast"), "No such option"),
        (("collect", "-o", "x", "--set", "sft.epochs=nan"), "sft.epochs"),
        (("collect", "-o", "x", "--set", "sft.batch=0"), "sft.batch"),
        (("collect", "-o", "/dev/null/x"), "Not a directory"),
        (("collect", "-o", "x", "-c", "/tmp"), "Is a directory"),
        (("collect", "-o", "x", "-c", "folder"), "give -c a TOML file"),
        (("collect", "-o", "file"), "choose another -o"),
        (("collect", "-o", "file/x"), "choose another -o"),
        (("demo", "-o", "file"), "file is a file"),
        (("view", "run", "-o", "file"), "file is a file"),
        (("report", "-o", "folder", "--from", "run"), "folder is a folder"),
        (("samples", "-o", "x", "--from", "collect=nowhere"), "nowhere does not exist"),
        (("eval", "-o", "x", "--from", "rl=runs/nope"), "runs/nope does not exist"),
        (("eval", "-o", "x", "--from", "rl=file"), "file is a file"),
        (("eval", "-o", "x", "--from", "rl="), "NAME=DIRECTORY"),
        (("eval", "-o", "x", "--from", "folder"), "folder is no run directory"),
        (("report", "-o", "x", "--from", "folder"), "folder is no run directory"),
        (("collect", "-o", "x", "--set", "collect.retrys=3"), "did you mean `collect.retries`?"),
        (("collect", "-o", "x", "--set", "retries=3"), "did you mean `collect.retries`?"),
        (("collect", "-o", "x", "--set", "rl.anchr.tokens=call"), "did you mean `rl.anchor`?"),
        (("collect", "-o", "x", "--from", "run"), "`rmsweb collect` has no use for --from collect=run"),
        (("pretrain", "-o", "x", "--from", "a=run"), "it takes no --from at all"),
        (
            ("sft", "-o", "x", "--from", "run"),
            "run, which is a run of `collect`; it takes samples (a run of `samples`)",
        ),
        (("mine", "-o", "x", "--from", "rl=run"), "it takes sft (the run of `sft` to roll out), collect ("),
        (("rl", "-o", "x", "--from", "rehearsal=run"), "it takes mine (a run of `mine`), sft ("),
        (("eval", "-o", "x", "--from", "rl=run"), "run holds no checkpoint"),
        (("collect", "-o", "runs"), "runs holds runs (collect) and is none itself"),
    ],
)
def test_a_users_mistake_ends_with_one_message_and_code_2(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for folder in ("run", "runs/collect"):
        with Run.open(tmp_path / folder, "collect", Config()) as run:
            run.file("trajectory").write_text("")
    done = rmsweb(*arguments)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
    assert "nothing is lost" not in done.stderr and not (tmp_path / "x").exists()


def test_parse_prints_one_object() -> None:
    call = '{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [769, 70]}}'
    reply = f"<tool_call>\n{call}\n</tool_call>"
    done = rmsweb("parse", "--viewport", "640x480", text=reply)
    assert done.returncode == 0 and json.loads(done.stdout)["action"]["point"] == {"x": 492, "y": 34}
    done = rmsweb("parse", text="I would click the button.")
    assert done.returncode == 2 and json.loads(done.stdout)["error"] == "no_call"
    assert rmsweb("parse", "--viewport", "wide", text=reply).returncode == 2


def test_a_key_in_place_of_its_name_is_refused_and_not_repeated(tmp_path: Path) -> None:
    for setting in (
        "policy.api_key_env=sk-secret123",
        "policy.base_url=http://u:sk-secret123@host/v1",
        "policy.base_url=http://host/v1?key=sk-secret123",
        "policy.api_key=sk-secret123",
        'policy.extra_body={api_key="sk-secret123"}',
        'judge.model.extra_body={headers=[{Authorization="sk-secret123"}]}',
    ):
        done = rmsweb("collect", "-o", str(tmp_path / "x"), "--set", setting)
        assert done.returncode == 2 and "sk-secret123" not in done.stderr.partition("--set")[0]
        assert "api_key_env" in done.stderr or "u:" in setting
        assert not (tmp_path / "x").exists()


def test_a_run_of_another_verb_is_refused(tmp_path: Path) -> None:
    Run.open(tmp_path / "sft", "sft", Config()).close()
    done = rmsweb("samples", "-o", str(tmp_path / "x"), "--from", f"collect={tmp_path / 'sft'}")
    assert done.returncode == 2 and "is a run of `sft`" in done.stderr


def test_a_corrected_command_goes_on_where_a_mistyped_one_stopped(tmp_path: Path) -> None:
    made, out = tmp_path / "collect", tmp_path / "samples"
    with Run.open(made, "collect", Config()) as run:
        shown = Observation(image=run.images.put(PNG_MAGIC), url="http://127.0.0.1/")
        step = Step(index=0, before=shown, decision=Decision(action=Answer(text="a")), effect=Effect(), after=shown)
        task = Task(id="sites/shop/price/0", suite="sites", goal="g", site="shop", template="price", split="train")
        t = Trajectory(
            id="x/sites/shop/price/0#0", task=task, policy="x", steps=(step,), stop=Stop.ANSWERED, viewport=(320, 224),
            coordinates="compact",
        )  # fmt: skip
        run.append("trajectory", t)
        run.append("verdict", Verdict(success=True, judge="rules", trajectory_id=t.id))
        run.finish()
    done = rmsweb("samples", "-o", str(out), "--from", str(made))
    assert done.returncode == 2 and "profile" in done.stderr and (out / "run.json").exists()
    recipe = Path(__file__).parent.parent / "recipes/demo.toml"
    done = rmsweb("samples", "-c", str(recipe), "-o", str(out), "--from", str(made))
    assert done.returncode == 0 and "samples" in json.loads(done.stdout)
    before = (out / "run.json").read_bytes()
    assert rmsweb("samples", "-c", str(recipe), "-o", str(out), "--from", str(made)).returncode == 0
    assert (out / "run.json").read_bytes() == before, "a re-read added to the wall time"


def test_a_report_takes_a_folder_of_runs_and_names_them_by_their_folders(tmp_path: Path) -> None:
    for folder in ("demo/first", "demo/second", "other/first"):
        Run.open(tmp_path / folder, "eval", Config()).close()
    page = tmp_path / "report.html"
    done = rmsweb("report", "-o", str(page), "--from", str(tmp_path / "demo"), "--from", str(tmp_path / "other"))
    assert done.returncode == 0, done.stderr
    for name in ("demo/first", "second", "other/first"):
        assert f'<td class="w">{name}</td>' in page.read_text()


def test_a_path_that_is_no_utf8_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    command = [sys.executable.encode(), b"-m", b"rmsweb", b"report", b"-o", bytes(tmp_path) + b"/x.html", b"--from"]
    done = subprocess.run([*command, bytes(tmp_path) + b"/r\xff"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "holds bytes that are no UTF-8" in done.stderr
