"""The report: whole from any set of runs, alike every time, escaped, honest about nulls; looked at in a browser."""

import re
from pathlib import Path
from typing import Any

import pytest
from specimens import collect_run, demo_folder, eval_run, rl_run, sft_run, task, trajectory, verdict

from rmsweb.bench import compare, plots
from rmsweb.bench.layout import Section, Stage, stages_in
from rmsweb.bench.report import exam_parts, render, write_report
from rmsweb.bench.tables import demo_table
from rmsweb.bench.training_sections import warnings_of
from rmsweb.bench.wording import named_pair, signed, signed_interval
from rmsweb.bench.wording import verdict as said_of
from rmsweb.config import Config
from rmsweb.errors import RunError
from rmsweb.records import Stop
from rmsweb.store import Run

HOSTILE = '</style><script>alert(1)</script><img src="http://evil.test/x" onerror=alert(2)>'


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_folder(tmp_path_factory.mktemp("demo"), 16)


@pytest.fixture(scope="module")
def page(demo: Path) -> str:
    return render(stages_in({"demo": demo}), {"wall_s": 420.0})


def test_everything_is_there(page: str) -> None:
    for part in (
        "Of 16 tasks solved: rl", "Exam: held-out seeds", "Tasks solved", "Paired differences", "Success against cost",
        "Success within a step budget", "Failure modes, sft and rl", "Controls: does it look?", "Solved, by template",
        "Solved within k attempts", "Training loss", "Fate of groups, rl", "Right replies", "reflect \u2212 plain",
        "the reflection on it, and the retry", "7.0 min in all", "McNemar", "Wilson", "1280\u00d7800",
        "Not in this report, because no run of it was given or it recorded nothing: Failure-mode mining.",
    ):  # fmt: skip
        assert part in page, part
    assert page.count("<svg") > 10 and "sft_continued" in page


def test_it_needs_nothing_from_outside_and_runs_nothing(page: str) -> None:
    assert "<script" not in page
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    for address in re.findall(r'(?:src|href)="([^"]*)"', page):
        assert address.startswith(("data:", "#")), address
    for address in re.findall(r"url\(([^)]*)\)", page):
        assert address.startswith(("data:", "#")), address


def test_the_same_runs_give_the_same_bytes(demo: Path, page: str) -> None:
    assert render(stages_in({"demo": demo}), {"wall_s": 420.0}) == page


def test_it_degrades(tmp_path: Path) -> None:
    sft_run(tmp_path / "sft")
    only = render(stages_in({"sft": tmp_path / "sft"}))
    assert "Training loss" in only and "Exam: held-out" not in only
    assert "Collection: reflection-conditioned retries; Failure-mode mining; Reinforcement learning; Exam" in only
    one_arm = render(stages_in({"c": collect_run(tmp_path / "c", "plain", (0.5, 0.2), 6)}))
    assert "plain:" in one_arm and "reflect \u2212 plain" not in one_arm
    assert "Fate of groups" in render(stages_in({"rl": rl_run(tmp_path / "rl", 3, 4)}))
    alone = render(stages_in({"e": eval_run(tmp_path / "e", {"sft": 0.5}, 6)}))
    assert "Of 6 tasks solved: sft" in alone and "Paired" not in alone
    Run.open(tmp_path / "empty", "eval", Config()).close()
    empty = render(stages_in({"empty": tmp_path / "empty"}))
    assert "Not in this report" in empty and "empty is not finished" in empty and "is not finished" not in alone
    with pytest.raises(RunError, match="no run directory"):
        stages_in({"nothing": tmp_path / "nothing"})


def test_null_results_are_said_in_plain_words(tmp_path: Path) -> None:
    same = render(stages_in({"e": eval_run(tmp_path / "e", {"sft": 0.5, "rl": 0.52}, 120)}))
    assert "No difference resolved" in same and "solves more" not in same


def section(stages: list[Stage], title: str) -> Section:
    """The first exam's section of the page."""
    return next(s for s in exam_parts(compare.examined(stages)) if s.title.startswith(title))


