"""Unlike runs stand apart and what differs is said; judges side by side; scores as files."""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from specimens import collect_run, eval_run, task, trajectory

from rmsweb.bench import compare, export
from rmsweb.bench.judges.asking import Call
from rmsweb.bench.layout import Stage, stages_in
from rmsweb.bench.report import render, write_report
from rmsweb.bench.setting import Asked, Setting, differing, read_asked, write_asked
from rmsweb.config import Config, EvalConfig
from rmsweb.errors import DataError, RunError
from rmsweb.records import Stop, Task, Trajectory, Verdict
from rmsweb.store import Run

Won = Callable[[int], bool | None]


def even(i: int) -> bool:
    return i % 2 == 0


def exam(
    path: Path,
    model: str = "sft",
    won: Won = even,
    *,
    tasks: Sequence[Task] | None = None,
    judge: str = "rules",
    verb: str = "eval",
    runs: int = 1,
    config: Config | None = None,
    wide: bool = False,
) -> Path:
    """A run with the attempts of one model."""
    with Run.open(path, verb, config or Config()) as run:
        for i, one in enumerate(tasks if tasks is not None else [task(i) for i in range(8)]):
            for attempt in range(runs):
                said = won(i + attempt)
                t = trajectory(run.images, one, 3, model=model, success=bool(said), attempt=attempt)
                run.append("trajectory", t.model_copy(update={"viewport": (1440, 900)}) if wide else t)
                why = "" if said is not None else "no_verdict"
                run.append("verdict", Verdict(success=said, judge=judge, trajectory_id=t.id, unjudged=why))
        run.finish()
    return path


def judged(path: Path, source: Path, judge: str, won: Won, *, only: int | None = None, **details: int) -> Path:
    """A run of `judge` over all (or the first) trajectories of a run."""
    trajectories = Run.read_only(source).read("trajectory", Trajectory)[:only]
    with Run.open(path, "judge", Config(), {"eval": source}) as run:
        for i, t in enumerate(trajectories):
            said = won(i)
            verdict = Verdict(
                success=said, judge=judge, trajectory_id=t.id, unjudged="" if said is not None else "refused"
            )
            run.append(
                "verdict", verdict.model_copy(update={"details": {"upstream_label": int(bool(said)), **details}})
            )
            run.append(
                "call",
                Call(
                    trajectory_id=t.id, protocol=judge, key="verdict", prompt="0" * 16, text="SUCCESS", pictures=2,
                    prompt_tokens=1000, completion_tokens=10,
                ),
            )  # fmt: skip
        run.finish()
    return path


def groups(paths: Mapping[str, Path]) -> list[compare.Group]:
    return compare.examined(stages_in(paths)).groups


def test_like_runs_stand_in_one_table(tmp_path: Path) -> None:
    found = groups({"a": exam(tmp_path / "a"), "b": exam(tmp_path / "b", "rl", lambda i: True)})
    assert len(found) == 1 and found[0].numbers()["models"] == ["sft", "rl"]
    assert found[0].numbers()["paired"]["rl_vs_sft"]["difference"] == 0.5


ASKED = "rmsweb/chat:m:prompt=1:images=8:temperature=0:again=0.7:tokens=400:attempts=3"
COLD = "temperature 0, 0.7 when asked again, 400 tokens, 3 attempts"


