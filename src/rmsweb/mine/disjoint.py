"""Training and test tasks share nothing: the check, asserted in code before anything is mined.

Real sites: no common id, no common host (also as a subdomain), no common run of words in the task texts. The built-in
sites all live on loopback and their goals come from few sentences, so there the world decides: no common (template,
seed), no common goal in the same world. Equal sentences about different worlds are counted and reported.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from rmsweb.errors import ConfigError
from rmsweb.mine.align import LOOPBACK
from rmsweb.mine.meaning import words
from rmsweb.records import Task

GRAM = 8
"""Words in a row; Online-Mind2Web's and WebVoyager's own texts have 10 to 40."""
SHOWN = 5


@dataclass(slots=True, frozen=True)
class Overlap:
    """What two task sets have in common. The first five must be 0."""

    ids: int = 0
    worlds: int = 0
    """Common (suite, site, template, seed) of tasks that have no address of their own."""
    goals_in_world: int = 0
    """Common (goal, suite, site, seed)."""
    hosts: int = 0
    grams: int = 0
    """Training tasks with an address that share a run of words with a test task."""
    sentences: int = 0
    """Training goals that are word for word a test goal about another world; allowed, reported."""
    train: int = 0
    test: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


def assert_disjoint(train: Sequence[Task], test: Sequence[Task]) -> Overlap:
    """Raises ConfigError that names examples when a test task, world, host or text is among the training tasks."""
    found: dict[str, list[str]] = {
        "ids": _common((t.id for t in train), (t.id for t in test)),
        "worlds": _common(map(_world, _built_in(train)), map(_world, _built_in(test))),
        "goals_in_world": _common(map(_goal_in_world, _built_in(train)), map(_goal_in_world, _built_in(test))),
        "hosts": _common_hosts(_outside(train), _outside(test)),
        "grams": _common_grams(_outside(train), _outside(test)),
    }
    broken = [f"{name}: {', '.join(shared[:SHOWN])}" for name, shared in found.items() if shared]
    if broken:
        raise ConfigError(
            "training tasks overlap with test tasks; take other sites, seeds or splits\n  " + "\n  ".join(broken)
        )
    test_goals = Counter(t.goal for t in test)
    sentences = sum(t.goal in test_goals for t in train)
    return Overlap(sentences=sentences, train=len(train), test=len(test))


def host_of(task: Task) -> str:
    """Normalised host of the task's start page; empty for suites that serve their own pages."""
    host = (urlsplit(task.start_url).hostname or "").lower().strip(".")
    for prefix in ("www.", "m.", "mobile."):
        host = host.removeprefix(prefix)
    return "" if host in LOOPBACK else host


def _outside(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if host_of(task)]


def _built_in(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if not host_of(task)]


def _world(task: Task) -> str:
    return f"{task.suite}/{task.site}/{task.template} seed {task.seed}"


def _goal_in_world(task: Task) -> str:
    return f"{task.goal!r} in {task.suite}/{task.site} seed {task.seed}"


def _common(a: Iterable[str], b: Iterable[str]) -> list[str]:
    return sorted(set(a) & set(b))


def _common_hosts(train: Sequence[Task], test: Sequence[Task]) -> list[str]:
    ours, theirs = {host_of(t) for t in train}, {host_of(t) for t in test}
    return sorted(a for a in ours if any(a == b or a.endswith(f".{b}") or b.endswith(f".{a}") for b in theirs))


def _grams(goal: str) -> set[tuple[str, ...]]:
    tokens = [word for word in goal.lower().split() if words(word)]
    return {tuple(tokens[i : i + GRAM]) for i in range(max(1, len(tokens) - GRAM + 1))}


def _common_grams(train: Sequence[Task], test: Sequence[Task]) -> list[str]:
    theirs = set[tuple[str, ...]]().union(*(_grams(t.goal) for t in test))
    return sorted(t.id for t in train if _grams(t.goal) & theirs)
