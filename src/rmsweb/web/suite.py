"""The suite protocol: where tasks come from, who serves their pages and how they are checked; tasks from a file.

Promises that `check` is pure, so that stored episodes can be judged again without a browser. `SiteSuite` (web/sites)
and the MiniWoB++ suite implement the protocol beside `FileSuite`.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rmsweb import tasksets
from rmsweb.config import BrowserConfig, SuiteConfig
from rmsweb.errors import ConfigError
from rmsweb.records import Task, Verdict
from rmsweb.tasksets import TaskSet

if TYPE_CHECKING:
    from rmsweb.web.browser import Page

SEARCH_URL: str = BrowserConfig().search_url


class PageOpener(Protocol):
    """`Browser.open`: a fresh page at an address; `own_hosts` are `host:port` of servers that are ours."""

    async def __call__(self, start_url: str, *, own_hosts: Sequence[str] = ()) -> "Page": ...


class Suite(Protocol):
    """A set of tasks with the pages they are done on and the checks that say whether they were."""

    @property
    def name(self) -> str: ...

    def tasks(self, config: SuiteConfig) -> list[Task]:
        """The tasks that a setting selects. Raises ConfigError or DataError."""
        ...

    def serving(self) -> AbstractAsyncContextManager[None]:
        """The suite's own pages on loopback, for as long as the context is open."""
        ...

    async def begin(self, task: Task, episode: str, page_opener: PageOpener) -> "Page":
        """Opens the start page of an episode, with a state of its own for each episode id."""
        ...

    async def ended(self, episode: str, page: "Page") -> bool:
        """Whether the suite itself has ended the episode."""
        ...

    async def evidence(self, episode: str, page: "Page") -> dict[str, Any]:
        """What the suite recorded of the episode: JSON, all that `check` needs."""
        ...

    def check(self, task: Task, answer: str | None, evidence: dict[str, Any]) -> Verdict:
        """The verdict by rule."""
        ...


class FileSuite:
    """Tasks on real pages from a task file (`SuiteConfig.path`): any layout that `tasksets` reads, or Task records.

    It has no rules: a judge decides. `search_url` is where tasks without a start address of their own begin, for the
    benchmark that allows it (WebTailBench).
    """

    name = "file"

    def __init__(self, search_url: str = SEARCH_URL) -> None:
        self.search_url = search_url

    def tasks(self, config: SuiteConfig) -> list[Task]:
        """The file's rows of the split from `offset` on, at most `count`, of the sites and templates named.

        A public benchmark's rows are an exam whatever split is asked for. Raises as `taskset` does.
        """
        found = self.taskset(config)
        exam = found.name != "file"
        chosen = [
            task
            for task in found.tasks
            if (task.split == config.split or (exam and task.split == "exam"))
            and (not config.sites or task.site in config.sites)
            and (not config.templates or task.template in config.templates)
        ]
        return chosen[config.offset : config.offset + config.count]

    def taskset(self, config: SuiteConfig) -> TaskSet:
        """The whole file with its version, hashes and notes.

        Raises ConfigError without a path, DataError for a row that is no task, lacks a start address or repeats an id.
        """
        if not config.path:
            raise ConfigError(f"suite.path is empty; give a file of tasks ({tasksets.how_to_get(Path())})")
        path = Path(config.path)
        if not path.exists():
            raise ConfigError(f"suite.path {path} does not exist; {tasksets.how_to_get(path)}")
        return tasksets.load(path, search_url=self.search_url)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Nothing to serve."""
        yield

    async def begin(self, task: Task, episode: str, page_opener: PageOpener) -> "Page":
        return await page_opener(task.start_url)

    async def ended(self, episode: str, page: "Page") -> bool:
        return False

    async def evidence(self, episode: str, page: "Page") -> dict[str, Any]:
        return {}

    def check(self, task: Task, answer: str | None, evidence: dict[str, Any]) -> Verdict:
        reason = "tasks from a file have no rule check; name one in judge.protocol (docs/exams.md)"
        return Verdict(success=None, judge="rules", unjudged="no_verdict", reason=reason)
