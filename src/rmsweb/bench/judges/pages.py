"""The screenshots that the Online-Mind2Web scripts find in a submission's folder, and pictures of the task, as JPEG.

Promises: a picture that has to be shown and is not stored, or cannot be decoded, is an error that names it (no verdict,
never a failure). Never chooses among the pictures: that is each protocol's own.
"""

from collections.abc import Sequence

from rmsweb.bench.judges.asking import Pictures
from rmsweb.bench.reading import acts, missing, stored_screenshots
from rmsweb.records import Trajectory


class NoPicture(Exception):
    """A picture that has to be shown is not there."""


def pages(trajectory: Trajectory) -> list[tuple[int, str]]:
    """(number, SHA-256): the page before the first act and after each one but the final answer.

    Of an imported attempt every screenshot that its format stores; a gap in their numbers is an empty picture. A last
    page that nobody took a picture of is left out. Raises NoPicture when there is none at all.
    """
    if listed := stored_screenshots(trajectory):
        return listed
    done = acts(trajectory)
    after = [(act.index + 1, act.after) for act in done if not act.final]
    if after and not after[-1][1]:
        after.pop()
    first = done[0].before if done else trajectory.steps[0].before.image if trajectory.steps else ""
    if not first and not after:
        raise NoPicture("there is no screenshot")
    return [(0, first), *after]


def task_pictures(trajectory: Trajectory) -> list[tuple[int, str]]:
    """(number, SHA-256) of the pictures that belong to the task itself, numbered from 1."""
    facts = trajectory.evidence.get("imported")
    listed = facts.get("input_images") if isinstance(facts, dict) else None
    listed = listed or trajectory.task.meta.get("input_images")
    return [(number, str(name)) for number, name in enumerate(listed, 1)] if isinstance(listed, list) else []


def jpegs(pictures: Pictures, shown: Sequence[tuple[int, str]], called: str = "screenshot") -> list[tuple[int, str]]:
    """(number, name of the JPEG). Raises NoPicture for what is not stored or torn; `called`: what they are."""
    if absent := missing(shown, pictures):
        raise NoPicture(f"{called} {', '.join(map(str, absent))}: not stored")
    found = []
    for number, name in shown:
        try:
            found.append((number, pictures.jpeg(name)))
        except (OSError, ValueError, SyntaxError) as error:
            raise NoPicture(f"{called} {number} cannot be decoded: {error}") from None
    return found
