"""The four judges that go by the name WebVoyager: original, Fara's, MolmoWeb's, and OSU's copy of the original.

Each owns its image choice, layout, sampling and rule for a missing answer; the readers of their replies are in
`webvoyager_parse.py`. Nothing is shared but the way from a question to a verdict. Promises: pictures, order of parts
and settings are those of the named script; a picture that has to be shown and is not stored means no verdict, never a
failure; what was sent is in `Verdict.details`. Never shortens a prompt on its own: the number of pictures is the
protocol's, or `judge.images`, and then the name says so. Task and answer go in as they are, but for what a model could
take for one of its special tokens (`policy.neutral`).

Screenshots. The original and MolmoWeb store one per decision, taken before it (`reading.decided_on`). Fara and OSU's
submissions hold the first page and what followed each action (`pages.pages`; of our own runs without the page after the
final answer, which is the one before it). Of an imported attempt all take every screenshot that its folder holds, and
the numbers are those of its files; elsewhere they count from 0.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from rmsweb.actions import ENDING
from rmsweb.bench.judges.asking import Asker, Pictures, image, text
from rmsweb.bench.judges.naming import judge_name, own_wording
from rmsweb.bench.judges.packs import Pack, Wording, fill, fill_format, fill_in_turn
from rmsweb.bench.judges.pages import NoPicture, jpegs, pages
from rmsweb.bench.judges.verdicts import Said, infra, settle, without_call
from rmsweb.bench.judges.webvoyager_parse import (
    Interact,
    by_final_verdict,
    read_fara,
    read_interact_messages,
    read_molmoweb,
    read_original,
    read_osu,
)
from rmsweb.bench.reading import ANSWER_FIELD, decided_on, missing
from rmsweb.chat import Message, Part, Reply
from rmsweb.config import JudgeConfig
from rmsweb.judge import could_not_tell
from rmsweb.policy import neutral
from rmsweb.records import Trajectory, Verdict

__all__ = ["OSU", "Fara", "Interact", "MolmoWeb", "Original", "read_interact_messages"]

Shots = Sequence[tuple[int, str]]
"""(number, SHA-256) of screenshots, in order."""
ORIGINAL_IMAGES = 15
"""What the script of WebVoyager's repository asks for; its command line's own default is 1."""
FARA_IMAGES = 30
OSU_IMAGES = 50
PLENTY = 4096
"""Reply tokens where the upstream call gives no limit."""
API_DEFAULT = 1.0
"""Temperature of an OpenAI endpoint that is told none, as Fara and MolmoWeb leave it."""
STEP = "{i + 1}"
"""Stands in MolmoWeb's step label for the number of the picture, from 1."""
CUE = "=Your verdict:*"
"""Address of the closing cue, which the scripts write in place."""


class _Family(ABC):
    """What the four have in common: nothing is judged that the machine broke, or that cannot be shown."""

    PROTOCOL: ClassVar[str]
    SAMPLING: ClassVar[Mapping[str, Any]]
    """Of the one question: temperature, max_tokens, and a seed where the script gives one."""
    name: str
    asker: Asker
    wording: Wording

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """The verdict. Raises BudgetError only."""
        if (broken := infra(self.name, trajectory)) is not None:
            return broken
        try:
            return await self._judged(trajectory)
        except NoPicture as gap:
            return could_not_tell(self.name, "missing_evidence", str(gap))

    def _named(self, config: JudgeConfig, *options: str) -> str:
        """Wording, protocol, judge model, and every option that changes the result."""
        return judge_name(
            self.wording.name(self.PROTOCOL), self.asker.name, own_wording(self.wording), *options,
            config=config, temperature=self.SAMPLING["temperature"], max_tokens=self.SAMPLING["max_tokens"],
        )  # fmt: skip

    def _reader(self, upstream: Callable[[Reply], Said]) -> Callable[[Reply], Said]:
        """How a reply in free words is read: of one that weighs both words, the final verdict under our own wording;
        under upstream's its own rule, since its published numbers were read by that."""
        own = self.wording.prefix == "rmsweb/"
        return (lambda reply: by_final_verdict(reply, upstream)) if own else upstream

    @abstractmethod
    async def _judged(self, trajectory: Trajectory) -> Verdict:
        """The same of an episode that can be judged. Raises NoPicture, BudgetError."""


