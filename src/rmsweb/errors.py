"""Errors that a user can act on. Each message says what is wrong, where, and what to do.

    RmswebError
    ├── ConfigError        a recipe, flag or input file's setting is wrong          (also ValueError)
    ├── DataError          a stored file cannot be read: path and line are named    (also ValueError)
    ├── RunError           a run directory refuses: other config, other schema      (also RuntimeError)
    ├── MissingPartError   a browser, package or data file is not there             (also ImportError)
    ├── EndpointError      a model endpoint failed after its bounded retries        (also ConnectionError)
    ├── BudgetError        a token, picture or step budget is used up; resumable    (also RuntimeError)
    └── BrowserError       the browser broke; the episode is an infra error         (also RuntimeError)

The command line prints them without a traceback and exits with 2.
"""

from pathlib import Path


class RmswebError(Exception):
    """Base of all errors a user can act on."""


class ConfigError(RmswebError, ValueError):
    """A setting is wrong."""


class DataError(RmswebError, ValueError):
    """A stored file is wrong; `path` and `line` (1-based) are put in front of the message."""

    def __init__(self, message: str, path: Path | str | None = None, line: int | None = None) -> None:
        where = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(where + message)
        self.path, self.line = path, line


class RunError(RmswebError, RuntimeError):
    """A run directory cannot be used as asked."""


class MissingPartError(RmswebError, ImportError):
    """Something that has to be installed or downloaded is not there."""


class EndpointError(RmswebError, ConnectionError):
    """A model endpoint failed; `reason` is one of timeout, rate_limit, refused, empty, truncated, http, network."""

    def __init__(self, message: str, reason: str = "network") -> None:
        super().__init__(message)
        self.reason = reason


class BudgetError(RmswebError, RuntimeError):
    """A budget is used up; what was done is stored, the same command with a larger budget goes on."""


class BrowserError(RmswebError, RuntimeError):
    """The browser, not the task, failed; `reason` is one of page_crash, browser_gone, hang, launch, navigation."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
