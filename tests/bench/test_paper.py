"""Which tasks an exam asks for, what is left out and why, and that nothing of it was trained on."""

import json
from pathlib import Path

import pytest
from small_world import number_task
from test_exam import CONFIG, play

from rmsweb.bench.compare import examined
from rmsweb.bench.disjoint import assert_disjoint, overlap
from rmsweb.bench.exam import refuse_changed_file
from rmsweb.bench.layout import stages_in
from rmsweb.bench.paper import selected
from rmsweb.bench.setting import Asked, facts_of, read_asked, what_it_is, write_asked
from rmsweb.config import Config, EvalConfig, SuiteConfig, load
from rmsweb.errors import ConfigError, RunError
from rmsweb.records import Score, Stop, Task, Trajectory
from rmsweb.store import Run
from rmsweb.tasksets.known import ids_of
from rmsweb.web.suite import FileSuite

DATA = Path(__file__).parents[3] / "shared" / "data"


def web_task(ident: str, goal: str, host: str = "shop.example", **more: object) -> Task:
    fields = {"id": ident, "suite": "webvoyager", "site": "Shop", "template": "Shop", "split": "exam", "goal": goal}
    return Task.model_validate({**fields, "start_url": f"https://{host}/", **more})


def ask(config: Config) -> Asked:
    one = config.suite.model_copy(update={"split": "exam", "count": config.eval.tasks or 200})
    return selected(config, [(FileSuite(), one)])[0]


def test_texts_on_one_host_are_an_overlap_and_a_site_of_the_web_is_no_world() -> None:
    exam = [web_task("a", "Buy the red mug."), web_task("b", "Buy a blue mug"), web_task("c", "Find a lamp")]
    training = [
        web_task("x", "buy the  RED mug", "www.shop.example", split="train"),
        web_task("y", "Find a lamp", "other.example"),
        web_task("z", "Something else"),
    ]
    found = overlap(exam, training)
    assert (found.texts, found.worlds, found.tasks, found.goals) == (("a",), (), (), 1)
    assert found.counts() == {
        "training": 3,
        "tasks": 0,
        "worlds": 0,
        "templates": 0,
        "texts": 1,
        "goals": 1,
        "unrecorded": 0,
    }
    with pytest.raises(ConfigError, match=r"shares 1 task texts on the same host .*\(a\).*eval\.allow_overlap=true"):
        assert_disjoint(exam, training)
    assert assert_disjoint(exam, training, allowed=True).texts == ("a",)
    assert assert_disjoint(exam[1:], training).counts()["goals"] == 1


def test_texts_of_built_in_sites_are_counted_by_world() -> None:
    training = [number_task(3, "train", seed=1).model_copy(update={"id": "other"})]
    found = assert_disjoint([number_task(i) for i in range(4)], training)
    assert (found.texts, found.goals) == ((), 4)


async def test_an_allowed_overlap_stands_in_every_score(tmp_path: Path) -> None:
    allowed = CONFIG.model_copy(update={"eval": CONFIG.eval.model_copy(update={"allow_overlap": True})})
    await play(tmp_path / "r", {"rl": 0}, allowed, training=[number_task(3), number_task(4)], unrecorded=["base"])
    score = json.loads((tmp_path / "r/scores.json").read_text())["exams"]["heldout"]["scores"]["rl"]
    assert score["contamination"] == {
        "training": 2, "tasks": 2, "worlds": 2, "templates": 0, "texts": 0, "goals": 20, "unrecorded": 1,
    }  # fmt: skip
    group = examined(stages_in({"r": tmp_path / "r"})).groups[0]
    said = group.numbers()["what"][1]
    assert "Overlap with 2 training tasks: 2 ids, 2 worlds" in said and "1 model had been trained on before" in said


async def test_what_was_asked_for_is_written_before_the_first_episode_and_said_by_the_score(tmp_path: Path) -> None:
    left_out = {number_task(1).id: "date passed", number_task(4).id: "site is gone"}
    config = Config(eval=EvalConfig(tasks=6, controls=0, bootstrap=100, max_steps=3, exclude=left_out))
    summary, suite = await play(tmp_path / "r", {"rl": 0}, config)
    assert summary["heldout"]["n"] == 6 and len(suite.begun) == 6
    asked = read_asked(Run.read_only(tmp_path / "r"))["heldout"]
    assert [t.seed for t in asked.tasks] == [100, 102, 103, 105, 106, 107] and asked.excluded == left_out
    score = Score.model_validate(
        json.loads((tmp_path / "r/scores.json").read_text())["exams"]["heldout"]["scores"]["rl"]
    )
    assert (score.protocol, score.judge_model, score.step_cap, score.tasks, score.n) == ("numbers", "", (3, 3), 6, 6)
    assert (score.observation, score.temperature, score.top_p, score.seed) == ("screenshot", 0.0, 1.0, 0)
    assert len(score.dataset) == len(score.texts) == 16 and score.contamination is not None
    lines = what_it_is(score)
    assert (
        "step limit 3, 1 run of each" in lines[0] and "2 tasks left out (date passed: 1; site is gone: 1)" in lines[1]
    )
    assert summary["heldout"]["what"] == [lines[0], f"{lines[1]} {lines[2]}"]


