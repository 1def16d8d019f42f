"""The built-in sites without a browser: worlds, pages on the grid, scripted solutions, both sides of every check."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from rmsweb.actions import Action, Answer, LeftClick, SelectOption, Terminate, Type, Wait
from rmsweb.config import SuiteConfig
from rmsweb.errors import ConfigError
from rmsweb.records import Box, Element, Observation, Task
from rmsweb.web import lexicon
from rmsweb.web.compact import CELL, COLUMNS, HEIGHT, ROWS, WIDTH
from rmsweb.web.sites import catalogue, checks, compact_theme, markup
from rmsweb.web.sites.pages import Builder, Page, text
from rmsweb.web.sites.scripted import scripted_decision, site_path
from rmsweb.web.sites.suite import SiteSuite
from rmsweb.web.sites.world import State, World

ALL_SITES = (*catalogue.DEFAULT_SITES, "gym")
TRAIN = SuiteConfig(sites=ALL_SITES)


@dataclass
class Walker:
    """A visitor of the compact pages without a browser: what is at a point is found by the grid."""

    task: Task
    url: str = "/"
    state: State = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)
    waited: bool = False
    answer: str | None = None
    ended: bool = False

    def __post_init__(self) -> None:
        self.world: World = catalogue.world_for(self.task)
        self.state = self.world.initial()

    @property
    def page(self) -> Page:
        path, query = site_path(f"http://host/s/token{self.url}")
        return self.world.view(path, query, self.state)

    def controls(self) -> list[tuple[Element, Any]]:
        """Elements with the item they stand for; the cookie layer's buttons stand for their own choice."""
        page, found = self.page, []
        waiting = page.slow and not self.waited
        for item, cell in compact_theme.place(page, self.world.look):
            if waiting and item not in page.nav:
                continue
            covered = page.cookies and cell.row >= compact_theme.LAYER_ROW
            value = self.typed.get(item.name, item.value)
            box = Box(x=cell.column * CELL, y=cell.row * CELL + 2, width=cell.width * CELL - 2, height=28)
            found.append((Element(role=item.kind, name=item.label, box=box, value=value, covered=covered), item))
        if waiting:
            found.append((Element(role="text", name="loading", box=Box(x=0, y=66, width=94, height=28)), None))
        if page.cookies:
            for place, choice in enumerate(("accept", "reject")):
                box = Box(x=96 + 96 * place, y=162, width=94, height=28)
                found.append((Element(role="button", name=choice, box=box), choice))
        return found

    def observe(self) -> Observation:
        elements = tuple(element for element, _ in self.controls())
        return Observation(image="none", url=f"http://host/s/token{self.url}", elements=elements)

    def act(self, action: Action) -> None:
        match action:
            case Answer(text=said) | Terminate(text=said):
                self.answer, self.ended = said or None, True
            case Wait():
                self.waited = True
            case LeftClick(point=point) | Type(point=point) | SelectOption(point=point) if point is not None:
                under = [
                    item for element, item in self.controls() if element.box.contains(point) and not element.covered
                ]
                assert len(under) == 1, f"{len(under)} elements at {point} on {self.url}"
                self.use(under[0], action)

    def use(self, item: Any, action: Action) -> None:
        if isinstance(item, str):
            self.post("/cookies", {"choice": item})
        elif isinstance(action, LeftClick) and item.kind == "link":
            self.go(item.href)
        elif isinstance(action, LeftClick) and item.kind == "button":
            self.send(item.form)
        elif isinstance(action, Type | SelectOption):
            assert item.kind == ("input" if isinstance(action, Type) else "select")
            assert isinstance(action, Type) or action.text in item.options
            self.typed[item.name] = action.text
            if isinstance(action, Type) and action.press_enter:
                self.send(item.form)

    def send(self, ident: str) -> None:
        form = self.page.find_form(ident)
        own = {item.name: item.value for item in self.page.items() if item.form == ident and item.name}
        data = {**dict(form.hidden), **{name: self.typed.get(name, value) for name, value in own.items()}}
        if form.method == "get":
            self.go(form.action + "?" + "&".join(f"{key}={value.replace(' ', '+')}" for key, value in data.items()))
        else:
            self.post(form.action, data)

    def post(self, path: str, data: dict[str, str]) -> None:
        result = self.world.submit(path, data, self.state)
        assert result is not None, f"no form {path}"
        self.state, location = result
        self.go(location)

    def go(self, url: str) -> None:
        self.url, self.typed, self.waited = url, {}, False

    def solve(self) -> int:
        """Plays the scripted solution; returns its steps."""
        for step in range(1, self.task.max_steps + 1):
            action = scripted_decision(self.task, self.observe()).action
            assert action is not None
            self.act(action)
            if self.ended:
                return step
        return self.task.max_steps

    def verdict(self) -> bool | None:
        return checks.check(self.world, self.answer, {"state": self.state}).success


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
    for task in some(split, 400):
        walker = Walker(task)
        steps = walker.solve()
        assert walker.verdict() is True, (task.id, task.goal, walker.url, walker.answer)
        slack = 2 * walker.world.is_slow + walker.world.asks_cookies
        assert steps <= template_of(walker.world).steps + slack, (task.id, steps)


