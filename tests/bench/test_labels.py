"""Human labels as others publish them: what each code means, what is refused, what is counted."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from rmsweb.bench.labels import FORMATS, Label, read_labels
from rmsweb.errors import ConfigError, DataError

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
ARB = ("annotator_name", "benchmark", "task_id", "model_name", "exp_name", "trajectory_success")


def data(name: str) -> Path:
    if not (DATA / name).exists():
        pytest.skip(f"../shared/data is absent: {name} is not there")
    return DATA / name


def table(path: Path, *rows: dict[str, Any]) -> Path:
    """Rows in the format that the file's name ends in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


def arb(annotator: str, task: str, said: str, agent: str = "Generic-X") -> dict[str, str]:
    return dict(zip(ARB, (annotator, "webarena", task, agent, f"{agent}_on_webarena", said), strict=True))


def by_key(labels: tuple[Label, ...]) -> dict[tuple[str, str], tuple[bool | None, str]]:
    return {(label.key, label.annotator): (label.success, label.note) for label in labels}


def test_agentrewardbench_keeps_every_row_and_an_unsure_one_is_no_failure(tmp_path: Path) -> None:
    rows = [arb("A", "w.1", "Successful"), arb(" H", "w.1", "Unsuccessful"), arb("A", "w.2", "Unsure")]
    found = read_labels(table(tmp_path / "x.csv", *rows))
    assert found.format == "agentrewardbench"
    assert by_key(found.labels) == {
        ("webarena/Generic-X/w.1", "A"): (True, ""),
        ("webarena/Generic-X/w.1", "H"): (False, ""),
        ("webarena/Generic-X/w.2", "A"): (None, "unsure"),
    }
    assert found.labels[0].raw == "Successful" and found.labels[0].task_id == "w.1"
    assert found.notes == ("1 labels are unsure",)


def test_agentrewardbench_on_the_real_file() -> None:
    found = read_labels(data("webjudge/human_annotations.csv"))
    keys = [label.key for label in found.labels]
    assert len(keys) == 1408 and len(set(keys)) == 1302
    assert sum(keys.count(key) > 1 for key in set(keys)) == 106
    assert sum(label.success is None for label in found.labels) == 1
    assert {label.annotator for label in found.labels} == set("ABCDEFGH")
    assert sum(label.success is True for label in found.labels) == 395


def test_om2w_code_two_is_not_executable_and_a_missing_label_is_none(tmp_path: Path) -> None:
    rows = [
        {"task_id": "t1", "A_human_label": "1", "B_human_label": 2},
        {"task_id": "t2", "A_human_label": 0, "B_human_label": None},
    ]
    found = read_labels(table(tmp_path / "labels.json", *rows))
    assert found.format == "om2w"
    assert by_key(found.labels) == {
        ("A/t1", ""): (True, ""), ("B/t1", ""): (None, "not_executable"), ("A/t2", ""): (False, ""),
    }  # fmt: skip
    assert found.notes == ("1 labels are not_executable", "1 pairs of task and agent have no label")


def test_om2w_on_the_real_file() -> None:
    found = read_labels(data("online_mind2web/human_label.json"))
    assert len(found.labels) == 1800 and len({label.task_id for label in found.labels}) == 300
    apart = {a: 0 for a in sorted({label.agent for label in found.labels})}
    for label in found.labels:
        apart[label.agent] += label.note == "not_executable"
    assert list(apart.values()) == [2, 1, 0, 7, 10, 0] and len(apart) == 6


def test_codes_of_theredsix_are_never_guessed(tmp_path: Path) -> None:
    rows = [{"task_id": f"t{code}", "human_eval": code} for code in (0, 1, 2)]
    path = table(tmp_path / "labels.csv", *rows)
    with pytest.raises(DataError, match="different things to different"):
        read_labels(path)
    found = read_labels(path, "theredsix")
    assert [(label.success, label.note) for label in found.labels] == [
        (None, "not_executable"), (True, ""), (False, ""),
    ]  # fmt: skip
    with pytest.raises(DataError, match="expected task_id and AGENT_human_label"):
        read_labels(path, "om2w")


def test_an_agents_own_report_is_no_human_label(tmp_path: Path) -> None:
    for task in ("t1", "t2"):
        folder = tmp_path / task
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps({"task_id": task, "result_status": "success"}))
    with pytest.raises(DataError, match="the agent's own report"):
        read_labels(tmp_path, "theredsix")


