"""Whether a task was done: exact effects on the server, or an exact answer. Pure; needs no browser.

Promises the same verdict for the same task, answer and evidence, so that stored episodes can be judged again. An
answer counts only when nothing was changed on the way; an effect counts only when nothing else was changed.
"""

import re
from typing import Any

from rmsweb.answers import plain, same_answer
from rmsweb.records import Stop, Verdict
from rmsweb.web.sites.world import World

JUDGE = "rules"
DENIALS = frozenset({"no", "not", "never", "isn't", "wasn't"})


def says(given: str, wanted: str, among: tuple[str, ...] = ()) -> bool:
    """Whether an answer says `wanted`: a number by value, or a word of `among`.

    A sentence is read: it has to hold exactly one number, or exactly one of the words and no denial.
    """
    if same_answer(given, wanted):
        return True
    words = re.findall(r"[\w']+", given.casefold())
    return {word for word in words if word in among} == {wanted} and not DENIALS.intersection(words)


def check(world: World, answer: str | None, evidence: dict[str, Any]) -> Verdict:
    """The verdict on what an episode left behind (`evidence["state"]`) and what it answered."""
    if not isinstance(evidence.get("state"), dict):
        return Verdict(success=None, judge=JUDGE, unjudged="missing_evidence", reason="the server's state is not there")
    quest, state = world.quest, world.judged(evidence["state"])
    if quest.typed == "blocked":
        return Verdict(success=False, judge=JUDGE, reason="the site is blocked: nobody can do this")
    wanted = world.goal_state()
    different = sorted(key for key in wanted if state.get(key) != wanted[key])
    if different:
        return Verdict(success=False, judge=JUDGE, reason=_difference(world, state, different))
    if quest.typed == "impossible":
        said = evidence.get("stop") == Stop.GAVE_UP
        reason = "gave up what cannot be done" if said else "cannot be done, and the episode did not end by saying so"
        return Verdict(success=said, judge=JUDGE, reason=reason)
    if quest.answer is None:
        return Verdict(success=True, judge=JUDGE, reason="the server holds exactly what was asked for")
    if answer is None or not plain(answer):
        return Verdict(success=False, judge=JUDGE, reason="no answer was given")
    right = says(answer, quest.answer, quest.among)
    return Verdict(success=right, judge=JUDGE, reason="the answer is right" if right else "the answer is wrong")


def _difference(world: World, state: dict[str, Any], keys: list[str]) -> str:
    """Says what is wrong without the reference: reasons may be read by who writes reflections."""
    before = world.judged(world.initial())
    if all(state.get(key) == before[key] for key in keys):
        return "nothing that was asked for was done"
    return f"the site's state is not what was asked for: {', '.join(keys)}"
