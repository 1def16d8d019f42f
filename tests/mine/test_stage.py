"""The whole stage in the shop of conftest.py: what is drawn, that references are verified, resume, the control arms."""

import hashlib
import random
from pathlib import Path
from typing import Any

import pytest

from rmsweb.errors import ConfigError
from rmsweb.mine import stage
from rmsweb.mine.play import Parts, take_rollouts
from rmsweb.records import CriticalState, FailureMode, Task, Trajectory, Verdict
from rmsweb.store import Run


class PngImages(dict[str, bytes]):
    """The fake pages' pictures are no PNG: kept in memory in place of the run's folder."""

    def put(self, png: bytes) -> str:
        sha = hashlib.sha256(png).hexdigest()
        self[sha] = png
        return sha


async def mine(
    shop: Any,
    folder: Path,
    *,
    teacher: Any = None,
    siblings: Any = (),
    test: Any = (),
    inputs: Any = None,
    take: Any = None,
    **mine: Any,
) -> Any:
    config = shop.settings(**mine)
    run = Run.open(folder, "mine", config, inputs)
    run.images = PngImages()  # type: ignore[assignment]
    suite = shop.Suite()
    weak = shop.Chooser("weak", shop.WEAK)
    parts = Parts(weak, teacher, suite, shop.Browser(run.images), suite.judge)
    try:
        if take is not None:
            source = Run.read_only(take[0])
            source.images = take[1]
            take_rollouts(run, source)
        summary = await stage.run(config, run, parts, siblings=siblings, test_tasks=test)
    finally:
        run.close()
    return summary, weak, parts


def states(folder: Path) -> list[CriticalState]:
    return Run.read_only(folder).read("state", CriticalState)


async def test_states_have_verified_references(shop: Any, tmp_path: Path) -> None:
    summary, _, _ = await mine(shop, tmp_path / "m", teacher=shop.Chooser("teacher", shop.GOOD))
    found = states(tmp_path / "m")
    drawn = [s for s in found if s.weight]
    assert summary["states"] == len(drawn) > 8
    right = {"start": "red mug", "help": "home", "red mug": "add", "blue mug": "home", "added": "done"}
    for state in drawn:
        assert state.references
        assert right[state.now.title] in {r.intent for r in state.references}
    for state in found:
        if state.failing is not None:
            assert state.failing != state.references[0].action if state.references else True
    assert {s.mode for s in drawn} > {"routine", "wrong_element.near_miss"}
    assert 0 < summary["teacher"]["successes"] <= summary["teacher"]["episodes"]
    assert summary["references"].get("teacher", 0) > 0 and summary["references"].get("self", 0) > 0
    modes = Run.read_only(tmp_path / "m").read("mode", FailureMode)
    assert sum(m.share for m in modes) == pytest.approx(1)
    assert [m["code"] for m in summary["modes"]] == [m.code for m in modes]


async def test_hard_states_stay_below_their_share(shop: Any, tmp_path: Path) -> None:
    summary, _, _ = await mine(shop, tmp_path / "m", teacher=shop.Chooser("t", shop.GOOD), routine_share=0.7)
    assert summary["routine_share"] >= 0.7 - 1 / summary["states"]


async def test_without_a_way_out_a_state_is_for_evaluation_only(shop: Any, tmp_path: Path) -> None:
    hopeless = shop.Chooser("hopeless", {page: ["=no"] for page in shop.GOOD})
    summary, _, _ = await mine(shop, tmp_path / "m", teacher=hopeless, rollouts=1)
    assert summary["teacher"]["successes"] == 0 < summary["teacher"]["episodes"]
    held = [s for s in states(tmp_path / "m") if not s.references]
    assert held and all(s.weight == 0 for s in held)
    assert summary["hard"]["evaluation_only"] == len(held)


async def test_no_teacher_means_siblings_only(shop: Any, tmp_path: Path) -> None:
    good = [await shop.walk("red mug", "add", "=done", number=i, attempt=1) for i in range(6)]
    given = [stage.Judged(t.model_copy(update={"advice": "look"}), v) for t, v in good]
    summary, _, _ = await mine(shop, tmp_path / "m", siblings=given)
    assert summary["teacher"]["episodes"] == 0
    assert "retry" in summary["references"] and "teacher" not in summary["references"]


async def test_same_again_is_free_and_equal(shop: Any, tmp_path: Path) -> None:
    teacher = shop.Chooser("teacher", shop.GOOD)
    first, _, _ = await mine(shop, tmp_path / "m", teacher=teacher)
    before = {p.name: p.read_bytes() for p in (tmp_path / "m").glob("*.jsonl")}
    again, weak, parts = await mine(shop, tmp_path / "m", teacher=teacher)
    assert again == first
    assert weak.calls == parts.browser.opened == 0
    assert {p.name: p.read_bytes() for p in (tmp_path / "m").glob("*.jsonl")} == before


async def test_rollouts_taken_over_are_not_played_again(shop: Any, tmp_path: Path) -> None:
    weights, others = tmp_path / "weights", tmp_path / "others"
    weights.write_text("one")
    others.write_text("two")
    teacher, inputs = shop.Chooser("teacher", shop.GOOD), {"sft": weights}
    alone, _, _ = await mine(shop, tmp_path / "u", teacher=teacher, inputs=inputs, sampling="uniform", states=12)
    _, _, parts = await mine(shop, tmp_path / "m", teacher=teacher, inputs=inputs)
    take = (tmp_path / "m", parts.browser.images)
    taken, weak, there = await mine(
        shop, tmp_path / "t", teacher=teacher, inputs=inputs, take=take, sampling="uniform", states=12
    )
    assert weak.calls == 0 and taken == alone
    drawn = states(tmp_path / "t")
    assert all(state.now.image in there.browser.images for state in drawn)
    fewer, weak, there = await mine(shop, tmp_path / "f", teacher=teacher, inputs=inputs, take=take, states=8)
    assert weak.calls == there.browser.opened == 0 and fewer["states"] == 8, "the teacher is not asked again either"
    for changed, word in (({"inputs": {"sft": others}}, "another policy"), ({"temperature": 0.1}, "settings")):
        with pytest.raises(ConfigError, match=word):
            await mine(shop, tmp_path / word, take=take, **{"inputs": inputs, **changed})