def test_the_sampling_is_named_where_any_two_share_the_judge() -> None:
    alike = dict.fromkeys(Setting._fields, "same")
    one = Setting(**{**alike, "judge": "m", "judge_sampling": "temperature 0"})
    warm, other = one._replace(judge_sampling="temperature 1"), one._replace(judge="n", judge_sampling="none")
    assert len(differing([one, warm, other])) == 2 and len(differing([one, other])) == 1


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (
            ASKED.replace("temperature=0:again=0.7", "temperature=0.7"),
            f"{COLD} / temperature 0.7, 400 tokens, 3 attempts",
        ),
        (ASKED.replace("attempts=3", "attempts=1"), f"{COLD} / {COLD.replace('3 attempts', '1 attempts')}"),
        (f"{ASKED}:extra=12345678", f"{COLD} / {COLD}, extra_body 12345678"),
        ("rmsweb/chat:m:prompt=1:images=8", f"{COLD} / not recorded"),
    ],
)
def test_a_judge_that_is_sampled_otherwise_stands_apart(tmp_path: Path, judge: str, said: str) -> None:
    paths = {"a": exam(tmp_path / "a", judge=ASKED), "b": exam(tmp_path / "b", "rl", judge=judge)}
    found = groups(paths)
    assert len(found) == 2
    assert f"they differ in sampling of the judge ({said})." in compare.apart(found)[0]
    what = [line for group in found for line in group.numbers()["what"]]
    assert any(f"Judged by rmsweb/chat with m (sampling: {COLD})" in line for line in what)
    alike = groups({"a": exam(tmp_path / "c", judge=judge), "b": exam(tmp_path / "d", "rl", judge=judge)})
    assert len(alike) == 1


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"judge": "rmsweb/chat:m:prompt=1"}, "judge (rules / rmsweb/chat:m:prompt=1)"),
        ({"wide": True}, "viewport (320×224 / 1440×900)"),
        ({"tasks": [task(i) for i in range(5)]}, "task set (8 tasks, ids"),
        ({"tasks": [task(i).model_copy(update={"max_steps": 30}) for i in range(8)]}, "step limit (8 / 30)"),
        ({"tasks": [task(i).model_copy(update={"goal": "of 2026"}) for i in range(8)]}, "task texts ("),
    ],
)
def test_unlike_runs_stand_apart_and_what_differs_is_named(tmp_path: Path, other: dict[str, object], said: str) -> None:
    paths = {"a": exam(tmp_path / "a"), "b": exam(tmp_path / "b", "rl", **other)}  # type: ignore[arg-type]
    found = groups(paths)
    assert len(found) == 2 and all(len(group.numbers()["models"]) == 1 for group in found)
    sentence = compare.apart(found)[0]
    assert said in sentence and sentence.count("(") == 1, sentence
    page = render(stages_in(paths))
    assert "are not alike and are not compared" in page and "part 2 of 2" in page and "rl \u2212 sft" not in page


def test_the_same_model_in_two_like_runs_is_told_apart_by_run(tmp_path: Path) -> None:
    found = groups({"first": exam(tmp_path / "a"), "second": exam(tmp_path / "b", won=lambda i: True)})
    assert found[0].numbers()["models"] == ["sft (first)", "sft (second)"]
    assert [s["n"] for s in found[0].numbers()["scores"].values()] == [8, 8]
    page = render(stages_in({"first": tmp_path / "a", "second": tmp_path / "b"}))
    assert "From sft (first) to sft (second), per episode: tokens 360 to 360 (1.00 times), steps 3 to 3" in page


def test_what_was_asked_for_counts_even_where_it_never_ran(tmp_path: Path) -> None:
    path = exam(tmp_path / "a", tasks=[task(i) for i in range(3)])
    asked = Asked(tasks=tuple(task(i) for i in range(8)), runs=2, excluded={"x": "date passed"}, contamination={})
    write_asked(Run.read_only(path), {"heldout": asked})
    numbers = groups({"a": path})[0].numbers()
    score = numbers["scores"]["sft"]
    assert (numbers["n"], score["n"], score["outcomes"]["missing"]) == (8, 16, 13)
    assert score["excluded"] == {"x": "date passed"} and "1 task left out (date passed: 1)" in " ".join(numbers["what"])
    assert read_asked(Run.read_only(path))["heldout"].runs == 2
    for wrong in ("[1, 2]", "{", '{"heldout": {"tasks": 3}}', "null", '{"heldout": null}'):
        (path / "exam.json").write_text(wrong)
        with pytest.raises(DataError, match=r"exam\.json"):
            read_asked(Run.read_only(path))


