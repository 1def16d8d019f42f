import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from foreign import DATA, facts, imported, put, trajectories, verdicts
from specimens import picture

from rmsweb.bench import compare, metrics, rates, reading
from rmsweb.bench.formats import import_runs
from rmsweb.bench.layout import stages_in
from rmsweb.bench.report import write_report
from rmsweb.errors import ConfigError, DataError
from rmsweb.records import Stop, Task, Trajectory, Verdict

NAME = "2024-10-22_20-19-08_GenericAgent-gpt-4o_on_miniwob.choose-list_5_14d4f1"
TASK = Task(id="miniwob.choose-list", suite="miniwob", site="miniwob", template="t", split="exam", goal="choose")


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.mark}",)


def folder_of(root: Path, shots: int = 3, name: str = NAME, **fields: Any) -> Path:
    summary = {
        "n_steps": 2,
        "cum_reward": 1.0,
        "err_msg": None,
        "stack_trace": None,
        "terminated": True,
        "truncated": False,
        "stats.cum_input_tokens": 100,
        "stats.cum_output_tokens": 7,
        "stats.cum_cost": 0.0,
        "stats.cum_step_elapsed": 1.5,
        **fields,
    }
    put(root / name / "summary_info.json", summary)
    for n in range(shots):
        put(root / name / f"screenshot_step_{n}.png", picture(str(n)))
        put(root / name / f"screenshot_som_step_{n}.png", picture(f"som {n}"))
    return root / name


def test_an_experiment_is_read_and_no_pickle_is_run(tmp_path: Path) -> None:
    folder, mark = folder_of(tmp_path / "in"), tmp_path / "exploded"
    for name in ("exp_args.pkl", "step_0.pkl.gz", "goal_object.pkl.gz", "trajectory.json.pkl"):
        put(folder / name, pickle.dumps(Bomb(mark)))
    found = imported("auto", tmp_path / "in", tmp_path / "run", tasks=[TASK], model="gpt")
    assert not mark.exists()
    pickle.loads((folder / "exp_args.pkl").read_bytes())
    assert mark.exists(), "the bomb of this test is none"
    assert found.task == TASK.model_copy(update={"id": "miniwob.choose-list/seed-5", "seed": 5})
    assert found.id == "gpt/miniwob.choose-list/seed-5#0" and found.stop is Stop.DONE
    assert [n for n, _ in reading.screenshots(found)] == [0, 1, 2] and len(found.steps) == 2
    assert reading.acts(found) == [] and found.wall_s == 1.5
    assert sum(s.decision.prompt_tokens for s in found.steps) == 100
    said = facts(found)
    assert (said["agent"], said["seed"], said["n_steps"]) == ("GenericAgent-gpt-4o", 5, 2)
    assert said["cost"] is None, "a cost of 0 with tokens is not known"
    (verdict,) = verdicts(tmp_path / "run")
    assert verdict.success is True and verdict.judge == "imported:summary_info.json"


@pytest.mark.parametrize(
    ("reward", "success", "browsergym"), [(1.0, True, 1), (0.82, False, 1), (0.0, False, 0), (-1.0, False, 0)]
)
def test_partial_reward_is_no_success_but_browsergym_counts_it(
    tmp_path: Path, reward: float, success: bool, browsergym: int
) -> None:
    folder_of(tmp_path / "in", cum_reward=reward)
    import_runs("agentlab", tmp_path / "in", tmp_path / "run", tasks=[TASK])
    (verdict,) = verdicts(tmp_path / "run")
    assert (verdict.success, verdict.details["browsergym"], verdict.details["reward"]) == (success, browsergym, reward)


@pytest.mark.parametrize(
    ("fields", "stop"),
    [
        ({"terminated": False, "truncated": True}, Stop.STEP_LIMIT),
        (
            {"terminated": None, "truncated": None, "err_msg": "Exception uncaught: TimeoutError: page"},
            Stop.BROWSER_ERROR,
        ),
        ({"err_msg": "RateLimitError from openai"}, Stop.MODEL_ERROR),
        ({"terminated": None, "truncated": None}, Stop.DONE),
    ],
)
def test_how_it_ended(tmp_path: Path, fields: dict[str, Any], stop: Stop) -> None:
    folder_of(tmp_path / "in", **fields)
    assert imported("agentlab", tmp_path / "in", tmp_path / "run", tasks=[TASK]).stop is stop


