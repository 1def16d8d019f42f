"""WebJudge in its two variants: key points, then each screenshot alone, then a verdict over what scored well.

Facts: OSU-NLP-Group/Online-Mind2Web `src/methods/webjudge_online_mind2web.py` (`OM2W`: actions without thoughts, and
neither the final answer nor pictures of the task) and `webjudge_general_eval.py` (`General`: thoughts joined to
actions, the final act among them where it is one, pictures that belong to the task lead, looping is a failure). Layout,
picture choice and parsers are upstream's, see webjudge_parse. Its JPEGs are sent in high detail, at temperature 0.

Differences, all on purpose. A failed question leaves the trajectory unjudged (upstream: the script ends, or a score of
0). Key points are asked for again where the reply is a refusal or empty, and nothing is judged without them. Where the
judge refused every screenshot, nothing is judged either; a single reply that cannot be read is a score of 0, as
upstream, and counted in `details`. The last question is asked again where its reply holds no verdict. JPEGs of the last
message are labelled as what they are (upstream: as PNG). Reasoning endpoints get REASONING_TOKENS, since there the
limit counts the thinking.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from rmsweb.bench.judges.asking import Asker, NoReply, image, text
from rmsweb.bench.judges.naming import judge_name, own_wording
from rmsweb.bench.judges.packs import Pack, Wording, fill
from rmsweb.bench.judges.pages import NoPicture, jpegs, pages, task_pictures
from rmsweb.bench.judges.verdicts import infra, settle
from rmsweb.bench.judges.webjudge_parse import (
    BOLD_HEADING,
    HASHES,
    PLAIN,
    PLAIN_HEADING,
    Headings,
    final_text,
    history,
    keep,
    key_points,
    read_picture,
    read_status,
)
from rmsweb.bench.reading import history_of
from rmsweb.chat import Message, Part, Reply
from rmsweb.config import JudgeConfig
from rmsweb.judge import REFUSAL, Unjudged, could_not_tell
from rmsweb.policy import neutral, one_line
from rmsweb.records import Trajectory, Verdict

TOKENS = 512
"""Most tokens of a reply, as upstream."""
REASONING_TOKENS = 8192
SOURCE = "OSU-NLP-Group/Online-Mind2Web (unclevikram/TripMind@9764b73)"
SLOTS: Mapping[str, tuple[str, ...]] = {
    "key_points": ("{task}",),
    "picture": ("{task}", "{key_points}"),
    "verdict": ("{task}", "{key_points}", "{last_actions}", "{thoughts}"),
    "verdict_bare": ("{task}", "{key_points}", "{last_actions}"),
}


def _texts(function: str) -> dict[str, str]:
    """Addresses of the texts in either script; the second prompt of the last function has no section of snapshots."""
    return {
        "key_points_system": "identify_key_points.system_msg",
        "key_points": "identify_key_points.prompt",
        "picture_system": "judge_image.system_msg",
        "picture": "judge_image.prompt",
        "verdict_system": f"{function}.system_msg",
        "verdict": f"{function}.prompt",
        "verdict_bare": f"{function}.prompt#2",
    }


class Unanswered(Exception):
    """A stage before the last has no reply that can be gone on with."""

    def __init__(self, kind: Unjudged, reason: str) -> None:
        super().__init__(reason)
        self.kind: Unjudged = kind


class WebJudge:
    """What both variants share. `name`: wording, protocol, judge model, threshold; our own wording by its hash."""

    PROTOCOL: ClassVar[str]
    PACK: ClassVar[Pack]
    OWN: ClassVar[Mapping[str, str]]
    HEADINGS: ClassVar[Headings]
    """Marks of a picture's score and reason that the prompt asks for."""
    SHOWS_TASK_PICTURES: ClassVar[bool] = False
    """Whether the judge sees pictures that belong to the task."""

    def __init__(self, asker: Asker, wording: Wording, config: JudgeConfig) -> None:
        """Raises ConfigError where a text has no place for what it has to hold."""
        self.asker, self.words, self.threshold = asker, wording.texts, config.threshold
        for name, slots in SLOTS.items():
            wording.need(name, slots)
        self.sampling = sampling(config)
        self.name = judge_name(
            wording.name(self.PROTOCOL), asker.name, own_wording(wording), f"threshold={self.threshold}",
            config=config, **self.sampling,
        )  # fmt: skip

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """The verdict; `details` say what each screenshot scored and which were sent. Raises BudgetError."""
        if (broken := infra(self.name, trajectory)) is not None:
            return broken
        try:
            shown = jpegs(self.asker.pictures, pages(trajectory))
            belonging = task_pictures(trajectory) if self.SHOWS_TASK_PICTURES else []
            given = [name for _, name in jpegs(self.asker.pictures, belonging, "picture of the task")]
            listed = await self._points(trajectory, given)
            points = key_points(listed.text)
            replies = await self._look(trajectory, points, given, shown)
        except NoPicture as absent:
            return could_not_tell(self.name, "missing_evidence", str(absent))
        except (NoReply, Unanswered) as failed:
            return could_not_tell(self.name, failed.kind, str(failed))
        facts = {"key_points": points, "key_points_cut": listed.finish == "length"}
        return await self._settle(trajectory, facts, given, shown, replies)

    def actions(self, trajectory: Trajectory) -> str:
        """The action history as this variant shows it."""
        raise NotImplementedError

    def lead(self, given: Sequence[str]) -> list[Message]:
        """What stands before the question about pictures."""
        return []

    def headings(self, reply: str) -> Headings:
        """Marks by which a reply about a picture is read."""
        return self.HEADINGS

    async def _points(self, trajectory: Trajectory, given: Sequence[str]) -> Reply:
        """The reply with the key points. Raises Unanswered, NoReply, BudgetError."""
        asked = [text(self._fill("key_points", task=trajectory.task.goal)), *self._pictures(given)]
        messages = [_system(self.words["key_points_system"]), _user(*asked)]
        last: Reply | None = None
        for attempt in range(self.asker.attempts):
            try:
                last = await self._ask(trajectory, "key_points", messages, attempt)
            except NoReply as failed:
                if last is not None and failed.kind == "not_stored":
                    break  # a replay: the reply that was stored last is all there is
                raise
            if not _refused(last, BOLD_HEADING, PLAIN_HEADING) and last.text.strip():
                return last
        kind: Unjudged = "refused" if last is not None and _refused(last) else "no_verdict"
        raise Unanswered(kind, f"no key points: {one_line(last.text if last else '', 300)}")

    async def _look(
        self, trajectory: Trajectory, points: str, given: Sequence[str], shown: Sequence[tuple[int, str]]
    ) -> list[Reply]:
        """One reply for each screenshot, in order. Raises Unanswered, NoReply, BudgetError; what came is stored."""
        question = text(self._fill("picture", task=trajectory.task.goal, key_points=points))
        before = [_system(self.words["picture_system"]), *self.lead(given)]
        asked = [
            partial(self._ask, trajectory, f"picture/{number}", [*before, _user(question, image(name, "high"))])
            for number, name in shown
        ]
        found = await self.asker.together(asked)
        failed = [one for one in found if isinstance(one, Exception)]
        if failed:  # a used-up budget before a question that was not answered
            raise min(failed, key=lambda error: isinstance(error, NoReply))
        replies = [one for one in found if isinstance(one, Reply)]
        if all(_refused(reply, self.headings(reply.text).score) for reply in replies):
            raise Unanswered("refused", f"every screenshot was refused: {one_line(replies[0].text, 300)}")
        return replies

    async def _settle(
        self,
        trajectory: Trajectory,
        facts: Mapping[str, Any],
        given: Sequence[str],
        shown: Sequence[tuple[int, str]],
        replies: Sequence[Reply],
    ) -> Verdict:
        """The last question and its verdict. Raises BudgetError."""
        seen = [read_picture(reply.text, self.headings(reply.text)) for reply in replies]
        numbers = [number for number, _ in shown]
        kept = keep(list(zip(numbers, seen, strict=True)), self.threshold)
        words = neutral(
            final_text(
                self.words["verdict"],
                self.words["verdict_bare"],
                task=trajectory.task.goal,
                key_points=facts["key_points"],
                actions=self.actions(trajectory),
                kept=kept,
            )
        )
        names = dict(shown)
        pictures = self._pictures([names[number] for number in kept.numbers])
        messages = [_system(self.words["verdict_system"]), *self.lead(given), _user(text(words), *pictures)]
        together = list(zip(numbers, seen, replies, strict=True))
        details: dict[str, Any] = {
            "screenshots": numbers,
            "scores": [one.score for one in seen],
            "threshold": self.threshold,
            **facts,
            "unread": [number for number, one, _ in together if one.score == 0],
            "shifted": [number for number, one, _ in together if one.shifted],
            "refused": [number for number, _, reply in together if _refused(reply, self.headings(reply.text).score)],
            "cut": [number for number, _, reply in together if reply.finish == "length"],
        }
        return await settle(
            self.asker,
            trajectory,
            self.name,
            messages,
            lambda reply: read_status(reply.text),
            pictures=kept.numbers,
            details=details,
            **self.sampling,
        )

    async def _ask(self, trajectory: Trajectory, key: str, messages: list[Message], attempt: int = 0) -> Reply:
        return await self.asker.ask(trajectory.id, self.name, key, messages, attempt=attempt, **self.sampling)

    def _fill(self, name: str, **slots: str) -> str:
        return neutral(fill(self.words[name], {f"{{{slot}}}": value for slot, value in slots.items()}))

    def _pictures(self, names: Sequence[str]) -> list[Part]:
        return [image(name, "high") for name in names]