def test_nothing_judged_has_no_score_line(tmp_path: Path) -> None:
    page = render(stages_in({"a": exam(tmp_path / "a", won=lambda i: None)}))
    assert (
        "sft: 8 of 8 ran, none has a verdict in this run: there is no score here." in page
        and "tasks solved" not in page
    )
    with Run.open(tmp_path / "b", "eval", Config()) as run:
        for i in range(5):
            t = trajectory(run.images, task(i), 1, success=False, stop=Stop.MODEL_ERROR)
            run.append("trajectory", t)
        run.finish()
    page = render(stages_in({"b": tmp_path / "b"}))
    assert "sft: 0 of 5 ran, none has a verdict in this run: there is no score here." in page and "0.0 %" not in page


def test_judges_side_by_side_and_never_merged(tmp_path: Path) -> None:
    source = exam(tmp_path / "a")
    strict = judged(tmp_path / "j1", source, "webvoyager/fara:gpt-4o:prompt=1", lambda i: i == 0)
    unsure = judged(tmp_path / "j2", source, "rmsweb/webjudge-om2w:o4-mini", lambda i: None if i > 3 else True, only=6)
    paths = {"a": source, "j1": strict, "j2": unsure}
    page = render(stages_in(paths))
    assert "Of 8 tasks solved: sft 50.0 %." in page, "the run's own judge stays the exam's"
    for part in (
        "Solved, by each judge", "Agreement of the judges", "refused 2", "6 of 8",
        "rules and webvoyager/fara gpt-4o give different verdicts on 3 of 8 episodes (37.5 %).", "Cost of judging",
    ):  # fmt: skip
        assert part in page, part
    from rmsweb.bench import judge_sections, protocols

    examined = compare.examined(stages_in(paths))
    benches = judge_sections.benches_of(examined.groups[0], examined.judged)
    pairs = {(p.a.split(":")[0], p.b.split(":")[0]): p for p in protocols.agreement(benches)}
    first = pairs["rules", "webvoyager/fara"]
    assert (first.n, first.differ, first.a_only, first.b_only) == (8, 3, 3, 0) and first.kappa == pytest.approx(0.25)
    partly = pairs["rules", "rmsweb/webjudge-om2w"]
    assert (partly.n, partly.differ, partly.left_out) == (4, 2, 2)
    scores = {(b.parts[0], m): s for b, m, s in protocols.score_table(benches, examined.groups[0].tasks)}
    webjudge = scores["rmsweb/webjudge-om2w", "sft"]
    assert (webjudge.n, webjudge.judged, webjudge.success_judged) == (8, 4, 1.0)
    assert webjudge.unjudged == {"refused": 2} and webjudge.outcomes["missing"] == 2
    assert scores["webvoyager/fara", "sft"].success_upstream == 0.125


def test_a_judge_run_alone_finds_what_it_judged_or_says_what_is_missing(tmp_path: Path) -> None:
    source = exam(tmp_path / "a")
    run = judged(tmp_path / "j", source, "agenttrek:m", lambda i: True)
    assert "Solved, by each judge" in render(stages_in({"j": run}))
    moved = source.rename(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"which is not there; give it with --from eval=RUN"):
        render(stages_in({"j": run}))
    assert "Solved, by each judge" in render(stages_in({"j": run, "eval": moved}))


def test_a_judged_collection_gets_the_judges_and_no_exam(tmp_path: Path) -> None:
    source = collect_run(tmp_path / "c", "plain", (0.5, 0.5), 6)
    page = render(stages_in({"c": source, "j": judged(tmp_path / "j", source, "agenttrek:m", lambda i: True)}))
    assert "Judged again: c, train" in page and "Solved, by each judge" in page and "Exam: train" not in page


