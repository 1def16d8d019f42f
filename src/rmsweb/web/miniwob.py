"""MiniWoB++ as a suite: 130 one-page tasks that nobody here wrote, from the package `miniwob`.

Owns the seeded start of an episode and the reading of its reward. Only the package's html folder is used, served on
loopback; its Python code (gymnasium, selenium) is never imported. Promises the raw reward (no time penalty, no time
limit) as evidence with both rules that are in use: `strict` (raw == 1: the package's and most papers') and `positive`
(raw > 0: BrowserGym's). The goals of the shipped seeds were read from the pages (`start`) and stand in
`miniwob_goals.json`, so that tasks are known without a browser; a test compares them with the pages.

A task's widget is 160x210 CSS pixels at the top left of the page, whatever the viewport.
"""

import hashlib
import importlib.util
import json
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rmsweb.config import SuiteConfig
from rmsweb.errors import ConfigError, MissingPartError
from rmsweb.records import Task, Verdict

if TYPE_CHECKING:
    from rmsweb.web.browser import Page
    from rmsweb.web.suite import PageOpener

MAX_STEPS = 10
"""BrowserGym's limit."""

START = """async (seed) => {
  if (document.readyState !== 'complete') await new Promise((done) => addEventListener('load', done));
  for (let tries = 0; tries < 100 && !core.cover_div; tries++) await new Promise((done) => setTimeout(done, 20));
  Math.seedrandom(seed);
  // No limit: a model thinks for longer than a page would wait. Below 2^31 ms, above which a timer fires at once.
  core.EPISODE_MAX_TIME = 1e9;
  core.startEpisodeReal();
  for (let tries = 0; tries < 100 && !WOB_TASK_READY; tries++) await new Promise((done) => setTimeout(done, 20));
  // The score board counts down and shows the last reward: not for the agent, and no two pictures would be equal.
  document.getElementById('reward-display').style.display = 'none';
  const goal = core.getUtterance();
  return typeof goal === 'string' ? goal : goal.utterance;
}"""
READ = """() => typeof WOB_DONE_GLOBAL === 'undefined' ? null
  : { done: WOB_DONE_GLOBAL, raw: WOB_RAW_REWARD_GLOBAL, reason: String(WOB_REWARD_REASON || '') }"""


@cache
def html_folder() -> Path:
    """Where the package keeps its pages. Raises MissingPartError with the cure."""
    found = importlib.util.find_spec("miniwob")
    for place in (found.submodule_search_locations or []) if found is not None else []:
        folder = Path(place) / "html"
        if (folder / "miniwob").is_dir():
            return folder
    raise MissingPartError("the package miniwob is not installed; run pip install 'rmsweb[miniwob]'")


def task_names() -> list[str]:
    """Names of the package's tasks, sorted: 130 in version 1.1.0."""
    return sorted(path.stem for path in (html_folder() / "miniwob").glob("*.html"))


@cache
def stored_goals() -> Mapping[str, tuple[str, ...]]:
    """Task name -> goals of the seeds 0, 1, ..."""
    data = json.loads(Path(__file__).with_name("miniwob_goals.json").read_text(encoding="utf-8"))
    return {name: tuple(goals) for name, goals in data.items()}


async def start(page: "Page", seed: int) -> str:
    """Starts the seeded episode on an open MiniWoB++ page; returns its goal."""
    return str(await page.evaluate(START, str(seed)))