ANNOTATIONS = [
    {"task_id": "Shop--1", "annotator": "Judge1", "human_judgement_outcome": "Correct", "human_process_score": 0.9},
    {"task_id": "Shop--1", "annotator": "Judge2", "human_judgement_outcome": "Incorrect", "human_process_score": None},
    {"task_id": "Shop--2", "annotator": "Judge1", "human_judgement_outcome": "1.0", "human_process_score": 1},
    {"task_id": "Shop--2", "annotator": "Judge2", "human_judgement_outcome": "partial", "human_process_score": 0.5},
]
TRAJECTORIES = [
    {"task_id": "Shop--1", "instruction": "a", "uv_rubric_score": 0.8, "uv_outcome_success": 0, "mm_is_success": 1,
     "verifier_is_success": None, "majority_human_outcome_vote": 0, "final_human_outcome_label": 1},
    {"task_id": "Shop--3", "instruction": "b", "uv_rubric_score": 0.79, "uv_outcome_success": 1, "mm_is_success": -1,
     "verifier_is_success": 1, "majority_human_outcome_vote": 1, "final_human_outcome_label": 1},
]  # fmt: skip


@pytest.mark.parametrize("kind", ["jsonl", "csv", "json", "parquet"])
def test_cuaverifierbench_joins_both_configs_by_split_and_keeps_ties(tmp_path: Path, kind: str) -> None:
    for config, rows in (("annotations", ANNOTATIONS), ("trajectories", TRAJECTORIES)):
        for split in ("fara7b_om2w_browserbase", "internal"):
            path = tmp_path / config / f"{split}-00000-of-00001.{kind}"
            if kind == "parquet":
                pandas = pytest.importorskip("pandas")
                path.parent.mkdir(exist_ok=True)
                texts = [{**row, "human_judgement_outcome": row.get("human_judgement_outcome")} for row in rows]
                pandas.DataFrame(texts if config == "annotations" else rows).to_parquet(path)
            else:
                table(path, *rows)
    found = read_labels(tmp_path)
    assert found.format == "cuaverifierbench"
    assert len(found.labels) == 8 and {label.benchmark for label in found.labels} == {
        "fara7b_om2w_browserbase", "internal",
    }  # fmt: skip
    first = [label for label in found.labels if label.benchmark == "internal"]
    assert [label.success for label in first] == [True, False, True, None]
    assert [label.score for label in first] == [0.9, None, 1.0, 0.5] and first[3].raw == "partial"
    said = {(one.judge, one.task_id): one.success for one in found.judgements if one.benchmark == "internal"}
    assert said == {
        ("uv_outcome_success", "Shop--1"): False, ("uv_outcome_success", "Shop--3"): True,
        ("uv_rubric_score >= 0.8", "Shop--1"): True, ("uv_rubric_score >= 0.8", "Shop--3"): False,
        ("mm_is_success", "Shop--1"): True, ("mm_is_success", "Shop--3"): None,
        ("verifier_is_success", "Shop--1"): None, ("verifier_is_success", "Shop--3"): True,
    }  # fmt: skip
    assert "2 annotated trajectories are not among the trajectories" in found.notes
    assert "2 trajectories have no annotation" in found.notes


def test_cuaverifierbench_without_votes_has_only_upstreams_aggregates(tmp_path: Path) -> None:
    found = read_labels(table(tmp_path / "trajectories_internal.jsonl", *TRAJECTORIES))
    assert [(label.key, label.success) for label in found.labels] == [
        ("internal/Shop--1", False), ("internal/Shop--3", True),
    ]  # fmt: skip
    assert any("a tie of votes counts as failure" in note for note in found.notes)


def test_cuaverifierbench_process_labels_by_name(tmp_path: Path) -> None:
    rows = [{**row, "human_judgement_process": "Correct"} for row in ANNOTATIONS]
    found = read_labels(table(tmp_path / "annotations.jsonl", *rows), "cuaverifierbench-process")
    assert all(label.success for label in found.labels)
    assert not all(label.success for label in read_labels(tmp_path / "annotations.jsonl").labels)


@pytest.mark.parametrize("name", ["mine.csv", "mine.tsv", "mine.json", "mine.jsonl"])
def test_plain_labels_of_ones_own(tmp_path: Path, name: str) -> None:
    said = {"a#0": "success", "b#0": "Not executable", "c#0": "0", "d#0": "unsure", "e#0": "TRUE"}
    found = read_labels(table(tmp_path / name, *({"trajectory_id": k, "label": v} for k, v in said.items())))
    assert found.format == "plain"
    assert {label.key: label.success for label in found.labels} == {
        "a#0": True, "b#0": None, "c#0": False, "d#0": None, "e#0": True,
    }  # fmt: skip


def test_a_file_of_labels_may_have_any_ending_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_bytes(b"\xef\xbb\xbftrajectory_id;label\r\na#0;success\r\n")
    assert [label.key for label in read_labels(path).labels] == ["a#0"]