def test_the_same_judge_twice_is_told_apart_by_run(tmp_path: Path) -> None:
    source = exam(tmp_path / "a")
    paths = {"a": source}
    for name, won in (("one", even), ("two", lambda i: i < 3)):
        paths[name] = judged(tmp_path / name, source, "agenttrek:m", won)
    page = render(stages_in(paths))
    assert "agenttrek m (one) and agenttrek m (two) give different verdicts on 3 of 8 episodes" in page


def test_controls_are_no_part_of_the_judges_agreement(tmp_path: Path) -> None:
    source = eval_run(tmp_path / "a", {"sft": 0.5, "rl": 0.6}, 8, controls="rl")
    page = render(stages_in({"a": source, "j": judged(tmp_path / "j", source, "agenttrek:m", lambda i: True)}))
    both = [int(n) for n in re.findall(r"give different verdicts on \d+ of (\d+) episodes", page)]
    assert both and max(both) <= 16


def test_imported_verdicts_of_several_judges_and_unnamed_models(tmp_path: Path) -> None:
    path = exam(tmp_path / "i", model="", verb="import", judge="imported:scores/gpt_eval.json")
    stored = Run.open(path, "import", Config())
    for i, t in enumerate(stored.read("trajectory", Trajectory)):
        run = Verdict(success=i < 2, judge="imported:scores/mmrubric.json", trajectory_id=t.id)
        stored.append("imported_verdict", run)
    stored.finish()
    page = render(stages_in({"fara": path}))
    assert "fara 50.0 %" in page and "imported:scores/mmrubric.json" in page and "step limit not recorded" in page
    assert "give different verdicts on 4 of 8 episodes" in page


def test_scores_as_csv_and_markdown(tmp_path: Path) -> None:
    tasks = [task(0).model_copy(update={"id": "=1+1|x"}), task(1)]
    source = exam(tmp_path / "a", tasks=tasks)
    paths = {"a": source, "j": judged(tmp_path / "j", source, "agenttrek:m", lambda i: None)}
    write_report(paths, tmp_path / "out" / "report.html")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out/scores.csv").read_text())))
    assert len(rows) == 4 and tuple(rows[0]) == export.COLUMNS
    assert [r["task"] for r in rows][:2] == ["'=1+1|x", "sites/shop/price/1"]
    assert [(r["protocol"], r["verdict"]) for r in rows] == [
        ("rules", "1"), ("rules", "0"), ("agenttrek", ""), ("agenttrek", ""),
    ]  # fmt: skip
    assert [r["judge_run"] for r in rows] == ["own", "own", "j", "j"]
    assert rows[2]["judge_model"] == "m" and rows[2]["unjudged"] == "refused" and rows[0]["steps"] == "3"
    said = (tmp_path / "out/scores.md").read_text()
    assert "| rules | sft | 50.0 % (9.5\u201390.5) |" in said and "| 0 of 2 | refused 2 |" in said
    assert "=1+1\\|x" in said and "What it is: 2 tasks of sites" in said and "solved (3)" in said
    write_report(paths, tmp_path / "out" / "mine.html")
    assert (tmp_path / "out/mine-scores.csv").exists()
    write_report({"c": collect_run(tmp_path / "c", "plain", (0.5,), 3)}, tmp_path / "none" / "report.html")
    assert not (tmp_path / "none/scores.csv").exists(), "no exam, no scores"


def test_steps_without_the_final_answer(tmp_path: Path) -> None:
    config = Config(eval=EvalConfig(steps_with_end=False))
    with_end, without = (
        groups({"a": exam(tmp_path / name, config=c)})[0].numbers()["scores"]["sft"]
        for name, c in (("with", Config()), ("without", config))
    )
    assert (with_end["steps_on_solved"], without["steps_on_solved"]) == (3.0, 2.0)
    assert (with_end["steps_with_end"], without["steps_with_end"]) == (True, False)


def test_a_budget_curve_is_drawn_where_anything_is_solved(tmp_path: Path) -> None:
    for name, rate in (("none", 0.0), ("some", 0.5)):
        page = render(stages_in({"a": eval_run(tmp_path / name, {"sft": rate, "rl": 0.0}, 6)}))
        assert ("Success within a step budget" in page) == (rate > 0)


