"""The shop: kinds of things, results on two pages, sort, filter by colour, items with price and stars, a cart."""

import random
from typing import Any

from rmsweb.web import lexicon
from rmsweb.web.sites.pages import Builder, Item, link, text
from rmsweb.web.sites.world import PER_PAGE, Move, Query, Quest, State, Template, World, home, page_number

Thing = dict[str, Any]
"""name, noun, color, price (dollars), stars (1..9)."""


class Shop(World):
    site = "shop"
    slow_path = "/item"
    templates = (
        Template("add", 5),
        Template("price", 3),
        Template("stars", 4),
        Template("cheapest", 5),
        Template("top", 5, "heldout_template"),
        Template("missing", 2, "typed"),
    )

    def build(self, rng: random.Random) -> None:
        self.nouns = rng.sample(lexicon.NOUNS, 6)
        self.things: list[Thing] = []
        for noun in self.nouns:
            colors, prices = rng.sample(lexicon.COLORS, 6), rng.sample(range(10, 99), 6)
            for color, price, stars in zip(colors, prices, rng.sample(range(1, 10), 6), strict=True):
                self.things.append(
                    {"name": f"{color} {noun}", "noun": noun, "color": color, "price": price, "stars": stars}
                )

    def draw_quest(self, template: str, rng: random.Random) -> Quest:
        thing = rng.choice(self.things)
        name, noun = thing["name"], thing["noun"]
        kin = [other for other in self.things if other["noun"] == noun]
        second = rng.random() < 0.5
        match template:
            case "add":
                goal = f"put {name} in cart" if second else f"add {name} to cart"
                return Quest(goal, effect={"cart": [name]}, target={"name": name, "noun": noun})
            case "price":
                goal = f"what does {name} cost ?" if second else f"price of {name} ?"
                return Quest(goal, answer=str(thing["price"]), target={"name": name, "noun": noun})
            case "stars":
                goal = f"how many stars has {name} ?" if second else f"stars of {name} ?"
                return Quest(goal, answer=str(thing["stars"]), target={"name": name, "noun": noun})
            case "cheapest":
                best = min(kin, key=lambda other: int(other["price"]))["name"]
                goal = f"add cheapest {noun} to cart"
                return Quest(goal, effect={"cart": [best]}, target={"name": best, "noun": noun, "order": "price"})
            case "top":
                best = max(kin, key=lambda other: int(other["stars"]))["name"]
                goal = f"add {noun} with most stars to cart"
                return Quest(goal, effect={"cart": [best]}, target={"name": best, "noun": noun, "order": "stars"})
            case "missing":
                absent = [color for color in lexicon.COLORS if color not in {other["color"] for other in kin}]
                name = f"{rng.choice(absent)} {noun}"
                return Quest(f"add {name} to cart", typed="impossible", target={"name": name, "noun": noun})
        raise KeyError(template)

    def content(self) -> State:
        return {"cart": []}

    def nav(self, page: Builder) -> tuple[Item, ...]:
        search = page.search("/search")
        field = Item("input", "search", 4, form=search, name="q")
        return (home(), link("cart", 2, "/cart"), field, Item("button", "go", 2, form=search))

    def fill(self, page: Builder, path: str, query: Query, state: State) -> bool:
        match path:
            case "/":
                tiles = [link(noun, 3, "/search", q=noun) for noun in self.nouns]
                for start in range(0, len(tiles), 3):
                    page.line("tiles", *tiles[start : start + 3])
            case "/search":
                self._results(page, query)
            case "/filter":
                page.title = f"filter {query.get('q', '')}".strip()
                page.line("heading", text("filter", 2), text(query.get("q", "")[:20], 4))
                tiles = [link(color, 2, "/search", q=query.get("q", ""), color=color) for color in lexicon.COLORS]
                for start in range(0, len(tiles), 3):
                    page.line("tiles", *tiles[start : start + 3])
            case "/item":
                return self._item(page, query)
            case "/cart":
                self._cart(page, query, state)
            case _:
                return False
        return True

    def _results(self, page: Builder, query: Query) -> None:
        words, order, color = query.get("q", "").lower().split(), query.get("sort", ""), query.get("color", "")
        found = [thing for thing in self.things if words and all(word in thing["name"].split() for word in words)]
        found = [thing for thing in found if color in ("", thing["color"])]
        if order:
            found.sort(key=lambda thing: -thing["stars"] if order == "stars" else thing["price"])
        page.title = "results"
        base = {"q": " ".join(words), "color": color}
        if not found:
            page.line("notice", text("no results", 4))
            return
        page.line(
            "tools",
            link("sort", 2, "/search", **base, sort="price"),
            link("top", 2, "/search", **base, sort="stars"),
            link("filter", 2, "/filter", q=base["q"]),
        )
        number = page_number(query)
        for thing in found[number * PER_PAGE : (number + 1) * PER_PAGE]:
            value = text(f"stars {thing['stars']}", 3) if order == "stars" else text(f"${thing['price']}", 2)
            page.line("row", link(thing["name"], 4, "/item", name=thing["name"]), value)
        page.pager("/search", {**base, "sort": order}, number, len(found) > (number + 1) * PER_PAGE)

    def _item(self, page: Builder, query: Query) -> bool:
        thing = next((thing for thing in self.things if thing["name"] == query.get("name")), None)
        if thing is None:
            return False
        page.title = thing["name"]
        page.line("heading", text(thing["name"], 4))
        page.line("facts", text(f"${thing['price']}", 2), text(f"stars {thing['stars']}", 3))
        page.line("form", page.button("add", 2, "/add", name=thing["name"]))
        more = [other for other in self.things if other["noun"] == thing["noun"] and other is not thing]
        page.line("row", *(link(other["name"], 4, "/item", name=other["name"]) for other in more[:2]))
        return True

    def _cart(self, page: Builder, query: Query, state: State) -> None:
        page.title = "cart"
        if query.get("note") == "added" and state["cart"]:
            page.line("notice", text("added", 2))
        if not state["cart"]:
            page.line("notice", text("empty", 2))
        for place, name in list(enumerate(state["cart"]))[-5:]:
            page.line("row", text(name, 4), page.button("remove", 3, "/remove", place=str(place)))

    def write(self, path: str, form: Query, state: State) -> str | None:
        if path == "/add" and any(thing["name"] == form.get("name") for thing in self.things):
            state["cart"].append(form["name"])
            return "/cart?note=added"
        if path == "/remove" and form.get("place", "").isdecimal() and int(form["place"]) < len(state["cart"]):
            del state["cart"][int(form["place"])]
            return "/cart"
        return None

    def advise(self, path: str, query: Query, labels: frozenset[str]) -> Move:
        name, noun = self.quest.target["name"], self.quest.target["noun"]
        order = self.quest.target.get("order")
        if path == "/cart" and name in labels and "added" in labels:
            return Move("answer", "added", "done")
        if path == "/item" and query.get("name") == name:
            if self.template == "stars":
                return Move("answer", name, str(self.quest.answer))
            return Move("answer", name, str(self.quest.answer)) if self.quest.answer else Move("click", "add")
        if "no results" in labels and self.quest.typed == "impossible":
            return Move("give_up")
        if path == "/search" and query.get("q") == noun and not query.get("color"):
            if order and query.get("sort") != order:
                return Move("click", "sort" if order == "price" else "top")
            if name in labels:
                if self.template == "price":
                    return Move("answer", name, str(self.quest.answer))
                return Move("click", name)
            if "next" in labels:
                return Move("click", "next")
        return Move("type", "search", name if self.quest.typed == "impossible" else noun)