def test_blocked_and_impossible_tasks_end_as_such() -> None:
    for task in some("typed", 120):
        walker = Walker(task)
        walker.solve()
        assert walker.ended and walker.answer is None
        assert walker.verdict() is (walker.world.quest.typed == "impossible")
        if walker.world.quest.typed == "blocked":
            assert walker.page.status == 403 and walker.page.title == "robot check"


def test_any_count_is_balanced_and_ids_are_fresh() -> None:
    tasks = some("train", 170, sites=())
    counts = Counter(task.template for task in tasks)
    assert len(counts) == 16 and max(counts.values()) - min(counts.values()) <= 1
    assert len({task.id for task in tasks}) == 170
    assert "gym" not in {task.site for task in tasks}
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


WRITES = {
    "shop": ("/add", lambda world: {"name": world.things[0]["name"]}),
    "forum": ("/post", lambda world: {"topic": world.threads[0]["topic"], "remark": "hello there"}),
    "booking": ("/cancel", lambda world: {"id": "1"}),
    "help": ("/ticket", lambda world: {"topic": "chess", "priority": "low"}),
    "gym": ("/join", lambda world: {"name": next(x["name"] for x in world.lessons if x["name"] not in world.joined)}),
}


@pytest.mark.parametrize("split", ["train", "heldout_template"])
def test_a_check_fails_for_nothing_done_and_for_anything_more(split: str) -> None:
    for task in some(split, 80):
        idle = Walker(task)
        assert idle.verdict() is False
        idle.answer = "done"
        assert idle.verdict() is False, task.id
        walker = Walker(task)
        walker.solve()
        assert walker.verdict() is True
        path, form = WRITES[task.site]
        more = walker.world.submit(path, form(walker.world), walker.state)
        if more is not None and walker.world.judged(more[0]) != walker.world.judged(walker.state):
            walker.state = more[0]
            assert walker.verdict() is False, (task.id, "a further write must fail, also beside a right answer")


def test_a_wrong_answer_fails_and_the_distractor_is_wrong() -> None:
    for task in some("train", 100):
        walker = Walker(task)
        quest = walker.world.quest
        if quest.answer is None:
            continue
        walker.solve()
        for wrong in ("7777", "done", "", f"{quest.answer}1", "nobody"):
            walker.answer = wrong
            assert walker.verdict() is False, (task.id, wrong)
        for right in (quest.answer, f" {quest.answer.upper()} ", f"The answer is {quest.answer}."):
            walker.answer = right
            assert walker.verdict() is True, (task.id, right)


def world_of(template: str) -> Any:
    site, name = template.split(".")
    return catalogue.world_for(some("train", 1, sites=(site,), templates=(name,))[0])


def after(world: Any, path: str, **form: str) -> bool | None:
    """The verdict when the form is sent and nothing else is done."""
    result = world.submit(path, form, world.initial())
    assert result is not None
    return checks.check(world, "done", {"state": result[0]}).success


@pytest.mark.parametrize("template", ["shop.add", "shop.cheapest"])
def test_another_colour_of_the_same_thing_is_wrong(template: str) -> None:
    world = world_of(template)
    name, noun = world.quest.target["name"], world.quest.target["noun"]
    assert after(world, "/add", name=name) is True
    for thing in world.things:
        if thing["noun"] == noun and thing["name"] != name:
            assert after(world, "/add", name=thing["name"]) is False


