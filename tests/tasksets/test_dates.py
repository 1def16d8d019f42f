"""Which dates count, on both sides of the rule, and what the published files hold."""

from datetime import date
from pathlib import Path

import pytest

from rmsweb.records import Task
from rmsweb.tasksets import dated, load
from rmsweb.tasksets.dates import dates_in, moving

DATA = (Path(__file__).parents[2] / ".." / "shared" / "data").resolve()


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a hotel on January 5, 2024", "2024-01-05"),
        ("a hotel on 5 January 2024", "2024-01-05"),
        ("a hotel on the 5th of Jan. 2024", "2024-01-05"),
        ("a hotel from Jan 1 to Jan 4, 2024", "2024-01-01"),
        ("a hotel from Dec 28 to Jan 4, 2024", "2023-12-28"),
        ("a hotel from 30 December to 2 January 2026", "2025-12-30"),
        ("a stay of February 14-21, 2024", "2024-02-14"),
        ("a stay of April 20–24, 2026", "2026-04-20"),
        ("a table on 05/2/2026", "2026-05-02"),
        ("a hotel from Feb 22 to Feb 29, 2026", "2026-02-22"),
        ("a hotel on February 30, 2024", "2024-02-29"),
        ("flights on 11/24/2025", "2025-11-24"),
        ("a hotel for 20/12/2023 - 21/12/2023", "2023-12-20"),
        ("a hotel for 20.12.2023", "2023-12-20"),
        ("flights on 2025-11-24", "2025-11-24"),
        ("flights from 04/24/2026 to 05/14/2026", "2026-04-24"),
        ("flying out 04/23/2026 and coming back 04/18/2026", "2026-04-18"),
        ("flights to Rome in March 2026", "2026-03-31"),
        ("a cabin from June 2026 on", "2026-06-30"),
        ("a table on 12/24/24", "2024-12-24"),
        ("a table on 24/12/24", "2024-12-24"),
        ("a hotel for 24.12.24", "2024-12-24"),
        ("a hotel for 24. 12. 2026", "2026-12-24"),
        ("a hotel from 12-24-24 on", "2024-12-24"),
        ("flights on 2026-12-24T10:00", "2026-12-24"),
        ("flights on 5-Jan-2024", "2024-01-05"),
        ("flights on 05Jan2024", "2024-01-05"),
        ("flights on Jan-05-2024", "2024-01-05"),
        ("flights on 2024, January 5", "2024-01-05"),
        ("flights on January 5, '24", "2024-01-05"),
        ("hotels in Dec ’25", "2025-12-31"),
        ("concert tickets for summer 2024", "2024-09-22"),
        ("a hotel for New Year's Eve 2024", "2024-12-31"),
        ("the weather forecast for January 5, 2024", "2024-01-05"),
        ("Look up who won on January 1, 2024, and book a hotel for January 5, 2024", "2024-01-05"),
        ("Find the shop that is open on 2025-03-12", "2025-03-12"),
    ],
)
def test_what_counts(text: str, first: str) -> None:
    assert min(dates_in(text))[0].isoformat() == first


@pytest.mark.parametrize(
    "text",
    [
        "who won the cup in 2019",
        "the best films of the 1960s",
        "a 2022 Tesla near 90028",
        "a flight on April 5",
        "a hotel from Jan 1 to Jan 4",
        "papers submitted between January 1, 2020 and January 3, 2020",
        "the laptop introduced in November 2023",
        "repositories created after 2023-12-29",
        "flights on 13/45/2025",
        "version 2024.13.99",
        "I may 2024 times repeat that",
        "a hotel on Dec 24",
        "a table next Friday",
        "50/30/20 is the rule, 5/10/15 the other",
        "update to v10.12.24, then 10.12.24.1",
        "screws of 10-10-24 inches",
        "the schedule of the game on December 25, 2023",
        "how many days are there between February 12, 2024 and August 9, 2050",
        "the average wait at the airport on 2025-03-12",
        "papers available that were published before January 5, 2024",
        "the Jan 5 2024 news article on flights",
        "the score of the game played on January 5, 2024, and tickets for the next",
        "flights of the airline founded on May 3, 1990",
        "a hotel built in summer 1990",
        "how many of 12/25 are left, 3/4/5",
        "",
    ],
)
def test_what_does_not(text: str) -> None:
    assert dates_in(text) == []


def test_a_day_is_flagged_only_once_it_has_passed() -> None:
    task = Task(id="a", suite="s", site="", template="", split="exam", goal="a hotel from May 1 to May 4, 2026")
    assert dated([task], date(2026, 5, 1)) == []
    flagged = dated([task], date(2026, 5, 2))
    assert [(f.id, f.first, f.found) for f in flagged] == [("a", date(2026, 5, 1), "May 1")]
    month = task.model_copy(update={"goal": "a hotel in May 2026"})
    assert dated([month], date(2026, 5, 31)) == [] and len(dated([month], date(2026, 6, 1))) == 1


def test_what_means_another_day_at_each_run() -> None:
    goals = ["a hotel on Dec 24", "a table next Friday", "a table on 12/24/2026", "the Dec 24 menu", "news of today"]
    tasks = [Task(id=g, suite="s", site="", template="", split="exam", goal=g) for g in goals]
    assert moving(tasks) == goals[:2]


@pytest.mark.parametrize(
    ("name", "day", "count"),
    [
        ("webvoyager/original-643.jsonl", "2023-12-01", 0),
        ("webvoyager/original-643.jsonl", "2026-12-02", 65),
        ("webvoyager/fara-595.jsonl", "2026-12-02", 61),
        ("webvoyager/molmoweb-595.jsonl", "2026-03-31", 0),
        ("webvoyager/molmoweb-595.jsonl", "2026-12-02", 61),
        ("webtailbench/v1-rubrics.jsonl", "2025-06-01", 1),
        ("webtailbench/v1-rubrics.jsonl", "2026-12-02", 30),
        ("webtailbench/molmoweb-609.json", "2026-12-02", 30),
        ("online_mind2web/2026-01.json", "2026-12-02", 0),
    ],
)
def test_the_published_files(name: str, day: str, count: int) -> None:
    if not DATA.is_dir():
        pytest.skip(f"../shared/data is absent: {DATA}")
    taskset = load(DATA / name, search_url="https://duckduckgo.com/")
    flagged = dated(taskset.tasks, date.fromisoformat(day))
    assert len(flagged) == count
    if name.startswith("webvoyager/original") and count > 1:
        sites = [one.id.partition("--")[0] for one in flagged]
        # Every Booking and Google Flights task with a year is flagged, and few of the others.
        assert sites.count("Booking") == 32 and sites.count("Google Flights") == 32
