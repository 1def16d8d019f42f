"""Mining on the built-in sites in a real Chromium, and a real kill -9 in the middle of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rmsweb.records import CriticalState, Trajectory, Verdict
from rmsweb.store import Run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

STAGE = """
import asyncio, sys
from pathlib import Path
from rmsweb.config import BrowserConfig, Config, MineConfig, ProfileConfig, SuiteConfig
from rmsweb.judge import RuleJudge
from rmsweb.mine import stage
from rmsweb.mine.play import Parts
from rmsweb.reflect.explorer import Explorer
from rmsweb.reflect.reflector import RuleReflector
from rmsweb.store import Run
from rmsweb.web.browser import ChromiumPool
from rmsweb.web.sites.suite import SiteSuite

profile = ProfileConfig(
    viewport=(320, 224), coordinates="compact", layout="compact", theme="compact", images=0, history=2
)
config = Config(
    profile=profile,
    browser=BrowserConfig(concurrency=4, settle_s=1.0, first_paint_s=1.0),
    suite=SuiteConfig(count=10, offset=5000),
    mine=MineConfig(rollouts=1, states=64, fix_tries=2),
)
run = Run.open(Path(sys.argv[1]), "mine", config)
suite = SiteSuite("compact")
browser = ChromiumPool(config.browser, run.images, profile.viewport, 1.0, run.path / "downloads")
parts = Parts(
    Explorer(profile, 1.6), Explorer(profile, 1.0), suite, browser, RuleJudge(suite), reflect=RuleReflector()
)
asyncio.run(stage.run(config, run, parts))
"""


def start(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", STAGE, str(folder)], stderr=subprocess.PIPE, text=True)


def test_mine_goes_on_after_kill_9(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    child = start(folder)
    stored = folder / "trajectories.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (stored.exists() and stored.read_bytes().count(b"\n") >= 3):
        assert child.poll() is None, child.stderr.read() if child.stderr else ""
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    kept = stored.read_bytes()
    kept = kept[: kept.rfind(b"\n") + 1]
    child = start(folder)
    _, errors = child.communicate(timeout=300)
    assert child.returncode == 0, errors
    assert stored.read_bytes().startswith(kept)
    check(folder)


def check(folder: Path) -> None:
    """Every reference of the draw comes from a trajectory that passed, and nothing is doubled."""
    run = Run.read_only(folder)
    trajectories = run.read("trajectory", Trajectory)
    verdicts = {v.trajectory_id: v for v in run.read("verdict", Verdict)}
    assert len({t.id for t in trajectories}) == len(trajectories) >= 10
    right: dict[str, set[str]] = {}
    for trajectory in trajectories:
        if trajectory.id in verdicts and verdicts[trajectory.id].success:
            actions = {s.decision.action.model_dump_json() for s in trajectory.steps if s.decision.action}
            right.setdefault(trajectory.task.id, set()).update(actions)
    states = run.read("state", CriticalState)
    drawn = [state for state in states if state.weight > 0]
    assert drawn and run.finished
    for state in drawn:
        assert state.references
        assert {r.action.model_dump_json() for r in state.references} <= right[state.task.id]
        assert state.now.image in run.images and state.now.elements
    assert all(not state.references for state in states if state.weight == 0 and state.mode != "routine")
