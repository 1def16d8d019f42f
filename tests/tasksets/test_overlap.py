"""Train and test overlap by normalised text and host."""

from rmsweb.records import Task
from rmsweb.tasksets import text_host_overlap
from rmsweb.tasksets.overlap import normal_text


def task(ident: str, goal: str, start: str = "https://www.shop.example/a", **more: object) -> Task:
    fields = {"id": ident, "suite": "s", "site": "x", "template": "t", "split": "exam", "goal": goal}
    return Task.model_validate({**fields, "start_url": start, **more})


def test_two_levels() -> None:
    training = [task("t1", "Find a red mug!"), task("t2", "Find a hat.", "https://other.example/")]
    exam = [
        task("e1", "find  a RED mug", "http://SHOP.example:8080/b?c"),
        task("e2", "Find a hat", "https://shop.example/"),
        task("e3", "Find a blue mug", "https://shop.example/"),
    ]
    found = text_host_overlap(exam, training)
    assert found == (("e1",), ("e2",), 3, 2) and round(found.share, 3) == 0.667
    assert text_host_overlap([], []).share == 0.0


def test_a_text_on_several_hosts_is_found_on_its_own() -> None:
    training = [task("t1", "Read."), task("t2", "Read.", "https://b.example/")]
    assert text_host_overlap([task("e", "read", "https://www.b.example")], training).same == ("e",)


def test_normal_text() -> None:
    assert normal_text("Ｆｉｎｄ the “Best” Café\u200b – men’s,\n no\u00a0. 1") == "find the best café mens no 1"
    assert normal_text("STRASSE") == normal_text("straße") and normal_text("e\u0301") == normal_text("é")
    assert normal_text("mugs under $5") != normal_text("mugs under 5")


def test_tasks_without_a_host_of_their_own() -> None:
    search = {"start": "search page"}
    exam = task("e", "Buy a hat", "https://duckduckgo.com/", meta=search)
    assert text_host_overlap([exam], [task("t", "buy a hat", "https://duckduckgo.com/")]).elsewhere == ("e",)
    assert text_host_overlap([exam], [task("t", "buy a hat", "https://other.example/", meta=search)]).same == ("e",)
    served, other = task("e", "Buy", "", site="shop"), task("t", "Buy", "", site="forum")
    assert text_host_overlap([served], [other]).elsewhere == ("e",)
    assert text_host_overlap([served], [served]).same == ("e",)
    assert text_host_overlap([task("e", "Buy", "http://[::1/")], [served]).elsewhere == ("e",)
