"""Whether two actions mean the same at one state, as mining needs it: to align trajectories and to cluster replies.

Small on purpose and pure: same element, else near points; same text; same direction. It compares what was recorded and
asks no model. (Rewards are compared by Part 3's own match, which is finer and has settings.)
"""

import math
import re
from collections.abc import Sequence

from rmsweb.actions import POINTING, Action, Answer, Point, Scroll, SelectOption, Terminate, Type, Viewport
from rmsweb.records import Element, Observation, Step

NEAR = 0.04
"""Two points this close (share of the viewport on both axes) are one point where no element is known."""


def plain(text: str) -> str:
    """Case, spaces and outer punctuation folded; plain numbers in one form (`$0.00` is `0`)."""
    words = " ".join(text.lower().split()).strip(" .,;:!?\"'()")
    bare = re.sub(r"[$€£,\s]", "", words)
    return format(float(bare), "g") if re.fullmatch(r"-?\d+(\.\d*)?", bare) else words


def words(text: str) -> frozenset[str]:
    """Lower-case words and numbers of a text."""
    return frozenset(re.findall(r"[a-z0-9]+", text.lower()))


def element_at(now: Observation, point: Point | None) -> Element | None:
    """The smallest uncovered element of the observation's list under a point."""
    if point is None:
        return None
    under = [e for e in now.elements or () if not e.covered and e.box.contains(point)]
    return min(under, key=lambda e: e.box.width * e.box.height, default=None)


def target(action: Action | None) -> Point | None:
    """The point that an action aims at, if it has one."""
    point = getattr(action, "point", None)
    return point if isinstance(point, Point) else None


def hit_of(step: Step) -> Element | None:
    """What the step's action got: as the browser reported it, else what the element list has under its point."""
    return step.effect.hit or element_at(step.before, target(step.decision.action))


def same_element(a: Element, b: Element) -> bool:
    """One element of one page: same path in the same frame, or same role and name at nearly the same place."""
    if a.frame != b.frame:
        return False
    if a.selector and b.selector:
        return a.selector == b.selector
    return (a.role, a.name) == (b.role, b.name) and math.hypot(a.box.x - b.box.x, a.box.y - b.box.y) <= 8


def same_action(
    a: Action | None, b: Action | None, viewport: Viewport, hit_a: Element | None = None, hit_b: Element | None = None
) -> bool:
    """Same meaning of two actions taken at the same state. None (no action could be read) equals nothing."""
    if a is None or b is None:
        return False
    ends = (Answer, Terminate)
    if isinstance(a, ends) and isinstance(b, ends):
        failed = [isinstance(x, Terminate) and x.status == "failure" for x in (a, b)]
        return failed[0] == failed[1] and plain(a.text) == plain(b.text)
    if type(a) is not type(b):
        return False
    if isinstance(a, POINTING):
        return _same_target(a, b, viewport, hit_a, hit_b)
    if isinstance(a, Type) and isinstance(b, Type):
        same = plain(a.text) == plain(b.text) and a.press_enter == b.press_enter
        return same and (a.point is None or b.point is None or _same_target(a, b, viewport, hit_a, hit_b))
    if isinstance(a, SelectOption) and isinstance(b, SelectOption):
        return plain(a.text) == plain(b.text) and _same_target(a, b, viewport, hit_a, hit_b)
    if isinstance(a, Scroll) and isinstance(b, Scroll):
        return (_sign(a.dx), _sign(a.dy)) == (_sign(b.dx), _sign(b.dy))
    return a == b


def clusters(actions: Sequence[Action | None], now: Observation, viewport: Viewport) -> list[list[int]]:
    """Indices of replies that mean the same, largest group first; each unreadable reply stands alone."""
    groups: list[list[int]] = []
    for index, action in enumerate(actions):
        hit = element_at(now, target(action))
        for group in groups:
            other = actions[group[0]]
            if same_action(action, other, viewport, hit, element_at(now, target(other))):
                group.append(index)
                break
        else:
            groups.append([index])
    return sorted(groups, key=lambda group: (-len(group), group[0]))


def _same_target(a: Action, b: Action, viewport: Viewport, hit_a: Element | None, hit_b: Element | None) -> bool:
    if hit_a is not None and hit_b is not None:
        return same_element(hit_a, hit_b)
    first, second = target(a), target(b)
    if first is None or second is None:
        return first is second
    for hit, other in ((hit_a, second), (hit_b, first)):
        if hit is not None and hit.box.contains(other):
            return True
    return max(abs(first.x - second.x) / viewport.width, abs(first.y - second.y) / viewport.height) <= NEAR


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)
