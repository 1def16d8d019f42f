"""From kept trajectories to supervised steps: stripped, straightened, whole."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from small_stall import EMBEDDED, element, observation, step, trajectory

from rmsweb.actions import Answer, LeftClick, Memorize, Point
from rmsweb.config import Config, SamplesConfig
from rmsweb.errors import DataError
from rmsweb.records import Decision, Observation, Step, Stop, TrainSample, Trajectory, Verdict, Write
from rmsweb.reflect import samples
from rmsweb.reflect.samples import Tally, samples_of, straightened
from rmsweb.store import PNG_MAGIC, Run

CLICK = LeftClick(point=Point(x=10, y=10))
A, B, C = (observation(element("link", name), url=f"http://h/{name}") for name in "abc")
CONFIG = Config(profile=EMBEDDED)


def walk(*pages: Observation, thoughts: tuple[str, ...] = ()) -> list[Step]:
    """Clicks from page to page, then an answer on the last."""
    said = dict(enumerate(thoughts))
    steps = [step(i, p, CLICK, q, f"go{i}", thought=said.get(i, "")) for i, (p, q) in enumerate(pairwise(pages))]
    last = len(steps)
    return [*steps, step(last, pages[-1], Answer(text="7"), pages[-1], "done", thought=said.get(last, ""))]


def indices(steps: list[Step]) -> list[int]:
    return [s.index for s in steps]


def test_detours_are_cut_and_noops_stay_with_their_visit() -> None:
    assert indices(straightened(walk(A, B, C))) == [0, 1, 2]
    assert indices(straightened(walk(A, A, B))) == [0, 1, 2]
    assert indices(straightened(walk(A, B, A, C))) == [2, 3]
    assert indices(straightened(walk(A, B, A, B, A, C))) == [4, 5]
    assert indices(straightened(walk(A, B, A, A, C))) == [2, 3, 4]


def test_a_noop_is_history_and_no_target() -> None:
    made = samples_of(trajectory("order kite", *walk(A, A, B)), SamplesConfig())
    assert [s.id[-1] for s in made] == ["1", "2"] and len(made[0].history) == 1
    every = samples_of(trajectory("order kite", *walk(A, A, B)), SamplesConfig(skip_noops=False))
    assert [s.id[-1] for s in every] == ["0", "1", "2"]


def test_a_write_is_never_cut_out_as_a_detour() -> None:
    steps = walk(A, B, A, C)
    bought = steps[1].effect.model_copy(update={"writes": (Write(method="POST", url="http://h/buy", status=303),)})
    steps[1] = steps[1].model_copy(update={"effect": bought})
    assert indices(straightened(steps)) == [0, 1, 2, 3]


def test_a_success_that_did_not_end_by_itself_is_not_imitated() -> None:
    assert samples_of(trajectory("order kite", *walk(A, B), stop=Stop.STEP_LIMIT), SamplesConfig()) == []


def test_the_last_step_stays_and_samples_follow_on_each_other() -> None:
    made = samples_of(trajectory("order kite", *walk(A, B, A, C)), SamplesConfig())
    assert [s.id for s in made] == ["reflect/t#0@2", "reflect/t#0@3"]
    assert made[0].history == () and [h.before.url for h in made[1].history] == [A.url]
    assert made[1].history[0].after.url == made[1].now.url
    assert made[1].history[0].index == 0 and made[1].history[0].before.elements is None


def test_guidance_is_stripped_and_leaks_are_handled() -> None:
    thoughts = ("As advised, I go on.", "The list is here. Last time it was not.", "Seven.")
    done = trajectory("order kite", *walk(A, B, C, thoughts=thoughts), advice="go on to the list")
    tally = Tally()
    dropped = samples_of(done, SamplesConfig(), tally)
    assert [s.decision.thought for s in dropped] == ["Seven."] and tally.counts["leaks"] == 2
    assert [h.decision.thought for h in dropped[0].history] == ["", ""]
    rewritten = samples_of(done, SamplesConfig(leaks="rewrite"))
    assert [s.decision.thought for s in rewritten] == ["", "The list is here.", "Seven."]
    kept = samples_of(done, SamplesConfig(leaks="keep"))
    assert [s.decision.thought for s in kept] == list(thoughts)
    for sample in (*dropped, *rewritten, *kept):
        assert "go on to the list" not in sample.model_dump_json()
        assert sample.decision.raw == "" and sample.source == done.id


def said(steps: list[Step], at: int, **update: str) -> list[Step]:
    decision = steps[at].decision.model_copy(update=update)
    return [*steps[:at], steps[at].model_copy(update={"decision": decision}), *steps[at + 1 :]]


def test_leaks_in_the_action_line_and_in_memory_cost_the_sample() -> None:
    advice = "the right kite is the green one on page two"
    named, tally = said(walk(A, B, C), 1, intent="click it, as advised"), Tally()
    made = samples_of(trajectory("order kite", *named, advice=advice), SamplesConfig(), tally)
    assert [s.id[-1] for s in made] == ["0", "2"] and tally.counts["action_leaks"] == 1
    assert [h.decision.intent for h in made[1].history] == ["go0", ""]
    assert len(samples_of(trajectory("order kite", *named, advice=advice), SamplesConfig(leaks="keep"))) == 3
    assert len(samples_of(trajectory("order kite", *named), SamplesConfig())) == 3, "nobody advised"
    followed = said(walk(A, B, C), 1, intent="click the green one on page two")
    assert len(samples_of(trajectory("order kite", *followed, advice=advice), SamplesConfig())) == 3
    noted = [step(0, A, Memorize(fact="it is the green one on page two"), A, "note"), *walk(A, B)]
    noted = [s.model_copy(update={"index": i}) for i, s in enumerate(noted)]
    made = samples_of(trajectory("order kite", *noted, advice=advice), SamplesConfig(skip_noops=False))
    assert made and "green one" not in "".join(s.model_dump_json() for s in made)
    assert [h.index for h in made[-1].history] == list(range(len(made[-1].history)))


def test_a_leaking_thought_leaves_the_action_line_in_the_history() -> None:
    told = trajectory("order kite", *walk(A, B, C, thoughts=("As advised, I go on.",)), advice="go on to the list")
    made = samples_of(told, SamplesConfig())
    assert [(h.decision.thought, h.decision.intent) for h in made[-1].history] == [("", "go0"), ("", "go1")]


def test_tagged_replayed_and_unreadable_steps_are_left_out() -> None:
    assert samples_of(trajectory("order kite", *walk(A, B), tagged=("write_stopped",)), SamplesConfig()) == []
    assert samples_of(trajectory("o", *walk(A, B), tagged=("x",)), SamplesConfig(skip_tagged=False)) != []
    first, *rest = walk(A, B, C)
    replay = first.model_copy(update={"decision": Decision(intent="replay", action=CLICK)})
    made = samples_of(trajectory("order kite", replay, *rest), SamplesConfig())
    assert [s.id[-1] for s in made] == ["1", "2"] and len(made[0].history) == 1


def collect_run(path: Path, *done: Trajectory, good: set[str]) -> Run:
    run = Run.open(path, "collect", CONFIG)
    for one in done:
        pictured = []
        for s in one.steps:
            shas = [run.images.put(PNG_MAGIC + p.image.encode()) for p in (s.before, s.after)]
            before, after = (
                p.model_copy(update={"image": sha}) for p, sha in zip((s.before, s.after), shas, strict=True)
            )
            pictured.append(s.model_copy(update={"before": before, "after": after}))
        run.append("trajectory", one.model_copy(update={"steps": tuple(pictured)}))
        run.append("verdict", Verdict(success=one.id in good, judge="x", trajectory_id=one.id))
    run.close()
    return Run.read_only(path)


def test_stage_keeps_the_shortest_success_and_is_resumable(tmp_path: Path) -> None:
    long = trajectory("order kite", *walk(A, B, C), id="reflect/t#0")
    short = trajectory("order kite", *walk(A, C), id="reflect/t#1", attempt=1, advice="secret plan")
    bad = trajectory("order kite", *walk(A), id="reflect/t#2", attempt=2)
    source = collect_run(tmp_path / "collect", long, short, bad, good={long.id, short.id})
    with Run.open(tmp_path / "samples", "samples", CONFIG) as run:
        result = samples.run(CONFIG, run, [source])
        assert (result["samples"], result["trajectories"], result["leak_rate"]) == (2, 1, 0.0)
    made = Run.read_only(tmp_path / "samples")
    assert {s.source for s in made.read("sample", TrainSample)} == {short.id}
    assert all(s.now.image in made.images for s in made.read("sample", TrainSample))
    text = made.file("sample").read_text()
    assert "secret plan" not in text
    made.file("sample").write_text(text[: len(text) // 2])
    with Run.open(tmp_path / "samples", "samples", CONFIG) as again:
        assert samples.run(CONFIG, again, [source]) == result
    assert made.file("sample").read_text() == text
    assert json.loads((tmp_path / "samples" / "summary.json").read_text())["samples"] == 2


def test_what_is_trained_on_does_not_depend_on_the_order_in_which_episodes_ended(tmp_path: Path) -> None:
    done = [trajectory(f"order kite {n}", *walk(A, B, C), id=f"reflect/t{n}#0") for n in range(4)]
    done = [one.model_copy(update={"task": one.task.model_copy(update={"id": f"t{n}"})}) for n, one in enumerate(done)]
    written = []
    for name, order in (("a", done), ("b", done[::-1])):
        source = collect_run(tmp_path / name, *order, good={one.id for one in done})
        with Run.open(tmp_path / f"samples-{name}", "samples", CONFIG) as run:
            samples.run(CONFIG, run, [source])
        written.append(Run.read_only(tmp_path / f"samples-{name}").file("sample").read_text())
    assert written[0] == written[1] and written[0].count("\n") > 4


def test_other_coordinates_are_refused(tmp_path: Path) -> None:
    done = trajectory("order kite", *walk(A, B), coordinates="qwen3vl")
    source = collect_run(tmp_path / "collect", done, good={done.id})
    options: dict[str, Any] = {"match": "qwen3vl"}
    with Run.open(tmp_path / "samples", "samples", CONFIG) as run, pytest.raises(DataError, **options):
        samples.run(CONFIG, run, [source])