class Original(_Family):
    """WebVoyager (MinorJerry/WebVoyager): the last k screenshots as stored, between one text and a closing cue.

    `<num>` is k even where fewer exist. No answer is 0 without a call.
    """

    PROTOCOL = "webvoyager/original"
    SAMPLING: ClassVar[Mapping[str, Any]] = {"temperature": 0.0, "seed": 42, "max_tokens": 1000}
    PACK = Pack(
        "MinorJerry/WebVoyager@5a78967",
        "evaluation/auto_eval.py",
        "eb86b5a06e4fca1c",
        {"system": "SYSTEM_PROMPT", "user": "USER_PROMPT", "cue": CUE},
    )
    OWN: Mapping[str, str] = {"system": "webvoyager_system", "user": "webvoyager_user", "cue": "webvoyager_cue"}

    def __init__(self, asker: Asker, wording: Wording, config: JudgeConfig) -> None:
        self.asker, self.wording = asker, wording
        self.most = config.images or ORIGINAL_IMAGES
        wording.need("user", ("<task>", "<answer>", "<num>"))
        self.name = self._named(config, f"images={self.most}")

    async def _judged(self, trajectory: Trajectory) -> Verdict:
        if trajectory.answer is None:
            return without_call(self.name, False, "the agent gave no answer")
        every = decided_on(trajectory)
        shown = every[-self.most :]
        images = _stored(self.asker.pictures, shown)
        texts = self.wording.texts
        values = {"<task>": _task(trajectory), "<answer>": neutral(trajectory.answer), "<num>": str(self.most)}
        parts = [text(fill_in_turn(texts["user"], values)), *(image(sha) for _, sha in images), text(texts["cue"])]
        messages = [_message("system", text(texts["system"])), _message("user", *parts)]
        return await _asked(self, trajectory, messages, self._reader(read_original), shown, len(every))


class Fara(_Family):
    """Fara's webeval: the last 30 screenshots, but the number of all of them in the text; the cue is a message apart.

    Its client turns the instructions into a user message too, since they are sent as one whose source is `system`.
    A missing answer is judged as the text `<no_answer>`.
    """

    PROTOCOL = "webvoyager/fara"
    SAMPLING: ClassVar[Mapping[str, Any]] = {"temperature": API_DEFAULT, "max_tokens": PLENTY}
    PACK = Pack(
        "microsoft/fara (tbalt88/fara@9b8af39)",
        "webeval/src/webeval/benchmarks/webvoyager/gpt_eval.py",
        "e85dd0278c925500",
        {"system": "*.SYSTEM_PROMPT", "user": "*.USER_PROMPT", "cue": CUE},
    )
    OWN: Mapping[str, str] = {"system": "webvoyager_system", "user": "webvoyager_fara_user", "cue": "webvoyager_cue"}
    NO_ANSWER = "<no_answer>"

    def __init__(self, asker: Asker, wording: Wording, config: JudgeConfig) -> None:
        self.asker, self.wording = asker, wording
        self.most = config.images or FARA_IMAGES
        wording.need("user", ("<task>", "<answer>", "<num>"))
        self.name = self._named(config, f"images={self.most}" if self.most != FARA_IMAGES else "")

    async def _judged(self, trajectory: Trajectory) -> Verdict:
        every = pages(trajectory)
        shown = every[-self.most :]
        images = _stored(self.asker.pictures, shown)
        texts, answer = self.wording.texts, trajectory.answer
        values = {
            "<task>": _task(trajectory),
            "<answer>": self.NO_ANSWER if answer is None else neutral(answer),
            "<num>": str(len(every)),
        }
        messages = [
            _message("user", text(texts["system"])),
            _message("user", text(fill_in_turn(texts["user"], values)), *(image(sha) for _, sha in images)),
            _message("user", text(texts["cue"])),
        ]
        return await _asked(self, trajectory, messages, self._reader(read_fara), shown, len(every))