@pytest.mark.parametrize("template", ["booking.book", "booking.guests"])
def test_another_date_room_or_number_of_guests_is_wrong(template: str) -> None:
    world = world_of(template)
    target = dict(world.quest.target)
    dates = [str(date) for date in world.dates[target["city"]] if str(date) != target["date"]]
    rooms = [room for room in lexicon.ROOMS if room != target["room"]]
    guests = [number for number in "1234" if number != target["guests"]]
    assert after(world, "/book", **target) is True
    assert after(world, "/book", **{**target, "guests": ""}) is (template == "booking.book")
    for name, values in (("date", dates), ("room", rooms), ("guests", guests)):
        for value in values:
            assert after(world, "/book", **{**target, name: value}) is False, (name, value)


def test_another_booking_thread_author_or_case_is_wrong() -> None:
    world = world_of("booking.cancel")
    for entry in world.booked:
        assert after(world, "/cancel", id=str(entry["id"])) is (entry["city"] == world.quest.target["city"])
    world = world_of("forum.like")
    for thread in world.threads:
        assert after(world, "/like", topic=thread["topic"]) is (thread["author"] == world.quest.target["author"])
    world = world_of("forum.comment")
    target = world.quest.target
    for thread in world.threads:
        assert after(world, "/post", topic=thread["topic"], remark=target["remark"].title()) is (
            thread["topic"] == target["topic"]
        )
    assert after(world, "/post", topic=target["topic"], remark=f"very {target['remark']}") is False


def test_a_ticket_needs_both_fields_and_the_right_ones() -> None:
    world = world_of("help.ticket")
    subject, priority = world.quest.target["subject"], world.quest.target["priority"]
    for given in lexicon.PRIORITIES:
        assert after(world, "/ticket", topic=subject, priority=given) is (given == priority)
    assert after(world, "/ticket", topic=subject, priority="") is False
    assert after(world, "/ticket", topic="", priority=priority) is False
    assert after(world, "/ticket", topic="chess", priority=priority) is False


def test_undoing_a_mistake_counts_as_nothing_else_done() -> None:
    task = some("train", 1, sites=("shop",), templates=("add",))[0]
    walker = Walker(task)
    walker.post("/add", {"name": walker.world.things[0]["name"]})  # type: ignore[attr-defined]
    walker.post("/remove", {"place": "0"})
    walker.go("/")
    walker.solve()
    assert walker.verdict() is True


@pytest.mark.parametrize(
    ("given", "wanted", "among", "same"),
    [
        ("45", "45", (), True),
        ("$45", "45", (), True),
        ("45.0", "45", (), True),
        ("$45.00.", "45", (), True),
        ("The sum is $0.00.", "0", (), True),
        ("000170", "170", (), True),
        ("1,250", "1250", (), True),
        ("450", "45", (), False),
        ("45 or 46", "45", (), False),
        ("4 5", "45", (), False),
        ("-45", "45", (), False),
        ("45.5", "45", (), False),
        ("", "45", (), False),
        (" Ann ", "ann", lexicon.PEOPLE, True),
        ("Ann wrote it.", "ann", lexicon.PEOPLE, True),
        ("ann or bob", "ann", lexicon.PEOPLE, False),
        ("joanna", "ann", lexicon.PEOPLE, False),
        ("not open", "open", lexicon.STATES, False),
        ("the case is open", "open", lexicon.STATES, True),
    ],
)
def test_answers_are_compared_by_meaning(given: str, wanted: str, among: tuple[str, ...], same: bool) -> None:
    assert checks.same_answer(given, wanted, among) is same


def test_missing_evidence_is_no_verdict() -> None:
    task = some(count=1)[0]
    verdict = SiteSuite("compact").check(task, "done", {})
    assert verdict.success is None and verdict.unjudged == "missing_evidence"


def test_task_and_reason_give_no_reference_away() -> None:
    for task in some("train", 60):
        world = catalogue.world_for(task)
        assert task.meta == {} and task.start_url == ""
        wrong = checks.check(world, "7777", {"state": world.initial()})
        if world.quest.answer is not None:
            assert not re.search(rf"\b{world.quest.answer}\b", wrong.reason)


def test_labels_are_escaped() -> None:
    html = markup.control(text("<b>&", 2), "", 'class="text"')
    assert "<b>" not in html and "&lt;b&gt;&amp;" in html
