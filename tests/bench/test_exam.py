"""The stage: same tasks for all, resume at any line, infra errors, controls, disjointness. No browser."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_world import NumberJudge, NumberSuite, Reader, number_task

from rmsweb import stages
from rmsweb.bench import controls, exam, heldout
from rmsweb.bench.disjoint import training_tasks
from rmsweb.config import Config, EvalConfig, SuiteConfig
from rmsweb.errors import BrowserError, ConfigError, DataError, RunError
from rmsweb.judge import could_not_tell
from rmsweb.progress import Silent
from rmsweb.records import TrainSample, Trajectory, Verdict
from rmsweb.store import Images, Run

CONFIG = Config(eval=EvalConfig(tasks=20, controls=6, bootstrap=200), suite=SuiteConfig())


async def play(path: Path, models: dict[str, int], config: Config = CONFIG, **options: Any) -> tuple[Any, NumberSuite]:
    """Examine readers that fail on `models[name]` of ten tasks."""
    with Run.open(path, "eval", config) as run:
        suite = NumberSuite(run.images, options.pop("breaks", None), options.pop("reason", "browser_gone"))
        readers = {name: Reader(run.images, name, fails) for name, fails in models.items()}
        papers = exam.exams(config, {"sites": suite}, {"sites": NumberJudge(suite)})  # type: ignore[dict-item]
        summary = await exam.run(config, run, readers, papers, suite, **options)  # type: ignore[arg-type]
    return summary, suite


async def test_models_side_by_side_with_pairs_and_controls(tmp_path: Path) -> None:
    summary, _ = await play(tmp_path / "r", {"base": 5, "sft": 2, "rl": 0})
    held = summary["heldout"]
    assert held["n"] == 20 and held["rl"]["success"] == 1.0 and held["sft"]["success"] == 0.8
    assert held["rl"]["steps_on_solved"] == 2.0
    pair = held["paired"]["rl_vs_base"]
    assert pair["difference"] == 0.5 and pair["resolved"] and pair["a_only"] == 10 and pair["common_steps"]["n"] == 10
    assert set(held["paired"]) == {"sft_vs_base", "rl_vs_base", "rl_vs_sft"}
    for kind in ("blank", "swapped"):
        control = held["controls"][kind]
        assert (control["model"], control["n"], control["success"], control["true_pictures"]) == ("rl", 6, 0.0, 1.0)
    written = json.loads((tmp_path / "r/scores.json").read_text())
    assert written["exams"]["heldout"]["scores"]["sft"]["outcomes"] == {"failure": 4, "success": 16}
    known = {
        key: written["exams"]["heldout"]["scores"]["sft"][key] for key in ("observation", "temperature", "step_cap")
    }
    assert known == {"observation": "screenshot", "temperature": 0.0, "step_cap": [4, 4]}
    assert written["disjoint"]["heldout"]["training"] == 0


async def test_a_cut_anywhere_is_made_good_and_gives_the_same_scores(tmp_path: Path) -> None:
    models = {"sft": 3, "rl": 1}
    await play(tmp_path / "whole", models)
    whole = (tmp_path / "whole/scores.json").read_text()
    lines = (tmp_path / "whole/trajectories.jsonl").read_bytes().splitlines(keepends=True)
    verdicts = (tmp_path / "whole/verdicts.jsonl").read_bytes().splitlines(keepends=True)
    for cut, judged in ((0, 0), (7, 6), (21, 21), (45, 44), (len(lines), len(lines) - 1)):
        await play(path := tmp_path / f"cut{cut}", models)
        (path / "trajectories.jsonl").write_bytes(b"".join(lines[:cut]) + (lines[cut][:9] if cut < len(lines) else b""))
        (path / "verdicts.jsonl").write_bytes(b"".join(verdicts[:judged]))
        _, suite = await play(path, models)
        assert len(suite.begun) == len(lines) - cut
        assert strip_wall((path / "scores.json").read_text()) == strip_wall(whole)
        ids = [t.id for t in Run.read_only(path).read("trajectory", Trajectory)]
        assert len(ids) == len(set(ids)) == len(lines)
        assert len(Run.read_only(path).read("verdict", Verdict)) == len(lines)


def strip_wall(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "wall_s" not in line)


async def test_infra_errors_are_played_again_and_never_judged(tmp_path: Path) -> None:
    first, never = f"rl/{number_task(0).id}#0", f"rl/{number_task(1).id}#0"
    summary, suite = await play(tmp_path / "r", {"rl": 0}, breaks={first: 1, never: 99})
    assert suite.begun.count(first) == 2 and suite.begun.count(never) == 3
    held = summary["heldout"]["rl"]
    assert (held["success"], held["success_judged"], held["judged"]) == (0.95, 1.0, 19)
    assert held["outcomes"] == {"infra_error": 1, "success": 19}
    assert never not in {v.trajectory_id for v in Run.read_only(tmp_path / "r").read("verdict", Verdict)}
    _, again = await play(tmp_path / "r", {"rl": 0})
    assert again.begun == [never], "what the machine broke is still owed"


async def test_a_model_that_never_ran_has_no_score(tmp_path: Path) -> None:
    every = {f"rl/{number_task(i).id}#0": 99 for i in range(20)}
    with pytest.raises(RunError, match=r"model rl: 0 of 20 episodes ran \(\{'infra_error': 20\}\)"):
        await play(tmp_path / "r", {"rl": 0}, breaks=every, reason="navigation")
    assert not (tmp_path / "r/scores.json").exists()


async def test_the_most_frequent_cause_is_said_where_nothing_ran(tmp_path: Path) -> None:
    class Unlike(NumberSuite):
        async def begin(self, task: Any, episode: str, page_opener: Any) -> Any:
            raise BrowserError(
                f"{'refused' if task.seed < 103 else 'no way'} at http://{task.seed}.test/", "navigation"
            )

    with Run.open(tmp_path / "r", "eval", CONFIG) as run:
        suite = Unlike(run.images)
        papers = exam.exams(CONFIG, {"sites": suite}, {"sites": NumberJudge(suite)})  # type: ignore[dict-item]
        with pytest.raises(RunError) as said:
            await exam.run(CONFIG, run, {"rl": Reader(run.images, "rl")}, papers, suite)  # type: ignore[arg-type]
    assert "Most frequent cause (17 of 20): navigation: no way at http://103.test/. Every `detail`" in str(said.value)


class Unsteady(NumberJudge):
    """A judge whose endpoint fails for all but the first `answers` questions."""

    answers = 0

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        self.answers -= 1
        if self.answers >= 0:
            return await super().__call__(trajectory)
        return could_not_tell(self.name, "infra", "HTTP 500")


async def test_a_judge_that_fails_is_said_and_its_cure_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = CONFIG.model_copy(update={"eval": EvalConfig(tasks=4, controls=0, bootstrap=200)})
    for answers in (3, 0):
        with Run.open(tmp_path / str(answers), "eval", config) as run:
            suite = NumberSuite(run.images)
            judge = Unsteady(suite)
            judge.answers = answers
            papers = exam.exams(config, {"sites": suite}, {"sites": judge})  # type: ignore[dict-item]
            readers = {"rl": Reader(run.images, "rl", 0)}
            if answers:
                summary = await exam.run(config, run, readers, papers, suite)  # type: ignore[arg-type]
                assert summary["heldout"]["rl"]["judged"] == 3
                assert f"3 of 4 episodes; the episodes are stored: judge them with `rmsweb judge --from {run.path}" in (
                    caplog.text
                )
            else:
                with pytest.raises(RunError, match=r"0 of 4 episodes, no score .*HTTP 500.*rmsweb judge --from"):
                    await exam.run(config, run, readers, papers, suite)  # type: ignore[arg-type]
                assert not (run.path / "scores.json").exists()


def test_a_task_file_without_a_judge_is_refused_before_the_first_episode(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(
        number_task(1).model_copy(update={"start_url": "http://a.test/", "split": "exam"}).model_dump_json()
    )
    config = Config(suite=SuiteConfig(name="file", path=str(file)))
    with pytest.raises(ConfigError, match=r"tasks from a file have no rules: set judge\.protocol"):
        stages.evaluate(config, tmp_path / "eval", {"explorer": Path("explorer")}, Silent())
    with pytest.raises(ConfigError, match=r"tasks from a file have no rules: set judge\.protocol"):
        stages.collect(config, tmp_path / "collect", {}, Silent())
    assert not list(tmp_path.glob("*/trajectories.jsonl"))


async def test_without_a_browser_the_exam_stops_and_goes_on_later(tmp_path: Path) -> None:
    gone = {f"rl/{number_task(i).id}#0": 99 for i in range(3, 20)}
    with pytest.raises(RunError, match="8 episodes in a row"):
        await play(tmp_path / "r", {"rl": 0}, breaks=gone)
    summary, again = await play(tmp_path / "r", {"rl": 0})
    assert summary["heldout"]["rl"]["success"] == 1.0 and len(again.begun) >= 17


async def test_training_on_the_exam_is_refused_before_the_first_episode(tmp_path: Path) -> None:
    for training, what in (
        (number_task(3), "1 tasks"),
        (number_task(4, "train").model_copy(update={"id": "other"}), "1 worlds"),
    ):
        with pytest.raises(ConfigError, match=f"shares {what}"):
            await play(tmp_path / what, {"rl": 0}, training=[training])
        assert not (tmp_path / what / "trajectories.jsonl").exists()
    apart = [number_task(3, "train", seed=1).model_copy(update={"id": "other"})]
    await play(tmp_path / "apart", {"rl": 0}, training=apart)
    assert json.loads((tmp_path / "apart/scores.json").read_text())["disjoint"]["heldout"]["goals"] == 20


def trained_on(tmp_path: Path, count: int) -> Path:
    """A run of rl, behind it one of sft and samples of so many tasks, and a checkpoint that is no run."""
    source = tmp_path / "samples"
    suite = NumberSuite(Images(tmp_path / "images"))
    with Run.open(source, "samples", Config()) as run:
        for task in suite.tasks(SuiteConfig(count=count)):
            run.append(
                "sample",
                TrainSample.model_validate(
                    {
                        "id": f"{task.id}#0@0",
                        "task": task,
                        "history": [],
                        "now": {"image": "x", "url": ""},
                        "decision": {},
                    }
                ),
            )
    Run.open(tmp_path / "sft", "sft", Config(), {"samples": source}).close()
    weights = tmp_path / "sft/checkpoint/model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"x")
    base = tmp_path / "base"
    base.mkdir()
    (base / "config.json").write_text("{}")
    Run.open(tmp_path / "rl", "rl", Config(), {"sft": weights.parent, "start": base}).close()
    return tmp_path / "rl"


def test_training_tasks_are_found_behind_a_checkpoint(tmp_path: Path) -> None:
    trained = [trained_on(tmp_path / "all", 3)]
    assert [t.seed for t in training_tasks(trained).tasks] == [100, 101, 102]
    base = str(tmp_path / "all/base")
    assert training_tasks([*trained, Path("endpoint"), Path("tiny"), Path("explorer")]).unrecorded == (base, "endpoint")
    (tmp_path / "all").rename(tmp_path / "moved")
    assert [t.seed for t in training_tasks([tmp_path / "moved/rl"]).tasks] == [100, 101, 102]


def test_what_was_trained_on_is_not_known_when_it_is_gone_or_changed(tmp_path: Path) -> None:
    trained = [trained_on(tmp_path / "all", 3)]
    samples = tmp_path / "all/samples"
    manifest = (samples / "run.json").read_bytes()
    (samples / "run.json").unlink()
    with pytest.raises(ConfigError, match=r"samples, which has no run.json any more: .* cannot be known"):
        training_tasks(trained)
    samples.rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="samples, which is not there"):
        training_tasks(trained)
    assert training_tasks(trained, gone_ok=True).tasks == []
    trained_on(tmp_path / "other", 2)
    (tmp_path / "other/samples").rename(samples)
    with pytest.raises(ConfigError, match="samples, which is not what it was"):
        training_tasks(trained)
    assert len(training_tasks(trained, gone_ok=True).tasks) == 2
    samples.rename(tmp_path / "other/samples")
    (tmp_path / "elsewhere").rename(samples)
    (samples / "run.json").write_bytes(manifest)
    assert len(training_tasks(trained).tasks) == 3


def test_runs_that_went_on_and_bases_that_are_gone_are_no_obstacle(tmp_path: Path) -> None:
    trained = [trained_on(tmp_path / "all", 3)]
    with Run.open(tmp_path / "all/samples", "samples", Config()) as run:  # the same command again, more came of it
        run.append("sample", run.read("sample", TrainSample)[0])
    assert len(training_tasks(trained).tasks) == 3
    (tmp_path / "all/base/trainer_log.jsonl").write_text("{}\n")  # other tools write beside their weights
    assert training_tasks(trained).unrecorded == (str(tmp_path / "all/base"),)
    shutil.rmtree(tmp_path / "all/base")
    assert training_tasks(trained).unrecorded == (str(tmp_path / "all/base"),)
    deep = tmp_path / "new/models/x"
    deep.mkdir(parents=True)
    (tmp_path / "all/rl").rename(deep / "rl")
    (tmp_path / "all/sft").rename(deep / "sft")
    (tmp_path / "new/models/samples").parent.mkdir(exist_ok=True)
    (tmp_path / "all/samples").rename(tmp_path / "new/models/samples")
    assert len(training_tasks([deep / "rl"]).tasks) == 3


async def test_episodes_judged_by_another_judge_stop_an_exam_before_it_plays(tmp_path: Path) -> None:
    await play(
        tmp_path / "r", {"rl": 0}, CONFIG.model_copy(update={"eval": EvalConfig(tasks=20, controls=0, bootstrap=200)})
    )
    file = tmp_path / "r/verdicts.jsonl"
    file.write_text(file.read_text().replace('"judge":"numbers"', '"judge":"rmsweb/chat:m:prompt=1"'))
    played = tmp_path / "r/trajectories.jsonl"
    played.write_text("".join(played.read_text().splitlines(keepends=True)[:5]))
    with pytest.raises(RunError, match=r"judged by rmsweb/chat:m:prompt=1, the rest would be .*rmsweb judge --from"):
        await play(
            tmp_path / "r",
            {"rl": 0},
            CONFIG.model_copy(update={"eval": EvalConfig(tasks=20, controls=0, bootstrap=200)}),
        )


async def test_exams_of_several_runs_are_read_together(tmp_path: Path) -> None:
    quiet = CONFIG.model_copy(update={"eval": EvalConfig(tasks=20, controls=0, bootstrap=200)})
    await play(tmp_path / "a", {"base": 6, "sft": 2}, quiet)
    await play(tmp_path / "b", {"rl": 1}, CONFIG)
    both = heldout.heldout_summary([tmp_path / "a", tmp_path / "b"], CONFIG)
    assert both["n"] == 20 and list(both["paired"]) == ["sft_vs_base", "rl_vs_base", "rl_vs_sft"]
    assert both["controls"]["blank"]["success"] == 0.0
    await play(other := tmp_path / "other", {"base": 6}, quiet)
    with pytest.raises(DataError, match="model base was examined on"):
        heldout.heldout_summary([tmp_path / "a", tmp_path / "b", other], CONFIG)
    assert heldout.heldout_summary([], CONFIG)["n"] == 0


async def test_repeated_runs_are_nested_in_tasks(tmp_path: Path) -> None:
    config = CONFIG.model_copy(update={"eval": EvalConfig(tasks=6, runs=2, controls=0, bootstrap=200)})
    summary, suite = await play(tmp_path / "r", {"sft": 3, "rl": 0}, config)
    assert len(suite.begun) == 24 and summary["heldout"]["paired"]["rl_vs_sft"]["n"] == 6
    score = json.loads((tmp_path / "r/scores.json").read_text())["exams"]["heldout"]["scores"]["rl"]
    assert score["n"] == 12 and score["success"] == 1.0
    assert summary["heldout"]["warnings"][0].startswith("sft, rl: several runs at temperature 0 repeat")


def test_the_recipe_names_the_exams() -> None:
    asked = exam.wanted(Config(eval=EvalConfig(tasks=7, template_tasks=5, miniwob_tasks=3)))
    assert [(s.name, s.split, s.count) for s in asked] == [
        ("sites", "heldout", 7), ("sites", "heldout_template", 5), ("miniwob", "exam", 3),
    ]  # fmt: skip


def test_a_blank_picture_is_a_whole_white_png(tmp_path: Path) -> None:
    import io

    from PIL import Image

    image = Image.open(io.BytesIO(controls.blank_png(320, 224)))
    assert image.size == (320, 224) and image.getextrema() == (255, 255)


def test_swaps_come_from_another_task_of_the_same_site_and_never_show_the_true_picture(tmp_path: Path) -> None:
    from specimens import task, trajectory

    images = Images(tmp_path / "images")
    episodes = [trajectory(images, task(i), 3) for i in range(8)]
    donors = controls.Donors(episodes)
    for episode in episodes:
        for step in episode.steps:
            image = donors.pick(episode.task, step.index, step.before.image)
            owner = next(e for e in episodes if image in [s.before.image for s in e.steps])
            assert owner.task.site == episode.task.site and owner.task.id != episode.task.id
    assert controls.Donors(episodes[:1]).pick(episodes[0].task, 0, "") is None
