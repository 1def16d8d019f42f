"""The built-in sites without a browser: worlds, pages on the grid, scripted solutions, both sides of every check."""

from collections import Counter
from typing import Any

import pytest

from rmsweb.config import SuiteConfig
from rmsweb.errors import ConfigError
from rmsweb.records import Task
from rmsweb.web import lexicon
from rmsweb.web.compact import CELL, COLUMNS, HEIGHT, ROWS, WIDTH
from rmsweb.web.sites import catalogue, compact_theme
from rmsweb.web.sites.pages import Builder, Page, text
from rmsweb.web.sites.scripted import scripted_decision, site_path
from rmsweb.web.sites.walker import Walker
from rmsweb.web.sites.world import World

ALL_SITES = (*catalogue.DEFAULT_SITES, "gym", "library")
TRAIN = SuiteConfig(sites=ALL_SITES)


def some(split: str = "train", count: int = 200, **settings: Any) -> list[Task]:
    sites = settings.pop("sites", ALL_SITES if split == "train" else ())
    return catalogue.tasks(SuiteConfig.model_validate({"split": split, "count": count, "sites": sites, **settings}))


def every_page(world: World, limit: int = 60) -> list[Page]:
    """Pages that links lead to from the first one, and the ones after each form, on the initial state."""
    walker = Walker(catalogue.make_task(world.site, template_of(world), world.seed, "train"))
    todo, seen, pages = ["/"], {"/"}, []
    while todo and len(pages) < limit:
        path, query = site_path(f"http://host/s/token{todo.pop(0)}")
        page = world.view(path, query, walker.state)
        pages.append(page)
        for item in page.items():
            if item.kind == "link" and item.href not in seen:
                seen.add(item.href)
                todo.append(item.href)
        for form in page.forms:
            choices = {
                item.name: (item.options or ("thanks",))[0]
                for item in page.items()
                if item.form == form.id and item.name
            }
            for filled in (choices, dict.fromkeys(choices, "")) if form.method == "post" else ():
                result = world.submit(form.action, {**dict(form.hidden), **filled}, walker.state)
                assert result is not None, form
                path, query = site_path(f"http://host/s/token{result[1]}")
                pages.append(world.view(path, query, result[0]))
    return pages


def template_of(world: World) -> Any:
    return next(template for template in world.templates if template.name == world.template)


@pytest.mark.parametrize("split", ["train", "dev", "heldout", "heldout_template"])
def test_the_scripted_solution_does_every_task_within_its_steps(split: str) -> None:
    for task in some(split, 200):
        walker = Walker(task)
        steps = walker.solve()
        assert walker.verdict().success is True, (task.id, task.goal, walker.url, walker.answer)
        slack = 2 * walker.world.is_slow + walker.world.asks_cookies
        assert steps <= template_of(walker.world).steps + slack, (task.id, steps)


def test_blocked_and_impossible_tasks_end_as_such() -> None:
    for task in some("typed", 120):
        walker = Walker(task)
        walker.solve()
        assert walker.ended and walker.answer is None
        assert walker.verdict().success is (walker.world.quest.typed == "impossible")
        if walker.world.quest.typed == "blocked":
            assert walker.page.status == 403 and walker.page.title == "robot check"


def test_any_count_is_balanced_and_ids_are_fresh() -> None:
    tasks = some("train", 170, sites=())
    counts = Counter(task.template for task in tasks)
    assert len(counts) == 16 and max(counts.values()) - min(counts.values()) <= 1
    assert len({task.id for task in tasks}) == 170
    assert {task.site for task in tasks} == set(catalogue.DEFAULT_SITES)
    assert [task.id for task in some(count=10, sites=(), offset=5)] == [task.id for task in tasks[5:15]]
    assert some(count=1, sites=("shop",), templates=("stars",), offset=17)[0].id == "sites/shop.stars/17"