BAD: list[tuple[str, bytes, str, str]] = [
    ("empty.csv", b"", "auto", "no row"),
    ("empty.json", b"[]", "auto", "no row"),
    ("latin.csv", b"trajectory_id,label\na,\xe9\n", "auto", "UTF-8"),
    ("latin.json", b'[{"trajectory_id": "\xe9"}]', "auto", "UTF-8"),
    ("broken.json", b"[{", "auto", "not JSON"),
    ("broken.jsonl", b'{"trajectory_id": "a", "label": 1}\n{"tra', "auto", "jsonl:2: not JSON"),
    ("number.json", b"7", "auto", "expected a list of rows, got int"),
    ("deep.json", b"[" * 100_000, "auto", "not JSON"),
    ("null.json", b"[null]", "auto", "entry 1: expected an object"),
    ("other.csv", b"id,answer\n1,yes\n", "auto", "has id, answer. Known are"),
    ("other.csv", b"id,answer\n1,yes\n", "plain", "expected trajectory_id, label"),
    ("list.json", b'[{"trajectory_id": "a", "label": [1]}]', "auto", "label is a list"),
    ("two.csv", b"trajectory_id,label\na,2\n", "auto", "write failure or not_executable"),
    ("word.csv", b"trajectory_id,label\na,perhaps\n", "auto", "line 2: label is 'perhaps'; expected one of"),
    ("wide.csv", b"trajectory_id,label\na,1,2\n", "auto", "more fields than the heading"),
    ("same.csv", b"trajectory_id,label,label\na,1,0\n", "auto", "two columns have the same name"),
    ("noid.csv", b"trajectory_id,label\n,1\n", "auto", "trajectory_id is empty"),
    ("twice.csv", b"trajectory_id,label\na,1\na,0\n", "auto", "here and '1' in line 2"),
    ("score.csv", b"trajectory_id,label,score\na,1,high\n", "auto", "not a number"),
    ("task.json", b'[{"task_id": "a", "X_human_label": 1}, {"task_id": "a", "X_human_label": 1}]', "auto", "already"),
    ("code.json", b'[{"task_id": "a", "X_human_label": "3"}]', "auto", "expected one of 0, 1, 2"),
    ("blank.json", b'[{"task_id": "a", "X_human_label": ""}]', "auto", "holds no label"),
    ("bad.parquet", b"PAR1 no", "auto", "not a parquet file"),
]


@pytest.mark.parametrize(("name", "content", "format", "said"), BAD, ids=[f"{b[0]}-{b[2]}" for b in BAD])
def test_a_bad_file_is_named_with_what_was_expected(
    tmp_path: Path, name: str, content: bytes, format: str, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_labels(tmp_path / name, format)
    assert said in str(caught.value) and name in str(caught.value)


def test_missing_file_empty_folder_and_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_labels(tmp_path / "none.csv")
    with pytest.raises(DataError, match="holds no table"):
        read_labels(tmp_path)
    with pytest.raises(ConfigError, match="choose auto, agentrewardbench, om2w"):
        read_labels(table(tmp_path / "x.csv", {"trajectory_id": "a", "label": 1}), "arb")
    assert all(shape.expected for shape in FORMATS.values())


def test_the_same_row_twice_counts_once_and_unnamed_annotators_are_several_people(tmp_path: Path) -> None:
    rows = [arb("A", "w.1", "Successful"), arb("A", "w.1", "Successful"), arb("", "w.1", "Unsuccessful")]
    found = read_labels(table(tmp_path / "x.csv", *rows, arb("", "w.1", "Successful")))
    assert [label.annotator for label in found.labels] == ["A", "unnamed 1", "unnamed 2"]
    assert found.notes == ("1 rows that say the same again were left out",)


def test_long_logs_beside_labels_are_read_over(tmp_path: Path) -> None:
    rows = [{**row, "web_surfer_log": "x" * 300_000} for row in ANNOTATIONS]
    limit = csv.field_size_limit()
    assert len(read_labels(table(tmp_path / "annotations.csv", *rows)).labels) == 4
    assert csv.field_size_limit() == limit


def test_half_a_character_becomes_a_question_mark(tmp_path: Path) -> None:
    rows = '{"trajectory_id": "a\\ud83d#0", "label": 1, "annotator": "A \\ud83d\\ude00", "log": "\\udead"}'
    for name, data in (("l.jsonl", rows + "\n"), ("l.json", f"[{rows}]")):
        (tmp_path / name).write_text(data)
        (found,) = read_labels(tmp_path / name).labels
        assert (found.key, found.annotator) == ("a?#0", "A \U0001f600")
