"""Which version a set of tasks is: by the file's hash, else by its ids and texts.

Promises that a version's bare name stands only for tasks whose every text has that version's hash. Where the facts hold
ids without texts, the name is `ids of X; texts not verified`. A changed text is named; a mixture of versions is refused
whatever else was edited; everything else is `unknown` with what differs from the nearest version.

Rule for mixtures: each task is asked which versions' text it carries (other quotes, dashes, blanks or Unicode form
aside). Up to `MIXED_PART` of the tasks may carry a text that the nearest version has otherwise: somebody's correction,
which is named. More are a mixture, and so are two versions that each alone carry more than that.

A part is named after every version that it is a part of, text for text, and a list of ids that `known.COMMON` names by
that name: its tasks are as much one version's as another's.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rmsweb.errors import DataError
from rmsweb.tasksets.known import COMMON, FACTS, REWORDED, UNKNOWN_TEXT, Facts, common, facts_of, versions
from rmsweb.tasksets.taskset import counted, goal_hash, named, plain_id

DATED_ID = re.compile(r"([0-9a-f]{32})_(\d{6})")
"""An Online-Mind2Web id since 2026: base, underscore, the date (MMDDYY) of the replacement."""
RUBRICS_OF = "v1"
"""The version whose rubrics facts/webtailbench.txt knows."""
V2_CHANGED = 50
"""Tasks of WebTailBench V1 that differ before a file may be V2 and not one that somebody touched up."""
MIXED_PART = 0.01
"""Part of a set, rounded down, that may carry texts of another version: 6 tasks of 643, none of fewer than 100."""
PUBLISHED = "the published file itself, by its SHA-256"
MARKS = str.maketrans("‘’‚“”„–—\u00a0\u202f", "'''\"\"\"--  ")


@dataclass(slots=True, frozen=True)
class Identity:
    """What a set is called, and why."""

    version: str
    of: str = ""
    """The known version that all tasks fit, by texts or at least by ids; empty for none."""
    notes: tuple[str, ...] = ()


class _Text(NamedTuple):
    """8 hex digits of a task text's hash, as it stands and in its plainer spellings."""

    exact: str
    forms: frozenset[str]


def identify(
    benchmark: str,
    sha256: str,
    goals: Mapping[str, str],
    rubrics: Mapping[str, str],
    where: Path | None,
    *,
    whole: bool,
) -> Identity:
    """The version of a set; `sha256` empty: only by ids and texts.

    `goals`: id -> task text; `rubrics`: id -> rubric hash. `whole`: no row was left out. Raises DataError for a mixture
    of versions.
    """
    texts = {ident: _text(goal) for ident, goal in goals.items()}
    for version in versions():
        if version.benchmark == benchmark and version.sha256 and sha256.startswith(version.sha256):
            note = PUBLISHED
            if whole:
                return Identity(version.name, version.name, (note,))
            name, notes = _part(benchmark, texts, version.name, version.rows, bool(rubrics))
            return Identity(name, version.name, (f"a part of {note}", *notes))
    if benchmark not in FACTS:
        return Identity("unknown", notes=("no ids of this set are known to rmsweb",))
    if benchmark == "online_mind2web":
        _refuse_mixed_ids(texts, where)
    facts = facts_of(benchmark)
    odd_rubrics = [i for i, rubric in rubrics.items() if facts.rubrics.get(i, rubric) != rubric]
    _refuse_mixed_texts(benchmark, texts, facts, bool(rubrics), odd_rubrics, where)
    fitting = [name for name, known in facts.versions.items() if _fits(texts, known)]
    if rubrics:  # only V1's rubrics are known, and no other known version has any
        fitting = [name for name in fitting if name == RUBRICS_OF and not odd_rubrics]
    found = _known(benchmark, texts, fitting, facts, bool(rubrics)) if fitting else None
    return found or _unknown(benchmark, texts, facts, len(rubrics), odd_rubrics)


def odd_groups(benchmark: str, of: str, groups: Mapping[str, int]) -> str:
    """A note where the levels or segments of a whole set are not those of the version `of`; empty where they are."""
    for version in versions():
        if (version.benchmark, version.name) == (benchmark, of) and version.groups:
            wrong = {name for name in {*groups, *version.groups} if groups.get(name, 0) != version.groups.get(name, 0)}
            if wrong and sum(groups.values()) == version.rows:
                said = (f"{name} {groups.get(name, 0)}, not {version.groups.get(name, 0)}" for name in sorted(wrong))
                return f"levels or segments are not those of {of}: {'; '.join(said)}"
    return ""


