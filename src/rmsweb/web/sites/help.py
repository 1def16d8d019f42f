"""The help centre: topics with a code beside a waiting time, a ticket form with two required fields, own cases."""

import random
from dataclasses import replace
from typing import Any

from rmsweb.web import lexicon
from rmsweb.web.sites.pages import Builder, Item, address, link, text
from rmsweb.web.sites.world import PER_PAGE, Move, Query, Quest, State, Template, World, home, page_number

Case = dict[str, Any]
"""number, subject, status, wait."""


class Help(World):
    site = "help"
    slow_path = "/topic"
    templates = (
        Template("code", 2),
        Template("wait", 2),
        Template("ticket", 5),
        Template("status", 4),
        Template("close", 5, "heldout_template"),
        Template("walled", 2, "typed"),
    )

    def build(self, rng: random.Random) -> None:
        self.subjects = rng.sample(lexicon.SUBJECTS, 6)
        self.code = dict(zip(self.subjects, rng.sample(range(10, 99), 6), strict=True))
        self.wait = dict(zip(self.subjects, rng.sample(range(10, 99), 6), strict=True))
        numbers = rng.sample(range(10, 99), 6)
        self.cases = [self._draw_case(number, rng) for number in numbers]
        self.cases[rng.randrange(len(self.cases))]["status"] = "open"
        self.code_first = rng.random() < 0.5

    def _draw_case(self, number: int, rng: random.Random) -> Case:
        subject, status = rng.choice(self.subjects), rng.choice(lexicon.STATES)
        return {"number": number, "subject": subject, "status": status, "wait": rng.randrange(10, 99)}

    def draw_quest(self, template: str, rng: random.Random) -> Quest:
        subject, priority, case = rng.choice(self.subjects), rng.choice(lexicon.PRIORITIES), rng.choice(self.cases)
        number = str(case["number"])
        second = rng.random() < 0.5
        match template:
            case "code":
                goal = f"what is the code for {subject} ?" if second else f"code for {subject} ?"
                return Quest(goal, answer=str(self.code[subject]), target={"subject": subject})
            case "wait":
                goal = f"how long is the wait for {subject} ?" if second else f"wait for {subject} ?"
                return Quest(goal, answer=str(self.wait[subject]), target={"subject": subject})
            case "ticket" | "walled":
                goal = f"send {priority} ticket about {subject}"
                target = {"subject": subject, "priority": priority}
                if template == "walled":
                    return Quest(goal, typed="blocked", target=target)
                return Quest(goal, effect={"tickets": [[subject, priority]]}, target=target)
            case "status":
                goal = f"what is the status of case {number} ?" if second else f"status of case {number} ?"
                return Quest(goal, answer=case["status"], among=lexicon.STATES, target={"number": number})
            case "close":
                number = str(rng.choice([other for other in self.cases if other["status"] != "closed"])["number"])
                status = {str(other["number"]): other["status"] for other in self.cases}
                return Quest(
                    f"close case {number}", effect={"cases": {**status, number: "closed"}}, target={"number": number}
                )
        raise KeyError(template)

    def content(self) -> State:
        return {"tickets": [], "cases": {str(case["number"]): case["status"] for case in self.cases}}

    def nav(self, page: Builder) -> tuple[Item, ...]:
        return (home(), link("cases", 2, "/cases"), link("contact", 3, "/contact"))

    def fill(self, page: Builder, path: str, query: Query, state: State) -> bool:
        match path:
            case "/":
                page.title = "help"
                for start in range(0, len(self.subjects), 2):
                    tiles = (link(name, 3, "/topic", subject=name) for name in self.subjects[start : start + 2])
                    page.line("tiles", *tiles)
            case "/topic" if query.get("subject") in self.subjects:
                subject = page.title = query["subject"]
                page.line("heading", text(subject, 3))
                facts = [text(f"code {self.code[subject]}", 3), text(f"wait {self.wait[subject]}", 3)]
                for fact in facts if self.code_first else facts[::-1]:
                    page.line("facts", fact)
            case "/contact":
                self._contact(page, query)
            case "/sent" if state["tickets"]:
                page.title = "sent"
                page.line("notice", text("sent", 2))
                page.line("facts", *(text(word, 3) for word in state["tickets"][-1] if word in lexicon.words()))
            case "/cases":
                self._list(page, query, state)
            case "/case":
                return self._case(page, query, state)
            case _:
                return False
        return True

    def _contact(self, page: Builder, query: Query) -> None:
        page.title = "contact"
        form = page.form("/ticket")
        topic, priority = query.get("topic", ""), query.get("priority", "")
        page.line("form", Item("input", "topic", 5, form=form, name="topic", value=topic))
        page.line(
            "form",
            Item("select", "priority", 3, form=form, name="priority", value=priority, options=lexicon.PRIORITIES),
        )
        page.line("form", Item("button", "send", 2, form=form))
        if query.get("note") in ("topic", "priority"):
            page.line("notice", text(f"missing {query['note']}", 4))

    def _list(self, page: Builder, query: Query, state: State) -> None:
        page.title = "cases"
        only, number = query.get("only", ""), page_number(query)
        shown = [case for case in self.cases if only in ("", state["cases"][str(case["number"])])]
        if not shown:
            page.line("notice", text("no cases", 3))
        for case in shown[number * PER_PAGE : (number + 1) * PER_PAGE]:
            name = str(case["number"])
            page.line("row", replace(link(name, 2, "/case", number=name), new_tab=True), text(case["subject"], 3))
        only_open = link("filter", 2, "/cases", only="open")
        page.pager("/cases", {"only": only}, number, len(shown) > (number + 1) * PER_PAGE, only_open)

    def _case(self, page: Builder, query: Query, state: State) -> bool:
        case = next((case for case in self.cases if str(case["number"]) == query.get("number")), None)
        if case is None:
            return False
        number = str(case["number"])
        status = state["cases"][number]
        page.title = f"case {number}"
        page.line("heading", text(page.title, 3), text(case["subject"], 3))
        page.line("facts", text(f"status {status}", 4))
        page.line("facts", text(f"wait {case['wait']}", 3))
        if status != "closed":
            page.line("tools", page.button("close", 2, "/close", confirm=f"Close case {number}?", number=number))
        return True

    def write(self, path: str, form: Query, state: State) -> str | None:
        if path == "/ticket":
            topic, priority = " ".join(form.get("topic", "").lower().split())[:40], form.get("priority", "")
            if not topic or priority not in lexicon.PRIORITIES:
                note = "priority" if topic else "topic"
                return address("/contact", note=note, topic=topic, priority=priority)
            state["tickets"].append([topic, priority])
            return "/sent"
        if path == "/close" and form.get("number") in state["cases"]:
            state["cases"][form["number"]] = "closed"
            return address("/case", number=form["number"])
        return None

    def advise(self, path: str, query: Query, labels: frozenset[str]) -> Move:
        target = self.quest.target
        if self.template in ("code", "wait"):
            if path == "/topic" and query.get("subject") == target["subject"]:
                return Move("answer", f"{self.template} {self.quest.answer}", str(self.quest.answer))
            return Move("click", target["subject"]) if path == "/" else Move("click", "home")
        if self.template in ("ticket", "walled"):
            if path == "/sent":
                return Move("answer", "sent", "done")
            if path != "/contact":
                return Move("click", "contact")
            if f"={target['subject']}" not in labels:
                return Move("type", "topic", target["subject"])
            chosen = f"={target['priority']}" in labels
            return Move("click", "send") if chosen else Move("select", "priority", target["priority"])
        number = target["number"]
        if path == "/case" and query.get("number") == number:
            if self.template == "status":
                return Move("answer", f"status {self.quest.answer}", str(self.quest.answer))
            closed = "status closed" in labels
            return Move("answer", "status closed", "done") if closed else Move("click", "close")
        if path == "/cases" and number in labels:
            return Move("click", number)
        return Move("click", "next" if path == "/cases" and "next" in labels else "cases")