class MolmoWeb(_Family):
    """MolmoWeb's judge: every screenshot as JPEG, each behind a step label, no cap; the reply is an object.

    Upstream has its endpoint enforce the object (`response_format`): set `judge.model.extra_body` to
    `{"response_format": <that>}` where the endpoint can, or a reply in free words has no upstream label. Without an
    answer the agent's last message counts as one, else its last thought. `judge.images` has no effect here.
    """

    PROTOCOL = "webvoyager/molmoweb"
    SAMPLING: ClassVar[Mapping[str, Any]] = {"temperature": API_DEFAULT, "max_tokens": PLENTY}
    PACK = Pack(
        "allenai/molmoweb@6a841b4",
        "benchmarks/judges/webvoyager_judge.py",
        "037fde99749cc234",
        {
            "system": "LLM_JUDGE_SYSTEM_PROMPT",
            "user": "LLM_JUDGE_USER_PROMPT",
            "step": "=Step {*}",
            "thought": "LLMVerdict.thought[0]",
            "verdict": "LLMVerdict.verdict[0]",
        },
    )
    OWN: Mapping[str, str] = {
        "system": "webvoyager_molmoweb_system",
        "user": "webvoyager_molmoweb_user",
        "step": "webvoyager_molmoweb_step",
        "thought": "webvoyager_molmoweb_thought",
        "verdict": "webvoyager_molmoweb_verdict",
    }
    FIELDS = ("{{ task }}", "{{ answer }}", "{{ num_screenshots }}")
    NO_ANSWER = "No answer"

    def __init__(self, asker: Asker, wording: Wording, config: JudgeConfig) -> None:
        self.asker, self.wording = asker, wording
        wording.need("user", self.FIELDS)
        wording.need("step", (STEP,))
        self.name = self._named(config)

    @property
    def response_format(self) -> dict[str, Any]:
        """The JSON schema that upstream has its endpoint enforce, in the form of an OpenAI request."""
        texts = self.wording.texts
        fields = {
            "thought": {"description": texts["thought"], "title": "Thought", "type": "string"},
            "verdict": {
                "description": texts["verdict"], "enum": ["SUCCESS", "FAILURE"], "title": "Verdict", "type": "string"
            },
        }  # fmt: skip
        names = list(fields) if not self.wording.prefix else ["verdict", "thought"]
        schema = {
            "properties": {name: fields[name] for name in names}, "required": names, "title": "LLMVerdict",
            "type": "object", "additionalProperties": False,
        }  # fmt: skip
        return {"type": "json_schema", "json_schema": {"name": "LLMVerdict", "strict": True, "schema": schema}}

    async def _judged(self, trajectory: Trajectory) -> Verdict:
        shown = decided_on(trajectory)
        images = jpegs(self.asker.pictures, _some(shown))
        texts = self.wording.texts
        values = (_sited_task(trajectory), neutral(self._answer(trajectory)), str(len(shown)))
        parts = [text(fill(texts["user"], dict(zip(self.FIELDS, values, strict=True))))]
        for number, (_, sha) in enumerate(images, 1):
            parts += [text(fill(texts["step"], {STEP: str(number)})), image(sha)]
        messages = [_message("system", text(texts["system"])), _message("user", *parts)]
        return await _asked(self, trajectory, messages, read_molmoweb, shown, len(shown))

    def _answer(self, trajectory: Trajectory) -> str:
        """The answer, else the last thing the agent said to the user, else its last thought."""
        if trajectory.answer is not None:
            return trajectory.answer
        decisions = [step.decision for step in reversed(trajectory.steps)]
        said = [one.action.text for one in decisions if isinstance(one.action, ENDING) and one.action.text]
        thought = [one.thought for one in decisions if one.thought]
        return next(iter((*said, *thought)), self.NO_ANSWER)


