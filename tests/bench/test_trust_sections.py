"""A run of judge-eval has its table in the report."""

import json
from pathlib import Path

import pytest
from specimens import task, trajectory

from rmsweb.bench import judge_eval
from rmsweb.bench.layout import stages_in
from rmsweb.bench.report import render
from rmsweb.bench.trust_sections import sections
from rmsweb.config import Config
from rmsweb.errors import DataError
from rmsweb.records import Verdict
from rmsweb.store import Run

JUDGE = "rmsweb/webjudge-om2w:judge-good:prompt=8400bcd6"


@pytest.fixture
def trust(tmp_path: Path) -> Path:
    """Ten judged attempts, of which people labelled one in two ways, once each: a tie."""
    lines = ["trajectory_id,annotator,label"]
    with Run.open(tmp_path / "judged", "eval", Config()) as run:
        for i in range(10):
            t = trajectory(run.images, task(i), 2, success=i < 4)
            run.append("trajectory", t)
            said = None if i == 9 else i < 4
            run.append(
                "verdict",
                Verdict(success=said, judge=JUDGE, trajectory_id=t.id, unjudged="" if said is not None else "refused"),
            )
            lines.append(f"{t.id},a,{int(i < 5)}")
            lines += [f"{t.id},b,{int(i >= 5)}"] if i == 0 else []
        run.finish()
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    judge_eval.run({"judged": tmp_path / "judged"}, tmp_path / "labels.csv", rule="majority", out=tmp_path / "trust")
    return tmp_path / "trust"


def test_measures_with_intervals_and_ties_stand_in_the_report(trust: Path) -> None:
    found = sections(stages_in({"trust": trust}))[0]
    table = found.tables[0]
    rows = {str(row[0]): row for row in table.rows}
    summary = json.loads((trust / "summary.json").read_text())["judges"][JUDGE]["unjudged_as_failure"]
    assert table.title == "rmsweb/webjudge-om2w judge-good" and table.notes[0].endswith(JUDGE)
    assert rows["comparisons"][1] == str(summary["n"]) == "9"
    for measure in ("accuracy", "precision", "recall", "false positives", "false negatives", "kappa"):
        assert "(" in str(rows[measure][1]), measure
    assert str(rows["accuracy"][1]).startswith(f"{100 * summary['accuracy']['value']:.1f} % (")
    assert rows["labels tied between people"][1] == "1" and any("1 ties" in line for line in found.lead)
    page = render(stages_in({"trust": trust}))
    assert "Judge against people: trust" in page and "no verdict left out" in page and "false negatives" in page


def test_a_run_without_a_summary_is_left_out_and_an_odd_one_is_named(trust: Path) -> None:
    (trust / "summary.json").write_text('{"labels": 3}')
    with pytest.raises(DataError, match=r"summary\.json: is no summary of judge-eval"):
        render(stages_in({"trust": trust}))
    (trust / "summary.json").unlink()
    assert sections(stages_in({"trust": trust})) == []
