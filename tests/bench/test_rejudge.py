"""`rmsweb judge`: what is owed, what is asked again, stored replies, over a real HTTP endpoint."""

import subprocess
import sys
from pathlib import Path

import pytest
import specimens

from rmsweb.bench.judges.asking import Call
from rmsweb.config import Config
from rmsweb.errors import ConfigError, DataError, RunError
from rmsweb.exams import judge
from rmsweb.progress import Silent
from rmsweb.records import Stop, Verdict
from rmsweb.store import Run
from rmsweb.testing import Odd, ScriptServer

YES, NO = "VERDICT: SUCCESS\nREASON: it is there", "VERDICT: FAILURE\nREASON: it is not"


def source(path: Path, count: int = 3, **settings: object) -> Path:
    """A run of `eval` with `count` trajectories."""
    with Run.open(path, "eval", Config()) as run:
        for i in range(count):
            run.append("trajectory", specimens.trajectory(run.images, specimens.task(i), 2, **settings))  # type: ignore[arg-type]
        run.finish()
    return path


def config(server: ScriptServer, **judged: object) -> Config:
    model = {"base_url": server.base_url, "name": "m", "attempts": 1, "concurrency": 1}
    return Config.model_validate({"judge": {"protocol": "rmsweb/chat", "model": model, "attempts": 1, **judged}})


def latest(run: Path) -> list[bool | None]:
    return [v.success for v in {v.trajectory_id: v for v in Run.read_only(run).read("verdict", Verdict)}.values()]


def test_every_trajectory_is_judged_once_and_the_replies_are_stored(tmp_path: Path) -> None:
    runs = {"eval": source(tmp_path / "eval")}
    with ScriptServer([YES, NO, YES]) as server:
        found = judge(config(server), tmp_path / "judged", runs, Silent())
        again = judge(config(server), tmp_path / "judged", runs, Silent())
        assert len(server.requests) == 3
    assert latest(tmp_path / "judged") == [True, False, True]
    assert found == again and found["judged"] == 3 and found["success"] == pytest.approx(2 / 3)
    calls = Run.read_only(tmp_path / "judged").read("call", Call)
    assert [call.text for call in calls] == [YES, NO, YES] and all(call.pictures > 0 for call in calls)


def test_what_could_not_be_judged_is_asked_again_and_nothing_else(tmp_path: Path) -> None:
    runs = {"eval": source(tmp_path / "eval")}
    with ScriptServer([YES, "hm", NO, YES]) as server:
        first = judge(config(server), tmp_path / "judged", runs, Silent())
        assert first["judged"] == 2 and first["could_not_judge"] == {"no_verdict": 1}
        assert first["success"] == pytest.approx(1 / 3) and first["success_judged"] == pytest.approx(1 / 2)
        second = judge(config(server), tmp_path / "judged", runs, Silent())
        assert len(server.requests) == 4
        seeds = [record.body.get("seed") for record in server.requests]
    assert second["judged"] == 3 and latest(tmp_path / "judged") == [True, True, False]
    assert seeds == [0, 0, 0, 1000], "asked again with another draw"


def test_stored_replies_answer_without_an_endpoint(tmp_path: Path) -> None:
    runs = {"eval": source(tmp_path / "eval")}
    with ScriptServer([YES, "hm", NO]) as server:
        settings = config(server)
        judge(settings, tmp_path / "judged", runs, Silent())
    offline = judge(settings, tmp_path / "again", {**runs, "replies": tmp_path / "judged"}, Silent())
    assert offline["judged"] == 2 and latest(tmp_path / "again") == [True, None, False]
    other = judge(
        config_with_more_pictures(settings), tmp_path / "other", {**runs, "replies": tmp_path / "judged"}, Silent()
    )
    assert other["could_not_judge"] == {"not_stored": 3}, "another question is not answered by an old reply"


def config_with_more_pictures(settings: Config) -> Config:
    return settings.model_copy(update={"judge": settings.judge.model_copy(update={"images": 1})})


def test_a_judge_that_is_gone_stops_the_stage_and_is_gone_on_with(tmp_path: Path) -> None:
    runs = {"eval": source(tmp_path / "eval", 12)}
    with ScriptServer([Odd(status=500)]) as server, pytest.raises(RunError, match="did not answer 8 times"):
        judge(config(server), tmp_path / "judged", runs, Silent())
    with ScriptServer([YES]) as server:
        assert judge(config(server), tmp_path / "judged", runs, Silent())["judged"] == 12
        sampling = {(record.body["temperature"], record.body["seed"]) for record in server.requests}
        assert sampling == {(0.0, 0)}, "what was never answered is asked as the protocol says"
    with ScriptServer([Odd(status=401)]) as server, pytest.raises(RunError, match="does not let us in"):
        judge(config(server), tmp_path / "locked", runs, Silent())
    with (
        ScriptServer([Odd(status=500)]) as server,
        pytest.raises(RunError, match="no question to the judge was answered"),
    ):
        judge(config(server), tmp_path / "few", {"eval": source(tmp_path / "two", 2)}, Silent())


def test_an_episode_that_the_machine_broke_is_not_asked_about(tmp_path: Path) -> None:
    runs = {"eval": source(tmp_path / "eval", 2, stop=Stop.BROWSER_ERROR)}
    with ScriptServer([YES]) as server:
        found = judge(config(server), tmp_path / "judged", runs, Silent())
        judge(config(server), tmp_path / "judged", runs, Silent())
        assert server.requests == []
    assert (
        found["could_not_judge"] == {"infra": 2}
        and len(Run.read_only(tmp_path / "judged").read("verdict", Verdict)) == 2
    )


def test_bad_input_is_named(tmp_path: Path) -> None:
    one, two = source(tmp_path / "one"), source(tmp_path / "two")
    with pytest.raises(DataError, match="judge them apart"):
        judge(Config(), tmp_path / "judged", {"a": one, "b": two}, Silent())
    with pytest.raises(ConfigError, match="needs --from RUN"):
        judge(Config(), tmp_path / "judged", {}, Silent())
    unknown = Config.model_validate({"judge": {"protocol": "webvoyager"}})
    with pytest.raises(ConfigError, match="webvoyager/original"):
        judge(unknown, tmp_path / "unknown", {"a": one}, Silent())
    exact = Config.model_validate({"judge": {"protocol": "webvoyager/original"}})
    with pytest.raises(ConfigError, match=r"judge\.pack"):
        judge(exact, tmp_path / "exact", {"a": one}, Silent())


def test_the_command(tmp_path: Path) -> None:
    where = source(tmp_path / "eval", 1)
    with ScriptServer([NO]) as server:
        sets = ["judge.protocol=rmsweb/chat", f"judge.model.base_url={server.base_url}", "judge.model.name=m"]
        command = [sys.executable, "-m", "rmsweb", "judge", "-o", str(tmp_path / "judged"), "--from", str(where)]
        done = subprocess.run(
            [*command, *(word for one in sets for word in ("--set", one))], capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    assert '"judged": 1' in done.stdout
