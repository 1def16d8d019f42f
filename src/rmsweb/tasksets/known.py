"""What is known of the public task files, and which version a set of tasks is.

Owns versions.toml (sources, licences, counts, file hashes) and facts/*.txt (ids, and a hash of each task's text in
each version: no texts). Promises that a name is given only where ids and texts fit it: a file written anew is still
recognised, a part is called a part, a mixture of versions is refused, everything else is `unknown` with what differs.

The 496 ids with one text in WebVoyager's original, Fara's and Magnitude's files follow from facts/webvoyager.txt. Its
column for Magnitude rests on which ids a public copy of Magnitude's patches.json removes and rewords. That gives
the published counts (590 rows, 576 shared with Fara, 34 removals in common), yet Magnitude's own task file, which has
no licence, was never read here.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rmsweb.errors import ConfigError, DataError
from rmsweb.tasksets.taskset import counted, named

HERE = Path(__file__).parent
FACTS = ("webvoyager", "online_mind2web", "webtailbench")
UNKNOWN_TEXT = "?"
REWORDED = "~"
"""In front of the first version's hash: any text but that one."""
DATED_ID = re.compile(r"([0-9a-f]{32})_(\d{6})")
"""An Online-Mind2Web id since 2026: base, underscore, the date (MMDDYY) of the replacement."""
RUBRICS_OF = "v1"
"""The version whose rubrics facts/webtailbench.txt knows."""
V2_CHANGED = 50
"""Tasks of WebTailBench V1 that differ before a file is presumed to be V2 and not one that somebody touched up."""
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
class Identity:
    """Which version a set is; `candidates` as in TaskSet."""

    version: str
    candidates: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class _Facts:
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
def _facts(benchmark: str) -> _Facts:
    lines = (HERE / "facts" / f"{benchmark}.txt").read_text(encoding="utf-8").splitlines()
    table = [line.split("\t") for line in lines if line and not line.startswith("#")]
    names = table[0][1:]
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    for ident, *cells in table[1:]:
        for name, cell in zip(names, cells, strict=True):
            if cell != "-":
                found[name][ident] = {"=": cells[0], REWORDED: REWORDED + cells[0]}.get(cell, cell)
    rubrics = found.pop("rubric", {})
    return _Facts(found, rubrics)


def ids_of(benchmark: str, version: str) -> tuple[str, ...]:
    """Ids of a known version in the order of the first file; empty where only its hash is known."""
    return tuple(_facts(benchmark).versions.get(version, {})) if benchmark in FACTS else ()


def common(name: str) -> tuple[str, ...]:
    """The ids of a list of `COMMON`. Raises ConfigError for another name."""
    if name not in COMMON:
        raise ConfigError(f"no list of ids is called {name!r}; there are {', '.join(COMMON)}")
    benchmark, among = COMMON[name]
    known = _facts(benchmark).versions
    first = known[among[0]]
    return tuple(i for i in first if all(known[v].get(i) == first[i] != UNKNOWN_TEXT for v in among))


def reworded(benchmark: str, texts: Mapping[str, str]) -> tuple[str, ...]:
    """Ids of `texts` (id -> text hash) whose text is not that of the benchmark's first known version."""
    first = next(iter(_facts(benchmark).versions.values()))
    return tuple(i for i, text in texts.items() if i not in first or not text.startswith(first[i]))


def identify(
    benchmark: str, sha256: str, texts: Mapping[str, str], rubrics: Mapping[str, str], where: Path, *, whole: bool
) -> Identity:
    """The version of a set: by the file's hash, else by its ids and texts.

    `texts`: id -> hash of the goal; `rubrics`: id -> rubric hash. `whole`: no row was left out. Raises DataError for a
    mixture of versions.
    """
    for version in versions():
        if version.benchmark == benchmark and version.sha256 and sha256.startswith(version.sha256):
            name = version.name if whole else f"subset of {version.name} ({len(texts)} of {version.rows})"
            return Identity(name, (version.name,), ("the published file itself, by its SHA-256",))
    if benchmark not in FACTS:
        return Identity("unknown", notes=("no ids of this set are known to rmsweb",))
    short = {ident: text[:8] for ident, text in texts.items()}
    if benchmark == "online_mind2web":
        _refuse_mixed_ids(short, where)
    facts = _facts(benchmark)
    odd_rubrics = [i for i, rubric in rubrics.items() if facts.rubrics.get(i, rubric) != rubric]
    fitting = [name for name, known in facts.versions.items() if _fits(short, known)]
    if rubrics:  # only V1's rubrics are known, and no other known version has any
        fitting = [name for name in fitting if name == RUBRICS_OF and not odd_rubrics]
    if fitting:
        return _known(short, fitting, facts)
    _refuse_mixed_texts(benchmark, short, facts, where)
    return _unknown(benchmark, short, facts, len(rubrics), odd_rubrics)


