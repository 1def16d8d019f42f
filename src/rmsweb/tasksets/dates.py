"""Finds tasks whose dates have passed: they cannot be done any more as they are worded.

Rule, stated so that it can be argued with. A task is flagged when the earliest date it counts lies before `today`.
What counts:

- a date with day, month and year: `January 5, 2024`, `5th January 2024`, `Jan 5 2024`, `11/24/2025` (month first,
  unless the first number is above 12), `2025-11-24`, `February 14-21, 2024`;
- a day and month without a year, where a date with a year follows within `REACH` characters: it is of that year, or
  of the year before when it would come after it otherwise (`Dec 28 to Jan 4, 2024`);
- a month with a year (`in March 2026`), once the month is over, where the text speaks of travel or booking (`TRAVEL`)
  or the month follows from, between, until, starting and the like.

What does not: a year alone; a day and month without any year (it comes again); and, in a text that speaks of the past
(`PAST`: published, submitted, released, won ...) and of no travel, any date: such questions stay answerable.
"""

import re
from calendar import IllegalMonthError, monthrange
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from rmsweb.records import Task

REACH = 40
"""Characters from a date without a year to the one whose year it takes."""
_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = (
    r"\b(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_UP_TO = r"(?:\s*(?:-|–|—|to|and|through|until|till)\s*\d{1,2}(?:st|nd|rd|th)?)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)(?!\d)"
FULL = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_MONTH}\s+{_DAY}{_UP_TO}(?:\s*,\s*|\s+(?:of\s+)?){_YEAR}",
        rf"(?<!\d){_DAY}{_UP_TO}\s+(?:of\s+)?{_MONTH}\s*,?\s+{_YEAR}",
        r"(?<!\d)(?P<year>(?:19|20)\d\d)(?P<sep>[-/.])(?P<number>\d{1,2})(?P=sep)(?P<day>\d{1,2})(?!\d)",
    )
)
NUMERIC = re.compile(r"(?<![\d./-])(\d{1,2})([/.-])(\d{1,2})\2((?:19|20)\d\d)(?![\d/])")
SHORT = (
    re.compile(rf"{_MONTH}\s+{_DAY}(?!\d)", re.IGNORECASE),
    re.compile(rf"(?<!\d){_DAY}\s+(?:of\s+)?{_MONTH}", re.IGNORECASE),
)
MONTH_YEAR = re.compile(rf"(?P<before>\b\w+\s+)?{_MONTH}\s*,?\s+(?:of\s+)?{_YEAR}", re.IGNORECASE)
TRAVEL = re.compile(
    r"\b(flights?|fly(ing)?|airfares?|hotels?|motels?|resorts?|hostels?|airbnb|depart\w*|return(ing|s)?|round[- ]?trip"
    r"|one[- ]way|check[- ]?(in|out)|stay(ing|s)?|nights?|book(ing|ed)?|reserv\w+|availab\w+|tickets?|trips?|travel\w*"
    r"|cruises?|rent(al|als|ing)?|itinerar\w+|vacations?|leaving|pick[- ]?up|drop[- ]?off)\b",
    re.IGNORECASE,
)
PAST = re.compile(
    r"\b(published|submitted|submissions?|released|created|founded|announced|wrote|written|won|winners?|born|happened"
    r"|since|posted|filed|recorded|occurred|uploaded|issued|played|history|historical|as of|closing|articles?|papers?"
    r"|news)\b",
    re.IGNORECASE,
)
SPAN_WORDS = frozenset("from between until till through starting beginning leaving departing arriving".split())


class Dated(NamedTuple):
    """A task whose first date has passed."""

    id: str
    first: date
    """The earliest date that counts; the last day of the month where only the month is named."""
    found: str
    """The words in the task that name it."""


def dated(tasks: Iterable[Task], today: date) -> list[Dated]:
    """The tasks whose dates have passed, in order; see the module's docstring for the rule. Drops nothing."""
    flagged = []
    for task in tasks:
        found = dates_in(task.goal)
        if found and min(found)[0] < today:
            flagged.append(Dated(task.id, *min(found)))
    return flagged


def dates_in(text: str) -> list[tuple[date, str]]:
    """Every date that counts, with the words that name it, in the order of the text."""
    travel = bool(TRAVEL.search(text))
    if PAST.search(text) and not travel:
        return []
    full = sorted(_full(text))
    spans = [(start, end) for start, end, _ in full]
    found = list(full)
    for start, end, month, day in _short(text, spans):
        follows = next((when for at, _, when in full if 0 <= at - end <= REACH), None)
        if follows is not None and (when := _date(follows.year, month, day)):
            when = _date(follows.year - 1, month, day) or when if when > follows else when
            found.append((start, end, when))
            spans.append((start, end))
    for match in MONTH_YEAR.finditer(text):
        start, end = match.start("month"), match.end()
        word = (match["before"] or "").strip().lower()
        if _free(start, end, spans) and (travel or word in SPAN_WORDS):
            year, month = int(match["year"]), _month(match["month"])
            found.append((start, end, date(year, month, monthrange(year, month)[1])))
    return [(when, text[start:end]) for start, end, when in sorted(found)]


def _full(text: str) -> list[tuple[int, int, date]]:
    """(start, end, date) of everything with day, month and year; overlapping ones once."""
    found: list[tuple[int, int, date]] = []
    taken: list[tuple[int, int]] = []
    for pattern in FULL:
        for match in pattern.finditer(text):
            groups = match.groupdict()
            month = int(groups["number"]) if groups.get("number") else _month(groups["month"])
            when = _date(int(groups["year"]), month, int(groups["day"]))
            if when and _free(*match.span(), taken):
                found.append((*match.span(), when))
                taken.append(match.span())
    for match in NUMERIC.finditer(text):
        first, second, year = int(match[1]), int(match[3]), int(match[4])
        when = _date(year, second, first) if first > 12 or match[2] == "." else _date(year, first, second)
        if when and _free(*match.span(), taken):
            found.append((*match.span(), when))
    return found


def _short(text: str, taken: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """(start, end, month, day) of days without a year that are no part of a full date."""
    return [
        (*match.span(), _month(match["month"]), int(match["day"]))
        for pattern in SHORT
        for match in pattern.finditer(text)
        if _free(*match.span(), taken)
    ]


def _free(start: int, end: int, taken: list[tuple[int, int]]) -> bool:
    return all(end <= a or start >= b for a, b in taken)


def _month(name: str) -> int:
    return _NAMES.index(name[:3].lower()) + 1


def _date(year: int, month: int, day: int) -> date | None:
    """A day that never was, such as 29 February 2026, is taken for its month's last: the task needs looking at."""
    try:
        return date(year, month, min(day, monthrange(year, month)[1]) if day <= 31 else day)
    except (ValueError, IllegalMonthError):
        return None