def test_without_a_task_set_there_is_no_task_text(tmp_path: Path) -> None:
    folder_of(tmp_path / "in")
    with pytest.raises(DataError, match="no task text; give the task file"):
        import_runs("agentlab", tmp_path / "in", tmp_path / "run")


@pytest.mark.parametrize("fields", [{"n_steps": 10**30}, {"n_steps": -4}, {"n_steps": "x"}, {"cum_reward": None}])
def test_odd_numbers_do_no_harm(tmp_path: Path, fields: dict[str, Any]) -> None:
    folder_of(tmp_path / "in", **fields)
    found = imported("agentlab", tmp_path / "in", tmp_path / "run", tasks=[TASK])
    assert len(found.steps) == 2 and len(reading.screenshots(found)) == 3
    assert len(verdicts(tmp_path / "run")) == ("cum_reward" not in fields)


def study(root: Path, task: str, *seeds: int, agent: str = "A") -> list[Trajectory]:
    """What a study of one task under some seeds becomes; every attempt took another while."""
    for at, seed in enumerate(seeds):
        name = f"2025-01-01_00-00-{at:02}_{agent}_on_{task}_{seed}"
        folder_of(root / "in", name=name, **{"stats.cum_step_elapsed": 1.5 + at})
    known = TASK.model_copy(update={"id": task})
    import_runs("agentlab", root / "in", root / "run", tasks=[known])
    return trajectories(root / "run")


def test_seeds_are_instances_and_only_the_same_seed_again_is_another_run(tmp_path: Path) -> None:
    found = study(tmp_path, "miniwob.choose-list", 3, 11, 3)
    ids = ["A/miniwob.choose-list/seed-3#0", "A/miniwob.choose-list/seed-11#0", "A/miniwob.choose-list/seed-3#1"]
    assert [t.id for t in found] == ids and [t.task.seed for t in found] == [3, 11, 3]
    assert "its seed 11 may have another" in facts(found[1])["notes"][-1]
    rows = [metrics.result_of("A", t, Verdict(success=t.task.seed == 3, judge="j")) for t in found]
    score = rates.score("miniwob", "A", list({t.task.id: t.task for t in found}.values()), rows, runs=2, found=True)
    assert score.unstable == 0.0, "one seed solved and another not is no instability"


@pytest.mark.parametrize(
    ("task", "seedless"),
    [
        ("webarena.310", True),
        ("visualwebarena.7", True),
        ("assistantbench.validation.3", True),
        ("safearena.harm.12", True),
        ("webarenalike.310", False),
        ("workarena.servicenow.all-menu", False),
    ],
)
def test_a_benchmark_whose_tasks_ignore_seeds_has_runs(tmp_path: Path, task: str, seedless: bool) -> None:
    found = study(tmp_path, task, 1, 2)
    wanted = [(task, 0), (task, 1)] if seedless else [(f"{task}/seed-1", 0), (f"{task}/seed-2", 0)]
    assert [(t.task.id, t.attempt) for t in found] == wanted
    assert [facts(t)["seed"] for t in found] == [1, 2]


def test_a_task_set_that_lists_the_seed_is_joined_by_it(tmp_path: Path) -> None:
    folder_of(tmp_path / "in")
    exact = TASK.model_copy(update={"id": "miniwob.choose-list/seed-5", "goal": "choose Ann"})
    found = imported("agentlab", tmp_path / "in", tmp_path / "run", tasks=[TASK, exact])
    assert found.task == exact and not any("may have another" in note for note in facts(found)["notes"])


def test_agents_of_one_study_are_told_apart(tmp_path: Path) -> None:
    for agent in ("A", "B"):
        folder_of(tmp_path / "in", name=f"2025-01-01_00-00-00_{agent}_on_webarena.3_1")
    known = TASK.model_copy(update={"id": "webarena.3"})
    import_runs("agentlab", tmp_path / "in", tmp_path / "run", tasks=[known])
    assert [(t.id, t.policy) for t in trajectories(tmp_path / "run")] == [
        ("A/webarena.3#0", "A"),
        ("B/webarena.3#0", "B"),
    ]
    with pytest.raises(ConfigError, match="holds attempts of A, B; leave --model out"):
        import_runs("agentlab", tmp_path / "in", tmp_path / "one", tasks=[known], model="m")