def test_a_run_of_before_says_what_it_recorded(tmp_path: Path) -> None:
    path = eval_run(tmp_path / "old", {"sft": 0.5}, 6)
    run = Run.read_only(path)
    assert "Overlap with training tasks: not recorded." in groups({"a": path})[0].numbers()["what"][1]
    run.write_json("scores.json", {"disjoint": {"heldout": {"tasks": [], "worlds": [], "goals": 2, "training": 40}}})
    assert "Overlap with 40 training tasks: 0 ids" in groups({"a": path})[0].numbers()["what"][1]
    (path / "scores.json").write_text("torn")
    assert "not recorded" in groups({"a": path})[0].numbers()["what"][1]
    assert Stage("a", path).results


def test_runs_of_unequal_number_and_steps_counted_in_two_ways_stand_apart(tmp_path: Path) -> None:
    for name, runs in (("once", 1), ("thrice", 3)):
        path = exam(tmp_path / name, name, lambda i: True, runs=runs)
        write_asked(Run.read_only(path), {"heldout": Asked(tasks=tuple(task(i) for i in range(8)), runs=runs)})
    found = compare.examined(stages_in({n: tmp_path / n for n in ("once", "thrice")}))
    assert [sorted(group.numbers()["scores"]) for group in found.groups] == [["thrice"], ["once"]]
    assert [next(iter(group.numbers()["scores"].values()))["success"] for group in found.groups] == [1.0, 1.0]
    assert "runs of each task (3 / 1)" in compare.apart(found.groups)[0]
    without = Config(eval=EvalConfig(steps_with_end=False))
    paths = {"with": exam(tmp_path / "with"), "without": exam(tmp_path / "without", "rl", config=without)}
    assert "steps (" in compare.apart(compare.examined(stages_in(paths)).groups)[0]


def test_the_rubric_verifiers_two_numbers_stand_side_by_side(tmp_path: Path) -> None:
    source = exam(tmp_path / "eval")
    details = {"process_score": 0.9, "process_passed": True, "outcome": False}
    trajectories = Run.read_only(source).read("trajectory", Trajectory)
    with Run.open(tmp_path / "judged", "judge", Config(), {"eval": source}) as run:
        for t in trajectories:
            said = {"success": False, "judge": "rmsweb/rubric-both:m", "trajectory_id": t.id, "details": details}
            run.append("verdict", Verdict.model_validate(said))
        run.finish()
    page = render(stages_in({"eval": source, "judged": tmp_path / "judged"}))
    assert "Process and outcome, rmsweb/rubric-both m" in page
    row = re.search(r"<tr[^>]*>\s*<t[dh][^>]*>all</t[dh]>.*?</tr>", page, re.DOTALL)
    assert row and [x.strip() for x in re.findall(r"<td[^>]*>([^<]*)<", row[0])][-6:] == [
        "8", "0.90", "100.0 %", "100.0 %", "0.0 %", "0.0 %",
    ]  # fmt: skip


def test_what_an_imported_run_does_not_record_is_an_empty_cell_and_no_zero(tmp_path: Path) -> None:
    with Run.open(tmp_path / "i", "import", Config()) as run:
        t = trajectory(run.images, task(0), 2)
        free = {"prompt_tokens": 0, "completion_tokens": 0}
        steps = [step.model_copy(update={"decision": step.decision.model_copy(update=free)}) for step in t.steps]
        bare = {"steps": tuple(steps), "wall_s": 0.0, "evidence": {"imported": {"format": "om2w"}}}
        run.append("trajectory", t.model_copy(update=bare))
        run.finish()
    text = export.files(compare.examined(stages_in({"i": tmp_path / "i"})))["scores.csv"]
    [row] = csv.DictReader(io.StringIO(text))
    assert [row[name] for name in ("prompt_tokens", "completion_tokens", "cost", "wall_s")] == [""] * 4
    assert row["steps"] == "2"
