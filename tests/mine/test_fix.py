"""The plan of teacher continuations, replays that drift, advice. Chat questions and their replies. Probes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rmsweb.actions import Viewport
from rmsweb.config import MineConfig
from rmsweb.errors import ConfigError, EndpointError
from rmsweb.mine import ask, probe, stage
from rmsweb.mine.advice import Advice
from rmsweb.mine.align import Successes, state_keys
from rmsweb.mine.fix import Continuation, Located, Tries, continuation, fix, next_round, restored, steps_to_fix
from rmsweb.mine.label import Case
from rmsweb.mine.locate import locate
from rmsweb.mine.play import Parts
from rmsweb.mine.taxonomy import load
from rmsweb.records import Outcome, Reflection, Trajectory, Verdict
from rmsweb.store import Run

ALL = ("first_error", "divergence", "mechanical")
VIEW = Viewport(320, 224)


def found(pair: tuple[Trajectory, Verdict], known: Successes | None = None) -> Located:
    trajectory, verdict = pair
    return Located(trajectory, verdict, tuple(locate(trajectory, verdict, known or Successes(VIEW), ALL)))


async def test_order_of_steps(shop: Any) -> None:
    late = found(await shop.walk("help", "home", "blue mug", "add", "void", "=done"))
    assert steps_to_fix(late) == [2, 0, 4]


async def test_a_prefix_keeps_unreadable_replies(shop: Any) -> None:
    trajectory, _ = await shop.walk("?", "help", "home", "blue mug")
    job = continuation(trajectory, 3, 1)
    assert [d.intent for d in job.prefix] == ["", "help", "home"] and job.prefix[0].fault is not None
    assert job.id == "fix-0-3/shop-0#1" and job.own == 3
    assert job.expect == ("", "", "", trajectory.steps[3].before.image)


async def test_rounds_share_states_and_stop_at_their_limits(shop: Any) -> None:
    pair = [found(await shop.walk("blue mug", "add", "=done", attempt=i)) for i in range(2)]
    known, tries, config = Successes(VIEW), Tries(), MineConfig(fix_attempts=2, fix_tries=3)
    jobs = next_round(pair, known, tries, config)
    assert [job.step for job in jobs] == [0]
    good, _ = await shop.walk("red mug", "add", "=done")
    known.add(good, "sibling")
    assert next_round([found(await shop.walk("blue mug"), known)], known, tries, config) == []
    asked = list[str]()

    async def play(jobs: Sequence[Continuation]) -> Mapping[str, tuple[Trajectory, Verdict]]:
        asked.extend(job.id for job in jobs)
        failed = pair[0].trajectory.model_copy(update={"steps": pair[0].trajectory.steps[:1]})
        return {job.id: (failed, Verdict(success=False, judge="rules")) for job in jobs}

    spent = await fix(pair, Successes(VIEW), play, config)
    assert spent.episodes == len(asked) == len(set(asked)) <= 6
    assert spent.successes == 0


async def test_a_replay_that_ends_elsewhere_gives_nothing(shop: Any) -> None:
    bad, _ = await shop.walk("help", "home", "blue mug")
    other, _ = await shop.walk("help", "home", "red mug", "add", "=done", attempt=1)
    assert restored(continuation(bad, 2, 0), other)
    drifted, _ = await shop.walk("red mug", "add", "=done")
    assert not restored(continuation(bad, 2, 0), drifted)


async def test_drift_is_counted_and_not_tried_again(shop: Any, tmp_path: Path) -> None:
    config = shop.settings(rollouts=1)
    run = Run.open(tmp_path / "m", "mine", config)
    run.images = {}  # type: ignore[assignment]
    suite, browser = shop.Suite(), shop.Browser(run.images)

    class Drifting(shop.Suite):  # type: ignore[name-defined,misc]
        async def begin(self, task: Any, episode: str, opener: Any) -> Any:
            page = await super().begin(task, episode, opener)
            if episode.startswith("fix"):
                page.page = "help"
            return page

    bad = shop.Chooser("bad", {**shop.WEAK, "start": ["blue mug"], "blue mug": ["add"]})
    parts = Parts(bad, shop.Chooser("teacher", shop.GOOD), Drifting(), browser, suite.judge)
    summary = await stage.run(config, run, parts)
    assert summary["teacher"]["other_state"] == summary["teacher"]["episodes"] == 6
    assert summary["teacher"]["successes"] == 0


async def test_advice_is_written_once_and_grows_with_failed_tries(shop: Any, tmp_path: Path) -> None:
    trajectory, verdict = await shop.walk("blue mug", "add", "=done")
    tried, failed = await shop.walk("help", attempt=1)
    written = list[str]()

    async def write(task: Any, attempt: Trajectory, verdict: Verdict, earlier: Any = ()) -> Reflection:
        written.append(attempt.id)
        return Reflection(trajectory_id=attempt.id, outcome=Outcome.FAILURE, lesson=f"lesson {len(written)}")

    for _ in range(2):
        with Run.open(tmp_path / "m", "mine", shop.settings()) as run:
            advice, job = Advice(run, write), continuation(trajectory, 0, 0)
            assert [r.lesson for r in await advice.on(job, verdict)] == ["lesson 1"]
            await advice.learn(job, tried, failed)
            assert [r.lesson for r in await advice.on(job, verdict)] == ["lesson 1", "lesson 2"]
            await advice.learn(job, tried, Verdict(success=None, judge="chat", unjudged="refused"))
    assert written == [trajectory.id, tried.id]
    assert await Advice(run, None).on(job, verdict) == ()


class Scripted:
    name = "chat"

    def __init__(self, *texts: str) -> None:
        self.texts, self.seen = list(texts), list[Any]()

    async def complete(self, messages: Any, *, n: int = 1, **_: Any) -> Any:
        self.seen.append(messages)
        return [SimpleNamespace(text=self.texts.pop(0)) for _ in range(n)]


@pytest.mark.parametrize(
    ("replies", "step"),
    [
        (['{"first_error": 2, "why": "x"}', 'Sure!\n{"first_error": 2, "wh', '{"first_error": 0}'], 2),
        (['{"first_error": 2}', '{"first_error": 1}', '{"first_error": 0}'], None),
        (['{"first_error": null}', "I cannot say", '{"first_error": 2}'], None),
        (['{"first_error": 7}', '{"first_error": 7}', '{"first_error": 7}'], None),
    ],
)
async def test_first_error_needs_agreement(shop: Any, replies: list[str], step: int | None) -> None:
    trajectory, verdict = await shop.walk("help", "home", "blue mug")
    model = Scripted(*replies)
    assert await ask.first_error(trajectory, verdict, model, 3, 0.6, 0) == step  # type: ignore[arg-type]
    text = json.dumps(model.seen)
    assert "2: 'blue mug'" in text and "before step 0, 1, 2" in text and "{" not in text.split("Task:")[1][:40]
    assert sum(part["type"] == "image" for part in model.seen[0][0]["content"]) == 3


async def test_labels_of_a_chat_model_come_from_the_list(shop: Any) -> None:
    trajectory, _ = await shop.walk("blue mug")
    case, taxonomy = Case(trajectory, trajectory.steps[0]), load()
    good = Scripted('{"code": "wrong_element.near_miss", "why": "other colour"}')
    assert await ask.label(case, taxonomy, good, 0) == "wrong_element.near_miss"  # type: ignore[arg-type]
    assert "wrong_element.near_miss: " in json.dumps(good.seen)
    for text in ('{"code": "mood"}', "", "near miss"):
        assert await ask.label(case, taxonomy, Scripted(text), 0) is None  # type: ignore[arg-type]


def test_prompts_refuse_other_placeholders() -> None:
    with pytest.raises(ConfigError, match="has the placeholders"):
        ask.fill("mine_label", {"goal": "x"})
    filled = ask.fill("mine_label", dict.fromkeys(("goal", "log", "reference", "modes", "pictures"), "{goal}"))
    assert "{goal}" in filled and '{"code"' in filled


async def test_the_chat_judge_and_labeller_in_the_stage(shop: Any, tmp_path: Path) -> None:
    class Model:
        name = "chat"
        calls = 0

        async def complete(self, messages: Any, *, n: int = 1, **_: Any) -> Any:
            self.calls += 1
            text = messages[0]["content"][0]["text"]
            reply = '{"code": "navigation.wrong_page"}' if "failure modes" in text else '{"first_error": 0}'
            return [SimpleNamespace(text=reply) for _ in range(n)]

    model = Model()
    for first in (True, False):
        config = shop.settings(rollouts=1, first_error="chat", labels="chat")
        run = Run.open(tmp_path / "m", "mine", config)
        run.images = {}  # type: ignore[assignment]
        suite = shop.Suite()
        parts = Parts(
            shop.Chooser("w", shop.WEAK),
            shop.Chooser("t", shop.GOOD),
            suite,
            shop.Browser(run.images),
            suite.judge,
            model,
        )
        summary = await stage.run(config, run, parts)
        assert [m["code"] for m in summary["modes"]][:1] == ["navigation.wrong_page"]
        assert model.calls > 0 if first else model.calls == 0
        model.calls = 0
    verdicts = {v.trajectory_id: v for v in Run.read_only(tmp_path / "m").read("verdict", Verdict)}
    failed = [v for i, v in verdicts.items() if v.success is False and not i.startswith("fix")]
    assert failed and all(v.judge == "rules+chat" and v.first_error == 0 for v in failed)


async def test_probes(shop: Any) -> None:
    trajectory, _ = await shop.walk("red mug", "add", "=done")
    known = Successes(VIEW)
    known.add(trajectory, "sibling")
    at, policy = trajectory.steps[0], shop.Chooser("weak", {"start": ["red mug", "blue mug", "blue mug", "?"]})
    done = list[probe.Probe]()
    await probe.ask([probe.Place(trajectory, 0)], policy, 64, 0, 4, done.append)
    references = known.at("shop-0", state_keys(trajectory.steps)[0])
    share = probe.agreement(done[0], at, references, VIEW)
    assert share is not None and 0.1 < share < 0.45
    mistake = probe.usual_mistake(done[0], at, references, VIEW)
    assert mistake is not None and mistake.intent == "blue mug"
    alone = probe.agreement(done[0], at, (), VIEW)
    assert alone is not None and 0.35 < alone < 0.7
    assert probe.unstable(done[0], at, references, VIEW, 0.75) is not None
    assert probe.unstable(done[0], at, references, VIEW, 0.1) is None


async def test_a_model_that_fails_leaves_the_state_unprobed(shop: Any) -> None:
    trajectory, _ = await shop.walk("red mug")

    class Down:
        name = "down"

        async def decide(self, *_: Any, **__: Any) -> Any:
            raise EndpointError("no")

    done = list[probe.Probe]()
    await probe.ask([probe.Place(trajectory, 0)], Down(), 4, 0, 1, done.append)
    assert done[0].decisions == () and probe.agreement(done[0], trajectory.steps[0], (), VIEW) is None
