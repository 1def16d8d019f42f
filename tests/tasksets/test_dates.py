"""Which dates count, on both sides of the rule, and what the published files hold."""

from datetime import date
from pathlib import Path

import pytest

from rmsweb.records import Task
from rmsweb.tasksets import dated, load
from rmsweb.tasksets.dates import dates_in

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
        ("See the wait times on 2025-03-12", "2025-03-12"),
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


@pytest.mark.parametrize(
    ("name", "day", "count"),
    [
        ("webvoyager/original-643.jsonl", "2023-12-01", 1),
        ("webvoyager/original-643.jsonl", "2026-12-02", 68),
        ("webvoyager/molmoweb-595.jsonl", "2026-03-31", 3),
        ("webvoyager/molmoweb-595.jsonl", "2026-12-02", 64),
        ("webtailbench/v1-rubrics.jsonl", "2025-06-01", 1),
        ("webtailbench/v1-rubrics.jsonl", "2026-12-02", 28),
        ("online_mind2web/2026-01.json", "2026-12-02", 1),
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