async def test_resume_after_a_cut_at_any_byte(shop: Any, tmp_path: Path) -> None:
    teacher = shop.Chooser("teacher", shop.GOOD)
    whole, _, _ = await mine(shop, tmp_path / "whole", teacher=teacher)
    wanted = (tmp_path / "whole/states.jsonl").read_bytes()
    rng = random.Random(1)
    for number in range(3):
        folder = tmp_path / f"cut{number}"
        await mine(shop, folder, teacher=teacher)
        for name in ("trajectories", "verdicts", "probes"):
            path = folder / f"{name}.jsonl"
            data = path.read_bytes()
            path.write_bytes(data[: rng.randrange(len(data))])
        (folder / "states.jsonl").write_bytes(b"half a li")
        resumed, _, _ = await mine(shop, folder, teacher=teacher)
        assert (folder / "states.jsonl").read_bytes() == wanted
        assert resumed == whole
        ids = [t.id for t in Run.read_only(folder).read("trajectory", Trajectory)]
        assert len(ids) == len(set(ids))


async def test_uniform_control_has_as_many_states_and_no_continuations(shop: Any, tmp_path: Path) -> None:
    teacher = shop.Chooser("teacher", shop.GOOD)
    summary, _, _ = await mine(shop, tmp_path / "u", teacher=teacher, sampling="uniform", states=12)
    drawn = [s for s in states(tmp_path / "u") if s.weight]
    assert summary["states"] == len(drawn) == 12
    assert not any(s.id.startswith("fix") for s in drawn)


async def test_budget_stops_the_teacher(shop: Any, tmp_path: Path) -> None:
    teacher = shop.Chooser("teacher", shop.GOOD)
    summary, _, _ = await mine(shop, tmp_path / "m", teacher=teacher, fix_steps=0)
    assert summary["teacher"]["episodes"] == 0


async def test_flips_mark_what_turns_the_outcome(shop: Any, tmp_path: Path) -> None:
    teacher = shop.Chooser("teacher", shop.GOOD)
    detectors = ("first_error", "divergence", "mechanical", "flip")
    summary, _, _ = await mine(shop, tmp_path / "m", teacher=teacher, detectors=detectors, flip_attempts=3)
    assert summary["hard"]["detectors"]["flip"] > 0
    assert summary["probed"] == 0


async def test_test_tasks_are_refused(shop: Any, tmp_path: Path) -> None:
    test = [Task.model_validate({**shop.task(2).model_dump(), "id": "x", "split": "heldout"})]
    with pytest.raises(ConfigError, match=r"worlds: sites/shop/add seed 2"):
        await mine(shop, tmp_path / "m", test=test)


async def test_infra_and_unjudged_rollouts_are_left_out(shop: Any, tmp_path: Path) -> None:
    config = shop.settings(rollouts=1)
    run = Run.open(tmp_path / "m", "mine", config)
    run.images = PngImages()  # type: ignore[assignment]
    suite = shop.Suite()

    async def judge(trajectory: Trajectory) -> Verdict:
        if trajectory.task.id == "shop-0":
            return Verdict(success=None, judge="chat", unjudged="no_verdict")
        return await suite.judge(trajectory)  # type: ignore[no-any-return]

    class Broken(shop.Chooser):  # type: ignore[name-defined,misc]
        async def decide(self, task: Task, *rest: Any, **options: Any) -> Any:
            if task.id == "shop-1":
                raise TimeoutError("no answer")
            return await super().decide(task, *rest, **options)

    parts = Parts(Broken("weak", shop.WEAK), None, suite, shop.Browser(run.images), judge)
    summary = await stage.run(config, run, parts)
    assert summary["rollouts"] == 4
    ids = {s.task.id for s in states(tmp_path / "m")}
    assert not ids & {"shop-0", "shop-1"}


async def test_modes_of_the_world_are_reported_and_never_trained_on(shop: Any, tmp_path: Path) -> None:
    class Failing(shop.Suite):  # type: ignore[name-defined,misc]
        """The help page answers with a server error."""

        async def begin(self, task: Task, episode: str, opener: Any) -> Any:
            page = await super().begin(task, episode, opener)
            observe = page.observe

            async def seen() -> Any:
                now = await observe()
                return now.model_copy(update={"status": 500 if now.title == "help" else 200})

            page.observe = seen
            return page

    config = shop.settings(rollouts=2)
    run = Run.open(tmp_path / "m", "mine", config)
    run.images = PngImages()  # type: ignore[assignment]
    suite = Failing()
    policy = shop.Chooser("weak", {**shop.WEAK, "start": ["help", "red mug"]})
    parts = Parts(policy, shop.Chooser("t", shop.GOOD), suite, shop.Browser(run.images), suite.judge)
    summary = await stage.run(config, run, parts)
    mode = next(m for m in summary["modes"] if m["code"] == "environment.error")
    assert mode["count"] > 0 and mode["trained"] is False and mode["drawn"] == 0
    found = [s for s in states(tmp_path / "m") if s.mode == "environment.error"]
    assert found and all(s.weight == 0 and not s.references for s in found)


async def test_chat_needs_a_model(shop: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'mine.labels = "chat" needs a judge model'):
        await mine(shop, tmp_path / "m", labels="chat")
