"""An exam from end to end through the command line: played in Chromium, exported, imported, judged again, reported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rmsweb.bench.reading import acts
from rmsweb.records import Trajectory, Verdict
from rmsweb.store import Run
from rmsweb.testing import ScriptServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ROOT = Path(__file__).parent.parent.parent
STATUS_YES = "Thoughts: all is there\nStatus: success"


def rmsweb(*words: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rmsweb", *map(str, words)], capture_output=True, text=True, timeout=300,
        env={**os.environ, "RMSWEB_PROGRESS": "none"},
    )  # fmt: skip
    assert done.returncode == 0, f"{words}\n{done.stderr[-3000:]}"
    return done.stdout


def trajectories(run: Path) -> dict[str, Trajectory]:
    return {t.task.id: t for t in Run.read_only(run).read("trajectory", Trajectory)}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("exam") / "eval"
    rmsweb("eval", "-c", ROOT / "recipes/demo.toml", "-o", run, "--from", "explorer=explorer",
           "--set", "eval.tasks=4", "--set", "eval.controls=0", "--set", "eval.bootstrap=100")  # fmt: skip
    assert len(trajectories(run)) == 4
    return run


@pytest.mark.parametrize("format", ["om2w", "webvoyager", "fara"])
def test_out_and_back_in(played: Path, tmp_path: Path, format: str) -> None:
    rmsweb("export", "--format", format, "-o", tmp_path / "out", "--from", played)
    rmsweb("import", tmp_path / "out", "--format", format, "-o", tmp_path / "in")
    before, after = trajectories(played), trajectories(tmp_path / "in")
    if format == "webvoyager":  # its folder names are the ids, and a path cannot hold ours: joined by the task's text
        before, after = ({t.task.goal: t for t in read.values()} for read in (before, after))
    assert before.keys() == after.keys()
    for key, own in before.items():
        other = after[key]
        assert other.task.goal == own.task.goal and (other.answer or "") == (own.answer or "")
        if format != "webvoyager":
            lines = [act.line for act in acts(own) if not act.final]
            assert len([act for act in acts(other) if not act.final]) == len(lines)
        pictures = {step.before.image for step in own.steps}
        assert pictures <= set(Run.read_only(tmp_path / "in").images)


def test_imported_attempts_become_samples(played: Path, tmp_path: Path) -> None:
    rmsweb("export", "--format", "fara", "-o", tmp_path / "out", "--from", played)
    for folder in tmp_path.glob("out/traj/*"):  # a score file as Fara's judge leaves it
        (folder / "scores").mkdir()
        (folder / "scores" / "gpt_eval.json").write_text(json.dumps({"score": 1, "gpt_response_text": "SUCCESS"}))
    rmsweb("import", tmp_path / "out", "--format", "fara", "-o", tmp_path / "in", "--verdicts", "scores/gpt_eval.json")
    made = json.loads(
        rmsweb("samples", "-c", ROOT / "recipes/demo.toml", "-o", tmp_path / "samples", "--from", tmp_path / "in")
    )
    assert made["samples"] > 0
    rmsweb("export", "--format", "chat", "-o", tmp_path / "chat", "--from", tmp_path / "samples")
    assert ", 0 problems" in rmsweb("validate", next(tmp_path.glob("chat/*.jsonl")))


def test_judged_again_beside_its_own_rules_and_reported(played: Path, tmp_path: Path) -> None:
    with ScriptServer([STATUS_YES]) as server:
        sets = (
            "judge.protocol=rmsweb/webjudge-om2w", f"judge.model.base_url={server.base_url}",
            "judge.model.name=scripted", "judge.attempts=1",
        )  # fmt: skip
        words = [word for one in sets for word in ("--set", one)]
        said = json.loads(rmsweb("judge", "-o", tmp_path / "judged", "--from", played, *words))
        asked = len(server.requests)
        rmsweb(
            "judge", "-o", tmp_path / "offline", "--from", played, "--from", f"replies={tmp_path / 'judged'}", *words
        )
        assert len(server.requests) == asked > 4
    assert said["n"] == said["judged"] == 4 and said["policies"]["explorer"]["success"] == 1.0
    one, other = (Run.read_only(tmp_path / name).read("verdict", Verdict) for name in ("judged", "offline"))
    assert {(v.trajectory_id, v.success) for v in one} == {(v.trajectory_id, v.success) for v in other}
    rmsweb("judge", "-o", tmp_path / "rules", "--from", played)
    page = tmp_path / "report.html"
    rmsweb(
        "report",
        "-o",
        page,
        "--from",
        played,
        "--from",
        f"chat={tmp_path / 'judged'}",
        "--from",
        f"rules={tmp_path / 'rules'}",
    )
    text = page.read_text()
    assert "rmsweb/webjudge-om2w scripted" in text and "rules (rules)" in text and "rules (own)" in text
    own = {v.trajectory_id: v.success for v in Run.read_only(played).read("verdict", Verdict)}
    again = {v.trajectory_id: v.success for v in Run.read_only(tmp_path / "rules").read("verdict", Verdict)}
    assert own == again
