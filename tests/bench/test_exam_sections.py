"""What the report says of an exam: unlike models, greedy runs, few differing tasks, runs, examples, judges' tables."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from specimens import collect_run, eval_run, task, trajectory, verdict

from rmsweb.bench import compare, exam_sections, judge_sections, plots, wording
from rmsweb.bench.layout import Section, Table, stages_in
from rmsweb.bench.report import exam_parts, render, write_report
from rmsweb.bench.scores import heldout_summary
from rmsweb.bench.setting import facts_of
from rmsweb.bench.tables import demo_table
from rmsweb.config import Config
from rmsweb.records import Task, Trajectory, Verdict
from rmsweb.reflect import explorer
from rmsweb.store import Run

Won = Callable[[int], bool | None]
EXPLORER = Path(explorer.__file__)


def played(path: Path, models: dict[str, Won], *, tasks: int = 8, runs: int = 1, given: dict[str, Path] | None = None,
           config: Config | None = None, verb: str = "eval") -> Path:  # fmt: skip
    """A run with the attempts of several models; `given`: what its manifest names as their inputs."""
    with Run.open(path, verb, config or Config(), given or {}) as run:
        for model, won in models.items():
            for i in range(tasks):
                for attempt in range(runs):
                    said = won(i + attempt)
                    t = trajectory(run.images, task(i), 3, model=model, success=bool(said), attempt=attempt)
                    run.append("trajectory", t)
                    run.append("verdict", verdict(t, said))
        run.finish()
    return path


def section(path: Path) -> Section:
    return exam_parts(compare.examined(stages_in({"e": path})))[0]


def table(found: Section, title: str) -> Table:
    return next(t for t in found.tables if t.title.startswith(title))


def test_the_scripted_explorer_is_an_unlike_model_and_said_to_be_so(tmp_path: Path) -> None:
    path = played(tmp_path / "e", {"base": lambda i: False, "expl": lambda i: True}, given={"expl": EXPLORER})
    numbers = compare.examined(stages_in({"e": path})).groups[0].numbers()
    assert numbers["scores"]["expl"]["observation"] == "the list of page elements (scripted explorer)"
    assert numbers["scores"]["base"]["observation"] == "screenshot" and numbers["scores"]["expl"]["top_p"] is None
    page = render(stages_in({"e": path}))
    top = page.partition("</header>")[0]
    unlike = "they differ in observation (the list of page elements (scripted explorer) / screenshot)."
    assert f"expl solves more than base: by 100.0 to 100.0 points. They are unlike: {unlike}" in top
    assert '<p class="lead warning">Unlike models: they differ in observation (base: screenshot; expl: the list' in top
    assert any("expl − base: unlike models" in note for note in table(section(path), "Paired").notes)
    from rich.console import Console

    console = Console(width=300, file=io.StringIO(), record=True)
    demo_table({"heldout": heldout_summary(numbers)}, console)
    said = console.export_text()
    assert f"They are unlike: {unlike}" in said and "Unlike models: they differ" in said


def test_a_checkpoint_and_a_served_model_stay_with_their_profile() -> None:
    manifest = {"config": json.loads(Config().model_dump_json()), "inputs": {"a": {"path": "/runs/sft/checkpoint"}}}
    manifest["inputs"]["served"] = {"path": "/x/rmsweb/parts.py"}
    manifest["inputs"]["moved"] = {"path": "/elsewhere/rmsweb/reflect/explorer.py"}
    seen = {m: facts_of([task(0)], None, manifest, "", m)["observation"] for m in ("a", "served", "moved", "absent")}
    assert [name for name, words in seen.items() if "explorer" in words] == ["moved"]
    assert seen["a"] == seen["served"] == "screenshot" and facts_of([task(0)], None, {}, "", "a")["observation"] == ""


def test_two_runs_with_other_observations_are_unlike(tmp_path: Path) -> None:
    elements = Config.model_validate({"profile": {"observation": "elements"}})
    paths = {
        "a": played(tmp_path / "a", {"base": lambda i: False}),
        "b": played(tmp_path / "b", {"rl": lambda i: True}, config=elements),
        "c": played(tmp_path / "c", {"sft": lambda i: i < 4}),
    }
    numbers = compare.examined(stages_in(paths)).groups[0].numbers()
    unlike = {key: bool(pair["unlike"]) for key, pair in numbers["paired"].items()}
    assert len(unlike) == 3 and all(marked is ("rl" in key) for key, marked in unlike.items())


def test_several_greedy_runs_are_no_samples(tmp_path: Path) -> None:
    warm = Config.model_validate({"policy": {"temperature": 0.7}})
    for name, runs, config, warned in (("a", 2, None, True), ("b", 1, None, False), ("c", 2, warm, False)):
        page = render(
            stages_in({"e": played(tmp_path / name, {"sft": lambda i: i % 2 == 0}, runs=runs, config=config)})
        )
        assert ("sft: several runs at temperature 0 repeat one greedy choice" in page) is warned, name


def test_runs_and_every_pass_at_k_are_rows_and_the_caption_is_english(tmp_path: Path) -> None:
    found = section(played(tmp_path / "e", {"sft": lambda i: i % 3 == 0}, runs=3))
    several = table(found, "Several runs of each task")
    firsts = [row[0] for row in several.rows]
    assert firsts[:3] == ["run 1", "run 2", "run 3"] and firsts[-3:] == [f"pass@{k} (95 %)" for k in (1, 2, 3)]
    assert len(several.head) == 2 and all(len(t.head) <= 12 for t in found.tables)
    caption = found.charts[0].caption
    assert caption.startswith("8 tasks, the same for every model; bars are 95 % intervals (bootstrap over tasks")
    assert "(Wilson)" in section(played(tmp_path / "one", {"sft": lambda i: i % 3 == 0})).charts[0].caption


def test_one_name_for_tokens_of_an_episode(tmp_path: Path) -> None:
    page = render(stages_in({"e": played(tmp_path / "e", {"sft": lambda i: True, "rl": lambda i: True}, runs=2)}))
    assert "tokens per task" not in page
    assert page.count("<th>tokens per episode</th>") == 3, "the exam's, the costs', and what was run"
    cells = {cell for row in re.findall(r"<tr>.*?</tr>", page) for cell in re.findall(r"<td[^>]*>(360)</td>", row)}
    assert cells == {"360"}, "three steps of 120 tokens, whatever the number of runs and models"


def test_few_differing_tasks_have_no_interval(tmp_path: Path) -> None:
    few = section(played(tmp_path / "a", {"sft": lambda i: True, "rl": lambda i: i > 1}, tasks=12))
    row = table(few, "Paired").rows[0]
    assert (row[3], row[5]) == ("too few to tell",) * 2 and wording.WHY_TOO_FEW in table(few, "Paired").notes
    assert any(line.startswith("Too few to tell rl and sft apart: they differ on 2 tasks of 12") for line in few.lead)
    chart = next(c for c in few.charts if c.title.startswith("Paired"))
    assert "too few to tell" in chart.svg and "[" not in "".join(re.findall(r">([^<]*)</text>", chart.svg))
    many = section(played(tmp_path / "b", {"sft": lambda i: True, "rl": lambda i: i > 6}, tasks=12))
    assert "[" in str(table(many, "Paired").rows[0][3]) and not table(many, "Paired").notes


def test_long_names_fit_into_the_chart_of_pairs() -> None:
    name = "sft_continued (first) \u2212 base (second)"
    svg = plots.forest([(name, 0.7, (0.4, 1.0)), ("x" * 90, -1.0, (-1.0, -1.0)), ("a \u2212 b", 0.0, None)])
    assert f">{name}</text>" in svg and "+70.0 [+40.0, +100.0]" in svg and "xxx\u2026xxx" in svg
    assert ">+0.0 too few to tell</text>" in svg


def attempts_of(found: Section) -> list[tuple[str, str, bool | None]]:
    return [(e.title, e.arm, e.verdict.success if e.verdict else None) for e in found.examples]


def test_every_exam_has_its_examples_and_one_model_is_enough(tmp_path: Path) -> None:
    one = played(tmp_path / "one", {"served": lambda i: i % 2 == 0})
    wide = {"max_steps": 30}
    with Run.open(tmp_path / "two", "eval", Config()) as run:
        for model, won in (("a", False), ("b", True)):
            other = Task.model_validate({**task(0).model_dump(), "suite": "webvoyager", "id": "W--0", **wide})
            t = trajectory(run.images, other, 2, model=model, success=won)
            run.append("trajectory", t)
            run.append("verdict", verdict(t, won))
    found = exam_sections.examples(compare.examined(stages_in({"1": one, "2": tmp_path / "two"})).groups)
    assert attempts_of(found) == [
        ("Solved by served", "served", True), ("Not solved by served", "served", False),
        ("Solved by b, not by a", "a", False), ("Solved by b, not by a", "b", True),
    ]  # fmt: skip
    none = played(tmp_path / "none", {"x": lambda i: None})
    assert attempts_of(exam_sections.examples(compare.examined(stages_in({"n": none})).groups)) == [
        ("Not judged: x", "x", None)
    ]
    assert "no verdict</span> in 3 steps" in render(stages_in({"n": none}))


def test_examples_of_like_runs_of_one_model_go_by_the_names_of_the_tables(tmp_path: Path) -> None:
    paths = {
        "first": played(tmp_path / "a", {"sft": lambda i: False}),
        "second": played(tmp_path / "b", {"sft": lambda i: True}),
    }
    found = exam_sections.examples(compare.examined(stages_in(paths)).groups)
    assert [(e.arm, e.run.name) for e in found.examples] == [("sft (first)", "a"), ("sft (second)", "b")]


def judged_first(path: Path, source: Path, judge: str, some: range) -> Path:
    with Run.open(path, "judge", Config(), {"eval": source}) as run:
        for i in some:
            t = Run.read_only(source).read("trajectory", Trajectory)[i]
            run.append("verdict", Verdict(success=True, judge=judge, trajectory_id=t.id))
        run.finish()
    return path


def test_pairs_of_judges_without_a_common_episode_are_left_out_and_counted(tmp_path: Path) -> None:
    source = played(tmp_path / "e", {"sft": lambda i: None})
    paths = {"e": source}
    for name, some in (("one", range(2)), ("two", range(2)), ("three", range(5, 7))):
        paths[name] = judged_first(tmp_path / name, source, f"agenttrek:{name}", some)
    examined = compare.examined(stages_in(paths))
    found = exam_parts(examined)[0]
    agreement = table(found, "Agreement")
    pairs = len(judge_sections.benches_of(examined.groups[0], examined.judged))
    assert [row[2] for row in agreement.rows] == ["2"]
    empty = pairs * (pairs - 1) // 2 - 1
    assert agreement.notes[-1].startswith(f"Left out: {empty} pairs of judges could judge no episode in common")
    assert sum("give different verdicts" in line for line in found.lead) == 1


def test_dates_that_had_passed_are_counted_on_the_day_of_the_run() -> None:
    tasks = [
        Task.model_validate({**task(i).model_dump(), "suite": "webvoyager", "goal": goal})
        for i, goal in enumerate(("Book a hotel for January 5, 2024", "Book a hotel for January 5, 2028", "find it"))
    ]
    began = {"config": {}, "started": "2026-12-02T09:00:00Z"}
    assert facts_of(tasks, None, began, "")["extra"] == {"passed": 1, "day": "2026-12-02"}
    assert facts_of(tasks, None, {**began, "started": "2029-01-01T09:00:00Z"}, "")["extra"]["passed"] == 2
    assert facts_of(tasks, None, {}, "")["extra"] == {} == facts_of([task(0)], None, began, "")["extra"]


@pytest.mark.browser
async def test_nothing_is_cut_and_what_is_beside_shows(tmp_path: Path) -> None:
    """At 1280 pixels no table of an exam of several runs is wider than the page; at 420 the page itself is not, no
    text of a chart is cut, and a table that goes on at the side throws a shadow there."""
    from playwright.async_api import async_playwright

    from rmsweb.web import chromium

    source = played(tmp_path / "e", {"sft (a long name of it)": lambda i: i % 3 == 0, "rl": lambda i: True}, runs=3)
    judge = "rmsweb/webvoyager-fara:judge-good:prompt=4e61503e:temperature=1:tokens=4096:attempts=3"
    paths = {"e": source, "c": collect_run(tmp_path / "c", "plain", (0.5,), 3)}
    for name in ("j", "k"):
        paths[name] = judged_first(tmp_path / name, source, judge, range(6))
    paths["x"] = eval_run(tmp_path / "x", {"base": 0.2, "sft": 0.6}, 12)
    address = write_report(paths, tmp_path / "report.html").as_uri()
    beside = "[...document.querySelectorAll('.wide')].filter((e) => e.scrollWidth > e.clientWidth + 1)"
    cut = """[...document.querySelectorAll('figure > svg')].flatMap((s) => [...s.querySelectorAll('text')].filter(
        (t) => { const a = t.getBoundingClientRect(), b = s.getBoundingClientRect();
        return a.left < b.left - 1 || a.right > b.right + 1 }).map((t) => t.textContent))"""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=str(chromium.find_executable()), args=["--no-sandbox", "--disable-background-networking"]
        )
        for width in (1280, 420):
            page = await browser.new_page(viewport={"width": width, "height": 900})
            await page.goto(address)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            assert await page.evaluate(cut) == [], width
            wide = await page.evaluate(f"{beside}.map((e) => getComputedStyle(e).backgroundAttachment)")
            assert (wide == []) is (width == 1280)
            assert all(one == "local, local, scroll, scroll" for one in wide)
        await browser.close()
