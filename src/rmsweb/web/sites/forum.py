"""The forum: threads on two pages, likes beside replies, a comment form, members to follow."""

import random
from typing import Any

from rmsweb.web import lexicon
from rmsweb.web.sites.pages import Builder, Item, link, text
from rmsweb.web.sites.world import PER_PAGE, Move, Query, Quest, State, Template, World, home, page_number

Thread = dict[str, Any]
"""topic, author, likes, replies (numbers 1..98, never equal), remark and its author."""


class Forum(World):
    site = "forum"
    slow_path = "/member"
    templates = (
        Template("comment", 4),
        Template("like", 4),
        Template("author", 2),
        Template("replies", 3),
        Template("follow", 5, "heldout_template"),
        Template("walled", 2, "typed"),
    )

    def build(self, rng: random.Random) -> None:
        topics, self.people = rng.sample(lexicon.TOPICS, 7), rng.sample(lexicon.PEOPLE, 8)
        self.threads: list[Thread] = []
        for topic, author in zip(topics, self.people[:7], strict=True):
            likes, replies = rng.sample(range(1, 98), 2)
            other = rng.choice([person for person in self.people if person != author])
            remark = rng.choice(lexicon.REMARKS)
            self.threads.append(
                {"topic": topic, "author": author, "likes": likes, "replies": replies, "remark": remark, "by": other}
            )
        self.people.sort()
        self.likes_first = rng.random() < 0.5

    def draw_quest(self, template: str, rng: random.Random) -> Quest:
        thread, remark = rng.choice(self.threads), rng.choice(lexicon.REMARKS)
        topic, author = thread["topic"], thread["author"]
        target = {"topic": topic, "author": author, "remark": remark}
        second = rng.random() < 0.5
        match template:
            case "comment":
                goal = f"leave comment {remark} on {topic}" if second else f"post {remark} on {topic}"
                return Quest(goal, effect={"posts": [[topic, remark]]}, target=target)
            case "like":
                goal = f"like what {author} wrote" if second else f"like the thread by {author}"
                return Quest(goal, effect={"likes": [topic]}, target=target)
            case "author":
                goal = f"who is the author of {topic} ?" if second else f"who wrote {topic} ?"
                return Quest(goal, answer=author, among=lexicon.PEOPLE, target=target)
            case "replies":
                goal = f"replies on {topic} ?" if second else f"how many replies has {topic} ?"
                return Quest(goal, answer=str(thread["replies"]), target=target)
            case "follow":
                return Quest(f"follow the author of {topic}", effect={"follows": [author]}, target=target)
            case "walled":
                return Quest(f"post {remark} on {topic}", typed="blocked", target=target)
        raise KeyError(template)

    def content(self) -> State:
        return {"likes": [], "posts": [], "follows": []}

    def nav(self, page: Builder) -> tuple[Item, ...]:
        return (home(), link("members", 3, "/members"), link("rules", 2, "/rules"))

    def fill(self, page: Builder, path: str, query: Query, state: State) -> bool:
        match path:
            case "/":
                self._threads(page, query)
            case "/rules":
                page.title = "rules"
                page.line("heading", text("rules", 2))
                page.line("notice", text("members post", 4))
            case "/members":
                page.title = "members"
                tiles = [link(person, 2, "/member", name=person) for person in self.people]
                for start in range(0, len(tiles), 2):
                    page.line("tiles", *tiles[start : start + 2])
            case "/thread":
                return self._thread(page, query, state)
            case "/member":
                return self._member(page, query, state)
            case _:
                return False
        return True

    def _threads(self, page: Builder, query: Query) -> None:
        page.title = "threads"
        order, number = query.get("sort", ""), page_number(query)
        shown = sorted(self.threads, key=lambda thread: -thread["likes"]) if order else self.threads
        for thread in shown[number * PER_PAGE : (number + 1) * PER_PAGE]:
            page.line("row", link(thread["topic"], 3, "/thread", topic=thread["topic"]), text(thread["author"], 2))
        top = link("top", 2, "/", sort="likes")
        page.pager("/", {"sort": order}, number, len(shown) > (number + 1) * PER_PAGE, top)

    def _thread(self, page: Builder, query: Query, state: State) -> bool:
        thread = next((thread for thread in self.threads if thread["topic"] == query.get("topic")), None)
        if thread is None:
            return False
        topic, author = thread["topic"], thread["author"]
        liked = topic in state["likes"]
        own = [remark for about, remark in state["posts"] if about == topic]
        page.title = topic
        page.line("heading", text(topic, 3), text("by", 1), link(author, 2, "/member", name=author))
        counts = [text(f"likes {thread['likes'] + liked}", 3), text(f"replies {thread['replies'] + len(own)}", 4)]
        page.line("facts", *(counts if self.likes_first else counts[::-1]))
        page.line("tools", page.button("liked" if liked else "like", 2, "/like", topic=topic))
        post = page.form("/post", topic=topic)
        field = Item("input", "comment", 5, form=post, name="remark")
        page.line("form", field, Item("button", "post", 2, form=post))
        if query.get("note") == "posted" and own:
            page.line("notice", text(f"posted {own[-1]}" if own[-1] in lexicon.REMARKS else "posted", 4))
        page.line("row", link(thread["by"], 2, "/member", name=thread["by"]), text(thread["remark"], 2))
        return True

    def _member(self, page: Builder, query: Query, state: State) -> bool:
        person = query.get("name")
        if person not in self.people:
            return False
        page.title = str(person)
        page.line("heading", text(page.title, 2))
        following = person in state["follows"]
        page.line("tools", page.button("following" if following else "follow", 3, "/follow", name=page.title))
        for thread in self.threads:
            if thread["author"] == person:
                page.line("row", link(thread["topic"], 3, "/thread", topic=thread["topic"]))
        return True

    def write(self, path: str, form: Query, state: State) -> str | None:
        topic, name = form.get("topic", ""), form.get("name", "")
        known = any(thread["topic"] == topic for thread in self.threads)
        if path == "/like" and known:
            _toggle(state["likes"], topic)
            return f"/thread?topic={topic}"
        if path == "/post" and known:
            remark = " ".join(form.get("remark", "").lower().split())[:80]
            if remark:
                state["posts"].append([topic, remark])
            return f"/thread?topic={topic}" + ("&note=posted" if remark else "")
        if path == "/follow" and name in self.people:
            _toggle(state["follows"], name)
            return f"/member?name={name}"
        return None

    def advise(self, path: str, query: Query, labels: frozenset[str]) -> Move:
        topic, author = self.quest.target["topic"], self.quest.target["author"]
        remark = self.quest.target["remark"]
        if path == "/member" and query.get("name") == author and self.template == "follow":
            return Move("answer", "following", "done") if "following" in labels else Move("click", "follow")
        if path == "/thread" and query.get("topic") == topic:
            match self.template:
                case "comment":
                    if f"posted {remark}" in labels:
                        return Move("answer", f"posted {remark}", "done")
                    return Move("type", "comment", remark)
                case "like":
                    return Move("answer", "liked", "done") if "liked" in labels else Move("click", "like")
                case "author":
                    return Move("answer", topic, author)
                case "replies":
                    return Move("answer", f"replies {self.quest.answer}", str(self.quest.answer))
                case "follow":
                    return Move("click", author)
        if path == "/" and topic in labels:
            return Move("answer", topic, author) if self.template == "author" else Move("click", topic)
        if path == "/":
            return Move("click", "next" if "next" in labels else "prev")
        return Move("click", "home")


def _toggle(values: list[str], value: str) -> None:
    if value in values:
        values.remove(value)
    else:
        values.append(value)
