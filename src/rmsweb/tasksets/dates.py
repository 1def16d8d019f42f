"""Finds tasks whose dates have passed: they cannot be done any more as they are worded.

Rule, stated so that it can be argued with. A task is flagged when the earliest date it counts lies before `today`.
What counts:

- a date with day, month and year: `January 5, 2024`, `5th January 2024`, `5-Jan-2024`, `2024 Jan 5`, `2025-11-24`,
  `11/24/2025` and `11/24/25` (month first, unless the first number is above 12), `24.12.2026` (day first),
  `February 14-21, 2024`. A year of two digits is one from 2020 to 2039;
- a day and month without a year, where a date with a year follows within `REACH` characters: it is of that year, or
  of the year before when it would come after it otherwise (`Dec 28 to Jan 4, 2024`);
- a month, season or holiday with a year (`in March 2026`, `Dec '25`, `summer 2026`), once it is over, where the text
  speaks of something to be done on that day (`AHEAD`) or the words follow from, between, until, starting and the like.

What does not: a year alone; a year before `FIRST_YEAR`; a day and month without any year, and a relative day (`next
Friday`): they come again (`moving` finds them); a date that says when something was published, played, won ...
(`GOVERNS`); and, in a text that looks up the past or a measured value (`PAST`) and plans nothing (`AHEAD`), any date.
"""

import re
from calendar import IllegalMonthError, monthrange
from collections.abc import Iterable, Iterator
from datetime import date
from typing import NamedTuple

from rmsweb.records import Task

REACH = 40
"""Characters from a date without a year to the one whose year it takes, and from a word to the date it governs."""
FIRST_YEAR = 2020
"""No task for a browser was worded for a day ahead of it: earlier dates are history."""
_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = (
    r"(?<![a-z])(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?![a-z])\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_UP_TO = r"(?:\s*(?:-|–|—|to|and|through|until|till)\s*\d{1,2}(?:st|nd|rd|th)?)?"
_YEAR = r"(?P<year>(?:19|20)\d\d|(?<!\w)['’][23]\d)(?!\d)"
FULL = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_MONTH}[\s-]+{_DAY}{_UP_TO}(?:\s*,\s*|[\s-]+(?:of\s+)?){_YEAR}",
        rf"(?<!\d){_DAY}{_UP_TO}[\s-]*(?:of\s+)?{_MONTH}[\s,-]*{_YEAR}",
        rf"(?<!\d){_YEAR}[\s,-]+{_MONTH}[\s-]+{_DAY}(?!\d)",
        r"(?<!\d)(?P<year>(?:19|20)\d\d)(?P<sep>[-/.])(?P<number>\d{1,2})(?P=sep)(?P<day>\d{1,2})(?!\d)",
    )
)
NUMERIC = re.compile(r"(?<![\d./-])(\d{1,2})\s?([/.-])\s?(\d{1,2})\s?\2\s?((?:19|20)\d\d)(?![\d/])")
NUMERIC_SHORT = re.compile(r"(?<![\d./-])(?<!\bv)(\d{1,2})([/.-])(\d{1,2})\2([23]\d)(?![\d/]|[.-]\d)")
SHORT = (
    re.compile(rf"{_MONTH}\s+{_DAY}(?!\d)", re.IGNORECASE),
    re.compile(rf"(?<!\d){_DAY}\s+(?:of\s+)?{_MONTH}", re.IGNORECASE),
)
MONTH_YEAR = re.compile(rf"(?P<before>\b\w+\s+)?{_MONTH}\s*,?\s+(?:of\s+)?{_YEAR}", re.IGNORECASE)
ENDS = {
    "spring": (6, 20), "summer": (9, 22), "fall": (12, 20), "autumn": (12, 20), "christmas": (12, 26),
    "thanksgiving": (11, 30), "halloween": (10, 31), "easter": (4, 30), "valentine": (2, 14), "new year": (12, 31),
}  # fmt: skip
"""Day by which a season (of the north) or holiday of a year is over; moving feasts at their latest."""
SEASON_YEAR = re.compile(
    rf"(?P<before>\b\w+\s+)?\b(?P<season>{'|'.join(ENDS)})(?:['’]?s)?(?:\s+(?:eve|day|week|of|in))*\s*,?\s+{_YEAR}",
    re.IGNORECASE,
)
AHEAD = re.compile(
    r"\b(flights?|fly(ing)?|airfares?|hotels?|motels?|resorts?|hostels?|airbnb|depart\w*|return(ing|s)?|round[- ]?trip"
    r"|one[- ]way|check[- ]?(in|out)|stay(ing|s)?|nights?|book(ing|ed)?|reserv\w+|availab\w+|tickets?|trips?|travel\w*"
    r"|cruises?|rent(al|als|ing)?|itinerar\w+|vacations?|leaving|pick[- ]?up|drop[- ]?off|forecasts?|appointments?"
    r"|deliver(y|ed)|concerts?|showtimes?|attend(ing)?)\b",
    re.IGNORECASE,
)
"""Words of what is to be done on a day to come."""
PAST = re.compile(
    r"\b(published|submitted|submissions?|released|created|founded|announced|wrote|written|won|winners?|born|happened"
    r"|since|posted|filed|recorded|occurred|uploaded|issued|played|history|historical|as of|closing|articles?|papers?"
    r"|news|games?|match(es)?|scores?|standings|averages?|weather|temperatures?|(geo)?magnetic|tides?|moon|sunrise|sunset"
    r"|exchange rates?|(days|weeks|months|years)\s+(are\s+)?(there\s+)?between)\b",
    re.IGNORECASE,
)
"""Words of what happened or was measured on a day: the question stays answerable."""
GOVERNS = re.compile(
    r"\b(published|submitted|released|created|founded|announced|wrote|written|won|born|happened|since|posted|filed"
    r"|recorded|occurred|uploaded|issued|played|introduced|launched|updated|as of)\b[^.?!;]*$",
    re.IGNORECASE,
)
FOLLOWS = re.compile(r"\W{0,2}(news|articles?|papers?|press releases?|issues?|editions?|episodes?)\b", re.IGNORECASE)
SPAN_WORDS = frozenset("from between until till through starting beginning leaving departing arriving".split())
MOVING = re.compile(
    r"\b(tomorrow|tonight|(next|coming|this|upcoming)\s+(week(end)?|month|(mon|tues|wednes|thurs|fri|satur|sun)day))\b",
    re.IGNORECASE,
)


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


