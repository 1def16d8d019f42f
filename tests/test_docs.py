"""The documentation is executed: code blocks of docs/api.md, settings of every recipe, links of every page."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from rmsweb.config import load
from rmsweb.tasksets import apply_patches, how_to_get
from rmsweb.tasksets import load as load_tasks

ROOT = Path(__file__).parent.parent


def test_api_examples_run() -> None:
    namespace: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/api.md").read_text(), re.DOTALL)
    assert len(blocks) >= 6
    for block in blocks:
        exec(compile(block, "docs/api.md", "exec"), namespace)


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").rglob("*.toml")), ids=lambda p: p.name)
def test_recipes_parse(path: Path) -> None:
    assert tomllib.loads(path.read_text())
    load(path)


@pytest.mark.parametrize("path", sorted((ROOT / "recipes/exams").glob("*.toml")), ids=lambda p: p.name)
def test_task_files_of_the_recipes_are_those_that_tasks_get_writes(path: Path) -> None:
    place = Path(load(path).suite.path)
    assert f" -o {place.parent}' downloads it" in how_to_get(place)
    assert f"/{place.parent}/" in (ROOT / ".gitignore").read_text().splitlines(), "others' tasks are not committed"


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]), ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_date_patch_of_the_page_is_one_that_is_applied(tmp_path: Path) -> None:
    [block] = re.findall(r"```json\n(.*?)```", (ROOT / "docs/exams.md").read_text(), re.DOTALL)
    goals = {
        "Restaurants--7": "Book a table for two in Oslo on March 3, 2026.",
        "Restaurants--9": "Book the set menu of 2025.",
    }
    goals["Restaurants--1"] = "Find a table."
    rows = [{"web_name": "R", "id": i, "ques": goal, "web": "https://r.example/"} for i, goal in goals.items()]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "patch.json").write_text(block)
    after = apply_patches(load_tasks(tmp_path / "tasks.jsonl"), tmp_path / "patch.json")
    assert [task.goal for task in after.tasks] == ["Book a table for two in Oslo on March 3, 2027.", "Find a table."]
    assert after.excluded == {"Restaurants--9": "the menu is gone (J. Doe, own work, 2026-12-02)"}
