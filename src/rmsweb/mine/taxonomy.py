"""The failure taxonomy: reads `taxonomy.toml`, the one versioned list of modes. How one is recognised is label.py's."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from rmsweb.errors import ConfigError

UNKNOWN = "unknown.unknown"
ROUTINE = "routine"
"""`CriticalState.mode` of a state at which nothing is known to go wrong; no failure mode."""


@dataclass(slots=True, frozen=True)
class Mode:
    """One second-level entry."""

    code: str
    """`group.name`."""
    group: str
    title: str
    """The group's title."""
    text: str
    trained: bool


@dataclass(slots=True, frozen=True)
class Taxonomy:
    """All modes of one version, by code."""

    version: int
    modes: Mapping[str, Mode]

    def __getitem__(self, code: str) -> Mode:
        """Raises ConfigError for a code that the taxonomy does not have."""
        try:
            return self.modes[code]
        except KeyError:
            raise ConfigError(
                f"failure mode {code!r} is not in mine/taxonomy.toml (version {self.version}); "
                f"it has {', '.join(self.modes)}"
            ) from None

    def trained(self, code: str) -> bool:
        """Whether states of this mode may be trained on."""
        return self[code].trained


@lru_cache(maxsize=1)
def load() -> Taxonomy:
    """The taxonomy that this version ships."""
    data = tomllib.loads(resources.files("rmsweb.mine").joinpath("taxonomy.toml").read_text(encoding="utf-8"))
    version = int(data.pop("version"))
    modes = {}
    for group, entry in data.items():
        for name, text in entry["modes"].items():
            code = f"{group}.{name}"
            modes[code] = Mode(code, group, entry["title"], text, entry.get("trained", True))
    return Taxonomy(version, modes)
