"""The stage on a run directory: what it stores, what it refuses, and a real kill."""

import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rmsweb.actions import LeftClick, Point, Viewport
from rmsweb.chat import Reply
from rmsweb.config import load
from rmsweb.errors import ConfigError, DataError, MissingPartError
from rmsweb.policy import read_decision, render_reply
from rmsweb.records import CriticalState, Decision, Group
from rmsweb.salvage import stage
from rmsweb.salvage.dev import level, split, weak_start
from rmsweb.store import Run
from tests.salvage.stage_world import checkpoint, config, play, samples, states

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
TIMES = ("step_time", "time/sample")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("start"))


def call(settings: Any, x: int, y: int, label: str = "red mug") -> str:
    decision = Decision(intent=label, action=LeftClick(point=Point(x=x, y=y)))
    return render_reply(settings.profile, decision, Viewport(320, 224))


def test_scorer_reads_matches_rewards_and_clusters(tmp_path: Path) -> None:
    settings = config()
    with Run.open(tmp_path / "run", "rl", settings) as run:
        pool = states(run)
    pool[0] = pool[0].model_copy(update={"failing": LeftClick(point=Point(x=300, y=210))})
    texts = [call(settings, 16, 14), call(settings, 40, 14), call(settings, 300, 210), "nonsense"]
    scored = stage.make_scorer(settings, pool)(0, texts, [False] * 4)
    assert [s.reward for s in scored] == [1, 1, -1, -1]
    assert [s.cluster for s in scored] == [0, 1, 2, 3], "far apart, and no element list says otherwise"
    assert scored[0].candidate.match["target"] == 1 and scored[3].candidate.fault and not scored[0].candidate.fault
    three = stage.make_scorer(config('rl.reward="three_pole"'), pool)
    assert [s.reward for s in three(0, [*texts, call(settings, 200, 200)], [False] * 5)] == [1, 1, -1, -1, 0]
    cut = stage.make_scorer(settings, pool)(0, [texts[0][:-5]], [True])
    assert cut[0].reward == -1 and cut[0].candidate.fault


def test_judge_reward_and_its_failures(tmp_path: Path) -> None:
    settings = config('rl.reward="judge"')
    with Run.open(tmp_path / "run", "rl", settings) as run:
        pool = states(run)

    def judge(state: CriticalState, decision: Decision) -> bool | None:
        assert decision.action is not None and isinstance(decision.action, LeftClick)
        return None if decision.action.point.x > 200 else decision.action.point.x < 100

    texts = [call(settings, 16, 14), call(settings, 160, 14), call(settings, 300, 210), "nonsense"]
    assert [s.reward for s in stage.make_scorer(settings, pool, judge)(0, texts, [False] * 4)] == [1, -1, None, -1]


def test_anchor_imitates_what_the_parser_reads_back(tmp_path: Path) -> None:
    settings = config()
    with Run.open(tmp_path / "run", "rl", settings) as run:
        for state in states(run, 5):
            made = stage._state(settings, state, run.images)
            decision = read_decision(settings.profile, Reply(made.reply, None, None, 0, 0, "stop"))
            assert decision.fault is None and decision.intent == "red mug"
            scored = stage.make_scorer(settings, [state])(0, [made.reply], [False])
            assert scored[0].reward == 1, "the reference is right by its own measure"
            assert len(made.images) == 1 and made.messages[0]["role"] == "user"


def test_a_run_stores_groups_metrics_summary_and_checkpoint(
    tmp_path: Path, start: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "rmsweb")
    summary = play(tmp_path / "run", start, config())
    run = Run.read_only(tmp_path / "run")
    groups = run.read("group", Group)
    assert len(groups) == 6 * 4 and {g.step for g in groups} == set(range(1, 7))
    assert all(len(g.candidates) == 4 for g in groups) and "t5@0" not in {g.state_id for g in groups}
    assert [m["step"] for m in run.metrics()] == list(range(1, 7))
    assert run.finished and json.loads((tmp_path / "run" / "summary.json").read_text())["updates"] == 6
    assert sum(summary["gate"]["shares"].values()) == pytest.approx(1, abs=1e-3)
    assert summary["states"] == 5 and summary["states_without_reference"] == 1 and summary["replies"] == 96
    assert summary["start"]["met"] is False and "weak policy" in summary["warning"] and "weak policy" in caplog.text
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(tmp_path / "run" / "checkpoint")
    before = AutoModelForImageTextToText.from_pretrained(start)
    assert any((a != b).any() for a, b in zip(model.parameters(), before.parameters(), strict=True))


