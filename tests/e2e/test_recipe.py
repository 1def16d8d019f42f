"""The whole recipe in miniature, through the commands that users type, in a real Chromium; kills included."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rmsweb.records import Group, Trajectory, Verdict
from rmsweb.store import Run

ROOT = Path(__file__).parents[2]
SMALL = (
    "suite.count=10", "mine.tasks=6", "mine.states=24", "mine.probe_states=20", "mine.fix_tries=1", "sft.steps=12",
    "rl.steps=4", "rl.states_per_step=4", "rl.group=4", "eval.tasks=8", "eval.controls=4", "eval.bootstrap=100",
    "collect.retries=1",
)  # fmt: skip

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.slow]


def command(verb: str, out: Path, *more: str) -> list[str]:
    sets = [part for item in SMALL for part in ("--set", item)]
    recipe = str(ROOT / "recipes/demo.toml")
    return [sys.executable, "-m", "rmsweb", verb, "-c", recipe, "-o", str(out), "--quiet", *sets, *more]


def rmsweb(verb: str, out: Path, *more: str) -> None:
    done = subprocess.run(command(verb, out, *more), capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def kill_when(ready: Path, lines: int, verb: str, out: Path, *more: str) -> None:
    """Start the command and kill -9 its whole process group once `ready` holds so many lines."""
    child = subprocess.Popen(command(verb, out, *more), stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + 300
        while child.poll() is None and time.monotonic() < deadline:
            if ready.exists() and ready.read_bytes().count(b"\n") >= lines:
                break
            time.sleep(0.02)
        assert child.poll() is None, "the stage ended before it could be killed"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo")
    rmsweb("demo", out)
    return out


def keys(value: dict[str, Any], path: str) -> Any:
    for part in path.split("."):
        assert part in value, f"summary.json lacks {path}"
        value = value[part]
    return value


def test_the_summary_holds_what_scripts_rely_on(demo: Path) -> None:
    summary = json.loads((demo / "summary.json").read_text())
    for arm in ("plain", "reflect"):
        for name in ("yield_at", "steps_of_kept", "browser_steps_per_success"):
            keys(summary, f"collect.{arm}.{name}")
    for name in ("states", "routine_share", "modes"):
        keys(summary, f"mine.{name}")
    keys(summary, "gate.shares")
    assert keys(summary, "heldout.n") == 8
    for model in ("base", "sft", "sft_continued", "rl"):
        for name in ("success", "interval", "steps_on_solved"):
            keys(summary, f"heldout.{model}.{name}")
    for pair in ("rl_vs_sft", "rl_vs_sft_continued"):
        keys(summary, f"heldout.paired.{pair}")
    for control in ("blank", "swapped"):
        keys(summary, f"heldout.controls.{control}")
    assert summary["observation"] == "screenshot" and summary["wall_s"] > 0
    assert {"torch", "trl", "transformers", "rmsweb"} <= set(summary["versions"])
    assert (demo / "report.html").stat().st_size > 20_000


def test_rl_updates_went_through_the_trainer(demo: Path) -> None:
    run = Run.read_only(demo / "rl")
    groups = run.read("group", Group)
    assert len({group.step for group in groups}) == 4
    assert all(len(group.candidates) == 4 for group in groups)
    assert run.manifest["counts"]["updates"] == 4


def test_the_same_command_again_does_nothing_twice(demo: Path) -> None:
    assert all(p.stat().st_size for p in demo.glob("*.log"))
    # Summary, report, wall times and records: a look at what is finished changes none of them.
    before = {p: p.read_bytes() for p in demo.rglob("*.*") if p.is_file() and p.name != ".lock"}
    started = time.monotonic()
    done = subprocess.run(loud("demo", demo), capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0 and "11 of 11 stages" in done.stdout and "kept" in done.stdout
    assert "warning  rl: RL starts from a weak policy" in done.stdout
    assert time.monotonic() - started < 15
    assert {p: p.read_bytes() for p in demo.rglob("*.*") if p.is_file() and p.name != ".lock"} == before


def loud(verb: str, out: Path, *more: str) -> list[str]:
    return [part for part in command(verb, out, *more) if part != "--quiet"]


def test_a_demo_says_what_a_stage_said(demo: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        loud("demo", demo, "--set", "sft.steps=13"), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2 and "sft.steps: 12 -> 13" in done.stderr
    shutil.copytree(demo, tmp_path / "demo", ignore=shutil.ignore_patterns("eval-rl"))
    broken = {**os.environ, "RMSWEB_CHROMIUM": "/bin/false"}
    # The run's inputs lie elsewhere now, with the same content.
    done = subprocess.run(
        loud("demo", tmp_path / "demo"), capture_output=True, text=True, timeout=120, check=False, env=broken
    )
    assert done.returncode == 2 and "stage eval-rl failed" in done.stderr and "/bin/false does not start" in done.stderr
    # Nothing was recorded: the next try may have other settings.
    rmsweb("eval", tmp_path / "demo/eval-rl", "--from", f"rl={demo / 'rl'}", "--set", "eval.tasks=1")


def stripped(run: Run) -> dict[str, Any]:
    """What must not depend on a kill: every episode's decisions and verdict."""
    verdicts = {v.trajectory_id: v.success for v in run.read("verdict", Verdict)}
    return {
        t.id: ([s.decision.action for s in t.steps], t.answer, t.stop, verdicts[t.id])
        for t in run.read("trajectory", Trajectory)
    }


def test_collect_survives_a_kill(tmp_path: Path) -> None:
    rmsweb("collect", tmp_path / "whole")
    kill_when(tmp_path / "cut/trajectories.jsonl", 4, "collect", tmp_path / "cut")
    rmsweb("collect", tmp_path / "cut")
    whole, cut = Run.read_only(tmp_path / "whole"), Run.read_only(tmp_path / "cut")
    assert len(cut.read("trajectory", Trajectory)) == len(stripped(cut)), "an episode was stored twice"
    assert stripped(cut) == stripped(whole)


def test_rl_survives_a_kill(demo: Path, tmp_path: Path) -> None:
    given = [part for name in ("mine", "sft", "samples") for part in ("--from", str(demo / name))]
    kill_when(tmp_path / "cut/metrics.jsonl", 2, "rl", tmp_path / "cut", *given)
    rmsweb("rl", tmp_path / "cut", *given)
    whole, cut = Run.read_only(demo / "rl"), Run.read_only(tmp_path / "cut")
    assert cut.manifest["counts"]["weights_sha256"] == whole.manifest["counts"]["weights_sha256"]
    assert cut.read("group", Group) == whole.read("group", Group)


def alive(session: int) -> list[str]:
    """Processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields and fields[0] != "Z" and int(fields[3]) == session:
            found.append(entry.name)
    return found


def heed_interrupts() -> None:
    """Tests that run in the background of a shell are started with SIGINT ignored, and would hand that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_demo_leaves_no_process(tmp_path: Path, how: signal.Signals) -> None:
    with (tmp_path / "err").open("w") as err:
        child = subprocess.Popen(
            command("demo", tmp_path / "run"), stderr=err, start_new_session=True, preexec_fn=heed_interrupts
        )
    deadline = time.monotonic() + 120
    while not (tmp_path / "run/collect/run.json").exists() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    child.send_signal(how)
    assert child.wait(60) == (130 if how is signal.SIGINT else -how)
    deadline = time.monotonic() + 60
    while alive(child.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not alive(child.pid)
    if how is signal.SIGINT:
        assert "the same command goes on" in (tmp_path / "err").read_text()