def _fits(texts: Mapping[str, str], known: Mapping[str, str]) -> bool:
    return all(i in known and _may_be(text, known[i]) for i, text in texts.items())


def _may_be(text: str, known: str) -> bool:
    """Whether a text hash is what a version is known to have, or may be it."""
    return known in (text, UNKNOWN_TEXT) or (known.startswith(REWORDED) and known != REWORDED + text)


def _known(texts: Mapping[str, str], fitting: Sequence[str], facts: _Facts) -> Identity:
    """Full versions before parts, checked texts before unchecked ones."""

    def unchecked(name: str) -> int:
        return sum(facts.versions[name][i] != text for i, text in texts.items())

    ranked = sorted(fitting, key=lambda name: (len(facts.versions[name]) != len(texts), unchecked(name)))
    best, size = ranked[0], len(facts.versions[ranked[0]])
    notes = []
    if missing := unchecked(best):
        notes.append(f"recognised by its ids; {missing} texts could not be checked")
    else:
        notes.append("recognised by its ids and texts; the file is not the published one byte for byte")
    if len(ranked) > 1:
        notes.append(f"these tasks are the same in {', '.join(ranked[1:])}")
    full = size == len(texts)
    candidates = tuple(name for name in ranked if len(facts.versions[name]) == size) if full else tuple(ranked)
    return Identity(best if full else f"subset of {best} ({len(texts)} of {size})", candidates, tuple(notes))


def _refuse_mixed_ids(texts: Mapping[str, str], where: Path) -> None:
    """Online-Mind2Web: a replaced task and a replacement cannot be in one version, nor two dates of one task."""
    known = _facts("online_mind2web").versions
    replaced = [i for i in texts if i in known["2025-06"] and i not in known["2026-01"]]
    new = [i for i in texts if DATED_ID.fullmatch(i)]
    if replaced and new:
        raise DataError(
            f"mixes versions of Online-Mind2Web: {len(replaced)} ids are of 2025-06 only ({named(replaced)}), "
            f"{len(new)} came with 2026-01 or later ({named(new)}); use the tasks of one version",
            where,
        )
    bases = Counter(i.partition("_")[0] for i in texts)
    if twice := [i for i in texts if bases[i.partition("_")[0]] > 1]:
        raise DataError(f"mixes versions of Online-Mind2Web: tasks with their replacement: {named(twice)}", where)


def _refuse_mixed_texts(benchmark: str, texts: Mapping[str, str], facts: _Facts, where: Path) -> None:
    """Every text is that of a known version, yet of no single one: parts of two files were put together."""
    of = {i: [name for name, known in facts.versions.items() if known.get(i) == text] for i, text in texts.items()}
    if not all(of.values()):
        return
    split: dict[str, list[str]] = {}
    for ident, names in of.items():
        if len(names) == 1:
            split.setdefault(names[0], []).append(ident)
    if len(split) > 1:
        parts = "; ".join(f"{len(ids)} only in {name} ({named(ids)})" for name, ids in split.items())
        raise DataError(f"mixes versions of {benchmark}: {parts}; use the tasks of one version", where)


def _unknown(
    benchmark: str, texts: Mapping[str, str], facts: _Facts, rubrics: int, odd_rubrics: Sequence[str]
) -> Identity:
    """The nearest known version and how the set differs from it."""
    counts = {
        name: sum(i in known and _may_be(text, known[i]) for i, text in texts.items())
        for name, known in facts.versions.items()
    }
    nearest = max(counts, key=lambda name: counts[name])
    if benchmark == "online_mind2web":  # the last known one: what came later goes on from there
        nearest = "2026-01" if any(DATED_ID.fullmatch(i) for i in texts) else nearest
    known = facts.versions[nearest]
    strange = [i for i in texts if i not in known]
    other = [i for i, text in texts.items() if i in known and not _may_be(text, known[i])]
    notes = []
    if strange:
        notes.append(f"{len(strange)} ids are not in {nearest}: {named(strange)}")
    if other:
        notes.append(f"{len(other)} texts differ from {nearest}: {named(other)}")
    if odd_rubrics:
        notes.append(f"{len(odd_rubrics)} rubrics differ from {RUBRICS_OF}: {named(odd_rubrics)}")
    changed = len({*other, *odd_rubrics})
    if benchmark == "webtailbench" and set(texts) == set(known) and rubrics == len(texts) and changed >= V2_CHANGED:
        notes.append("V2 (2026-05-12) would look like this; its hash is not known to rmsweb")
        return Identity("v2 presumed", notes=tuple(notes))
    if len(strange) == len(texts):
        return Identity("unknown", notes=(f"none of the {len(texts)} ids is known to rmsweb",))
    what = f"{len(strange)} ids not in {nearest}" if strange else f"{counted(changed)} unlike {nearest}"
    return Identity(f"unknown ({what})", notes=tuple(notes))