def test_agents_are_asked_for_the_task_set_or_for_what_each_attempted(tmp_path: Path) -> None:
    names = ("A_on_miniwob.click-test_5", "A_on_miniwob.click-test_6", "A_on_webarena.3_1", "B_on_webarena.3_1")
    for at, name in enumerate((*names, "A_on_webarena.3_2")):
        folder_of(tmp_path / "in", 0, f"2025-01-01_00-00-00_{name}", **{"stats.cum_step_elapsed": 1.0 + at})
    tasks = [TASK.model_copy(update={"id": name}) for name in ("miniwob.click-test", "webarena.3", "webarena.4")]
    summary = import_runs("agentlab", tmp_path / "in", tmp_path / "whole", tasks=tasks)
    assert summary["missing"] == {"A": 1, "B": 3} and summary["runs_in_folders"] == ""
    import_runs("agentlab", tmp_path / "in", tmp_path / "part", tasks=tasks, part=True)

    def scores(name: str) -> list[dict[str, Any]]:
        groups = compare.examined(stages_in({name: tmp_path / name})).groups
        return [group.numbers()["scores"] for group in groups]

    (whole,) = scores("whole")
    assert {m: (s["n"], s["tasks"], s["outcomes"].get("missing")) for m, s in whole.items()} == {
        "A": (5, 4, 1), "B": (4, 4, 3),
    }  # fmt: skip
    assert (whole["A"]["least_runs"], whole["A"]["runs"]) == (1, 2)
    first, second = scores("part")
    assert (first["A"]["n"], first["A"]["tasks"], second["B"]["n"], second["B"]["tasks"]) == (4, 3, 1, 1)
    assert "missing" not in second["B"]["outcomes"] and second["B"]["success"] == 1.0


def test_a_try_that_was_put_aside_is_no_run(tmp_path: Path) -> None:
    folder_of(tmp_path / "in")
    folder_of(tmp_path / "in", name=f"_{NAME}", err_msg="TimeoutError")
    summary = import_runs("agentlab", tmp_path / "in", tmp_path / "run", tasks=[TASK])
    assert summary["trajectories"] == 1 and "ran again and put aside" in summary["skipped"][0]["reason"]


def test_the_real_summaries(tmp_path: Path) -> None:
    """The 170 stored WebJudge runs carry AgentLab's summary_info; laid out as folders they are read back whole."""
    import json

    files = sorted(DATA.glob("webjudge/*/*/*/webjudge/*.json"))
    if not files:
        pytest.skip(f"../shared/data is absent: no {DATA / 'webjudge'}")
    wanted, tasks = {}, []
    for number, file in enumerate(files):
        found = _summary(json.loads(file.read_text(encoding="utf-8")))
        if found is None:
            continue
        name = f"2025-01-01_00-00-00_A_on_t{number}_0"
        put(tmp_path / "in" / name / "summary_info.json", found)
        wanted[f"t{number}"] = found
        tasks.append(Task(id=f"t{number}", suite="s", site="s", template="t", split="exam", goal="g"))
    result = import_runs("agentlab", tmp_path / "in", tmp_path / "run", tasks=tasks)
    judged = verdicts(tmp_path / "run")
    assert result["trajectories"] == len(wanted) == 170
    assert sum(v.success is True for v in judged) == 21 and sum(v.details["browsergym"] for v in judged) == 29
    assert result["stops"] == {"done": 101, "step_limit": 65, "browser_error": 4}


def _summary(value: Any) -> dict[str, Any] | None:
    if isinstance(value, dict):
        if "cum_reward" in value:
            return value
        return next((found for v in value.values() if (found := _summary(v))), None)
    return next((found for v in value if (found := _summary(v))), None) if isinstance(value, list) else None


def test_the_report_of_two_agents_without_some_or_all_pictures(tmp_path: Path) -> None:
    for shots in (0, 1):
        root = tmp_path / str(shots)
        for at, (agent, reward) in enumerate((("A", 0.0), ("B", 1.0))):
            name = f"2025-01-01_00-00-0{at}_{agent}_on_webarena.3_1"
            folder_of(root / "in", shots, name=name, cum_reward=reward, **{"stats.cum_step_elapsed": 1.0 + at})
        import_runs("agentlab", root / "in", root / "run", tasks=[TASK.model_copy(update={"id": "webarena.3"})])
        write_report({"r": root / "run"}, root / "report.html")
        assert ("Solved by B, not by A" in (root / "report.html").read_text()) is bool(shots)
