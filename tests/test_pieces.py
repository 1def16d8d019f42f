"""Running stages one after the other: what is finished is kept without a process, or refused with its own message."""

import json
import multiprocessing.forkserver
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from rmsweb import stages
from rmsweb.config import Config, load
from rmsweb.errors import RmswebError, RunError
from rmsweb.pieces import Piece, finished, run_pieces
from rmsweb.progress import Silent
from rmsweb.store import Run, take

PLAN = [Piece("samples", "samples", ("collect",)), Piece("again", "samples", ("collect",), after=("samples",))]


class Heard(Silent):
    """What the progress was told."""

    def __init__(self) -> None:
        self.said: list[tuple[str, int, int, str]] = []

    def __call__(self, name: str, done: int, total: int, remark: str = "") -> None:
        self.said.append((name, done, total, remark))


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text("seed = 0\n")
    with Run.open(tmp_path / "collect", "collect", Config()) as run:
        run.finish()
    for piece in PLAN:
        given = {"collect": tmp_path / "collect"}
        stages.samples(load(path), tmp_path / piece.name, given, Silent())
        (tmp_path / f"{piece.name}.log").write_text("")
    return path


def manifests(out: Path) -> dict[str, bytes]:
    return {piece.name: (out / piece.name / "run.json").read_bytes() for piece in PLAN}


def test_what_is_finished_is_kept_as_it_is(recipe: Path, tmp_path: Path) -> None:
    before, heard = manifests(tmp_path), Heard()
    assert all(finished(tmp_path / piece.name) for piece in PLAN)
    run_pieces(PLAN, tmp_path, recipe, [], heard)
    assert heard.said == [(piece.name, 1, 1, "finished before, kept") for piece in PLAN]
    assert manifests(tmp_path) == before, "a look at a finished stage is none of its work"
    assert not list(tmp_path.glob("*.log")), "empty logs stay"


def test_other_settings_are_refused_with_the_stages_own_message(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"samples was started with other .*\n  samples.skip_detours: true -> false"):
        run_pieces(PLAN, tmp_path, recipe, ["samples.skip_detours=false"], Silent())
    with Run.open(tmp_path / "collect", "collect", Config()) as run:
        run.log({"more": 1})
    with pytest.raises(RunError, match=r"inputs.collect: .*/collect has changed since"):
        run_pieces(PLAN, tmp_path, recipe, [], Silent())


def test_two_at_once_in_one_folder_are_refused_before_anything_is_done(recipe: Path, tmp_path: Path) -> None:
    before = manifests(tmp_path)
    with take(tmp_path), pytest.raises(RunError, match="is being written by another process"):
        run_pieces(PLAN, tmp_path, recipe, [], Silent())
    assert manifests(tmp_path) == before
    run_pieces(PLAN, tmp_path, recipe, [], Silent())


def test_what_others_were_made_from_is_kept_although_it_owes_broken_episodes(recipe: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "samples/run.json"
    owing = json.dumps({**json.loads(manifest.read_text()), "status": "running"})
    manifest.write_text(owing)
    heard = Heard()
    run_pieces(PLAN, tmp_path, recipe, [], heard)
    assert [name for name, *_ in heard.said] == ["samples", "again"] and manifest.read_text() == owing


def test_only_a_stage_that_says_so_is_finished(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "samples/summary.json").unlink()
    assert not finished(tmp_path / "samples") and not finished(tmp_path / "nothing")
    manifest = tmp_path / "again/run.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "status": "running"}))
    assert not finished(tmp_path / "again")


@pytest.mark.skipif(sys.platform != "linux", reason="a fork server starts the stages on Linux only")
def test_a_fork_server_that_is_killed_is_no_wish_to_stop(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "samples/summary.json").unlink()  # owed, so that a process is needed
    server = multiprocessing.forkserver._forkserver  # type: ignore[attr-defined]
    server._stop()  # one of another test would be used again

    def kill() -> None:
        while (pid := server._forkserver_pid) is None:
            time.sleep(0.005)
        os.kill(pid, signal.SIGKILL)  # it imports torch for seconds before it starts the first stage

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with pytest.raises(RmswebError, match=r"stage samples could not be started: .* is gone .*the same command goes on"):
        run_pieces(PLAN[:1], tmp_path, recipe, [], Silent())
    killer.join(5)
