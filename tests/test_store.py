"""Run directories: resume at any byte, refusal of change, one writer, content-addressed images."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from rmsweb.config import Config, load
from rmsweb.errors import DataError, RunError
from rmsweb.manifest import read_summary
from rmsweb.records import Verdict
from rmsweb.store import Images, Run, read_jsonl

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 20


def verdict(i: int) -> Verdict:
    return Verdict(success=i % 2 == 0, judge="rules", reason=f"number {i} \u2603 \n line")


def test_records_come_back_equal(tmp_path: Path) -> None:
    with Run.open(tmp_path / "r", "collect", Config()) as run:
        for i in range(5):
            run.append("verdict", verdict(i))
        assert run.read("verdict", Verdict) == [verdict(i) for i in range(5)]
    assert json.loads((tmp_path / "r/run.json").read_text())["config"]["seed"] == 0


def test_a_cut_at_any_byte_loses_only_the_record_being_written(tmp_path: Path) -> None:
    with Run.open(tmp_path / "r", "collect", Config()) as run:
        for i in range(4):
            run.append("verdict", verdict(i))
        path = run.file("verdict")
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == 10]
    for cut in [*random.Random(0).sample(range(len(whole) + 1), 60), 0, len(whole)]:
        path.write_bytes(whole[:cut])
        done = sum(end <= cut for end in ends)
        with Run.open(tmp_path / "r", "collect", Config()) as run:
            assert len(run.read("verdict", Verdict)) == done
            for i in range(done, 4):
                run.append("verdict", verdict(i))
        assert path.read_bytes() == whole


def recorded(path: Path, verb: str, *more: Any) -> Path:
    """A run with one record."""
    with Run.open(path, verb, Config(), *more) as run:
        run.append("verdict", verdict(0))
    return path


def test_a_changed_config_is_refused_and_shown(tmp_path: Path) -> None:
    recorded(tmp_path / "r", "collect")
    with pytest.raises(RunError, match=r"seed: 0 -> 1"):
        Run.open(tmp_path / "r", "collect", Config(seed=1))
    with pytest.raises(RunError, match="holds a run of `collect`"):
        Run.open(tmp_path / "r", "mine", Config())


def test_sections_that_a_verb_does_not_read_may_change(tmp_path: Path) -> None:
    recorded(tmp_path / "r", "collect", None, ("suite",))
    Run.open(tmp_path / "r", "collect", Config(seed=1), compare=("suite",)).close()
    with pytest.raises(RunError, match=r"suite\.count"):
        Run.open(tmp_path / "r", "collect", load(None, ["suite.count=3"]), compare=("suite",))


def test_a_changed_input_is_refused_by_its_path(tmp_path: Path) -> None:
    source, other = tmp_path / "in.jsonl", tmp_path / "other.jsonl"
    source.write_text("{}\n")
    other.write_text("{ }\n")
    recorded(tmp_path / "r", "sft", {"samples": source})
    for given, said in (
        ({"samples": other}, rf"inputs\.samples: {source} -> {other}$"),
        ({}, rf"inputs\.samples: {source} -> not given"),
        ({"samples": source, "start": other}, rf"inputs\.start: not given -> {other}"),
    ):
        with pytest.raises(RunError, match=said):
            Run.open(tmp_path / "r", "sft", Config(), given)
    source.write_text("{} \n")
    with pytest.raises(RunError, match=rf"inputs\.samples: {source} has changed since"):
        Run.open(tmp_path / "r", "sft", Config(), {"samples": source})


def test_a_run_without_a_record_is_started_anew(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text("{}\n")
    first = Run.open(tmp_path / "r", "collect", Config(seed=1), {"samples": source})
    first.images.put(PNG)  # of an episode that was never ended
    first.file("verdict").write_bytes(b'{"success": tr')
    (first.path / "exam.json").write_text("{}")
    (first.path / "downloads").mkdir()
    first.close()
    with Run.open(tmp_path / "r", "sft", Config(seed=2)) as run:
        assert run.manifest["verb"] == "sft" and run.manifest["inputs"] == {}
        assert not run.read("verdict", Verdict)
        run.append("verdict", verdict(0))
    assert json.loads((tmp_path / "r/run.json").read_text())["config"]["seed"] == 2
    with pytest.raises(RunError, match="holds a run of `sft`"):
        Run.open(tmp_path / "r", "collect", Config(seed=1))


@pytest.mark.parametrize("name", ["checkpoint/model.safetensors", "trainer/state.json", "summary.json", "notes.txt"])
def test_what_is_no_record_line_but_was_made_is_kept_too(tmp_path: Path, name: str) -> None:
    Run.open(tmp_path / "r", "sft", Config()).close()
    (tmp_path / "r" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "r" / name).write_text("x")
    with pytest.raises(RunError, match="seed: 0 -> 1"):
        Run.open(tmp_path / "r", "sft", Config(seed=1))


def test_a_folder_of_runs_is_not_made_a_run(tmp_path: Path) -> None:
    recorded(tmp_path / "runs/demo/collect", "collect")
    for folder in ("runs", "runs/demo"):
        with pytest.raises(RunError, match=r"holds runs .*collect.* choose another -o"):
            Run.open(tmp_path / folder, "eval", Config())
        assert not (tmp_path / folder / "run.json").exists() and not (tmp_path / folder / ".lock").exists()
    recorded(tmp_path / "runs/demo/collect/eval", "eval")
    Run.open(tmp_path / "runs/demo/collect", "collect", Config()).close()  # a run goes on, whatever lies in it


def test_a_path_that_cannot_be_a_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file/run"):
        with pytest.raises(RunError, match=r"cannot be a run directory .* choose another -o"):
            Run.open(path, "collect", Config())


def test_looking_at_a_run_leaves_its_manifest_alone(tmp_path: Path) -> None:
    with Run.open(tmp_path / "r", "collect", Config()) as run:
        run.finish(verdicts=0)
    before = (tmp_path / "r/run.json").read_bytes()
    with Run.open(tmp_path / "r", "collect", Config()) as run:
        assert run.finished_before
        run.leave()
    assert (tmp_path / "r/run.json").read_bytes() == before
    Run.open(tmp_path / "r", "collect", Config()).close()  # the lock is gone


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with Run.open(tmp_path / "r", "collect", Config()), pytest.raises(RunError, match="another process"):
        Run.open(tmp_path / "r", "collect", Config())


def test_another_schema_is_refused_with_a_way_out(tmp_path: Path) -> None:
    Run.open(tmp_path / "r", "collect", Config()).close()
    manifest = json.loads((tmp_path / "r/run.json").read_text())
    (tmp_path / "r/run.json").write_text(json.dumps({**manifest, "schema": 99}))
    with pytest.raises(RunError, match="record schema 99"):
        Run.read_only(tmp_path / "r")


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    path.write_text('{"success": true, "judge": "a"}\n{"success": 3}\n')
    with pytest.raises(DataError, match=r"verdicts\.jsonl:2: not a Verdict"):
        list(read_jsonl(path, Verdict))


def test_images_are_stored_once_and_fall_back(tmp_path: Path) -> None:
    first, second = Images(tmp_path / "a"), Images(tmp_path / "b", (Images(tmp_path / "a"),))
    sha = first.put(PNG)
    assert first.put(PNG) == sha and len(first) == 1
    assert second[sha] == PNG and sha in second
    with pytest.raises(DataError, match="is missing"):
        second["0" * 64]
    with pytest.raises(DataError, match="no PNG"):
        first.put(b"GIF89a")


def test_a_damaged_picture_is_named(tmp_path: Path) -> None:
    images = Images(tmp_path)
    sha = images.put(PNG)
    images.path(sha).write_bytes(PNG + b"torn")
    with pytest.raises(DataError, match="not the one that was stored"):
        images[sha]


@pytest.mark.parametrize(
    "odd",
    [
        {"inputs": None}, {"inputs": []}, {"inputs": {"a": "x"}}, {"inputs": {"a": {"path": 3, "sha256": ""}}},
        {"config": None}, {"config": [1]}, {"verb": None}, {"counts": None}, {"wall_s": "long"},
    ],
)  # fmt: skip
def test_an_odd_manifest_is_an_error_that_names_the_file(tmp_path: Path, odd: dict[str, Any]) -> None:
    recorded(tmp_path / "r", "collect")
    file = tmp_path / "r/run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **odd}))
    for read in (lambda: Run.read_only(tmp_path / "r"), lambda: Run.open(tmp_path / "r", "collect", Config())):
        with pytest.raises(DataError, match=r"run\.json: not a run manifest"):
            read()


def test_half_files_of_a_killed_writer_are_swept(tmp_path: Path) -> None:
    with Run.open(tmp_path / "r", "collect", Config()) as run:
        sha = run.images.put(PNG)
    left = [tmp_path / "r/.run.json.1.part", tmp_path / f"r/images/{sha[:2]}/.{sha}.1.part"]
    for path in left:
        path.write_bytes(b"half")
    with Run.open(tmp_path / "r", "collect", Config()) as run:
        assert not any(path.exists() for path in left) and run.images[sha] == PNG


def test_records_without_a_manifest_are_not_taken_over(tmp_path: Path) -> None:
    with Run.open(tmp_path / "r", "collect", Config()) as run:
        run.append("verdict", verdict(0))
    manifest = (tmp_path / "r/run.json").read_bytes()
    (tmp_path / "r/run.json").unlink()
    with pytest.raises(RunError, match=r"holds records \(verdicts.jsonl\) and no run.json .* put it back, or choose"):
        Run.open(tmp_path / "r", "eval", Config())
    (tmp_path / "r/run.json").write_bytes(manifest)
    Run.open(tmp_path / "r", "collect", Config()).close()


def test_a_line_of_metrics_that_is_no_object_names_the_file(tmp_path: Path) -> None:
    with Run.open(tmp_path / "r", "sft", Config()) as run:
        run.log({"step": 1})
    (tmp_path / "r/metrics.jsonl").write_text("[1]\n")
    with pytest.raises(DataError, match=r"metrics.jsonl:1: not a line of metrics: no object"):
        Run.read_only(tmp_path / "r").metrics()


def test_a_finished_run_that_lost_records_is_not_read(tmp_path: Path) -> None:
    with Run.open(tmp_path / "r", "collect", Config()) as run:
        for i in range(3):
            run.append("verdict", verdict(i))
        run.finish(verdicts=3)
    file = tmp_path / "r/verdicts.jsonl"
    whole = file.read_bytes()
    for cut in (whole[:-5], b""):
        file.write_bytes(cut)
        with pytest.raises(DataError, match=r"verdicts.jsonl: holds [20] of the 3 records that run.json counts"):
            Run.read_only(tmp_path / "r").read("verdict", Verdict)
    file.write_bytes(whole)
    assert len(Run.read_only(tmp_path / "r").read("verdict", Verdict)) == 3


@pytest.mark.parametrize("odd", ["", "{", "[]", "7", "{}", '{"other": 1}', b"\xff"])
def test_an_odd_summary_is_an_error_that_names_the_file(tmp_path: Path, odd: str | bytes) -> None:
    path = tmp_path / "summary.json"
    path.write_bytes(odd if isinstance(odd, bytes) else odd.encode())
    with pytest.raises(DataError, match=r"summary.json: not a summary: .*the command writes it again"):
        read_summary(path, "gate")
    path.write_text('{"gate": 1}')
    assert read_summary(path, "gate") == {"gate": 1}