async def test_unknown_tasks_cannot_be_left_out(tmp_path: Path) -> None:
    config = Config(eval=EvalConfig(tasks=6, exclude={"sites/nowhere": "gone"}))
    with pytest.raises(ConfigError, match=r"eval\.exclude names 1 tasks that are not in the exam \(sites/nowhere\)"):
        await play(tmp_path / "r", {"rl": 0}, config)


def test_prices_need_their_day_and_exclusions_their_reason() -> None:
    for setting, said in (
        ('eval.prices={"m" = [1.0, 2.0]}', "prices need eval.prices_date"),
        ('eval.prices_date="last summer"', "is no day"),
        ('eval.exclude={"t" = " "}', "no reason for t"),
    ):
        with pytest.raises(ConfigError, match=said):
            load(None, [setting])
    with pytest.raises(ConfigError, match="cannot be negative"):
        load(None, ['eval.prices={"m" = [-1.0, 2.0]}', 'eval.prices_date="2026-11-30"'])
    assert load(None, ['eval.prices={"m" = [1, 2]}', 'eval.prices_date="2026-11-30"']).eval.prices == {"m": (1.0, 2.0)}


def test_benchmarks_in_one_file_are_not_mixed(tmp_path: Path) -> None:
    rows = [web_task("a", "Buy a mug"), web_task("b", "Buy a lamp", suite="online_mind2web")]
    (tmp_path / "t.jsonl").write_text("".join(row.model_dump_json(exclude_defaults=True) + "\n" for row in rows))
    with pytest.raises(ConfigError, match="online_mind2web and webvoyager are in one file"):
        ask(Config(suite=SuiteConfig(name="file", path=str(tmp_path / "t.jsonl"))))


def test_a_selection_of_a_public_file_says_of_what() -> None:
    path = DATA / "webvoyager" / "fara-595.jsonl"
    if not path.exists():
        pytest.skip(f"../shared/data is absent: {path}")
    config = Config(
        suite=SuiteConfig(name="file", path=str(path)),
        eval=EvalConfig(tasks=40, exclude={"Allrecipes--1": "no longer possible"}),
    )
    asked = ask(config)
    assert (len(asked.tasks), asked.tasks_of) == (40, 595) and "fara" in asked.version
    assert asked.task_file == "5c8cb175fdac7a5e" and asked.excluded == {"Allrecipes--1": "no longer possible"}
    assert {task.suite for task in asked.tasks} == {"webvoyager"} and asked.tasks[1].id != "Allrecipes--1"


def test_an_edited_task_file_is_refused_before_and_after_the_end(tmp_path: Path) -> None:
    rows = [web_task("a", "Buy a mug"), web_task("b", "Buy a lamp")]
    file = tmp_path / "t.jsonl"

    def write(tasks: list[Task]) -> None:
        file.write_text("".join(row.model_dump_json(exclude_defaults=True) + "\n" for row in tasks))

    write(rows)
    config = Config(suite=SuiteConfig(name="file", path=str(file)))
    with Run.open(tmp_path / "r", "eval", config) as run:
        write_asked(run, {"webvoyager": ask(config)})
        write([rows[0]])
        write_asked(run, {"webvoyager": ask(config)})  # nothing was played yet
        write(rows)
        write_asked(run, {"webvoyager": ask(config)})
        task = ask(config).tasks[0]
        run.append("trajectory", Trajectory(id="m/a#0", task=task, policy="m", stop=Stop.STEP_LIMIT))
        run.finish()
    for edited, said in (
        ([rows[0].model_copy(update={"goal": "Sell a mug"}), rows[1]], r'task a goal: "Buy a mug" -> "Sell a mug"'),
        (rows[:1], "task b: not among the tasks any more"),
        ([*rows, web_task("c", "Buy a pen")], "task c: not among the tasks then"),
    ):
        write(edited)
        with Run.open(tmp_path / "r", "eval", config) as run:
            with pytest.raises(RunError, match=rf"(?s)choose another -o.*{said}"):
                refuse_changed_file(config, run, {"file": FileSuite()})
            with pytest.raises(RunError, match="attempts at other tasks"):
                write_asked(run, {"webvoyager": ask(config)})
            assert len(read_asked(run)["webvoyager"].tasks) == 2
            run.leave()
    write(rows)
    with Run.open(tmp_path / "r", "eval", config) as run:
        refuse_changed_file(config, run, {"file": FileSuite()})
        file.unlink()
        refuse_changed_file(config, run, {"file": FileSuite()})
        run.leave()


def test_a_version_of_which_only_ids_are_known_is_said_to_be_unverified_in_the_score(tmp_path: Path) -> None:
    rows = [{"task_id": i, "confirmed_task": "Look.", "website": "https://a.example/", "level": "easy"}
            for i in ids_of("online_mind2web", "2025-06")]  # fmt: skip
    path = tmp_path / "june.json"
    path.write_text(json.dumps(rows))
    asked = ask(Config(suite=SuiteConfig(name="file", path=str(path)), eval=EvalConfig(tasks=300)))
    facts = facts_of(asked.tasks, asked, {}, "")
    assert facts["version"] == "ids of 2025-06; texts not verified"
    numbers = {"successes": 0, "judged": 0, "success": 0.0, "interval": (0.0, 1.0), "n": 300}
    score = Score(name="x", policy="m", split="exam", suite="online_mind2web", **numbers, **facts)
    assert "300 tasks of online_mind2web ids of 2025-06; texts not verified (ids " in what_it_is(score)[0]