def test_every_line_keeps_its_name(tmp_path: Path) -> None:
    close = {"reflect": [(1, 0.69), (3, 0.94)], "plain": [(1, 0.69), (4, 0.94)], "third": [(1, 0.7), (4, 0.939)]}
    svg = plots.lines(close, "attempts")
    assert all(f">{name}</text>" in svg for name in close)
    assert plots.apart([94.0, 94.0, 94.5], 8.0, 98.0) == [82.0, 90.0, 98.0]
    assert plots.apart([10.0, 12.0, 90.0], 8.0, 100.0) == [10.0, 18.0, 90.0]


def test_far_pairs_stand_in_the_table_only_as_the_caption_says(tmp_path: Path) -> None:
    run = eval_run(tmp_path / "e", {"base": 0.25, "sft": 0.5, "rl": 0.6}, 60)
    found = section(stages_in({"e": run}), "Exam")
    chart = next(c for c in found.charts if c.title == "Paired differences in success")
    paired = compare.examined(stages_in({"e": run})).groups[0].numbers()["paired"]
    far = {key: abs(p["difference"]) > 0.3 for key, p in paired.items()}
    assert set(far.values()) == {True, False} and "more than 30 points apart are in the table only" in chart.caption
    # The interval of a far pair reaches below 30 points: the rule is the difference, as it is said.
    assert min(p["interval"][0] for key, p in paired.items() if far[key]) < 0.3
    table = next(t for t in found.tables if t.title.startswith("Paired differences"))
    for key, is_far in far.items():
        name = " \u2212 ".join(named_pair(key, ["base", "sft", "rl"]))
        assert (f">{name}</text>" in chart.svg) is not is_far and any(row[0] == name for row in table.rows)


def test_controls_are_drawn_as_their_model_with_its_name_and_number(tmp_path: Path) -> None:
    for model in ("sft", "rl"):
        run = eval_run(tmp_path / model, {"sft": 0.5, "rl": 0.6}, 16, controls=model)
        charts = section(stages_in({"e": run}), "Exam").charts
        chart = next(c for c in charts if c.title.startswith("Controls"))
        assert f">solved by {model}, n = 4 tasks</text>" in chart.svg
        other = {"sft": "rl", "rl": "sft"}[model]
        assert plots.NAMED[model] in chart.svg and plots.NAMED[other] not in chart.svg


def test_a_hash_is_no_count(tmp_path: Path) -> None:
    with Run.open(tmp_path / "rl", "rl", Config()) as run:
        run.finish(updates=40, weights_sha256="03c1174d1570" + 52 * "0")
    page = render(stages_in({"rl": tmp_path / "rl"}))
    assert "40 updates, weights 03c1174d1570<" in page and "sha256" not in page


def mine_run(path: Path, *, states: int, routine: float, success: float) -> Path:
    mode = {"code": "navigation.wrong_page", "count": 3, "share": 1.0, "success": success, "verified": 4, "drawn": 2}
    with Run.open(path, "mine", Config.model_validate({"mine": {"states": 40, "routine_share": 0.5}})) as run:
        run.write_json(
            "summary.json",
            {
                "rollouts": 8, "tasks": 8, "success": 0.3, "states": states, "sampling": "mined",
                "routine_share": routine, "modes": [mode],
            },
        )  # fmt: skip
        run.finish(states=states)
    return path


def test_mining_explains_its_columns(tmp_path: Path) -> None:
    never = render(stages_in({"m": mine_run(tmp_path / "a", states=40, routine=0.5, success=0.0)}))
    assert "Modes were found in failed rollouts only." in never and "<th>solved all the same</th>" not in never
    assert "so they can be more than found" in never
    some = render(stages_in({"m": mine_run(tmp_path / "b", states=40, routine=0.5, success=0.25)}))
    assert "<th>solved all the same</th>" in some and "25.0 %" in some


def test_what_a_stage_warns_of_stands_at_the_top(tmp_path: Path) -> None:
    with Run.open(tmp_path / "rl", "rl", Config()) as run:
        run.write_json("summary.json", {"start": {"met": False}, "warning": "RL starts from a weak policy"})
        run.finish()
    given = {"rl": tmp_path / "rl", "m": mine_run(tmp_path / "m", states=24, routine=0.75, success=0.0)}
    top = render(stages_in(given)).partition("</header>")[0]
    drawn = "m: 24 states were drawn (mine.states asks for 40), 75.0 % of them routine (mine.routine_share: 50.0 %)."
    assert drawn in top and "rl: RL starts from a weak policy." in top
    quiet = {"m": mine_run(tmp_path / "q", states=40, routine=0.525, success=0.0)}
    assert [line for stage in stages_in(quiet) for line in warnings_of(stage)] == []


