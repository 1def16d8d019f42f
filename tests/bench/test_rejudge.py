"""`rmsweb judge`: what is owed, what is asked again, stored replies, over a real HTTP endpoint."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import specimens

from rmsweb.bench.judges import names
from rmsweb.bench.judges.asking import Call
from rmsweb.bench.rejudge import answers_kept, asked_in_vain, gathered, origins, owed, rounds_of, summary
from rmsweb.config import Config
from rmsweb.errors import BudgetError, ConfigError, DataError, RunError
from rmsweb.exams import judge
from rmsweb.progress import Silent
from rmsweb.records import Stop, Trajectory, Verdict
from rmsweb.store import Images, Run
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
    assert found == again and found["judged"] == 3 and found["policies"]["sft"]["success"] == pytest.approx(2 / 3)
    calls = Run.read_only(tmp_path / "judged").read("call", Call)
    assert [call.text for call in calls] == [YES, NO, YES] and all(call.pictures > 0 for call in calls)


def test_what_could_not_be_judged_is_asked_again_and_nothing_else(tmp_path: Path) -> None:
    runs = {"eval": source(tmp_path / "eval")}
    with ScriptServer([YES, "hm", NO, YES]) as server:
        first = judge(config(server), tmp_path / "judged", runs, Silent())
        assert first["judged"] == 2 and first["could_not_judge"] == {"no_verdict": 1}
        rates = first["policies"]["sft"]
        assert rates["success"] == pytest.approx(1 / 3) and rates["success_judged"] == pytest.approx(1 / 2)
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
    other_model = settings.judge.model.model_copy(update={"name": "n"})
    renamed = settings.model_copy(update={"judge": settings.judge.model_copy(update={"model": other_model})})
    with pytest.raises(ConfigError, match="replies are those of m, the verdicts would be named after n"):
        judge(renamed, tmp_path / "renamed", {**runs, "replies": tmp_path / "judged"}, Silent())
    model = settings.judge.model.model_copy(update={"temperature": 0.5})
    warm = settings.model_copy(update={"judge": settings.judge.model_copy(update={"model": model})})
    with pytest.raises(
        ConfigError, match=r"sampled with temperature 0, again 0.7, tokens 400, .* named after temperature 0.5"
    ):
        judge(warm, tmp_path / "warm", {**runs, "replies": tmp_path / "judged"}, Silent())
    oftener = settings.model_copy(update={"judge": settings.judge.model_copy(update={"attempts": 2})})
    assert judge(oftener, tmp_path / "oftener", {**runs, "replies": tmp_path / "judged"}, Silent())["judged"] == 2
    file = tmp_path / "judged/calls.jsonl"
    file.write_text(re.sub(r":temperature=[^\"]*", "", file.read_text()))  # as stored before it was recorded
    with pytest.raises(ConfigError, match=r"sampled with temperature 0, the verdicts .* after temperature 0.5"):
        judge(warm, tmp_path / "old", {**runs, "replies": tmp_path / "judged"}, Silent())
    assert judge(settings, tmp_path / "old", {**runs, "replies": tmp_path / "judged"}, Silent())["judged"] == 2
    other = config_with_more_pictures(settings)
    with pytest.raises(
        RunError, match=r"no question .* is stored for this very question .*; give the replies of a run"
    ):
        judge(other, tmp_path / "other", {**runs, "replies": tmp_path / "judged"}, Silent())
    stored = Run.read_only(tmp_path / "other").read("verdict", Verdict)
    assert {v.unjudged for v in stored} == {"not_stored"}, "another question is not answered by an old reply"


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


def verdict(number: int, kind: str) -> Verdict:
    return Verdict.model_validate({"trajectory_id": f"t{number}", "success": None, "judge": "j", "unjudged": kind})


def call(number: int, key: str) -> Call:
    return Call(trajectory_id=f"t{number}", protocol="j", key=key, prompt="p", text="x")


def test_only_a_reply_without_a_verdict_earns_another_draw() -> None:
    kinds = ["no_verdict", "infra", "overflow", "not_stored", "missing_evidence", "refused", "truncated"]
    verdicts = [verdict(number, kind) for number, kind in enumerate(kinds)]
    verdicts += [verdict(0, "no_verdict"), verdict(5, "infra")]
    rounds = rounds_of(verdicts, {f"t{number}" for number in range(len(kinds))})
    assert rounds == {"t0": 2, "t5": 1, "t6": 1}
    calls = [call(number, key) for number in range(len(kinds)) for key in ("key_points", "verdict")]
    kept = [(one.trajectory_id, one.key) for one in answers_kept(calls, rounds)]
    assert [key for ident, key in kept if ident in rounds] == ["key_points"] * 3, "the question that failed is anew"
    assert [key for ident, key in kept if ident not in rounds] == ["key_points", "verdict"] * 4, "the rest stands"


def test_only_questions_asked_in_vain_get_other_seeds() -> None:
    verdicts = [verdict(0, "no_verdict"), verdict(1, "infra")]
    calls = [call(number, key) for number in range(2) for key in ("key_points", "verdict")]
    rounds = rounds_of(verdicts, {"t0", "t1"})
    assert asked_in_vain(calls, answers_kept(calls, rounds), rounds) == {("t0", "verdict"): 1}


def played(path: Path, ident: str) -> Trajectory:
    return specimens.trajectory(Images(path / "images"), specimens.task(0), 2).model_copy(update={"id": ident})


def test_a_verdict_that_lacks_an_answer_is_owed_once_more(tmp_path: Path) -> None:
    failed = verdict(0, "").model_copy(update={"success": False, "details": {"failed": ["outcome/0"]}})
    whole = failed.model_copy(update={"trajectory_id": "t1", "details": {"failed": []}})
    trajectories = {f"t{n}": played(tmp_path, f"t{n}") for n in range(2)}
    assert owed(trajectories, [failed, whole]) == (["t0"], {"t0"})
    assert rounds_of([failed, whole], {"t0"}) == {"t0": 1}
    calls = [call(0, key) for key in ("rubric", "outcome/0", "diagnosis")]
    assert [c.key for c in answers_kept(calls, {"t0": 1}, [failed])] == ["rubric", "diagnosis"]


def test_policies_without_a_name_are_told_apart_by_their_runs(tmp_path: Path) -> None:
    sources = {}
    for number, name in enumerate(("ours", "theirs")):
        with Run.open(tmp_path / name, "import", Config()) as run:
            made = specimens.trajectory(run.images, specimens.task(number), 2)
            run.append("trajectory", made.model_copy(update={"id": f"{made.task.id}#{made.attempt}", "policy": ""}))
        sources[name] = Run.read_only(tmp_path / name)
    both = gathered(sources)
    told = [
        verdict(0, "").model_copy(update={"success": number == 0, "trajectory_id": ident})
        for number, ident in enumerate(both)
    ]
    found = summary(told, both, origins(sources, both))["policies"]
    assert {name: rates["success"] for name, rates in found.items()} == {"ours": 1.0, "theirs": 0.0}


def test_nothing_judged_is_no_rate_of_zero(tmp_path: Path) -> None:
    trajectories = {"t0": played(tmp_path, "t0")}
    (rates,) = summary([verdict(0, "no_verdict")], trajectories)["policies"].values()
    assert (rates["n"], rates["success"], rates["interval"], rates["success_judged"]) == (1, None, None, None)


def test_questions_that_were_asked_together_are_asked_anew_by_name_not_by_their_place() -> None:
    calls = [call(0, key) for key in ("rubric", "relevance/1", "relevance/0", "relevance/2")]
    unread = verdict(0, "no_verdict").model_copy(update={"details": {"failed": ["relevance/1"]}})
    for verdicts in ([unread], [unread, verdict(0, "infra")]):
        kept = [one.key for one in answers_kept(calls, {"t0": 1}, verdicts)]
        assert kept == ["rubric", "relevance/0", "relevance/2"]
    assert [one.key for one in answers_kept(calls, {}, [unread])] == [one.key for one in calls]


def test_an_outage_after_a_reply_without_a_verdict_is_no_dead_end(tmp_path: Path) -> None:
    runs = {"eval": source(tmp_path / "eval", 2)}
    with ScriptServer(["hm", YES, Odd(status=500), YES]) as server:
        judge(config(server), tmp_path / "judged", runs, Silent())
        with pytest.raises(RunError, match="no question to the judge was answered"):
            judge(config(server), tmp_path / "judged", runs, Silent())
        assert judge(config(server), tmp_path / "judged", runs, Silent())["judged"] == 2
        assert [record.body["seed"] for record in server.requests] == [0, 0, 1000, 1000]


@pytest.mark.parametrize("protocol", ["rmsweb/chat", *(name for name in names() if name.startswith("rmsweb/"))])
@pytest.mark.parametrize("damage", [b"", b"\x89PNG\r\n\x1a\nother"])
def test_a_damaged_picture_costs_one_verdict_and_not_the_run(tmp_path: Path, protocol: str, damage: bytes) -> None:
    where = source(tmp_path / "eval", 2)
    run = Run.read_only(where)
    first, second = run.read("trajectory", Trajectory)
    shared = {step.before.image for step in second.steps} | {step.after.image for step in second.steps}
    torn = next(sha for step in first.steps for sha in (step.after.image, step.before.image) if sha not in shared)
    for sha in {s.after.image for s in first.steps} | {s.before.image for s in first.steps}:
        if sha == torn or sha not in shared:
            run.images.path(sha).write_bytes(damage)
    with ScriptServer(["hm"]) as server:
        found = judge(config(server, protocol=protocol), tmp_path / "judged", {"eval": where}, Silent())
    kinds = [v.unjudged for v in Run.read_only(tmp_path / "judged").read("verdict", Verdict)]
    assert kinds[0] == "missing_evidence" and found["could_not_judge"] == {"missing_evidence": 1, "no_verdict": 1}


def test_two_judges_are_never_mixed_in_one_run(tmp_path: Path) -> None:
    runs = {"eval": source(tmp_path / "eval")}
    with ScriptServer([YES, "hm"]) as server:
        settings = config(server)
        judge(settings, tmp_path / "judged", runs, Silent())
        file = tmp_path / "judged/verdicts.jsonl"
        file.write_text(file.read_text().replace("prompt=", "prompt=0"))  # as if worded by a pack that has changed
        asked = len(server.requests)
        with pytest.raises(
            RunError, match=r"holds verdicts of rmsweb/chat:m:prompt=0\S+, this is rmsweb/chat:m:prompt="
        ):
            judge(settings, tmp_path / "judged", runs, Silent())
        assert len(server.requests) == asked, "refused before the first question"
    verdicts = Run.read_only(tmp_path / "judged").read("verdict", Verdict)
    other = verdicts[0].model_copy(update={"judge": "another"})
    with pytest.raises(RunError, match="unlike judges"):
        summary([other, *verdicts[1:]], gathered({"eval": Run.read_only(tmp_path / "eval")}))


def test_what_says_how_a_judge_is_reached_may_change_and_what_it_is_may_not(tmp_path: Path) -> None:
    runs = {"eval": source(tmp_path / "eval")}
    with ScriptServer([YES]) as server:
        tight = config(server).judge.model.model_copy(update={"token_budget": 1})
        settings = config(server)
        small = settings.model_copy(update={"judge": settings.judge.model_copy(update={"model": tight})})
        with pytest.raises(BudgetError, match="raise it and run the same command"):
            judge(small, tmp_path / "judged", runs, Silent())
        assert judge(settings, tmp_path / "judged", runs, Silent())["judged"] == 3
        warm = settings.judge.model.model_copy(update={"temperature": 0.5})
        other = settings.model_copy(update={"judge": settings.judge.model_copy(update={"model": warm})})
        with pytest.raises(RunError, match=r"judge\.model\.temperature"):
            judge(other, tmp_path / "judged", runs, Silent())


def test_a_finished_run_is_not_touched(tmp_path: Path) -> None:
    runs = {"eval": source(tmp_path / "eval")}
    with ScriptServer([YES]) as server:
        judge(config(server), tmp_path / "judged", runs, Silent())
        before = {path.name: path.read_bytes() for path in (tmp_path / "judged").glob("*.json")}
        judge(config(server), tmp_path / "judged", runs, Silent())
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "judged").glob("*.json")}


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