class OM2W(WebJudge):
    """Online-Mind2Web's own judge."""

    PROTOCOL = "webjudge/om2w"
    PACK = Pack(
        SOURCE,
        "src/methods/webjudge_online_mind2web.py",
        "e3cd499b7c1fc92c",
        _texts("WebJudge_Online_Mind2Web_eval"),
    )
    OWN: ClassVar[Mapping[str, str]] = {
        "key_points_system": "webjudge_key_points_system",
        "key_points": "webjudge_key_points",
        "picture_system": "webjudge_picture_system",
        "picture": "webjudge_picture",
        "verdict_system": "webjudge_om2w_system",
        "verdict": "webjudge_verdict",
        "verdict_bare": "webjudge_verdict_bare",
    }
    HEADINGS = PLAIN

    def actions(self, trajectory: Trajectory) -> str:
        """Action lines only, without the act that ends the episode: no thoughts, no claim, no answer."""
        return history([act.line for act in history_of(trajectory)[0] if not act.final])


class General(WebJudge):
    """The variant for any benchmark, as it was run on AgentRewardBench."""

    PROTOCOL = "webjudge/general"
    PACK = Pack(
        SOURCE,
        "src/methods/webjudge_general_eval.py",
        "9035e921766de7af",
        {**_texts("WebJudge_general_eval"), "input_pictures": "=*input images*"},
    )
    OWN: ClassVar[Mapping[str, str]] = {
        **OM2W.OWN,
        "picture_system": "webjudge_general_picture_system",
        "verdict_system": "webjudge_general_system",
        "input_pictures": "webjudge_input_pictures",
    }
    HEADINGS = HASHES
    SHOWS_TASK_PICTURES = True

    def headings(self, reply: str) -> Headings:
        """The marks that the reply shows: WebJudge-7B, stored under this variant, writes plain ones."""
        plain = PLAIN.reason in reply and HASHES.reason not in reply and HASHES.score not in reply
        return PLAIN if plain else HASHES

    def actions(self, trajectory: Trajectory) -> str:
        """Every act, joined with its thought where thoughts are listed, blank ones too.

        The one that ends the episode is among them where the agent's action history has it (ours, AgentLab's); the
        answer of an Online-Mind2Web submission stands in a field of its own, which the script does not show.
        """
        listed, thoughts = history_of(trajectory)
        return history([act.line for act in listed], thoughts)

    def lead(self, given: Sequence[str]) -> list[Message]:
        """Pictures that belong to the task, in a message of their own before the question."""
        return [_user(text(self.words["input_pictures"]), *self._pictures(given))] if given else []


def sampling(config: JudgeConfig) -> dict[str, Any]:
    """Sampling of every question of the Online-Mind2Web scripts."""
    reasons = config.model.parameters == "reasoning"
    return {"temperature": 0.0, "max_tokens": REASONING_TOKENS if reasons else TOKENS}


def _refused(reply: Reply, *marks: str) -> bool:
    """Whether the judge would not look, or not say: no reply that holds one of the marks."""
    return reply.finish == "refused" or (
        bool(REFUSAL.search(reply.text)) and not any(mark in reply.text for mark in marks)
    )


def _system(words: str) -> Message:
    return {"role": "system", "content": [text(words)]}


def _user(*parts: Part) -> Message:
    return {"role": "user", "content": list(parts)}