def test_text_of_pages_is_escaped(tmp_path: Path) -> None:
    with Run.open(tmp_path / "r", "eval", Config()) as run:
        for model, won in (("sft", False), ("rl", True)):
            one = task(0).model_copy(update={"goal": HOSTILE, "template": HOSTILE})
            t = trajectory(run.images, one, 2, model=model, success=won, stop=None if won else Stop.NO_PROGRESS)
            step = t.steps[0]
            decision = step.decision.model_copy(update={"intent": HOSTILE})
            t = t.model_copy(update={"steps": (step.model_copy(update={"decision": decision}), t.steps[1])})
            run.append("trajectory", t)
            run.append("verdict", verdict(t, won, HOSTILE))
    hostile = render(stages_in({"r": tmp_path / "r"}))
    assert "<script" not in hostile and 'src="http' not in hostile and "&lt;script&gt;alert(1)" in hostile


def pair(difference: float, low: float, high: float, n: int = 200, a_only: int = 9, b_only: int = 5) -> dict[str, Any]:
    return {"difference": difference, "interval": [low, high], "n": n, "a_only": a_only, "b_only": b_only}


def test_a_difference_is_claimed_only_when_zero_lies_outside() -> None:
    assert said_of(pair(0.06, 0.01, 0.11), "rl", "sft") == "rl solves more than sft: by 1.0 to 11.0 points."
    assert said_of(pair(-0.06, -0.11, -0.01), "rl", "sft") == "sft solves more than rl: by 1.0 to 11.0 points."
    null = said_of(pair(0.04, -0.01, 0.09), "rl", "sft")
    assert null == "No difference resolved between rl and sft (up to 9.0 points either way remain possible)."
    assert "agree on all 200" in said_of(pair(0, 0, 0, a_only=0, b_only=0), "a", "b")
    assert said_of(pair(0, -1, 1, n=0), "a", "b") == "a and b share no task."
    assert signed(-0.045) == "\u22124.5" and signed_interval((0.0, 0.1)) == "[+0.0, +10.0]"
    assert named_pair("a_vs_b_vs_c", ["a_vs_b", "c"]) == ("a_vs_b", "c")


def test_the_terminal_table(demo: Path) -> None:
    import io

    from rich.console import Console

    from rmsweb.bench.heldout import heldout_summary

    summary = {
        "collect": {"reflect": {"yield_at": [0.5, 0.75], "steps_of_kept": 3.5, "browser_steps_per_success": 9}},
        "heldout": heldout_summary([demo / "eval-sft", demo / "eval-rl"], Config()),
    }
    console = Console(width=110, file=io.StringIO(), record=True)
    demo_table(summary, console)
    said = console.export_text()
    for part in ("75.0 %", "Exam heldout: 16 tasks", "sft_continued", "rl \u2212 sft", "blank screenshots, rl"):
        assert part in said, part


@pytest.mark.browser
async def test_in_a_browser_on_desk_and_phone(demo: Path, tmp_path: Path) -> None:
    from playwright.async_api import async_playwright

    from rmsweb.web import chromium

    address = write_report({"demo": demo}, tmp_path / "report.html").as_uri()
    wrong: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=str(chromium.find_executable()), args=["--no-sandbox", "--disable-background-networking"]
        )
        for width in (1200, 390):
            page = await browser.new_page(viewport={"width": width, "height": 800})
            page.on("console", lambda message: wrong.append(message.text))
            page.on("request", lambda r: wrong.append(r.url) if not r.url.startswith(("data:", "file:")) else None)
            await page.goto(address)
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            assert await page.evaluate("[...document.images].every((i) => i.complete && i.naturalWidth > 0)")
            assert await page.evaluate("document.fonts.check('16px Inter')")
            assert await page.locator("figure svg").count() > 20
        await browser.close()
    assert wrong == []