def test_splits_share_no_seed() -> None:
    ranges = list(catalogue.SEEDS.values())
    assert all(set(a).isdisjoint(b) for index, a in enumerate(ranges) for b in ranges[:index])
    assert {task.template for task in some("heldout_template", 8)}.isdisjoint(
        task.template for task in some("heldout", 32)
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"sites": ("bakery",)},
        {"split": "exam"},
        {"templates": ("nothing",)},
        {"split": "typed", "sites": ("gym",)},
        {"split": "heldout_template", "sites": ("library",)},
        {"offset": 2_000_000},
    ],
)
def test_a_setting_that_selects_nothing_is_an_error(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        catalogue.tasks(SuiteConfig.model_validate(settings))


def test_goals_and_compact_pages_use_the_lexicon_only() -> None:
    known = set(lexicon.words())
    for split in catalogue.SEEDS:
        for task in some(split, 100):
            assert set(task.goal.split()) <= known, task.goal
    for task in some("train", 40) + some("heldout_template", 8) + some("typed", 8):
        world = catalogue.world_for(task)
        for page in every_page(world):
            for item in page.items():
                words = item.label.replace("$", "$ ").split()
                assert len(words) <= 2 and set(words) <= known, (task.id, page.title, item.label)
                assert set(item.options) <= known


def test_every_compact_page_lies_on_the_grid() -> None:
    for task in some("train", 40) + some("heldout_template", 8):
        world = catalogue.world_for(task)
        for page in every_page(world):
            taken: set[tuple[int, int]] = set()
            for _, cell in compact_theme.place(page, world.look):
                cells = {(cell.column + offset, cell.row) for offset in range(cell.width)}
                assert not cells & taken and all(0 <= x < COLUMNS and 0 <= y < ROWS for x, y in cells), page.title
                taken |= cells
            nav_row = ROWS - 1 if world.look.nav_bottom else 0
            assert [cell.row for _, cell in compact_theme.place(page, world.look)[: len(page.nav)]] == [nav_row] * len(
                page.nav
            )
    assert (WIDTH, HEIGHT) == (COLUMNS * CELL, ROWS * CELL)


def test_a_page_that_does_not_fit_is_refused() -> None:
    page = Builder("full")
    for _ in range(7):
        page.line("row", text("red mug", 4))
    with pytest.raises(ValueError, match="does not fit"):
        page.done()


def test_the_same_actions_give_the_same_documents() -> None:
    for task in some("train", 20):
        documents = []
        for _ in range(2):
            walker, seen = Walker(task), []
            catalogue.world_of.cache_clear()
            while not walker.ended:
                seen.append(compact_theme.render(walker.page, walker.world.look, "/s/x"))
                action = scripted_decision(task, walker.observe()).action
                assert action is not None
                walker.act(action)
            documents.append(seen)
        assert documents[0] == documents[1]


def test_looks_and_difficulties_vary_by_seed() -> None:
    worlds = [catalogue.world_for(task) for task in some("train", 200, sites=())]
    for name in (
        "background",
        "accent",
        "nav_bottom",
        "flip",
        "indent",
        "drop",
        "palette",
        "side",
        "listing",
        "density",
    ):
        assert len({getattr(world.look, name) for world in worlds}) > 1, name
    assert 20 < sum(world.asks_cookies for world in worlds) < 80
    assert 20 < sum(world.is_slow for world in worlds) < 80
    goals = [world.quest.goal for world in worlds]
    assert len(set(goals)) > 150


def test_pages_hold_what_makes_agents_fail() -> None:
    """Second pages, sort, filter, native select, new tab, confirm, required fields, near misses, distractors."""
    seen: Counter[str] = Counter()
    for task in some("train", 32):
        for page in every_page(catalogue.world_for(task)):
            labels = [item.label for item in page.items()]
            seen.update(label for label in labels if label in ("next", "prev", "sort", "filter", "top"))
            seen["select"] += any(item.kind == "select" for item in page.items())
            seen["tab"] += any(item.new_tab for item in page.items())
            seen["confirm"] += any(form.confirm for form in page.forms)
            seen["missing"] += any(label.startswith("missing") for label in labels)
            seen["slow"], seen["cookies"] = seen["slow"] + page.slow, seen["cookies"] + page.cookies
    wanted = ("next", "prev", "sort", "filter", "top", "select", "tab", "confirm", "missing", "slow", "cookies")
    assert all(seen[name] for name in wanted), seen


def test_the_library_has_one_right_book_and_numbers_beside_it() -> None:
    """Twins of a title, answers that no other number of the page shares, results and loans on second pages."""
    for task in some("train", 40, sites=("library",)):
        world: Any = catalogue.world_for(task)
        titles = Counter(book["title"] for book in world.books)
        assert sorted(Counter(titles.values()).items()) == [(1, 30), (2, 6)]
        assert len({(book["title"], book["author"]) for book in world.books}) == len(world.books)
        for book in world.books:
            numbers = [number for copy in book["copies"].values() for number in copy]
            assert len(set(numbers)) == len(numbers) == 12
        for topic in world.topics:
            kin = [book for book in world.books if book["topic"] == topic]
            assert all(len({book[name] for book in kin}) == len(kin) for name in ("author", "stars", "wait"))
        assert len(set(world.loans.values())) == len({world.books[int(ident)]["title"] for ident in world.loans}) == 6
        for path, query in (("/results", {"topic": world.topics[0]}), ("/member", {}), ("/copies", {"id": "0"})):
            assert "next" in {item.label for item in world.view(path, query, world.initial()).items()}, path


@pytest.mark.parametrize(("order", "first"), [("stars", max), ("wait", min)])
def test_the_library_sorts_what_it_shows(order: str, first: Any) -> None:
    world: Any = catalogue.world_for(some("train", 1, sites=("library",))[0])
    for topic in world.topics:
        page = world.view("/results", {"topic": topic, "sort": order}, world.initial())
        best = first((book for book in world.books if book["topic"] == topic), key=lambda book: int(book[order]))
        top = [item.label for item in page.lines[0].items]
        assert top == [best["title"], f"by {best['author']}", f"{order} {best[order]}"]
