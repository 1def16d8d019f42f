"""The report: whole from any set of runs, alike every time, escaped, honest about nulls; looked at in a browser."""

import re
from pathlib import Path
from typing import Any

import pytest
from specimens import collect_run, demo_folder, eval_run, rl_run, sft_run, task, trajectory, verdict

from rmsweb.bench.layout import stages_in
from rmsweb.bench.report import render, write_report
from rmsweb.bench.tables import demo_table
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
    same = render(stages_in({"e": eval_run(tmp_path / "e", {"sft": 0.5, "rl": 0.5}, 30)}))
    assert "No difference" in same and "solves more" not in same


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
