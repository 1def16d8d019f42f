"""The lending library: books by subject, other authors' books of the same title, copies at six places, loans, orders.

In no default: a suite has to name it. It exists to measure an explorer on a site whose author had not seen that
explorer. Promises that a title stands for two books at most, and that stars and waits differ within a subject, rooms
and codes within a book, times within the loans.
"""

import random
from typing import Any

from rmsweb.web import lexicon
from rmsweb.web.sites.pages import Builder, Item, address, link, text
from rmsweb.web.sites.world import PER_PAGE, Move, Query, Quest, State, Template, World, home, page_number

Book = dict[str, Any]
"""id, title, topic, author, stars (1..9), wait (days), copies: place -> (room, code)."""
SUBJECTS, COLORS_OF_A_SUBJECT, LOANS, PLACES = 6, 6, 6, 6
MORE_TIME = 28
"""Days that a loan gets once."""
ORDERS_SHOWN = 5


class Library(World):
    site = "library"
    slow_path = "/results"
    templates = (
        Template("order", 7),
        Template("room", 5),
        Template("extend", 6),
        Template("author", 5),
    )

    def build(self, rng: random.Random) -> None:
        self.topics, self.places = rng.sample(lexicon.TOPICS, SUBJECTS), rng.sample(lexicon.CITIES, PLACES)
        self.books: list[Book] = []
        for topic in self.topics:
            self._draw_subject(topic, rng)
        rng.shuffle(self.books)
        for ident, book in enumerate(self.books):
            book["id"] = str(ident)
        once = list({book["title"]: book for book in self.books}.values())
        lent = rng.sample(once, LOANS)
        times = rng.sample(range(2, 31), LOANS)
        self.loans = {book["id"]: time for book, time in zip(lent, times, strict=True)}
        self.new = rng.sample(self.books, 2)

    def _draw_subject(self, topic: str, rng: random.Random) -> None:
        colors = rng.sample(lexicon.COLORS, COLORS_OF_A_SUBJECT)
        titles = [f"{color} {topic}" for color in (*colors, colors[0])]
        authors = rng.sample(lexicon.PEOPLE, len(titles))
        numbers = zip(rng.sample(range(1, 10), len(titles)), rng.sample(range(10, 99), len(titles)), strict=True)
        for title, author, (stars, wait) in zip(titles, authors, numbers, strict=True):
            drawn = rng.sample(range(10, 99), 2 * PLACES)
            places = rng.sample(self.places, PLACES)
            copies = dict(zip(places, zip(drawn[:PLACES], drawn[PLACES:], strict=True), strict=True))
            self.books.append(
                {"title": title, "topic": topic, "author": author, "stars": stars, "wait": wait, "copies": copies}
            )

    def draw_quest(self, template: str, rng: random.Random) -> Quest:
        book, place, member = rng.choice(self.books), rng.choice(self.places), str(rng.randrange(10, 99))
        second = rng.random() < 0.5
        match template:
            case "order":
                titles = [other["title"] for other in self.books]
                book = rng.choice([other for other in self.books if titles.count(other["title"]) > 1])
                title, author = book["title"], book["author"]
                where = f"at {place} for member {member}" if second else f"to {place} for member {member}"
                effect = {"orders": [[title, author, place, member]]}
                return Quest(
                    f"order {title} by {author} {where}",
                    effect=effect,
                    target=_target(book, place=place, member=member),
                )
            case "room":
                title, author = book["title"], book["author"]
                goal = f"what room has {title} by {author} in {place} ?"
                if second:
                    goal = f"find the room of {title} by {author} at {place}"
                return Quest(goal, answer=str(book["copies"][place][0]), target=_target(book, place=place))
            case "extend":
                ident = min(self.loans, key=lambda other: self.loans[other])
                loans = {**self.loans, ident: self.loans[ident] + MORE_TIME}
                goal = f"add time to the {'book' if second else 'item'} with least time"
                return Quest(goal, effect={"loans": loans}, target=_target(self.books[int(ident)]))
            case "author":
                kin, order = [other for other in self.books if other["topic"] == book["topic"]], "stars"
                best = max(kin, key=lambda other: int(other["stars"]))
                if second:
                    best, order = min(kin, key=lambda other: int(other["wait"])), "wait"
                goal = f"who wrote the book about {book['topic']} with {'least wait' if second else 'most stars'} ?"
                target = _target(best, topic=book["topic"], order=order)
                return Quest(goal, answer=best["author"], among=lexicon.PEOPLE, target=target)
        raise KeyError(template)

    def content(self) -> State:
        return {"orders": [], "loans": self.loans}

    def nav(self, page: Builder) -> tuple[Item, ...]:
        return (home(), link("search", 3, "/search"), link("member", 3, "/member"), link("rules", 2, "/rules"))

    def fill(self, page: Builder, path: str, query: Query, state: State) -> bool:
        match path:
            case "/":
                self._home(page)
            case "/search":
                self._search(page, query)
            case "/results":
                self._results(page, query)
            case "/member":
                self._member(page, query, state)
            case "/orders":
                self._orders(page, state)
            case "/rules":
                page.title = "rules"
                page.line("heading", text("rules", 3))
                page.line("facts", text(f"time {MORE_TIME}", 3), text("late 2", 3))
            case "/item" | "/copies" | "/order" | "/confirm":
                return self._book(page, path, query)
            case "/loan" | "/extend":
                return self._loan(page, path, query, state)
            case _:
                return False
        return True

    def _home(self, page: Builder) -> None:
        form = page.search("/results")
        page.line("form", Item("input", "search", 5, form=form, name="q"), Item("button", "go", 2, form=form))
        for start in range(0, len(self.topics), 3):
            page.line("tiles", *(link(topic, 2, "/results", topic=topic) for topic in self.topics[start : start + 3]))
        page.line("heading", text("new", 2))
        for book in self.new:
            page.line("row", link(book["title"], 4, "/item", id=book["id"]), text(f"by {book['author']}", 2))

    def _search(self, page: Builder, query: Query) -> None:
        page.title = "search"
        form = page.search("/results")
        words, topic, order = query.get("q", ""), query.get("topic", ""), query.get("sort", "")
        options = tuple(self.topics)
        page.line("form", Item("input", "search", 5, form=form, name="q", value=words))
        page.line("form", Item("select", "topic", 4, form=form, name="topic", value=topic, options=options))
        page.line("form", Item("select", "sort", 4, form=form, name="sort", value=order, options=("stars", "wait")))
        page.line("form", Item("button", "show", 2, form=form))

    def _results(self, page: Builder, query: Query) -> None:
        page.title = "results"
        words, topic, order = query.get("q", "").lower().split(), query.get("topic", ""), query.get("sort", "")
        found = [book for book in self.books if set(words) <= {*book["title"].split(), "by", book["author"]}]
        found = [book for book in found if topic in ("", book["topic"])]
        if order in ("stars", "wait"):
            found.sort(key=lambda book: -book["stars"] if order == "stars" else book["wait"])
        if not found:
            page.line("notice", text("no results", 4))
        number, shown = page_number(query), "wait" if order == "wait" else "stars"
        for book in found[number * PER_PAGE : (number + 1) * PER_PAGE]:
            title = link(book["title"], 4, "/item", id=book["id"])
            page.line("row", title, text(f"by {book['author']}", 2), text(f"{shown} {book[shown]}", 3))
        base = {"q": " ".join(words), "topic": topic, "sort": order}
        more = len(found) > (number + 1) * PER_PAGE
        page.pager("/results", base, number, more, link("filter", 2, "/search", **base))

    def _book(self, page: Builder, path: str, query: Query) -> bool:
        ident = query.get("id", "")
        book = next((book for book in self.books if book["id"] == ident), None)
        place, member = query.get("site", ""), query.get("member", "")
        if book is None or (path == "/confirm" and not self._complete(place, member)):
            return False
        page.title = book["title"]
        page.line("heading", text(book["title"], 4), text(f"by {book['author']}", 2))
        match path:
            case "/item":
                page.line("facts", text(f"stars {book['stars']}", 3), text(f"wait {book['wait']}", 3))
                page.line("tools", link("details", 3, "/copies", id=ident), link("order", 2, "/order", id=ident))
            case "/copies":
                number, copies = page_number(query), list(book["copies"].items())
                for city, (room, code) in copies[number * PER_PAGE : (number + 1) * PER_PAGE]:
                    page.line("row", text(city, 2), text(f"code {code}", 3), text(f"room {room}", 3))
                more = len(copies) > (number + 1) * PER_PAGE
                page.pager("/copies", {"id": ident}, number, more, link("order", 2, "/order", id=ident))
            case "/order":
                form, places = page.form("/order", id=ident), tuple(sorted(self.places))
                page.line("form", Item("select", "site", 3, form=form, name="site", value=place, options=places))
                page.line("form", Item("input", "member", 4, form=form, name="member", value=member))
                page.line("form", Item("button", "continue", 3, form=form))
                if query.get("note") in ("site", "member"):
                    page.line("notice", text(f"missing {query['note']}", 5))
            case "/confirm":
                page.line("facts", text(f"at {place}", 3), text(f"member {member}", 4))
                confirm = page.button("confirm", 3, "/confirm", id=ident, site=place, member=member)
                page.line("tools", confirm, link("cancel", 3, "/item", id=ident))
        return True

    def _complete(self, place: str, member: str) -> bool:
        return place in self.places and member.isdecimal() and len(member) < 3

    def _member(self, page: Builder, query: Query, state: State) -> None:
        page.title = "member"
        if query.get("note") in ("added", "booked"):
            page.line("notice", text(query["note"], 3))
        order, number, loans = query.get("sort", ""), page_number(query), list(state["loans"].items())
        if order:
            loans.sort(key=lambda loan: int(loan[1]))
        for ident, time in loans[number * PER_PAGE : (number + 1) * PER_PAGE]:
            book = self.books[int(ident)]
            title = link(book["title"], 4, "/loan", id=ident)
            page.line("row", title, text(f"by {book['author']}", 2), text(f"time {time}", 3))
        tools = (link("sort", 2, "/member", sort="time"), link("order", 2, "/orders"))
        page.pager("/member", {"sort": order}, number, len(loans) > (number + 1) * PER_PAGE, *tools)

    def _orders(self, page: Builder, state: State) -> None:
        page.title = "order"
        if not state["orders"]:
            page.line("notice", text("empty", 2))
        for index, (title, _, place, _) in list(enumerate(state["orders"]))[-ORDERS_SHOWN:]:
            page.line("row", text(title, 4), text(f"at {place}", 3), page.button("remove", 3, "/remove", at=str(index)))

    def _loan(self, page: Builder, path: str, query: Query, state: State) -> bool:
        ident = query.get("id", "")
        if ident not in state["loans"] or (path == "/extend" and not self._may_extend(ident, state)):
            return False
        book, time = self.books[int(ident)], state["loans"][ident]
        page.title = book["title"]
        page.line("heading", text(book["title"], 4), text(f"by {book['author']}", 2))
        if path == "/extend":
            page.line("facts", text(f"time {time}", 3), text(f"new {time + MORE_TIME}", 3))
            page.line("tools", page.button("confirm", 3, "/extend", id=ident), link("cancel", 3, "/loan", id=ident))
            return True
        page.line("facts", text(f"time {time}", 3), text(f"wait {book['wait']}", 3))
        if self._may_extend(ident, state):
            page.line("tools", link("add time", 3, "/extend", id=ident))
        return True

    def _may_extend(self, ident: str, state: State) -> bool:
        return bool(state["loans"][ident] == self.loans[ident])

    def write(self, path: str, form: Query, state: State) -> str | None:
        ident = form.get("id", "")
        if path in ("/order", "/confirm") and any(book["id"] == ident for book in self.books):
            place, member = form.get("site", ""), form.get("member", "").strip()
            query = {"id": ident, "site": place, "member": member}
            if not self._complete(place, member):
                return address("/order", **query, note="member" if place in self.places else "site")
            if path == "/order":
                return address("/confirm", **query)
            book = self.books[int(ident)]
            state["orders"].append([book["title"], book["author"], place, member])
            return "/member?note=booked"
        if path == "/extend" and ident in state["loans"]:
            if not self._may_extend(ident, state):
                return address("/loan", id=ident)
            state["loans"][ident] += MORE_TIME
            return "/member?note=added"
        index = form.get("at", "")
        if path == "/remove" and index.isdecimal() and int(index) < len(state["orders"]):
            del state["orders"][int(index)]
            return "/orders"
        return None

    def advise(self, path: str, query: Query, labels: frozenset[str]) -> Move:
        match self.template:
            case "extend":
                return self._advise_extend(path, query, labels)
            case "author":
                return self._advise_author(path, query, labels)
        return self._advise_book(path, query, labels)

    def _advise_book(self, path: str, query: Query, labels: frozenset[str]) -> Move:
        target = self.quest.target
        if path == "/member" and "booked" in labels:
            return Move("answer", "booked", "done")
        if path == "/results" and query.get("q") == target["find"]:
            return Move("click", target["title"])
        if query.get("id") != target["id"] or path in ("/loan", "/extend"):
            return Move("type", "search", target["find"]) if path == "/" else Move("click", "home")
        if self.template == "room":
            if path != "/copies":
                return Move("click", "details" if path == "/item" else "home")
            if target["place"] in labels:
                return Move("answer", f"room {self.quest.answer}", str(self.quest.answer))
            return Move("click", "next" if "next" in labels else "prev")
        if path == "/confirm":
            agreed = query.get("site") == target["place"] and query.get("member") == target["member"]
            return Move("click", "confirm" if agreed else "cancel")
        if path != "/order":
            return Move("click", "order")
        if f"={target['place']}" not in labels:
            return Move("select", "site", target["place"])
        return Move("type", "member", target["member"])

    def _advise_extend(self, path: str, query: Query, labels: frozenset[str]) -> Move:
        target = self.quest.target
        if path == "/member":
            if "added" in labels:
                return Move("answer", "added", "done")
            return Move("click", target["title"]) if query.get("sort") else Move("click", "sort")
        if path in ("/loan", "/extend") and query.get("id") == target["id"]:
            return Move("click", "confirm" if path == "/extend" else "add time")
        return Move("click", "member")

    def _advise_author(self, path: str, query: Query, labels: frozenset[str]) -> Move:
        target, answer = self.quest.target, str(self.quest.answer)
        wanted = {"topic": target["topic"], "sort": target["order"]}
        if path == "/results" and dict(query) == wanted:
            return Move("answer", f"by {answer}", answer)
        if path != "/search" or query.get("q"):
            return Move("click", "search")
        if f"={target['topic']}" not in labels:
            return Move("select", "topic", target["topic"])
        chosen = f"={target['order']}" in labels
        return Move("click", "show") if chosen else Move("select", "sort", target["order"])


def _target(book: Book, **more: str) -> dict[str, str]:
    """What a quest about a book points at; `find` are the words that only this book has."""
    return {"id": book["id"], "title": book["title"], "find": f"{book['title']} {book['author']}", **more}
