"""The stage judge-eval: verdicts of runs, stored judge records, a label file's own; what has no partner is said."""

import csv
import io
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from rmsweb.actions import LeftClick, Point
from rmsweb.bench import judge_eval, protocols
from rmsweb.bench.layout import Stage
from rmsweb.config import Config
from rmsweb.errors import ConfigError, DataError, RunError
from rmsweb.records import Decision, Effect, Observation, Step, Stop, Task, Trajectory, Verdict
from rmsweb.store import Run

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"


def attempt(task: str, arm: str = "", number: int = 0, steps: int = 1) -> Trajectory:
    page = Observation(image="", url="http://127.0.0.1/")
    made = tuple(
        Step(
            index=i, before=page, after=page, effect=Effect(),
            decision=Decision(action=LeftClick(point=Point(x=1, y=1)), prompt_tokens=10, completion_tokens=2),
        )
        for i in range(steps)
    )  # fmt: skip
    what = Task(id=task, suite="file", site="s", template="t", split="exam", goal="g")
    ident = f"{arm}/{task}#{number}" if arm else f"{task}#{number}"
    return Trajectory(id=ident, task=what, attempt=number, policy=arm, steps=made, stop=Stop.ANSWERED)


def stored(path: Path, rows: list[tuple[Trajectory, bool | None]], *, judge: str = "j", verb: str = "eval") -> Path:
    with Run.open(path, verb, Config()) as run:
        for trajectory, success in rows:
            run.append("trajectory", trajectory)
            why = "" if success is not None else "refused"
            run.append("verdict", Verdict(success=success, judge=judge, unjudged=why, trajectory_id=trajectory.id))
        run.finish()
    return path


def labelled(path: Path, **labels: Any) -> Path:
    path.write_text(json.dumps([{"trajectory_id": key, "label": said} for key, said in labels.items()]))
    return path


def om2w(path: Path, tasks: dict[str, dict[str, str]]) -> Path:
    rows = [{"task_id": t, **{f"{a}_human_label": v for a, v in said.items()}} for t, said in tasks.items()]
    path.write_text(json.dumps(rows))
    return path


def test_verdicts_of_a_run_against_ones_own_labels(tmp_path: Path) -> None:
    said = [True, True, False, None]
    run = stored(tmp_path / "run", [(attempt(f"t{i}"), success) for i, success in enumerate(said)])
    labels = labelled(
        tmp_path / "own.json", **{"t0#0": "success", "t1#0": "failure", "t2#0": 0, "t3#0": 1, "gone#0": 1}
    )
    summary = judge_eval.run({"eval": run}, labels, out=tmp_path / "out")
    found = summary["judges"]["j"]
    assert found["confusion"] == {
        "judged_success": {"success": 1, "failure": 1}, "judged_failure": {"success": 0, "failure": 1},
        "could_not_judge": {"success": 1, "failure": 0},
    }  # fmt: skip
    assert found["could_not_judge"] == {"refused": 1}
    assert found["labels_without_judgement"] == {"count": 1, "keys": ["gone#0"]}
    stored_pairs = json.loads((tmp_path / "out" / "pairs.json").read_text())
    assert [(p["trajectory"], p["judged"], p["human"]) for p in stored_pairs][:2] == [
        ("t0#0", True, True), ("t1#0", True, False),
    ]  # fmt: skip
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["judges"] == summary["judges"]
    assert Run.read_only(tmp_path / "out").manifest["verb"] == "judge-eval"