def _text(goal: str) -> _Text:
    composed = unicodedata.normalize("NFC", goal)
    plain = " ".join(composed.translate(MARKS).split())
    exact = goal_hash(goal)[:8]
    return _Text(exact, frozenset({exact, goal_hash(composed)[:8], goal_hash(plain)[:8]}))


def _fits(texts: Mapping[str, _Text], known: Mapping[str, str]) -> bool:
    return all(i in known and _may_be(text, known[i]) for i, text in texts.items())


def _may_be(text: _Text, known: str) -> bool:
    """Whether a text is what a version is known to have, or may be it."""
    return known in (text.exact, UNKNOWN_TEXT) or (known.startswith(REWORDED) and known != REWORDED + text.exact)


def _same(texts: Mapping[str, _Text], known: Mapping[str, str], ids: Iterable[str] | None = None) -> list[str]:
    """The tasks whose text is the known one."""
    return [i for i in (texts if ids is None else ids) if known.get(i) == texts[i].exact]


def _known(
    benchmark: str, texts: Mapping[str, _Text], fitting: Sequence[str], facts: Facts, rubrics: bool
) -> Identity | None:
    """Full versions before parts, verified texts before others. None where another version's texts are far nearer."""

    def unverified(name: str) -> int:
        return len(texts) - len(_same(texts, facts.versions[name]))

    best = min(fitting, key=lambda name: (len(facts.versions[name]) != len(texts), unverified(name)))
    known, n = facts.versions[best], len(texts)
    if not (missing := unverified(best)):
        note = "recognised by its ids and texts; the file is not the published one byte for byte"
        name, more = (best, ()) if len(known) == n else _part(benchmark, texts, best, len(known), rubrics)
        return Identity(name, best, (note, *more))
    part = "" if len(known) == n else f" ({n} of {len(known)})"
    rivals = [name for name, other in facts.versions.items() if name != best and all(i in other for i in texts)]
    if any(2 * unverified(name) <= missing for name in rivals):
        return None
    said = "texts" if missing == n else f"{missing} of {n} texts"
    open_ids = [i for i, text in texts.items() if known[i] != text.exact]
    notes = [f"recognised by its ids; {missing} texts are not verified: {named(open_ids)}"]
    nearest = max(
        (v for name, v in facts.versions.items() if name != best), key=lambda v: len(_same(texts, v, open_ids))
    )
    unlike = [i for i in open_ids if i in nearest and nearest[i] != texts[i].exact]
    if unlike:
        name = next(name for name, other in facts.versions.items() if other is nearest)
        notes.append(f"{len(unlike)} of these texts are not those of {name} either: {named(unlike)}")
    return Identity(f"ids of {best}{part}; {said} not verified", best, tuple(notes))


def _part(
    benchmark: str, texts: Mapping[str, _Text], best: str, rows: int, rubrics: bool
) -> tuple[str, tuple[str, ...]]:
    """(name, notes) of a part of the version `best` of `rows` tasks: all versions whose texts these are.

    With rubrics (only those of `RUBRICS_OF` are known) the tasks are of `best` alone; a list of common texts keeps its
    name, and a note says whose rubrics they are.
    """
    known = facts_of(benchmark).versions if benchmark in FACTS else {}
    among = [name for name, version in known.items() if len(_same(texts, version)) == len(texts)]
    for name, (of, versions_of) in COMMON.items():
        if of == benchmark and set(versions_of) <= set(among) and texts.keys() == set(common(name)):
            note = f"the {counted(len(texts))} whose text is the same in {_listed(versions_of)}"
            return name, (note + (f", with rubrics of {best}" if rubrics else ""),)
    if len(among) < 2 or rubrics:
        return f"subset of {best} ({len(texts)} of {rows})", ()
    return f"subset of {_listed(among)} ({counted(len(texts))})", ()


def _listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _refuse_mixed_ids(texts: Collection[str], where: Path | None) -> None:
    """Online-Mind2Web: a replaced task and a replacement cannot be in one version, nor two dates of one task."""
    known = facts_of("online_mind2web").versions
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


