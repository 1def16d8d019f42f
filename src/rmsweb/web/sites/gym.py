"""The gym: classes on two pages with their trainers, seats beside a price, joining and leaving.

In no default: a suite has to name it. It exists to measure an explorer on a site that was built after the explorer.
"""

import random
from typing import Any

from rmsweb.web import lexicon
from rmsweb.web.sites.pages import Builder, Item, link, text
from rmsweb.web.sites.world import PER_PAGE, Move, Query, Quest, State, Template, World, home, page_number

Lesson = dict[str, Any]
"""name, person, price (dollars), seats."""


class Gym(World):
    site = "gym"
    slow_path = "/class"
    templates = (
        Template("join", 5),
        Template("who", 3),
        Template("seats", 4),
        Template("cancel", 4),
    )

    def build(self, rng: random.Random) -> None:
        names, people = rng.sample(lexicon.TOPICS, 7), rng.sample(lexicon.PEOPLE, 7)
        self.lessons: list[Lesson] = []
        for name, person in zip(names, people, strict=True):
            price, seats = rng.sample(range(5, 98), 2)
            self.lessons.append({"name": name, "person": person, "price": price, "seats": seats})
        self.joined = sorted(rng.sample(names, 3))
        self.price_first = rng.random() < 0.5

    def draw_quest(self, template: str, rng: random.Random) -> Quest:
        lesson = rng.choice(self.lessons)
        name, person = lesson["name"], lesson["person"]
        target = {"name": name, "person": person}
        match template:
            case "join":
                new = rng.choice([other for other in self.lessons if other["name"] not in self.joined])
                effect = {"joined": sorted([*self.joined, new["name"]])}
                return Quest(
                    f"join the {new['name']} classes by {new['person']}", effect=effect, target={"name": new["name"]}
                )
            case "who":
                return Quest(f"who has the {name} classes ?", answer=person, among=lexicon.PEOPLE, target=target)
            case "seats":
                return Quest(f"how many seats has {name} ?", answer=str(lesson["seats"]), target=target)
            case "cancel":
                old = rng.choice(self.joined)
                effect = {"joined": [other for other in self.joined if other != old]}
                return Quest(f"cancel {old}", effect=effect, target={"name": old})
        raise KeyError(template)

    def content(self) -> State:
        return {"joined": self.joined}

    def nav(self, page: Builder) -> tuple[Item, ...]:
        return (home(), link("classes", 2, "/classes"), link("joined", 2, "/joined"), link("contact", 3, "/contact"))

    def fill(self, page: Builder, path: str, query: Query, state: State) -> bool:
        match path:
            case "/":
                page.title = "new"
                page.line("heading", text("new classes", 4))
                page.line(
                    "tiles", *(link(lesson["name"], 2, "/class", name=lesson["name"]) for lesson in self.lessons[:3])
                )
                page.line("tools", link("show more", 4, "/classes"))
            case "/classes":
                page.title = "classes"
                number = page_number(query)
                for lesson in self.lessons[number * PER_PAGE : (number + 1) * PER_PAGE]:
                    page.line("row", link(lesson["name"], 3, "/class", name=lesson["name"]), text(lesson["person"], 2))
                page.pager("/classes", {}, number, len(self.lessons) > (number + 1) * PER_PAGE)
            case "/joined":
                page.title = "joined"
                if not state["joined"]:
                    page.line("notice", text("empty", 2))
                for name in state["joined"][:5]:
                    page.line("row", link(name, 3, "/class", name=name))
            case "/contact":
                page.title = "contact"
                page.line("heading", text("contact", 3))
            case "/class":
                return self._lesson(page, query, state)
            case _:
                return False
        return True

    def _lesson(self, page: Builder, query: Query, state: State) -> bool:
        lesson = next((lesson for lesson in self.lessons if lesson["name"] == query.get("name")), None)
        if lesson is None:
            return False
        name = lesson["name"]
        page.title = name
        page.line("heading", text(name, 3), text(f"by {lesson['person']}", 2))
        facts = [text(f"${lesson['price']}", 2), text(f"seats {lesson['seats']}", 3)]
        page.line("facts", *(facts if self.price_first else facts[::-1]))
        if name in state["joined"]:
            page.line("notice", text("joined", 2))
            page.line("tools", page.button("cancel", 2, "/cancel", confirm=f"Cancel {name}?", name=name))
        else:
            page.line("tools", page.button("join", 2, "/join", name=name))
        return True

    def write(self, path: str, form: Query, state: State) -> str | None:
        name = form.get("name", "")
        if path == "/join" and any(lesson["name"] == name for lesson in self.lessons):
            if name not in state["joined"]:
                state["joined"].append(name)
            return f"/class?name={name}"
        if path == "/cancel" and name in state["joined"]:
            state["joined"].remove(name)
            return f"/class?name={name}"
        return None

    def advise(self, path: str, query: Query, labels: frozenset[str]) -> Move:
        name, answer = self.quest.target["name"], self.quest.answer
        if path == "/class" and query.get("name") == name:
            match self.template:
                case "join":
                    return Move("answer", "joined", "done") if "cancel" in labels else Move("click", "join")
                case "cancel":
                    return Move("answer", "join", "done") if "join" in labels else Move("click", "cancel")
                case "seats":
                    return Move("answer", f"seats {answer}", str(answer))
                case "who":
                    return Move("answer", name, str(answer))
        if self.template == "cancel":
            return Move("click", name if path == "/joined" and name in labels else "joined")
        if path == "/classes" and name in labels:
            return Move("answer", name, str(answer)) if self.template == "who" else Move("click", name)
        if path == "/classes":
            return Move("click", "next" if "next" in labels else "prev")
        return Move("click", name if path == "/" and name in labels else "classes")