def test_the_same_command_again_and_another_one_into_the_same_folder(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", [(attempt("t0"), True), (attempt("t1"), False)])
    labels = labelled(tmp_path / "own.json", **{"t0#0": 1, "t1#0": 1})
    first = judge_eval.run({"eval": run}, labels, out=tmp_path / "out")
    assert judge_eval.run({"eval": run}, labels, out=tmp_path / "out") == first
    with pytest.raises(RunError, match="other settings or inputs"):
        judge_eval.run({"eval": run}, labelled(labels, **{"t0#0": 0}), out=tmp_path / "out")


def test_a_judge_run_finds_agents_and_tasks_in_the_run_that_it_judged(tmp_path: Path) -> None:
    rows = [(attempt(f"t{i}", arm), None) for i in range(3) for arm in ("operator", "SeeAct")]
    run = stored(tmp_path / "run", rows)
    again = tmp_path / "again"
    with Run.open(again, "judge", Config(), {"eval": run}) as judged:
        for trajectory, _ in rows:
            good = trajectory.policy == "operator"
            judged.append("verdict", Verdict(success=good, judge="other", trajectory_id=trajectory.id))
        judged.finish()
    labels = om2w(tmp_path / "labels.json", {f"t{i}": {"Operator": "1", "SeeAct": "2"} for i in range(3)})
    found = judge_eval.run({"judge": again}, labels)["judges"]["other"]
    assert found["unjudged_as_failure"]["accuracy"]["count"] == found["n"] == 6
    assert set(found["by_agent"]["parts"]) == {"Operator", "SeeAct"}
    run.rename(tmp_path / "moved")
    assert judge_eval.run({"judge": again}, labels)["judges"]["other"]["n"] == 6, "the ids say enough"


def test_old_verdicts_are_not_joined_with_new_attempts(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", [(attempt("t0", "m", steps=1), True)])
    with Run.open(tmp_path / "judged", "judge", Config(), {"eval": run}) as judged:
        judged.append("verdict", Verdict(success=True, judge="other", trajectory_id="m/t0#0"))
        judged.finish()
    labels = labelled(tmp_path / "own.json", **{"m/t0#0": 1})
    stages = [Stage("judge", tmp_path / "judged")]
    assert judge_eval.run({"judge": tmp_path / "judged"}, labels)["judges"]["other"]["n"] == 1
    assert [s.path for s in protocols.judged_stages(stages[0], stages)] == [run]
    run.rename(tmp_path / "moved")
    stored(run, [(attempt("t0", "m", steps=3), True)])
    with pytest.raises(DataError, match=rf"judged.*{run} held before; that run has changed since"):
        judge_eval.run({"judge": tmp_path / "judged"}, labels)
    with pytest.raises(DataError, match=rf"judged.*{run} held before; that run has changed since"):
        protocols.judged_stages(stages[0], [*stages, Stage("eval", run)])
    moved = [*stages, Stage("eval", run), Stage("old", tmp_path / "moved")]
    assert [s.name for s in protocols.judged_stages(stages[0], moved)] == ["old"]


def test_a_changed_label_in_a_folder_is_refused_like_one_in_a_file(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", [(attempt("t0"), True), (attempt("t1"), False)])
    (tmp_path / "labels").mkdir()
    file = labelled(tmp_path / "labels" / "own.json", **{"t0#0": 1, "t1#0": 1})
    judge_eval.run({"eval": run}, file.parent, out=tmp_path / "out")
    judge_eval.run({"eval": run}, file.parent, out=tmp_path / "out")
    labelled(file, **{"t0#0": 1, "t1#0": 0})
    with pytest.raises(RunError, match=r"other settings or inputs: labels .* changed since"):
        judge_eval.run({"eval": run}, file.parent, out=tmp_path / "out")


def test_a_judged_run_that_is_gone_is_read_by_its_trajectory_ids(tmp_path: Path) -> None:
    with Run.open(tmp_path / "judged", "judge", Config()) as run:
        for ident in ("arm/miniwob/click/1#0", "miniwob/click/2#0"):
            run.append("verdict", Verdict(success=True, judge="j", trajectory_id=ident))
        run.finish()
    rows = "task_id,annotator,human_judgement_outcome\nminiwob/click/1,A,Correct\nminiwob/click/2,A,Incorrect\n"
    (tmp_path / "labels.csv").write_text(rows)
    found = judge_eval.run({"judge": tmp_path / "judged"}, tmp_path / "labels.csv")["judges"]["j"]
    assert found["confusion"]["judged_success"] == {"success": 1, "failure": 1}


def test_the_name_of_a_source_says_whose_trajectories_they_are(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", [(attempt("t0", "import"), True), (attempt("t1", "import"), False)])
    labels = om2w(tmp_path / "labels.json", {f"t{i}": {"Operator": "1", "SeeAct": "0"} for i in range(2)})
    with pytest.raises(DataError, match=r"labels' agents are Operator, SeeAct.*--from AGENT=RUN"):
        judge_eval.run({"import": run}, labels)
    found = judge_eval.run({"operator": run}, labels)["judges"]["j"]
    assert found["unjudged_as_failure"]["recall"]["count"] == 1 and found["n"] == 2
    assert found["labels_without_judgement"]["keys"] == ["SeeAct/t0", "SeeAct/t1"]


def test_verdicts_of_the_label_file_itself_are_judged_with_ties_reported(tmp_path: Path) -> None:
    votes = [("a", "Correct", "Correct"), ("b", "Correct", "Incorrect"), ("c", "Incorrect", "Incorrect")]
    rows = [
        {"task_id": task, "annotator": f"Judge{i}", "human_judgement_outcome": vote}
        for task, *both in votes
        for i, vote in enumerate(both)
    ]
    (tmp_path / "annotations.jsonl").write_text("\n".join(map(json.dumps, rows)))
    runs = [{"task_id": task, "uv_outcome_success": 1, "uv_rubric_score": 0.5} for task, *_ in votes]
    (tmp_path / "trajectories.jsonl").write_text("\n".join(map(json.dumps, runs)))
    summary = judge_eval.run({}, tmp_path, rule="majority")
    assert summary["labels"]["ties"] == {"count": 1, "keys": ["b"]} == summary["labels"]["undecided"]
    found = summary["judges"]["uv_outcome_success"]
    assert (found["n"], found["judged_with_undecided_label"]["count"]) == (2, 1)
    assert found["unjudged_as_failure"]["false_positive_rate"]["value"] == 1.0
    tied = tmp_path.with_name(f"{tmp_path.name}-tied")
    tied.mkdir()
    (tied / "annotations.jsonl").write_text("\n".join(map(json.dumps, rows[2:4])))
    (tied / "trajectories.jsonl").write_text(json.dumps(runs[1]))
    with pytest.raises(DataError, match=r"no comparison is left: .* unsure or tied; take another --rule"):
        judge_eval.run({}, tied, rule="majority")
    every = judge_eval.run({}, tmp_path, rule="all")["judges"]["uv_rubric_score >= 0.8"]
    assert (every["n"], every["clustered"], every["confusion"]["judged_failure"]["success"]) == (6, True, 3)


def test_what_cannot_be_evaluated_is_an_error_to_act_on(tmp_path: Path) -> None:
    labels = labelled(tmp_path / "own.json", **{"t0#0": 1})
    with pytest.raises(ConfigError, match="give --from RUN"):
        judge_eval.run({}, labels)
    with pytest.raises(DataError, match="no judgement belongs to any label: judged are 1, such as t9#0"):
        judge_eval.run({"eval": stored(tmp_path / "run", [(attempt("t9"), True)])}, labels)
    with Run.open(tmp_path / "bare", "collect", Config()) as run:
        run.append("trajectory", attempt("t0"))
    with pytest.raises(DataError, match="holds no verdict; judge it first"):
        judge_eval.run({"collect": tmp_path / "bare"}, labels)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError):
        judge_eval.run({"records": tmp_path / "empty"}, labels)


def test_the_last_verdict_of_a_trajectory_counts(tmp_path: Path) -> None:
    run = stored(tmp_path / "run", [(attempt("t0"), None)])
    with (run / "verdicts.jsonl").open("a") as file:
        file.write(Verdict(success=True, judge="j", trajectory_id="t0#0").model_dump_json() + "\n")
    found = judge_eval.run({"eval": run}, labelled(tmp_path / "own.json", **{"t0#0": 1}))["judges"]["j"]
    assert found["confusion"]["judged_success"]["success"] == 1 and found["n"] == 1


def test_steps_and_tokens_of_labelled_attempts_of_a_run(tmp_path: Path) -> None:
    rows = [(attempt("t0", "a", steps=3), True), (attempt("t0", "b", steps=5), True), (attempt("t1", "a"), False)]
    run = stored(tmp_path / "run", rows)
    labels = labelled(tmp_path / "own.json", **{"a/t0#0": 1, "b/t0#0": 1, "a/t1#0": 0})
    summary = judge_eval.run({"eval": run}, labels)
    assert summary["agents"]["a"]["steps_on_solved"] == 3 and summary["agents"]["a"]["steps_all"] == 2
    assert summary["agents"]["b"]["input_tokens"] == 50 and summary["agents"]["b"]["cost"] is None
    (row,) = summary["paired_steps"]
    assert (row["both_solved"], row["steps_a"], row["steps_b"], row["a_only"], row["b_only"]) == (1, 3, 5, 0, 0)


def test_labels_of_aborted_attempts_count(tmp_path: Path) -> None:
    tried = [attempt(f"t{i}", "a") for i in range(4)]
    tried[1:] = [t.model_copy(update={"stop": Stop.BROWSER_ERROR}) for t in tried[1:]]
    run = stored(tmp_path / "run", [(tried[0], True), (tried[1], True), (tried[2], False)])
    with Run.open(run, "eval", Config()) as again:
        again.append("trajectory", tried[3])
        again.finish()
    labels = labelled(tmp_path / "own.json", **{f"a/t{i}#0": int(i < 3) for i in range(4)})
    summary = judge_eval.run({"eval": run}, labels)
    found = summary["judges"]["j"]
    assert found["n"] == 4 and found["could_not_judge"] == {"infra": 1}, "never judged, and still a comparison"
    assert found["confusion"]["judged_success"] == {"success": 2, "failure": 0}
    agent = summary["agents"]["a"]
    assert (agent["n"], agent["solved"], agent["aborted"]) == (4, 3, 3)
    assert "a: 3 aborted, counted by their labels" in printed(summary)


def test_recorded_costs_of_imported_attempts(tmp_path: Path) -> None:
    costs = {"t0": 0.5, "t1": 0.25, "t2": 0.0}
    rows = []
    for task, cost in costs.items():
        evidence: dict[str, Any] = {"imported": {"format": "agentlab", "cost": cost, "n_steps": 4}}
        rows.append((attempt(task, "a").model_copy(update={"evidence": evidence}), True))
    labels = labelled(tmp_path / "own.json", **{f"a/{task}#0": 1 for task in costs})
    whole = judge_eval.run({"r": stored(tmp_path / "two", rows[:2])}, labels)
    assert whole["agents"]["a"]["cost"] == 0.75 and "$0.75" in printed(whole)
    part = judge_eval.run({"r": stored(tmp_path / "three", rows)}, labels)
    agent = part["agents"]["a"]
    assert (agent["cost"], agent["cost_recorded"], agent["cost_unknown"]) == (None, 0.75, 1)
    assert "$0.75 for 2 of 3" in printed(part)


def test_an_instance_finds_the_label_of_its_task_and_two_of_them_are_ambiguous(tmp_path: Path) -> None:
    labels = om2w(tmp_path / "labels.json", {"w.t": {"A": "1"}, "w.u": {"A": "0"}})
    rows = [(attempt(task, "A"), True) for task in ("w.t/seed-4", "w.u/seed-1", "w.u/seed-2")]
    found = judge_eval.run({"r": stored(tmp_path / "run", rows)}, labels)["judges"]["j"]
    assert found["confusion"]["judged_success"] == {"success": 1, "failure": 0}
    assert found["ambiguous"]["keys"] == ["A/w.u/seed-1#0", "A/w.u/seed-2#0"]


def printed(summary: dict[str, Any]) -> str:
    from rich.console import Console

    out = io.StringIO()
    judge_eval.table(summary, Console(file=out, width=220))
    return out.getvalue()


def test_the_terminal_says_both_readings_and_what_is_left_out(tmp_path: Path) -> None:
    rows = [(attempt("t0"), True), (attempt("t1"), None), (attempt("t9"), True)]
    run = stored(tmp_path / "run", rows, judge="j [bold]")
    summary = judge_eval.run({"eval": run}, labelled(tmp_path / "own.json", **{"t0#0": 1, "t1#0": 1, "t2#0": 0}))
    text = printed(summary)
    both = ("no verdict = failure", "no verdict left out", "50.0 %", "100.0 %", "j [bold]")
    apart = ("could not judge: 1 human success, 0 human failure", "1 judged, no label", "1 labelled, not judged")
    for said in (*both, *apart):
        assert said in text, said


def test_stored_online_mind2web_records_are_joined_by_task_under_the_name_of_the_source(tmp_path: Path) -> None:
    lines = [
        {"task_id": task, "task": "x", "image_judge_record": [], "key_points": "", "input_text": "", "system_msg": "",
         "evaluation_details": {"response": reply, "predicted_label": 0}, "predicted_label": 0}
        for task, reply in (("t1", "Status: success"), ("t2", "I cannot tell."), ("t3", "Status: failure"))
    ]  # fmt: skip
    path = tmp_path / "WebJudge_Online_Mind2Web_eval_o4-mini_score_threshold_3_auto_eval_results.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    labels = om2w(tmp_path / "labels.json", {f"t{i}": {"Operator": "1", "SeeAct": "0"} for i in range(1, 5)})
    with pytest.raises(DataError, match="fit labels of several agents"):
        judge_eval.run({"records": path}, labels)
    found = judge_eval.run({"Operator": path}, labels)["judges"]["o4-mini"]
    assert found["confusion"]["could_not_judge"] == {"success": 1, "failure": 0}
    assert found["unjudged_as_failure"]["recall"] | {"interval": 0} == {
        "value": 1 / 3,
        "count": 1,
        "of": 3,
        "interval": 0,
    }
    assert "Operator/t4" in found["labels_without_judgement"]["keys"]


# The stored WebJudge runs on AgentRewardBench, counted here in a second way: plain JSON and CSV, not the package.


def real() -> tuple[dict[str, Any], dict[tuple[str, str, str], str], list[tuple[str, tuple[str, str, str], Any]]]:
    folder = DATA / "webjudge"
    if not folder.exists():
        pytest.skip("../shared/data is absent: webjudge is not there")
    people: dict[tuple[str, str, str], str] = {}
    with (folder / "human_annotations.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            people.setdefault((row["benchmark"], row["model_name"], row["task_id"]), row["trajectory_success"])
    stored_runs = []
    for path in sorted(folder.glob("webjudge_*/*/*/webjudge/*.json")):
        value = json.loads(path.read_text())
        stored_runs.append((path.parts[-5], (value["benchmark"], value["agent"], path.stem), value))
    summary = judge_eval.run({"records": folder}, folder / "human_annotations.csv", resamples=200)
    return summary, people, stored_runs


JUDGES = {"webjudge_7B": "webjudge-7B", "webjudge_o4_mini": "o4-mini", "webjudge_gpt4o": "gpt-4o-2024-11-20"}


def test_stored_judges_against_people_on_the_170_real_runs() -> None:
    summary, people, runs = real()
    assert len(runs) == 170
    counted: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for folder, key, value in runs:
        reply = value["response"]["choices"][0]["message"]["content"].lower()
        counted[JUDGES[folder]].append(("success" in reply.split("status:")[1], people[key] == "Successful"))
    facts = {}
    for judge, rows in counted.items():
        hits, said = sum(j and h for j, h in rows), sum(j for j, _ in rows)
        solved, right = sum(h for _, h in rows), sum(j == h for j, h in rows)
        rates = summary["judges"][judge].get("as_upstream", summary["judges"][judge]["unjudged_as_failure"])
        facts[judge] = (len(rows), hits, said, solved, right)
        assert (rates["precision"]["count"], rates["precision"]["of"]) == (hits, said)
        assert (rates["recall"]["count"], rates["recall"]["of"]) == (hits, solved)
        assert (rates["accuracy"]["count"], rates["accuracy"]["of"]) == (right, len(rows))
        assert rates["false_positive_rate"]["of"] == len(rows) - solved
    assert facts == {
        "webjudge-7B": (60, 9, 12, 13, 53), "o4-mini": (60, 5, 7, 11, 52), "gpt-4o-2024-11-20": (50, 1, 1, 2, 49),
    }  # fmt: skip
    said = summary["judges"]["o4-mini"]
    assert said["unjudged_as_failure"]["recall"]["count"] == 6, "one reply says success where upstream reads a failure"
    assert summary["judges"]["webjudge-7B"]["labels_without_judgement"]["count"] == 1302 - 60
    assert summary["labels"]["undecided"]["count"] == 1


def test_four_agents_and_their_paired_steps_on_the_170_real_runs() -> None:
    summary, people, runs = real()
    tasks: dict[str, dict[tuple[str, str], tuple[bool, dict[str, Any]]]] = defaultdict(dict)
    for _, (benchmark, agent, task), value in runs:
        info = value["trajectory_info"]["summary_info"]
        tasks[agent][benchmark, task] = (people[benchmark, agent, task] == "Successful", info)
    assert set(tasks) == set(summary["agents"]) and sum(map(len, tasks.values())) == 151
    for agent, rows in tasks.items():
        row, infos = summary["agents"][agent], [info for _, info in rows.values()]
        steps = [info["n_steps"] for info in infos]
        solved = [info["n_steps"] for good, info in rows.values() if good]
        cost = sum(info["stats.cum_cost"] for info in infos)
        assert (row["n"], row["solved"], row["without_steps"]) == (len(rows), len(solved), 0)
        assert row["steps_all"] == pytest.approx(sum(steps) / len(steps))
        assert row["steps_on_solved"] == pytest.approx(sum(solved) / len(solved))
        assert row["input_tokens"] == sum(info["stats.cum_input_tokens"] for info in infos)
        assert row["cost"] == (pytest.approx(cost) if cost else None), "0 with tokens is unknown, not free"
    claude = summary["agents"]["GenericAgent-anthropic_claude-3.7-sonnet"]
    assert (claude["n"], claude["solved"], claude["input_tokens"]) == (53, 12, 4_748_729)
    assert claude["cost"] == pytest.approx(15.98, abs=5e-3)
    others = [row for agent, row in summary["agents"].items() if "claude" not in agent]
    assert [(row["n"], row["solved"], row["cost"]) for row in others] == [(27, 2, None), (37, 8, None), (34, 2, None)]
    found = {}
    for row in summary["paired_steps"]:
        a, b = tasks[row["a"]], tasks[row["b"]]
        shared = a.keys() & b.keys()
        both = [task for task in shared if a[task][0] and b[task][0]]
        assert (row["tasks"], row["both_solved"]) == (len(shared), len(both))
        assert row["a_only"] == sum(a[task][0] and not b[task][0] for task in shared)
        assert row["b_only"] == sum(b[task][0] and not a[task][0] for task in shared)
        for side, of in (("steps_a", a), ("steps_b", b)):
            steps = [of[task][1]["n_steps"] for task in both]
            assert row[side] == (pytest.approx(sum(steps) / len(steps)) if steps else None)
        found[row["a"][13:17], row["b"][13:17]] = (row["both_solved"], row["a_only"], row["b_only"])
    assert found == {
        ("Qwen", "anth"): (0, 0, 0), ("Qwen", "gpt-"): (1, 0, 1), ("Qwen", "meta"): (0, 0, 0),
        ("anth", "gpt-"): (2, 1, 1), ("anth", "meta"): (1, 1, 1), ("gpt-", "meta"): (1, 2, 0),
    }  # fmt: skip