def _refuse_mixed_texts(
    benchmark: str,
    texts: Mapping[str, _Text],
    facts: Facts,
    rubrics: bool,
    odd_rubrics: Collection[str],
    where: Path | None,
) -> None:
    """See the module's docstring. With rubrics only V1 can be meant; a task with another rubric than V1's may be of a
    later version, and shows nothing."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for ident, text in texts.items():
        carriers = tuple(name for name, known in facts.versions.items() if known.get(ident) in text.forms)
        if carriers and ident not in odd_rubrics:
            groups.setdefault(carriers, []).append(ident)

    def foreign(name: str) -> int:
        known = facts.versions[name]
        away = [i for carriers, ids in groups.items() if name not in carriers for i in ids]
        return sum(i not in known or not _may_be(texts[i], known[i]) for i in away)

    allowed = int(len(texts) * MIXED_PART)
    alone = [carriers for carriers, ids in groups.items() if len(carriers) == 1 and len(ids) > allowed]
    meant = (RUBRICS_OF,) if rubrics else tuple(facts.versions)
    if len(alone) > 1 or min(foreign(name) for name in meant) > allowed:
        apart = sorted(groups, key=lambda c: (len(c) > 1, len(c) == len(facts.versions), -len(groups[c])))
        said = "; ".join(f"{len(groups[c])} only in {' or '.join(c)} ({named(groups[c])})" for c in apart[:3])
        with_rubrics = f", with rubrics of {RUBRICS_OF}" if rubrics else ""
        raise DataError(f"mixes versions of {benchmark}: {said}{with_rubrics}; use the tasks of one version", where)


def _unknown(
    benchmark: str, texts: Mapping[str, _Text], facts: Facts, rubrics: int, odd_rubrics: Sequence[str]
) -> Identity:
    """The nearest known version and how the set differs from it."""

    def near(name: str) -> int:
        known = facts.versions[name]
        return sum(known.get(i) in {*text.forms, UNKNOWN_TEXT} for i, text in texts.items())

    rivals = sorted(facts.versions, key=near, reverse=True)
    nearest = rivals[0]
    if benchmark == "online_mind2web":  # the last known one: what came later goes on from there
        known_texts = _same(texts, facts.versions["2026-01"])
        nearest = "2026-01" if any(map(DATED_ID.fullmatch, texts)) or 2 * len(known_texts) > len(texts) else nearest
    known = facts.versions[nearest]
    strange = [i for i in texts if i not in known]
    other = [i for i, text in texts.items() if i in known and not _may_be(text, known[i])]
    notes = _differences(texts, facts, nearest, strange, other)
    if odd_rubrics:
        notes.append(f"{len(odd_rubrics)} rubrics differ from {RUBRICS_OF}: {named(odd_rubrics)}")
    changed = len({*other, *odd_rubrics})
    if benchmark == "webtailbench" and set(texts) == set(known) and rubrics == len(texts) and changed >= V2_CHANGED:
        notes.append("V2 (2026-05-12) may look like this; neither its texts nor its hash are known to rmsweb")
        return Identity(f"ids of {nearest}, perhaps v2 ({counted(changed)} unlike {nearest}); texts not verified",
                        notes=tuple(notes))  # fmt: skip
    if len(strange) == len(texts):
        return Identity("unknown", notes=(f"none of the {len(texts)} ids is known to rmsweb", *notes[1:]))
    ids = f"{len(strange)} id{'s' if len(strange) > 1 else ''} not in {nearest}" if strange else ""
    tasks = f"{counted(changed)} unlike {'it' if ids else nearest}" if changed else ""
    return Identity(f"unknown ({', '.join(filter(None, (ids, tasks)))})", notes=tuple(notes))


def _differences(
    texts: Mapping[str, _Text], facts: Facts, nearest: str, strange: Sequence[str], other: Sequence[str]
) -> list[str]:
    """What differs from the nearest version, in words."""
    known = facts.versions[nearest]
    notes = []
    if strange:
        notes.append(f"{len(strange)} ids are not in {nearest}: {named(strange)}")
        plain = {plain_id(i) for i in known}
        if spelled := [i for i in strange if plain_id(i) in plain]:
            notes.append(
                f"{len(spelled)} of these ids are known but for case, blanks or Unicode form: {named(spelled)}"
            )
    if other:
        notes.append(f"{len(other)} texts differ from {nearest}: {named(other)}")
    if alike := [i for i in other if known[i] in texts[i].forms]:
        notes.append(f"{len(alike)} of them differ only in quotes, dashes, blanks or Unicode form: {named(alike)}")
    for name, version in facts.versions.items():
        if foreign := [i for i in _same(texts, version, [*strange, *other]) if name != nearest]:
            notes.append(f"{len(foreign)} of them are as in {name}: {named(foreign)}")
    return notes
