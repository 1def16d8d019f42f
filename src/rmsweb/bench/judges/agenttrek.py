"""The two one-question judges of the Online-Mind2Web scripts: AgentTrek's and the autonomous evaluator's.

Facts: OSU-NLP-Group/Online-Mind2Web `src/methods/agenttrek_eval.py` (thought and action of each step, very lenient
rules) and `automomous_eval.py` (action history). Both show the last screenshot alone, as JPEG in high detail, at
temperature 0, and read the `status:` as WebJudge does. Neither shows the final answer.

Difference: AgentTrek's script cannot judge a trajectory without thoughts; here a missing thought is an empty one.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rmsweb.bench.judges.asking import Asker, image, text
from rmsweb.bench.judges.naming import judge_name, own_wording
from rmsweb.bench.judges.packs import Pack, Wording, fill
from rmsweb.bench.judges.pages import NoPicture, jpegs, pages
from rmsweb.bench.judges.verdicts import infra, settle
from rmsweb.bench.judges.webjudge import SOURCE, sampling
from rmsweb.bench.judges.webjudge_parse import history, read_status
from rmsweb.bench.reading import Act, history_of
from rmsweb.chat import Message
from rmsweb.config import JudgeConfig
from rmsweb.judge import could_not_tell
from rmsweb.policy import neutral
from rmsweb.records import Trajectory, Verdict


class LastPage:
    """One question: the task, what was done, the last screenshot."""

    PROTOCOL: ClassVar[str]
    PACK: ClassVar[Pack]
    OWN: ClassVar[Mapping[str, str]]
    SLOT: ClassVar[str]
    """Where the template has what was done."""

    def __init__(self, asker: Asker, wording: Wording, config: JudgeConfig) -> None:
        """Raises ConfigError where the template has no place for what it has to hold."""
        self.asker, self.words = asker, wording.texts
        wording.need("prompt", ("{task}", self.SLOT))
        self.sampling = sampling(config)
        self.name = judge_name(
            wording.name(self.PROTOCOL), asker.name, own_wording(wording), config=config, **self.sampling
        )

    def done(self, acted: Sequence[Act], thoughts: Sequence[str]) -> str:
        """What was done, as this protocol shows it."""
        raise NotImplementedError

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        """The verdict of one reply. Raises BudgetError."""
        if (broken := infra(self.name, trajectory)) is not None:
            return broken
        try:
            every = pages(trajectory)
            number, name = jpegs(self.asker.pictures, every[-1:])[0]
        except NoPicture as absent:
            return could_not_tell(self.name, "missing_evidence", str(absent))
        listed, thoughts = history_of(trajectory)
        acted = [act for act in listed if not act.final]
        done = self.done(acted, [act.thought for act in acted] if thoughts is None else thoughts)
        words = fill(self.words["prompt"], {"{task}": trajectory.task.goal, self.SLOT: done})
        messages: list[Message] = [
            {"role": "system", "content": [text(self.words["system"])]},
            {"role": "user", "content": [text(neutral(words)), image(name, "high")]},
        ]
        return await settle(
            self.asker,
            trajectory,
            self.name,
            messages,
            lambda reply: read_status(reply.text),
            pictures=[number],
            details={"screenshots": len(every)},
            **self.sampling,
        )


class AgentTrek(LastPage):
    """Thought and action of each step. Its rules forgive much: numbers are far above those of other judges."""

    PROTOCOL = "agenttrek"
    PACK = Pack(
        SOURCE,
        "src/methods/agenttrek_eval.py",
        "2c0d519a8ae74e26",
        {"system": "AgentTrek_eval.system_msg", "prompt": "AgentTrek_eval.prompt"},
    )
    OWN: ClassVar[Mapping[str, str]] = {"system": "agenttrek_system", "prompt": "agenttrek"}
    SLOT = "{thoughts_and_actions}"

    def done(self, acted: Sequence[Act], thoughts: Sequence[str]) -> str:
        """Pairs, numbered from 1, an empty line between them; empty lines within become spaces."""
        pairs = [
            f"Thought {number}: {_flat(thought)}\nAction {number}: {_flat(act.line)}"
            for number, (act, thought) in enumerate(zip(acted, thoughts, strict=False), 1)
        ]
        return "\n\n".join(pairs).strip("\n")


class Autonomous(LastPage):
    """Numbered actions without thoughts."""

    PROTOCOL = "autonomous"
    PACK = Pack(
        SOURCE,
        "src/methods/automomous_eval.py",
        "cc0d1da04fdbdb18",
        {"system": "Autonomous_eval.system_msg", "prompt": "Autonomous_eval.prompt"},
    )
    OWN: ClassVar[Mapping[str, str]] = {"system": "autonomous_system", "prompt": "autonomous"}
    SLOT = "{last_actions}"

    def done(self, acted: Sequence[Act], thoughts: Sequence[str]) -> str:
        """The action history of WebJudge."""
        return history([act.line for act in acted])


def _flat(words: str) -> str:
    return words.replace("\n\n", " ")
