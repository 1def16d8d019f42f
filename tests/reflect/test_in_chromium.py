"""Part 1 on the built-in sites in a real Chromium: both arms, then samples."""

from pathlib import Path
from typing import Any

import pytest
from small_stall import EMBEDDED

from rmsweb.config import BrowserConfig, Config, SuiteConfig
from rmsweb.judge import RuleJudge
from rmsweb.records import Stop, TrainSample, Trajectory
from rmsweb.reflect import collect, samples
from rmsweb.reflect.explorer import Explorer
from rmsweb.reflect.reflector import RuleReflector
from rmsweb.store import Run
from rmsweb.web.browser import ChromiumPool
from rmsweb.web.sites.suite import SiteSuite


@pytest.mark.browser
@pytest.mark.slow
async def test_collect_and_samples(tmp_path: Path) -> None:
    config = Config(
        profile=EMBEDDED,
        browser=BrowserConfig(concurrency=4, settle_s=1.0),
        suite=SuiteConfig(count=16, offset=16 * 59_000),
    )
    found: dict[str, Any] = {}
    for arm in ("reflect", "plain"):
        here = config.model_copy(update={"collect": config.collect.model_copy(update={"arm": arm, "retries": 1})})
        with Run.open(tmp_path / arm, "collect", here) as run:
            suite = SiteSuite("compact")
            browser = ChromiumPool(here.browser, run.images, EMBEDDED.viewport)
            work = collect.Parts(Explorer(EMBEDDED), suite, browser, RuleJudge(suite), RuleReflector())
            found[arm] = await collect.run(here, run, work)
    first = {arm: summary["yield_at"][0] for arm, summary in found.items()}
    # Not equal to the last one: whether a slow page is seen while it loads is a matter of milliseconds.
    assert abs(first["reflect"] - first["plain"]) < 0.3 and min(first.values()) > 0.1
    assert "infra_error" not in found["reflect"]["outcomes"]
    run = Run.read_only(tmp_path / "reflect")
    attempts = run.read("trajectory", Trajectory)
    assert {t.attempt for t in attempts} == {0, 1} and all(t.stop is not Stop.BROWSER_ERROR for t in attempts)
    for step in (s for t in attempts for s in t.steps):
        assert step.before.image in run.images and step.decision.raw and step.before.elements
    with Run.open(tmp_path / "samples", "samples", config) as made:
        result = samples.run(config, made, [run])
    assert result["trajectories"] + result["unended_trajectories"] == found["reflect"]["kept"]
    assert 0 < result["samples"] <= result["steps"]
    taken = Run.read_only(tmp_path / "samples").read("sample", TrainSample)
    assert len({s.id for s in taken}) == result["samples"]
