"""What is known of the public task files: which there are, their ids, and a hash of each task's text, no texts.

Owns versions.toml (sources, licences, counts, file hashes) and facts/*.txt. `identity` says by them what a set is.

The 496 ids with one text in WebVoyager's original, Fara's and Magnitude's files follow from facts/webvoyager.txt. Its
column for Magnitude rests on which ids a public copy of Magnitude's patches.json removes and rewords. That gives
the published counts (590 rows, 576 shared with Fara, 34 removals in common), yet Magnitude's own task file, which has
no licence, was never read here.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rmsweb.errors import ConfigError

HERE = Path(__file__).parent
FACTS = ("webvoyager", "online_mind2web", "webtailbench")
UNKNOWN_TEXT = "?"
REWORDED = "~"
"""In front of the first version's hash: any text but that one."""
COMMON = {
    "webvoyager-common-496": ("webvoyager", ("original", "fara-2025-08", "magnitude")),
    "webvoyager-common-509": ("webvoyager", ("original", "fara-2025-08")),
    "webvoyager-common-498": ("webvoyager", ("original", "fara-2025-08", "molmoweb-2026-04")),
    "webvoyager-common-487": ("webvoyager", ("original", "fara-2025-08", "molmoweb-2026-04", "magnitude")),
    "webtailbench-common-486": ("webtailbench", ("v1", "molmoweb-2026-04")),
}
"""Lists of ids whose text is the same in all the versions named: the only tasks on which their scores compare."""


@dataclass(slots=True, frozen=True)
class Version:
    """One entry of versions.toml."""

    benchmark: str
    name: str
    licence: str
    repository: str
    url: str
    fetch: bool
    note: str
    rows: int = 0
    """0: not known."""
    sha256: str = ""
    """First 16 hex digits; empty: not known."""
    bytes: int = 0
    gated: bool = False
    groups: Mapping[str, int] | None = None

    @property
    def key(self) -> str:
        """The name that `rmsweb tasks get` takes."""
        return f"{self.benchmark}/{self.name}"


@dataclass(slots=True, frozen=True)
class Facts:
    """What is known of a benchmark's tasks."""

    versions: Mapping[str, Mapping[str, str]]
    """Version -> id -> text hash: 8 hex digits, `?`, or `~` and the 8 digits that it is not."""
    rubrics: Mapping[str, str]


@lru_cache(maxsize=1)
def versions() -> tuple[Version, ...]:
    """All entries of versions.toml."""
    return tuple(Version(**entry) for entry in tomllib.loads((HERE / "versions.toml").read_text())["version"])


def version_named(key: str) -> Version:
    """`benchmark/version`. Raises ConfigError with the names there are."""
    for version in versions():
        if version.key == key:
            return version
    raise ConfigError(f"no task set is called {key!r}; there are {', '.join(v.key for v in versions())}")


@lru_cache(maxsize=len(FACTS))
def facts_of(benchmark: str) -> Facts:
    """The facts of one of `FACTS`."""
    lines = (HERE / "facts" / f"{benchmark}.txt").read_text(encoding="utf-8").splitlines()
    table = [line.split("\t") for line in lines if line and not line.startswith("#")]
    names = table[0][1:]
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    for ident, *cells in table[1:]:
        for name, cell in zip(names, cells, strict=True):
            if cell != "-":
                found[name][ident] = {"=": cells[0], REWORDED: REWORDED + cells[0]}.get(cell, cell)
    rubrics = found.pop("rubric", {})
    return Facts(found, rubrics)


def ids_of(benchmark: str, version: str) -> tuple[str, ...]:
    """Ids of a known version in the order of the first file; empty where only its hash is known."""
    return tuple(facts_of(benchmark).versions.get(version, {})) if benchmark in FACTS else ()


def common(name: str) -> tuple[str, ...]:
    """The ids of a list of `COMMON`. Raises ConfigError for another name."""
    if name not in COMMON:
        raise ConfigError(f"no list of ids is called {name!r}; there are {', '.join(COMMON)}")
    benchmark, among = COMMON[name]
    known = facts_of(benchmark).versions
    first = known[among[0]]
    return tuple(i for i in first if all(known[v].get(i) == first[i] != UNKNOWN_TEXT for v in among))
