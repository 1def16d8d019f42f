"""Both sides of the checks of the built-in sites: what was asked for passes, anything less, other or more fails."""

import re
from typing import Any

import pytest

from rmsweb.config import SuiteConfig
from rmsweb.records import Task
from rmsweb.web import lexicon
from rmsweb.web.sites import catalogue, checks, markup
from rmsweb.web.sites.pages import text
from rmsweb.web.sites.suite import SiteSuite
from rmsweb.web.sites.walker import Walker

ALL_SITES = (*catalogue.DEFAULT_SITES, "gym", "library")


def some(split: str = "train", count: int = 200, **settings: Any) -> list[Task]:
    sites = settings.pop("sites", ALL_SITES if split == "train" else ())
    return catalogue.tasks(SuiteConfig.model_validate({"split": split, "count": count, "sites": sites, **settings}))


WRITES = {
    "shop": ("/add", lambda world: {"name": world.things[0]["name"]}),
    "forum": ("/post", lambda world: {"topic": world.threads[0]["topic"], "remark": "hello there"}),
    "booking": ("/cancel", lambda world: {"id": "1"}),
    "help": ("/ticket", lambda world: {"topic": "chess", "priority": "low"}),
    "gym": ("/join", lambda world: {"name": next(x["name"] for x in world.lessons if x["name"] not in world.joined)}),
    "library": ("/confirm", lambda world: {"id": "0", "site": world.places[0], "member": "7"}),
}


@pytest.mark.parametrize("split", ["train", "heldout_template"])
def test_a_check_fails_for_nothing_done_and_for_anything_more(split: str) -> None:
    for task in some(split, 80):
        idle = Walker(task)
        assert idle.verdict().success is False
        idle.answer = "done"
        assert idle.verdict().success is False, task.id
        walker = Walker(task)
        walker.solve()
        assert walker.verdict().success is True
        path, form = WRITES[task.site]
        more = walker.world.submit(path, form(walker.world), walker.state)
        if more is not None and walker.world.judged(more[0]) != walker.world.judged(walker.state):
            walker.state = more[0]
            assert walker.verdict().success is False, (task.id, "a further write must fail, also beside a right answer")


def test_a_wrong_answer_fails_and_the_distractor_is_wrong() -> None:
    for task in some("train", 100):
        walker = Walker(task)
        quest = walker.world.quest
        if quest.answer is None:
            continue
        walker.solve()
        for wrong in ("7777", "done", "", f"{quest.answer}1", "nobody"):
            walker.answer = wrong
            assert walker.verdict().success is False, (task.id, wrong)
        for right in (quest.answer, f" {quest.answer.upper()} ", f"The answer is {quest.answer}."):
            walker.answer = right
            assert walker.verdict().success is True, (task.id, right)


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


def library_order(world: Any) -> dict[str, str]:
    target = world.quest.target
    return {"id": target["id"], "site": target["place"], "member": target["member"]}


def test_an_order_of_another_book_to_another_place_or_for_another_member_is_wrong() -> None:
    world = world_of("library.order")
    right = library_order(world)
    twins = [book["id"] for book in world.books if book["title"] == world.quest.target["title"]]
    assert len(twins) == 2 and after(world, "/confirm", **right) is True
    assert after(world, "/order", **right) is False, "not before it is confirmed"
    others = {
        "id": [book["id"] for book in world.books if book["id"] != right["id"]],
        "site": [place for place in world.places if place != right["site"]],
        "member": [str(number) for number in range(100) if str(number) != right["member"]],
    }
    for name, values in others.items():
        for value in values:
            assert after(world, "/confirm", **{**right, name: value}) is False, (name, value)


@pytest.mark.parametrize("path", ["/order", "/confirm"])
@pytest.mark.parametrize(
    ("field", "given"), [("site", ""), ("site", "atlantis"), ("member", ""), ("member", "ann"), ("member", "123")]
)
def test_an_order_needs_both_fields(path: str, field: str, given: str) -> None:
    walker = Walker(some("train", 1, sites=("library",), templates=("order",))[0])
    right = library_order(walker.world)
    walker.post(path, **{**right, field: given})
    assert f"missing {field}" in [item.label for item in walker.page.items()]
    kept = [item.value for item in walker.page.items() if item.name not in ("", field)]
    assert kept == [right["member" if field == "site" else "site"]]
    assert walker.state["orders"] == []


def test_only_the_loan_with_least_time_is_right_and_it_gets_more_once() -> None:
    world = world_of("library.extend")
    for ident, time in world.loans.items():
        assert after(world, "/extend", id=ident) is (time == min(world.loans.values()))
    walker = Walker(some("train", 1, sites=("library",), templates=("extend",))[0])
    for _ in range(2):
        walker.post("/extend", id=world.quest.target["id"])
    assert walker.verdict().success is True and "add time" not in [item.label for item in walker.page.items()]


def test_a_removed_order_counts_as_nothing_else_done() -> None:
    walker = Walker(some("train", 1, sites=("library",), templates=("order",))[0])
    right = library_order(walker.world)
    wrong = next(book for book in walker.world.books if book["id"] != right["id"])
    walker.post("/confirm", **{**right, "id": wrong["id"]})
    walker.post("/remove", at="0")
    walker.go("/")
    walker.solve()
    assert walker.verdict().success is True


def test_undoing_a_mistake_counts_as_nothing_else_done() -> None:
    task = some("train", 1, sites=("shop",), templates=("add",))[0]
    walker = Walker(task)
    walker.post("/add", name=walker.world.things[0]["name"])
    walker.post("/remove", place="0")
    walker.go("/")
    walker.solve()
    assert walker.verdict().success is True


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
    assert checks.says(given, wanted, among) is same


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
