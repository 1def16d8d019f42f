"""The suite protocol: where tasks come from, who serves their pages and how they are checked; tasks from a file.

Promises that `check` is pure, so that stored episodes can be judged again without a browser. `SiteSuite` (web/sites)
and the MiniWoB++ suite implement the protocol beside `FileSuite`.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import ValidationError

from rmsweb.config import SuiteConfig
from rmsweb.errors import ConfigError, DataError
from rmsweb.records import Task, Verdict

if TYPE_CHECKING:
    from rmsweb.web.browser import Page


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
    """Tasks on real pages from a JSONL file of Task records (`SuiteConfig.path`). It has no rules: a judge decides."""

    name = "file"

    def tasks(self, config: SuiteConfig) -> list[Task]:
        """The file's rows of the split from `offset` on, at most `count`, of the sites and templates named.

        Raises ConfigError without a path, DataError for a row that is no task, lacks a start address or repeats an id.
        """
        if not config.path:
            raise ConfigError("suite.path is empty; give a JSONL file of tasks (one Task record a line)")
        found, seen = [], set()
        for task in _read(Path(config.path)):
            if task.id in seen:
                raise DataError(f"task id {task.id} occurs twice", config.path)
            seen.add(task.id)
            if task.split != config.split or (config.sites and task.site not in config.sites):
                continue
            if not config.templates or task.template in config.templates:
                found.append(task)
        return found[config.offset : config.offset + config.count]

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
        reason = "tasks from a file have no rule check; use judge.protocol = 'rmsweb/chat'"
        return Verdict(success=None, judge="rules", unjudged="no_verdict", reason=reason)


def _read(path: Path) -> list[Task]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise ConfigError(f"suite.path {path} does not exist") from None
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8: {error}", path) from None
    tasks = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            task = Task.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            raise DataError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", path, number) from None
        if not task.start_url:
            raise DataError(f"task {task.id} has no start_url", path, number)
        tasks.append(task)
    return tasks
