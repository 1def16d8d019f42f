"""Tasks from a file, and that both suites here fulfil the protocol."""

import json
from pathlib import Path
from typing import Any

import pytest

from rmsweb.config import SuiteConfig
from rmsweb.errors import ConfigError, DataError, RunError
from rmsweb.web.sites.suite import SiteSuite
from rmsweb.web.suite import FileSuite, Suite

ROW: dict[str, Any] = {
    "id": "t1",
    "suite": "file",
    "site": "example",
    "template": "read",
    "split": "train",
    "goal": "find the title",
    "start_url": "https://www.example.com/",
}


def rows(tmp_path: Path, *rows: dict[str, Any]) -> SuiteConfig:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n\n".join(json.dumps(row) for row in rows))
    return SuiteConfig(name="file", path=str(path))


def test_tasks_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    config = rows(tmp_path, ROW, {**ROW, "id": "t2"}, {**ROW, "id": "t3", "site": "other"})
    assert [task.id for task in FileSuite().tasks(config)] == ["t1", "t2", "t3"]
    assert [task.id for task in FileSuite().tasks(config.model_copy(update={"sites": ("other",)}))] == ["t3"]
    assert [task.id for task in FileSuite().tasks(config.model_copy(update={"offset": 1, "count": 1}))] == ["t2"]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({**ROW, "id": "t2", "start_url": ""}, "tasks.jsonl:3: task t2 has no start_url"),
        ({**ROW, "id": "t2", "colour": "red"}, "tasks.jsonl:3: colour"),
        (ROW, "t1 occurs twice"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, second: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        FileSuite().tasks(rows(tmp_path, ROW, second))


def test_a_path_is_needed_and_has_to_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"suite\.path is empty"):
        FileSuite().tasks(SuiteConfig(name="file"))
    with pytest.raises(ConfigError, match="does not exist; 'rmsweb tasks get NAME -o data'"):
        FileSuite().tasks(SuiteConfig(name="file", path=str(tmp_path / "none.jsonl")))
    with pytest.raises(ConfigError, match=r"not exist; 'rmsweb tasks get webvoyager/fara-2025-08 -o data' downloads"):
        FileSuite().tasks(SuiteConfig(name="file", path="data/webvoyager-fara-2025-08.jsonl"))


def test_only_the_asked_split_is_taken(tmp_path: Path) -> None:
    config = rows(tmp_path, ROW, {**ROW, "id": "t2", "split": "exam"})
    assert [task.id for task in FileSuite().tasks(config)] == ["t1"]
    assert [task.id for task in FileSuite().tasks(config.model_copy(update={"split": "exam"}))] == ["t2"]


def test_a_file_has_no_rules(tmp_path: Path) -> None:
    suite: Suite = FileSuite()
    task = suite.tasks(rows(tmp_path, ROW))[0]
    assert suite.check(task, "done", {}).success is None


async def test_the_built_in_sites_have_to_be_served_first_and_only_once() -> None:
    suite: Suite = SiteSuite("compact")

    async def never(start_url: str, *, own_hosts: Any = ()) -> Any:
        raise AssertionError("no page is opened")

    task = suite.tasks(SuiteConfig(count=1))[0]
    with pytest.raises(RunError, match="not being served"):
        await suite.begin(task, "x#0", never)
    async with suite.serving():
        with pytest.raises(RunError, match="serving already"):
            async with suite.serving():
                pass
    async with suite.serving():
        pass


WEBVOYAGER = {"web_name": "BBC News", "id": "BBC News--3", "ques": "Read.", "web": "https://www.bbc.com/"}
WEBTAILBENCH = {"id": "united_13", "category": "flights", "ques": "Fly.", "web": ""}


def test_a_public_benchmark_is_an_exam_whatever_split_is_asked_for(tmp_path: Path) -> None:
    config = rows(tmp_path, WEBVOYAGER, {**WEBVOYAGER, "id": "Booking--1", "web_name": "Booking"})
    for split in ("train", "heldout", "exam"):
        found = FileSuite().tasks(config.model_copy(update={"split": split}))
        assert [(task.id, task.suite, task.split) for task in found] == [
            ("BBC News--3", "webvoyager", "exam"),
            ("Booking--1", "webvoyager", "exam"),
        ]
    one = FileSuite().tasks(config.model_copy(update={"sites": ("Booking",)}))
    assert [task.id for task in one] == ["Booking--1"] and one[0].max_steps == 15
    assert FileSuite().taskset(config).version.startswith("unknown (2 tasks unlike ")


def test_where_tasks_without_an_address_start(tmp_path: Path) -> None:
    config = rows(tmp_path, WEBTAILBENCH)
    assert FileSuite().tasks(config)[0].start_url == "https://duckduckgo.com/"
    assert FileSuite("https://find.example/?q={query}").tasks(config)[0].start_url == "https://find.example/"
    with pytest.raises(DataError, match=r"tasks\.jsonl:1: task BBC News--3: no start address"):
        FileSuite().tasks(rows(tmp_path, {**WEBVOYAGER, "web": ""}))


async def test_a_task_of_a_file_is_opened_where_it_says(tmp_path: Path) -> None:
    opened: list[str] = []

    async def opener(start_url: str, *, own_hosts: Any = ()) -> Any:
        opened.append(start_url)

    suite: Suite = FileSuite()
    await suite.begin(suite.tasks(rows(tmp_path, WEBVOYAGER))[0], "BBC News--3#0", opener)
    assert opened == ["https://www.bbc.com/"]
