"""The booking site: cities, rooms with prices, dates, a form with guests and a confirm dialog, own bookings."""

import random
from typing import Any

from rmsweb.web import lexicon
from rmsweb.web.sites.pages import Builder, Item, address, link, text
from rmsweb.web.sites.world import PER_PAGE, Move, Query, Quest, State, Template, World, home, page_number

Booking = dict[str, Any]
"""id, city, room, date, guests."""
GUESTS = ("1", "2", "3", "4")


class Bookings(World):
    site = "booking"
    slow_path = "/city"
    templates = (
        Template("book", 6),
        Template("price", 3),
        Template("guests", 7),
        Template("cancel", 5),
        Template("move", 7, "heldout_template"),
        Template("missing", 2, "typed"),
    )

    def build(self, rng: random.Random) -> None:
        self.cities = rng.sample(lexicon.CITIES, 6)
        self.rooms: dict[str, dict[str, int]] = {}
        self.dates: dict[str, list[int]] = {}
        for city in self.cities:
            rooms, prices = rng.sample(lexicon.ROOMS, 4), rng.sample(range(20, 99), 4)
            self.rooms[city] = dict(zip(rooms, prices, strict=True))
            self.dates[city] = sorted(rng.sample(range(1, 31), 10))
        booked = rng.sample(self.cities, 5)
        self.booked = [self._draw_booking(ident, city, rng) for ident, city in enumerate(booked, start=1)]

    def _draw_booking(self, ident: int, city: str, rng: random.Random) -> Booking:
        room, date = rng.choice(lexicon.ROOMS), rng.choice(self.dates[city])
        return {"id": ident, "city": city, "room": room, "date": date, "guests": rng.choice(GUESTS[:2])}

    def draw_quest(self, template: str, rng: random.Random) -> Quest:
        city, room, old = rng.choice(self.cities), rng.choice(lexicon.ROOMS), rng.choice(self.booked)
        date, guests = rng.choice(self.dates[city]), rng.choice(GUESTS[1:])
        target = {"city": city, "room": room, "date": str(date), "guests": guests}
        second = rng.random() < 0.5
        entries = self.judged(self.content())["bookings"]
        match template:
            case "book":
                effect = {"bookings": sorted([*entries, [city, room, date, "1"]])}
                return Quest(f"book {room} in {city} on {date}", effect=effect, target={**target, "guests": "1"})
            case "guests":
                effect = {"bookings": sorted([*entries, [city, room, date, guests]])}
                return Quest(f"book {room} in {city} on {date} for {guests} guests", effect=effect, target=target)
            case "price":
                goal = f"what does {room} in {city} cost ?" if second else f"price of {room} in {city} ?"
                return Quest(goal, answer=str(self.rooms[city][room]), target=target)
            case "cancel":
                effect = {"bookings": [entry for entry in entries if entry[0] != old["city"]]}
                return Quest(f"cancel the booking in {old['city']}", effect=effect, target={"city": old["city"]})
            case "move":
                date = rng.choice([other for other in self.dates[old["city"]] if other != old["date"]])
                moved = [[*entry[:2], date, entry[3]] if entry[0] == old["city"] else entry for entry in entries]
                target = {"city": old["city"], "date": str(date)}
                goal = f"move the booking in {old['city']} to {date}"
                return Quest(goal, effect={"bookings": sorted(moved)}, target=target)
            case "missing":
                absent = rng.choice([other for other in lexicon.CITIES if other not in self.cities])
                return Quest(f"book {room} in {absent} on {date}", typed="impossible", target={"city": absent})
        raise KeyError(template)

    def content(self) -> State:
        return {"bookings": self.booked}

    def judged(self, state: State) -> State:
        entries = [[entry["city"], entry["room"], entry["date"], entry["guests"]] for entry in state["bookings"]]
        return {"bookings": sorted(entries)}

    def nav(self, page: Builder) -> tuple[Item, ...]:
        return (home(), link("bookings", 3, "/bookings"), link("help", 2, "/help"))

    def fill(self, page: Builder, path: str, query: Query, state: State) -> bool:
        city, room, date = query.get("city", ""), query.get("room", ""), query.get("date", "")
        match path:
            case "/":
                page.title = "booking"
                for start in range(0, len(self.cities), 3):
                    page.line("tiles", *(link(name, 3, "/city", city=name) for name in self.cities[start : start + 3]))
            case "/help":
                page.title = "help"
                page.line("heading", text("help", 2))
                page.line("notice", text("no refund", 3))
            case "/bookings":
                self._list(page, query, state)
            case "/booking" | "/move" | "/moving":
                return self._own(page, path, query, state)
            case "/city" if city in self.cities:
                self._city(page, city, query.get("sort", ""))
            case "/room" if room in self.rooms.get(city, ()):
                page.title = f"{city} {room}"
                page.line("heading", text(page.title, 4))
                self._dates(page, "/confirm", self.dates[city], city=city, room=room)
            case "/confirm" if room in self.rooms.get(city, ()) and date.isdecimal() and int(date) in self.dates[city]:
                self._confirm(page, city, room, date)
            case _:
                return False
        return True

    def _city(self, page: Builder, city: str, order: str) -> None:
        page.title = city
        page.line("heading", text(city, 3), link("sort", 2, "/city", city=city, sort="price"))
        rooms = list(self.rooms[city].items())
        for room, price in sorted(rooms, key=lambda pair: pair[1]) if order else rooms:
            page.line("row", link(room, 3, "/room", city=city, room=room), text(f"${price}", 2))

    def _dates(self, page: Builder, path: str, dates: list[int], **query: str) -> None:
        tiles = [link(str(date), 2, path, **query, date=str(date)) for date in dates]
        for start in range(0, len(tiles), 4):
            page.line("tiles", *tiles[start : start + 4])

    def _confirm(self, page: Builder, city: str, room: str, date: str) -> None:
        page.title = f"{city} {room}"
        page.line("heading", text(page.title, 4))
        page.line("facts", text(f"on {date}", 2), text(f"${self.rooms[city][room]}", 2))
        form = page.form("/book", confirm=f"Book {room} in {city} on {date}?", city=city, room=room, date=date)
        page.line("form", Item("select", "guests", 3, form=form, name="guests", options=GUESTS))
        page.line("form", Item("button", "confirm", 3, form=form))

    def _list(self, page: Builder, query: Query, state: State) -> None:
        page.title = "bookings"
        number, note, shown = page_number(query), query.get("note", ""), state["bookings"][::-1]
        if note in ("booked", "cancelled", "moved"):
            page.line("notice", text(note, 3))
        elif not shown:
            page.line("notice", text("empty", 2))
        for entry in shown[number * PER_PAGE : (number + 1) * PER_PAGE]:
            city = link(entry["city"], 3, "/booking", id=str(entry["id"]))
            page.line("row", city, text(entry["room"], 3), text(str(entry["date"]), 2))
        page.pager("/bookings", {}, number, len(shown) > (number + 1) * PER_PAGE)

    def _own(self, page: Builder, path: str, query: Query, state: State) -> bool:
        entry = _find(state, query.get("id", ""))
        if entry is None:
            return False
        ident, city, date = str(entry["id"]), entry["city"], query.get("date", "")
        page.title = f"{city} {entry['room']}"
        page.line("heading", text(page.title, 4))
        if path == "/move":
            self._dates(page, "/moving", self.dates[city], id=ident)
            return True
        if path == "/moving":
            if not date.isdecimal() or int(date) not in self.dates[city]:
                return False
            page.line("facts", text(f"on {date}", 2))
            page.line("form", page.button("confirm", 3, "/move", confirm=f"Move it to {date}?", id=ident, date=date))
            return True
        page.line("facts", text(f"on {entry['date']}", 2), text(f"guests {entry['guests']}", 3))
        cancel = page.button("cancel", 3, "/cancel", confirm=f"Cancel the booking in {city}?", id=ident)
        page.line("tools", link("move", 2, "/move", id=ident), cancel)
        return True

    def write(self, path: str, form: Query, state: State) -> str | None:
        city, room, date = form.get("city", ""), form.get("room", ""), form.get("date", "")
        if path == "/book" and room in self.rooms.get(city, ()) and date.isdecimal():
            if int(date) not in self.dates[city]:
                return None
            guests = form.get("guests") or "1"
            ident = max((entry["id"] for entry in state["bookings"]), default=0) + 1
            state["bookings"].append(
                {
                    "id": ident,
                    "city": city,
                    "room": room,
                    "date": int(date),
                    "guests": guests if guests in GUESTS else "1",
                }
            )
            return "/bookings?note=booked"
        entry = _find(state, form.get("id", ""))
        if entry is None:
            return None
        if path == "/cancel":
            state["bookings"].remove(entry)
            return "/bookings?note=cancelled"
        if path == "/move" and date.isdecimal() and int(date) in self.dates[entry["city"]]:
            entry["date"] = int(date)
            return address("/bookings", note="moved")
        return None

    def advise(self, path: str, query: Query, labels: frozenset[str]) -> Move:
        target = self.quest.target
        done = {"book": "booked", "guests": "booked", "cancel": "cancelled", "move": "moved"}.get(self.template, "")
        if path == "/bookings" and done in labels:
            return Move("answer", done, "done")
        if self.quest.typed == "impossible":
            return Move("give_up") if path == "/" else Move("click", "home")
        if self.template in ("cancel", "move"):
            return self._advise_own(path, query, labels)
        if path == "/confirm" and all(query.get(key) == target[key] for key in ("city", "room", "date")):
            return (
                Move("click", "confirm") if self._guests_chosen(labels) else Move("select", "guests", target["guests"])
            )
        if path == "/room" and query.get("city") == target["city"] and query.get("room") == target["room"]:
            return Move("click", target["date"])
        if path == "/city" and query.get("city") == target["city"]:
            room = target["room"]
            return Move("answer", room, str(self.quest.answer)) if self.template == "price" else Move("click", room)
        return Move("click", target["city"]) if path == "/" else Move("click", "home")

    def _guests_chosen(self, labels: frozenset[str]) -> bool:
        return self.template == "book" or f"={self.quest.target['guests']}" in labels

    def _advise_own(self, path: str, query: Query, labels: frozenset[str]) -> Move:
        target = self.quest.target
        mine = next((entry["id"] for entry in self.booked if entry["city"] == target["city"]), 0)
        if path in ("/booking", "/move", "/moving") and query.get("id") == str(mine):
            if path == "/booking":
                return Move("click", self.template)
            if path == "/move":
                return Move("click", target["date"])
            return Move("click", "confirm" if query.get("date") == target["date"] else "bookings")
        if path == "/bookings" and target["city"] in labels:
            return Move("click", target["city"])
        return Move("click", "next" if path == "/bookings" and "next" in labels else "bookings")


def _find(state: State, ident: str) -> Booking | None:
    return next((entry for entry in state["bookings"] if str(entry["id"]) == ident), None)
