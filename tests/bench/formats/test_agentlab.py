import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from foreign import DATA, facts, imported, put, verdicts
from specimens import picture

from rmsweb.bench import reading
from rmsweb.bench.formats import import_runs
from rmsweb.errors import DataError
from rmsweb.records import Stop, Task

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
    assert found.task == TASK and found.id == "gpt/miniwob.choose-list#0" and found.stop is Stop.DONE
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
