"""The collect stage in a small stall: arms, acceptance, typed ends, resume at any byte, equal cost."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from small_stall import EMBEDDED, Stall, stall_config

from rmsweb.config import Config
from rmsweb.errors import BudgetError, RunError
from rmsweb.records import Reflection, Trajectory, Verdict
from rmsweb.reflect import collect
from rmsweb.reflect.explorer import Explorer
from rmsweb.reflect.reflector import RuleReflector
from rmsweb.reflect.yields import by_task, kept
from rmsweb.store import Run

NOUNS = (("trajectory", Trajectory), ("verdict", Verdict), ("reflection", Reflection))


async def play(path: Path, config: Config, stall: Stall | None = None, **parts: Any) -> dict[str, Any]:
    with Run.open(path, "collect", config) as run:
        stall = stall or Stall(run.images)
        stall.images = run.images
        policy = parts.get("policy") or Explorer(EMBEDDED)
        work = collect.Parts(
            policy, stall, stall, parts.get("judge") or stall, parts.get("reflector") or RuleReflector()
        )
        return await collect.run(config, run, work, parts.get("show"))


def records(path: Path) -> dict[str, Any]:
    """All records of a run by id, without what depends on the clock."""
    run, found = Run.read_only(path), dict[str, Any]()
    for noun, model in NOUNS:
        for record in run.read(noun, model):  # type: ignore[type-var]
            ident = getattr(record, "trajectory_id", "") or record.id  # type: ignore[attr-defined]
            assert (noun, ident) not in found, f"{noun} {ident} is there twice"
            found[noun, ident] = record.model_dump(exclude={"wall_s"})
    return found


def timeless(summary: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in summary.items() if k != "seconds_per_kept"}


async def test_arms_share_first_attempts_and_reflection_is_only_in_one(tmp_path: Path) -> None:
    reflect = await play(tmp_path / "reflect", stall_config(count=16))
    plain = await play(tmp_path / "plain", stall_config(count=16, arm="plain"))
    assert reflect["yield_at"][0] == plain["yield_at"][0] and 0.1 < reflect["yield_at"][0] < 1
    assert reflect["reflections"] > 0 and plain["reflections"] == 0
    runs = {arm: Run.read_only(tmp_path / arm).read("trajectory", Trajectory) for arm in ("reflect", "plain")}
    firsts = {arm: {t.task.id: t for t in run if t.attempt == 0} for arm, run in runs.items()}
    for name, first in firsts["reflect"].items():
        twin = firsts["plain"][name]
        assert [s.decision for s in first.steps] == [s.decision for s in twin.steps]
        assert first.advice == twin.advice == ""
    assert all(t.advice for t in runs["reflect"] if t.attempt) and not any(t.advice for t in runs["plain"])
    assert reflect["yield_at"] == sorted(reflect["yield_at"]) and reflect["tasks"] == 16


async def test_who_gets_a_retry(tmp_path: Path) -> None:
    config = stall_config(count=16, step_budget=4)
    await play(tmp_path, config)
    run = Run.read_only(tmp_path)
    verdicts = {v.trajectory_id: v for v in run.read("verdict", Verdict)}
    reflections = {r.trajectory_id for r in run.read("reflection", Reflection)}
    retried = 0
    for tries in by_task(run.read("trajectory", Trajectory)).values():
        assert [t.attempt for t in tries] == list(range(len(tries)))
        for i, _ in enumerate(tries[:-1]):
            best = kept(tries[: i + 1], verdicts)
            assert best is None or len(best.steps) > 4
            assert tries[i].id in reflections
            retried += best is not None
        best = kept(tries, verdicts)
        assert len(tries) == 3 or (best is not None and len(best.steps) <= 4)
        assert tries[-1].id not in reflections
    assert retried, "no inefficient success was retried; make the budget smaller"


async def test_results_do_not_depend_on_concurrency(tmp_path: Path) -> None:
    one = await play(tmp_path / "one", stall_config(concurrency=1))
    many = await play(tmp_path / "many", stall_config(concurrency=7))
    assert records(tmp_path / "one") == records(tmp_path / "many") and timeless(one) == timeless(many)


async def test_resume_at_any_byte(tmp_path: Path) -> None:
    config = stall_config(count=6)
    whole = tmp_path / "whole"
    expected = await play(whole, config)
    wanted = records(whole)
    files = [Run.read_only(whole).file(noun) for noun, _ in NOUNS]
    for cut in range(0, 100, 9):
        again = tmp_path / f"cut{cut}"
        shutil.copytree(whole, again)
        # What a kill leaves: every file is cut at the same moment of the run, here by the share of its lines.
        for file in files:
            data = file.read_bytes()
            (again / file.name).write_bytes(data[: len(data) * cut // 100])
        (again / "summary.json").unlink()
        assert timeless(await play(again, config)) == timeless(expected)
        assert records(again) == wanted


async def test_infra_errors_are_redone_without_spending_a_retry(tmp_path: Path) -> None:
    plain = await play(tmp_path / "plain", stall_config(count=4))
    stall = Stall(None, breaks={"reflect/stall/1#0": 2})  # type: ignore[arg-type]
    broken = await play(tmp_path / "broken", stall_config(count=4), stall)
    assert timeless(plain) == timeless(broken) and records(tmp_path / "plain") == records(tmp_path / "broken")
    assert stall.begun.count("reflect/stall/1#0") == 3
    assert len(Run.read_only(tmp_path / "broken").metrics()) == 2


async def test_what_stays_broken_ends_the_task_alone_and_is_owed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stall = Stall(None, breaks={"reflect/stall/1#0": 99})  # type: ignore[arg-type]
    found = await play(tmp_path, stall_config(count=4), stall)
    assert found["outcomes"]["infra_error"] == 1
    run = Run.read_only(tmp_path)
    assert [t.attempt for t in run.read("trajectory", Trajectory) if t.task.id == "stall/1"] == [0]
    assert "reflect/stall/1#0" not in {v.trajectory_id for v in run.read("verdict", Verdict)}
    assert not any(r.trajectory_id == "reflect/stall/1#0" for r in run.read("reflection", Reflection))
    assert not run.finished and "1 episode had no model or no browser at every try" in caplog.text
    healed = await play(tmp_path, stall_config(count=4))
    whole = await play(tmp_path / "whole", stall_config(count=4))
    assert timeless(healed) == timeless(whole) and Run.read_only(tmp_path).finished


async def test_walls_are_not_retried(tmp_path: Path) -> None:
    stall = Stall(None, blocked=["stall/2"])  # type: ignore[arg-type]
    found = await play(tmp_path, stall_config(count=4), stall)
    assert found["outcomes"]["blocked"] == 1
    assert stall.begun.count("reflect/stall/2#0") == 1 and "reflect/stall/2#1" not in stall.begun


async def test_a_judge_that_cannot_tell_is_asked_again_and_then_left(tmp_path: Path) -> None:
    class Silent:
        name, asked = "silent", 0

        async def __call__(self, trajectory: Trajectory) -> Verdict:
            self.asked += 1
            return Verdict(success=None, judge="silent", unjudged="no_verdict")

    judge = Silent()
    found = await play(tmp_path, stall_config(count=3), judge=judge)
    assert found["outcomes"] == {"judge_failed": 3} and judge.asked == 9 and found["reflections"] == 0


async def test_equal_cost_is_exact_and_deterministic(tmp_path: Path) -> None:
    free = await play(tmp_path / "free", stall_config())
    results = []
    for concurrency in (1, 5):
        config = stall_config(browser_steps=40, concurrency=concurrency)
        results.append(timeless(await play(tmp_path / f"c{concurrency}", config)))
    assert results[0] == results[1]
    assert records(tmp_path / "c1") == records(tmp_path / "c5")
    assert 40 <= results[0]["browser_steps"] < 40 + 10 < free["browser_steps"]
    assert results[0]["tasks"] == free["tasks"] and results[0]["attempts"] < free["attempts"]


async def test_token_budget_stops_resumably(tmp_path: Path) -> None:
    class Dear(Explorer):
        left = 9

        async def decide(self, *args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise BudgetError("token budget of 9 is used up")
            return await super().decide(*args, **options)

    config = stall_config(count=4)
    with pytest.raises(BudgetError):
        await play(tmp_path / "run", config, policy=Dear(EMBEDDED))
    assert not any(t.stop == "budget" for t in Run.read_only(tmp_path / "run").read("trajectory", Trajectory))
    assert timeless(await play(tmp_path / "run", config)) == timeless(await play(tmp_path / "whole", config))


async def test_progress_is_told(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    await play(tmp_path, stall_config(count=4), show=lambda name, done, total, remark: seen.append((name, done, total)))
    assert [s for s in seen if s[0] == "reflect attempt 1"][-1] == ("reflect attempt 1", 4, 4)


async def test_an_outage_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    config = stall_config(count=20)
    plain = await play(tmp_path / "plain", config)
    gone = {f"reflect/stall/{i}#0": 99 for i in range(3, 20)}
    with pytest.raises(RunError, match=r"8 episodes in a row .* same command goes on"):
        await play(tmp_path / "broken", config, Stall(None, breaks=gone))  # type: ignore[arg-type]
    assert not Run.read_only(tmp_path / "broken").finished
    again = await play(tmp_path / "broken", config)
    assert timeless(again) == timeless(plain) and records(tmp_path / "broken") == records(tmp_path / "plain")
