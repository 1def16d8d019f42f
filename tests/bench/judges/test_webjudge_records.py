"""Reading stored WebJudge runs: both schemas, what is skipped, and errors that name file and field."""

import json
from pathlib import Path
from typing import Any

import pytest

from rmsweb.bench.judges import webjudge_records
from rmsweb.bench.judges.webjudge_records import by_key, read_records
from rmsweb.errors import DataError


def judgment(**changes: Any) -> dict[str, Any]:
    """A file of AgentRewardBench's schema."""
    text = "Task: buy\n\nKey points: \n1. buy\n\nDone:\n1. click. Reasoning: because"
    return {
        "benchmark": "b", "goal": "buy", "agent": "a", "judge_model_name": "j", "judge": "webjudge",
        "image_judge_record": [{"Response": "### Reasoning: r\n### Score: 1", "Score": 1}],
        "key_points": "\n1. buy", "input_text": text, "system_msg": "S",
        "chat_messages": [
            {"role": "system", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": text}]},
        ],
        "response": {"model": "m", "choices": [{"message": {"content": "Status: success"}}]},
        "trajectory_info": {
            "summary_info": {
                "n_steps": 3, "stats.cum_input_tokens": 10, "stats.cum_output_tokens": 2, "stats.cum_cost": 0.5,
                "cum_reward": 1, "err_msg": None,
            }
        },
        **changes,
    }  # fmt: skip


def result(**changes: Any) -> dict[str, Any]:
    """A line of Online-Mind2Web's schema."""
    return {
        "task_id": "t1", "task": "buy", "action_history": ["click"], "thoughts": ["because"],
        "image_judge_record": [{"Response": "**Reasoning**: r\n\n**Score**: 4", "Score": 4}],
        "key_points": "\n1. buy", "system_msg": "S",
        "input_text": "Task: buy\n\nKey points: \n1. buy\n\nDone:\n1. click\n\nPictures:\n1. r",
        "evaluation_details": {"response": "Status: failure", "predicted_label": 0}, "predicted_label": 0,
        **changes,
    }  # fmt: skip


def stored(folder: Path, value: Any, name: str = "task.json") -> Path:
    path = folder / "j" / "b" / "a" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_judgment_is_read_with_its_numbers(tmp_path: Path) -> None:
    stored(tmp_path, judgment(), "task.7(1).json")
    run = read_records(tmp_path).runs[0]
    assert run.key == ("b", "a", "task.7"), "a copy's number is no part of the id"
    assert (run.judge, run.answered_by, run.mode, run.sent, run.label, run.said) == ("j", "m", "general", 0, 1, True)
    assert run.summary is not None and run.stored_label is None
    assert (run.summary.n_steps, run.summary.input_tokens, run.summary.cost, run.summary.reward) == (3, 10, 0.5, 1.0)


@pytest.mark.parametrize(
    ("info", "cost"),
    [({"stats.cum_cost": 0.0, "stats.cum_input_tokens": 5}, None), ({"stats.cum_cost": 0}, 0.0), ({}, None),
     ({"stats.cum_cost": float("nan")}, None)],
)  # fmt: skip
def test_a_recorded_cost_of_zero_with_tokens_is_unknown(tmp_path: Path, info: dict[str, Any], cost: float) -> None:
    stored(tmp_path, judgment(trajectory_info={"summary_info": info}))
    summary = read_records(tmp_path).runs[0].summary
    assert summary is not None and summary.cost == cost and summary.n_steps is None


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    stored(tmp_path, judgment(trajectory_info=None, chat_messages=None, response={"choices": []}))
    run = read_records(tmp_path).runs[0]
    assert (run.summary, run.sent, run.response, run.label, run.said) == (None, None, "", 0, None)


def test_lists_of_input_pictures_are_no_part_of_the_task(tmp_path: Path) -> None:
    stored(tmp_path, judgment(goal="buy this\nInput image 1/2 below (url: x)\nInput image 2/2 below (url: y)\n"))
    stored(tmp_path, judgment(goal="two\nlines\n"), "other.json")
    assert [run.task for run in read_records(tmp_path).runs] == ["two\nlines\n", "buy this"]


@pytest.mark.parametrize("lines", [1, 3])
def test_results_of_online_mind2web(tmp_path: Path, lines: int) -> None:
    name = "WebJudge_Online_Mind2Web_eval_o4-mini_score_threshold_4_auto_eval_results.json"
    text = "\n".join(json.dumps(result(task_id=f"t{k}")) for k in range(lines)) + "\n"
    (tmp_path / name).write_text(text)
    runs = read_records(tmp_path / name).runs
    assert [run.key for run in runs] == [("online_mind2web", "", f"t{k}") for k in range(lines)]
    assert {(run.judge, run.mode, run.threshold, run.stored_label) for run in runs} == {("o4-mini", "om2w", 4.0, 0)}
    assert runs[0].actions == ("click",) and runs[-1].line == lines


def test_other_schemas_are_skipped_and_listed(tmp_path: Path) -> None:
    stored(tmp_path, judgment())
    stored(tmp_path, {"webjudge": {"b": {"y_human": [0, 1]}}}, "results.json")
    stored(tmp_path, [1, 2], "list.json")
    stored(tmp_path, "a,b\n", "labels.csv")
    stored(tmp_path, '{"x": 1}\n{"x": 2}\n', "other.jsonl")
    other = result()
    del other["image_judge_record"]
    stored(tmp_path, other, "Autonomous_eval_m_score_threshold_3_auto_eval_results.json")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.json").write_text("{")
    found = read_records(tmp_path)
    assert len(found.runs) == 1 and len(found.skipped) == 6
    assert {one.path.name for one in found.skipped} >= {"results.json", "labels.csv", "list.json", "x.json"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (judgment(goal=None), "goal"),
        (judgment(image_judge_record=None), "image_judge_record"),
        (judgment(image_judge_record=[{"Response": "x", "Score": "3"}]), r"image_judge_record\.0\.Score"),
        (judgment(image_judge_record=[{"Score": 3}]), "Response"),
        (judgment(response="Status: success"), "response"),
        (judgment(response={"choices": [{}]}), "message"),
        (judgment(chat_messages=[{"role": "user", "content": 3}]), "chat_messages"),
        (judgment(trajectory_info={"summary_info": {"n_steps": "3"}}), "n_steps"),
        ({key: value for key, value in judgment().items() if key != "input_text"}, "input_text"),
        ("{", "is not JSON"),
        ("", "is empty"),
        ("[" * 100_000, "is not JSON"),
        (json.dumps(result()) + "\n{torn", ":2: is not JSON"),
        (json.dumps(result()) + "\n[]\n", ":2: is no line"),
        (result(task_id=3), "task_id"),
        (result(action_history="click"), "action_history"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, value: Any, message: str) -> None:
    path = stored(tmp_path, value)
    with pytest.raises(DataError, match=message) as caught:
        read_records(tmp_path)
    assert str(path) in str(caught.value)


def test_folders_and_bytes_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        read_records(tmp_path / "gone")
    with pytest.raises(DataError, match="holds no stored WebJudge run"):
        read_records(tmp_path)
    path = stored(tmp_path, judgment())
    path.write_bytes(b'{"goal": "\xff"}')
    with pytest.raises(DataError, match="UTF-8"):
        read_records(tmp_path)
    with path.open("wb") as file:
        file.truncate(webjudge_records.MOST_BYTES + 1)
    with pytest.raises(DataError, match="MiB"):
        read_records(tmp_path)


def test_the_same_run_twice_counts_once_and_another_under_its_name_is_refused(tmp_path: Path) -> None:
    stored(tmp_path, judgment(), "t.json")
    stored(tmp_path, judgment(), "t(1).json")
    stored(tmp_path, judgment(judge_model_name="k"), "t(2).json")
    runs = read_records(tmp_path).runs
    assert len(runs) == 3 and set(by_key(runs)) == {("j", ("b", "a", "t")), ("k", ("b", "a", "t"))}
    stored(tmp_path, judgment(response={"choices": [{"message": {"content": "Status: failure"}}]}), "t(3).json")
    with pytest.raises(DataError, match=r"another run of b/a/t by j"):
        by_key(read_records(tmp_path).runs)