def moving(tasks: Iterable[Task]) -> list[str]:
    """Ids of tasks with a relative day or, in a plan, one without a year: they mean another date at each run."""
    found = []
    for task in tasks:
        text = task.goal
        taken = [(start, end) for start, end, _ in _full(text)]
        if MOVING.search(text) or (AHEAD.search(text) and not taken and _short(text, taken)):
            found.append(task.id)
    return found


def dates_in(text: str) -> list[tuple[date, str]]:
    """Every date that counts, with the words that name it, in the order of the text."""
    ahead = bool(AHEAD.search(text))
    if PAST.search(text) and not ahead:
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
    found += [
        (start, end, when)
        for start, end, word, when in _periods(text)
        if _free(start, end, spans) and (ahead or word in SPAN_WORDS)
    ]
    counted = [one for one in sorted(found) if one[2].year >= FIRST_YEAR and not _told(text, one[0], one[1])]
    return [(when, text[start:end]) for start, end, when in counted]


def _told(text: str, start: int, end: int) -> bool:
    """Whether the words around a date say that something was published, played, won ... on it."""
    before = GOVERNS.search(text[max(0, start - REACH) : start])
    return bool(before and not AHEAD.search(before[0])) or bool(FOLLOWS.match(text, end))


def _periods(text: str) -> Iterator[tuple[int, int, str, date]]:
    """(start, end, word before, last day) of months, seasons and holidays with a year."""
    for match in MONTH_YEAR.finditer(text):
        year, month = _year(match["year"]), _month(match["month"])
        last = date(year, month, monthrange(year, month)[1])
        yield match.start("month"), match.end(), (match["before"] or "").strip().lower(), last
    for match in SEASON_YEAR.finditer(text):
        month, day = ENDS[match["season"].lower()]
        last = date(_year(match["year"]), month, day)
        yield match.start("season"), match.end(), (match["before"] or "").strip().lower(), last


def _full(text: str) -> list[tuple[int, int, date]]:
    """(start, end, date) of everything with day, month and year; overlapping ones once."""
    found: list[tuple[int, int, date]] = []
    taken: list[tuple[int, int]] = []

    def take(span: tuple[int, int], when: date | None) -> None:
        if when and _free(*span, taken):
            found.append((*span, when))
            taken.append(span)

    for pattern in FULL:
        for match in pattern.finditer(text):
            groups = match.groupdict()
            month = int(groups["number"]) if groups.get("number") else _month(groups["month"])
            take(match.span(), _date(_year(groups["year"]), month, int(groups["day"])))
    plans = bool(AHEAD.search(text))
    for pattern in (NUMERIC, NUMERIC_SHORT):
        for match in pattern.finditer(text):
            # 10.15.24 or 10-15-24 may be a release or a size as well
            if pattern is NUMERIC or match[2] == "/" or plans:
                first, second, year = int(match[1]), int(match[3]), _year(match[4])
                day_first = first > 12 or match[2] == "."
                take(match.span(), _date(year, second, first) if day_first else _date(year, first, second))
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


def _year(text: str) -> int:
    """`2024`, `24` or `'24`."""
    return int(text) if len(text) == 4 else 2000 + int(text[-2:])


def _date(year: int, month: int, day: int) -> date | None:
    """A day that never was, such as 29 February 2026, is taken for its month's last: the task needs looking at."""
    try:
        return date(year, month, min(day, monthrange(year, month)[1]) if day <= 31 else day)
    except (ValueError, IllegalMonthError):
        return None
