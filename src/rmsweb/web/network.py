"""The network rules below the model. (Being built: see Gate.)"""

from playwright.async_api import BrowserContext

from rmsweb.web.watch import Watch


class Gate:
    def __init__(self) -> None:
        self.tags: set[str] = set()

    def reason(self, url: str) -> str:
        return ""

    def refuses(self, url: str) -> bool:
        return False

    def begin(self) -> None: ...

    def take_refused(self) -> list[str]:
        return []

    async def attach(self, context: BrowserContext, watch: Watch) -> None: ...

    async def close(self) -> None: ...