class OSU(_Family):
    """The copy in OSU's Online-Mind2Web repository: the first 50 screenshots as JPEG in high detail.

    The text names how many are sent. A missing answer is shown as Python's `None`, an empty one of a submission as
    nothing, as the script does.
    """

    PROTOCOL = "webvoyager/osu"
    SAMPLING: ClassVar[Mapping[str, Any]] = {"temperature": 0.0, "max_tokens": 512}
    PACK = Pack(
        "OSU-NLP-Group/Online-Mind2Web (unclevikram/TripMind@9764b73)",
        "src/methods/webvoyager_eval.py",
        "55b0dcd87c718674",
        {"system": "WebVoyager_eval.system_msg", "user": "WebVoyager_eval.prompt", "cue": CUE},
    )
    OWN: Mapping[str, str] = {
        "system": "webvoyager_osu_system",
        "user": "webvoyager_osu_user",
        "cue": "webvoyager_cue",
    }

    def __init__(self, asker: Asker, wording: Wording, config: JudgeConfig) -> None:
        self.asker, self.wording = asker, wording
        self.most = config.images or OSU_IMAGES
        fill_format(wording.need("user", ("{task}", "{response}", "{num}")), {"task": "", "response": "", "num": ""})
        self.name = self._named(config, f"images={self.most}" if self.most != OSU_IMAGES else "")

    async def _judged(self, trajectory: Trajectory) -> Verdict:
        every = pages(trajectory)
        shown = every[: self.most]
        images = jpegs(self.asker.pictures, _some(shown))
        texts = self.wording.texts
        values = {"task": _task(trajectory), "response": neutral(_stored_answer(trajectory)), "num": str(len(shown))}
        pictures = [image(sha, "high") for _, sha in images]
        parts = [text(fill_format(texts["user"], values)), *pictures, text(texts["cue"])]
        messages = [_message("system", text(texts["system"])), _message("user", *parts)]
        return await _asked(self, trajectory, messages, self._reader(read_osu), shown, len(every))


async def _asked(
    judge: _Family,
    trajectory: Trajectory,
    messages: list[Message],
    read: Callable[[Reply], Said],
    shown: Shots,
    stored: int,
) -> Verdict:
    """The verdict of the one question. A reading that differs from upstream's label is marked."""
    verdict = await settle(
        judge.asker, trajectory, judge.name, messages, read,
        pictures=[number for number, _ in shown], details={"screenshots": stored}, **judge.SAMPLING,
    )  # fmt: skip
    label = verdict.details.get("upstream_label")
    if verdict.success is not None and label is not None and int(verdict.success) != label:
        return verdict.model_copy(update={"details": {**verdict.details, "differs_from_upstream": True}})
    return verdict


def _some(shown: Shots) -> Shots:
    """The same. Raises NoPicture where there is none."""
    if not shown:
        raise NoPicture("there is no screenshot")
    return shown


def _stored(pictures: Pictures, shown: Shots) -> Shots:
    """The same. Raises NoPicture where there is none, or one is not stored."""
    if absent := missing(_some(shown), pictures):
        raise NoPicture(f"screenshot {', '.join(map(str, absent))}: not stored")
    return shown


def _message(role: Any, *parts: Part) -> Message:
    return {"role": role, "content": list(parts)}


def _task(trajectory: Trajectory) -> str:
    return neutral(trajectory.task.goal)


def _stored_answer(trajectory: Trajectory) -> str:
    """The answer as a script writes the field of a submission into its text: blanks and all, null as `None`."""
    facts = trajectory.evidence.get("imported")
    if isinstance(facts, dict) and ANSWER_FIELD in facts:
        return str(facts[ANSWER_FIELD])
    return str(trajectory.answer)


def _sited_task(trajectory: Trajectory) -> str:
    """MolmoWeb puts the start page before a task of WebVoyager, and before no other."""
    task, goal = trajectory.task, _task(trajectory)
    lead = f"On {task.start_url}: "
    return goal if not task.start_url or task.suite != "webvoyager" or goal.startswith(lead) else lead + goal
