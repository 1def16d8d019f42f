"""The built-in sites as a suite: `async with suite.serving(): page = await suite.begin(task, episode, browser.open)`.

Owns no rule and no page: it joins catalogue, server and checks. A judge has to look at the stop of an impossible
task itself: the check says only that nothing was changed and nothing claimed.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from rmsweb.config import SuiteConfig
from rmsweb.errors import RunError
from rmsweb.records import Task, Verdict
from rmsweb.web.sites import catalogue, checks
from rmsweb.web.sites.server import SiteServer, Theme
from rmsweb.web.suite import PageOpener

if TYPE_CHECKING:
    from rmsweb.web.browser import Page


class SiteSuite:
    """Four small sites (and two more for the explorer's exams) in one of two themes."""

    name = catalogue.SUITE

    def __init__(self, theme: Theme = "regular") -> None:
        self.theme = theme
        self.server = SiteServer(theme)

    def tasks(self, config: SuiteConfig) -> list[Task]:
        """See `catalogue.tasks`."""
        return catalogue.tasks(config)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """The sites on an ephemeral port of 127.0.0.1; one server at a time."""
        if self.server.host:
            raise RunError("this suite is serving already; use one `serving()` for all episodes")
        await self.server.start()
        try:
            yield
        finally:
            await self.server.stop()

    async def begin(self, task: Task, episode: str, page_opener: PageOpener) -> "Page":
        """A fresh state for the episode, and its first page. Raises RunError outside of `serving()`."""
        if not self.server.host:
            raise RunError("the built-in sites are not being served; open `suite.serving()` first")
        path = self.server.begin(episode, task)
        return await page_opener(f"http://{self.server.host}{path}", own_hosts=(self.server.host,))

    async def ended(self, episode: str, page: "Page") -> bool:
        """Never: these sites leave the end to the visitor."""
        return False

    async def evidence(self, episode: str, page: "Page") -> dict[str, Any]:
        """`{"state": ...}`: all that the episode has changed on the server."""
        return {"state": self.server.state(episode)}

    def check(self, task: Task, answer: str | None, evidence: dict[str, Any]) -> Verdict:
        """See `checks.check`."""
        return checks.check(catalogue.world_for(task), answer, evidence)