class _Silent(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    extensions_map = {  # noqa: RUF012 - the base class declares it so
        **SimpleHTTPRequestHandler.extensions_map,
        # The pages are UTF-8 and say so nowhere (unicode-test would show other characters than its goal).
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
    }

    def log_message(self, *_: object) -> None:
        """Requests are nobody's news."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A browser that closes while it is being served is no error."""


class MiniWobSuite:
    """The 130 tasks times the shipped seeds. `rule` is what `check` calls a success; evidence carries both."""

    name = "miniwob"

    def __init__(self, rule: Literal["strict", "positive"] = "strict") -> None:
        self.rule = rule
        self._server: _Server | None = None

    def tasks(self, config: SuiteConfig) -> list[Task]:
        """`count` tasks from `offset` on: every task with seed 0 first, then every task with seed 1, and so on.

        Within a seed the order is fixed and arbitrary, so that any first n are a fair sample; `config.templates`
        selects by task name. Raises ConfigError for an unknown name or when nothing is selected.
        """
        goals, present = stored_goals(), set(task_names())
        if unknown := set(config.templates) - present:
            raise ConfigError(f"suite.templates: MiniWoB++ has no task named {', '.join(sorted(unknown))}")
        names = [name for name in goals if name in present and (not config.templates or name in config.templates)]
        names.sort(key=lambda name: hashlib.sha256(name.encode()).digest())
        seeds = max(map(len, goals.values()))
        pairs = [(name, seed) for seed in range(seeds) for name in names if seed < len(goals[name])]
        chosen = pairs[config.offset : config.offset + config.count]
        if not chosen:
            raise ConfigError(f"suite.offset {config.offset} is beyond the {len(pairs)} MiniWoB++ tasks selected")
        return [_task(name, seed, goals[name][seed]) for name, seed in chosen]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serves the package's folder on a free loopback port."""
        handler = partial(_Silent, directory=str(html_folder()))
        self._server = _Server(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=self._server.serve_forever, name="miniwob", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @property
    def host(self) -> str:
        """`host:port` of the server."""
        if self._server is None:
            raise RuntimeError("the suite is not serving: use 'async with suite.serving()'")
        return f"127.0.0.1:{self._server.server_port}"

    def address(self, name: str) -> str:
        """Where a task's page is."""
        return f"http://{self.host}/miniwob/{name}.html"

    async def begin(self, task: Task, episode: str, page_opener: "PageOpener") -> "Page":
        """The task's page, started with the task's seed."""
        page = await page_opener(self.address(task.template), own_hosts=[self.host])
        try:
            await start(page, task.seed)
        except BaseException:
            await page.close()
            raise
        return page

    async def ended(self, episode: str, page: "Page") -> bool:
        """Whether the task has given its reward."""
        found = await _read(page)
        return found is not None and bool(found["done"])

    async def evidence(self, episode: str, page: "Page") -> dict[str, Any]:
        """`raw_reward`, `done`, `reason`, and what the two rules make of it; no reward while the task is not done."""
        found = await _read(page) or {"done": False, "raw": 0, "reason": "the task's page is not shown any more"}
        raw = float(found["raw"]) if found["done"] else 0.0
        return {
            "raw_reward": raw,
            "done": bool(found["done"]),
            "reason": found["reason"],
            "strict": raw == 1.0,
            "positive": raw > 0.0,
        }

    def check(self, task: Task, answer: str | None, evidence: dict[str, Any]) -> Verdict:
        """By raw reward alone; what the agent says of it does not count."""
        judge = f"miniwob-{self.rule}"
        if "raw_reward" not in evidence:
            return Verdict(success=None, judge=judge, unjudged="missing_evidence", reason="no raw reward was recorded")
        raw = float(evidence["raw_reward"])
        success = raw == 1.0 if self.rule == "strict" else raw > 0.0
        end = "" if evidence.get("done") else ", not done"
        return Verdict(success=success, judge=judge, reason=f"raw reward {raw:g}{end}")


def _task(name: str, seed: int, goal: str) -> Task:
    return Task(
        id=f"miniwob/{name}/{seed}",
        suite="miniwob",
        site="miniwob",
        template=name,
        split="exam",
        goal=goal,
        seed=seed,
        max_steps=MAX_STEPS,
    )


async def _read(page: "Page") -> dict[str, Any] | None:
    try:
        found = await page.evaluate(READ)
    except ValueError:  # the agent has left the task's page, which is a state and no fault
        return None
    return found if isinstance(found, dict) else None
