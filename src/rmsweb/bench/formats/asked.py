"""What the agents of an import were asked for, where a task set was given that says it. Pure.

Nobody but the user knows what was asked for. A task set that is given with the attempts is taken at its word: every
agent was asked for all of it, and a task without an attempt is missing, which is not solved. A task of the set that
has instances (`task/seed-N`: listed in the set, or attempted by any agent) stands for these, since the agents of one
study get the same seeds. Attempts that fit none of its texts are no part of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rmsweb.bench.reading import without_seed
from rmsweb.bench.scores import exam_of
from rmsweb.bench.setting import Asked
from rmsweb.records import Task, Trajectory


def asked_for(tasks: Sequence[Task], found: Sequence[Trajectory]) -> dict[str, Asked]:
    """exam -> its tasks, of those exams that have an attempt; nothing without a task set."""
    known = {task.id for task in tasks}
    every = {task.id: task for task in tasks}
    every |= {t.task.id: t.task for t in found if t.task.id not in known and without_seed(t.task.id) in known}
    families = {without_seed(ident) for ident in every if without_seed(ident) != ident}
    families -= {t.task.id for t in found}
    exams = {exam_of(t.task) for t in found}
    asked: dict[str, list[Task]] = {}
    for ident, task in every.items():
        if ident not in families and exam_of(task) in exams:
            asked.setdefault(exam_of(task), []).append(task)
    return {name: Asked(tasks=tuple(those)) for name, those in asked.items() if those}


def missing(asked: Mapping[str, Asked], found: Sequence[Trajectory]) -> dict[str, Any]:
    """`missing` of a summary: agent -> how many tasks of the set it has no attempt at; nothing without a task set."""
    agents = dict.fromkeys(t.policy for t in found)
    wanted = {task.id for one in asked.values() for task in one.tasks}
    counts = {
        agent: len(wanted - {t.task.id for t in found if t.policy == agent and exam_of(t.task) in asked})
        for agent in agents
    }
    return {"missing": {agent or "policy": count for agent, count in counts.items() if count}} if asked else {}