@pytest.mark.slow
def test_killed_run_ends_as_an_uninterrupted_one(tmp_path: Path, start: Path) -> None:
    play(tmp_path / "whole", start, config())
    command = [sys.executable, "-m", "tests.salvage.stage_world", str(start), str(tmp_path / "killed")]
    environment = {**os.environ, "PYTHONPATH": f"src{os.pathsep}.", "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parent.parent.parent
    child = subprocess.Popen([*command, "1.0"], cwd=root, env=environment, stderr=subprocess.PIPE)
    stored, deadline = tmp_path / "killed" / "groups.jsonl", time.monotonic() + 120
    while not stored.exists() or stored.read_bytes().count(b"\n") < 11:  # in the middle of the third update
        assert child.poll() is None, child.stderr and child.stderr.read().decode()[-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    done = subprocess.run([*command, "0"], cwd=root, env=environment, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-2000:]
    whole, killed = Run.read_only(tmp_path / "whole"), Run.read_only(tmp_path / "killed")
    by_step = lambda g: (g.step, g.state_id)  # noqa: E731
    assert sorted(whole.read("group", Group), key=by_step) == sorted(killed.read("group", Group), key=by_step)
    timeless = [[{k: v for k, v in m.items() if k not in TIMES} for m in run.metrics()] for run in (whole, killed)]
    assert timeless[0] == timeless[1]
    weights = [run.manifest["counts"]["weights_sha256"] for run in (whole, killed)]
    assert weights[0] == weights[1]


def test_refusals(tmp_path: Path, start: Path) -> None:
    settings = config()
    with Run.open(tmp_path / "run", "rl", settings) as run:
        bare = [s.model_copy(update={"references": ()}) for s in states(run)]
        with pytest.raises(DataError, match="verified reference"):
            stage.run(settings, run, bare, samples(run), start)
        with pytest.raises(ConfigError, match="judge"):
            stage.run(config('rl.reward="judge"'), run, states(run), samples(run), start)
        if importlib.util.find_spec("vllm") is None:
            with pytest.raises(MissingPartError, match=r"rl.use_vllm needs the package vllm"):
                stage.run(config("rl.use_vllm=true"), run, states(run), samples(run), start)


def test_whole_tasks_are_set_apart_and_examined(tmp_path: Path, start: Path) -> None:
    settings = config("rl.dev_share=0.4")
    with Run.open(tmp_path / "run", "rl", settings) as run:
        pool = [s for s in states(run) if s.references]
        train, apart = split(pool, 0.4)
        assert apart and not {s.task.id for s in train} & {s.task.id for s in apart}
        assert sorted(s.id for s in train + apart) == sorted(s.id for s in pool)
        assert split(pool, 0.0) == (pool, []) and len(apart) <= 0.4 * len(pool)
        summary = stage.run(settings, run, states(run), samples(run), start)
    assert summary["start"]["on"] == "dev" and summary["start"]["states"] == len(apart) == summary["dev"]["states"]
    assert summary["start"]["met"] is False and "weak policy" in summary["warning"]
    groups = Run.read_only(tmp_path / "run").read("group", Group)
    assert not {g.state_id for g in groups} & {s.id for s in apart}


def test_start_gate() -> None:
    strong, weak = ([[1.0] * 8] * 5 + [[1.0] * 4 + [-1.0] * 4] * 4 + [[-1.0] * 8]), [[1.0] * 8] * 6 + [[-1.0] * 8] * 4
    assert level(strong).met and not level(weak).met
    assert level([[1.0, None, None, None]]).reply_right == 1.0
    assert "more SFT" in weak_start(level(weak))


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "recipes" / "ablations").glob("*.toml")), ids=str)
def test_ablation_recipes_are_read(path: Path) -> None:
    plain, changed = load(path.with_name("salvage_ds.toml")), load(path)
    assert changed.profile == plain.profile and (changed.rl == plain.rl) is (path.stem == "salvage_ds")


@pytest.mark.slow
@pytest.mark.parametrize("more", ["rl.kl=0.05", "rl.lora_rank=2", 'rl.gate.competence="logprob"'])
def test_kl_lora_and_competence_run_to_a_plain_checkpoint(tmp_path: Path, start: Path, more: str) -> None:
    play(tmp_path / "run", start, config("rl.steps=2", more))
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(tmp_path / "run" / "checkpoint")
    assert not any("lora" in name for name, _ in model.named_parameters())
    lines = Run.read_only(tmp_path / "run").metrics()
    assert len(lines) == 2 and ("kl" in lines[1]) is more.startswith("rl.kl")
