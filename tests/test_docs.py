"""The documentation is executed: code blocks of docs/api.md, settings of every recipe, links of every page."""

import re
import tomllib
from pathlib import Path

import pytest

from rmsweb.config import load
from rmsweb.tasksets import how_to_get

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
