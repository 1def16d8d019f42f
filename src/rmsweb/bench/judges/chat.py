"""`rmsweb/chat`: our own judge, one question over the log and some screenshots. Prompt and reader are in judge.py."""

import hashlib

from rmsweb.bench.judges.asking import Asker, NoReply
from rmsweb.bench.judges.naming import judge_name
from rmsweb.bench.judges.verdicts import evidence_missing, infra
from rmsweb.bench.reading import stored_screenshots
from rmsweb.chat import Reply
from rmsweb.config import JudgeConfig
from rmsweb.judge import REFUSAL, Unjudged, could_not_tell, judge_messages, read_verdict, shown, spread
from rmsweb.policy import one_line, prompt_text
from rmsweb.records import Trajectory, Verdict

IMAGES = 8
"""Most screenshots of one prompt, unless judge.images says otherwise."""
REPLY_TOKENS = 400


class ChatJudge:
    """A chat model that looks at the log and at some screenshots."""

    def __init__(self, asker: Asker, config: JudgeConfig) -> None:
        self.asker, self.config = asker, config
        self.most = config.images or IMAGES
        digest = hashlib.sha256((prompt_text("judge") + prompt_text("judge_case")).encode()).hexdigest()[:8]
        self.name = judge_name(
            "rmsweb/chat", asker.name, f"prompt={digest}", f"images={self.most}",
            config=config, temperature=config.model.temperature, max_tokens=REPLY_TOKENS,
        )  # fmt: skip

    async def __call__(self, trajectory: Trajectory) -> Verdict:
        if (broken := infra(self.name, trajectory)) is not None:
            return broken
        # An imported attempt has the screenshots that its format keeps, not one before and after each act.
        stored = stored_screenshots(trajectory)
        pictures = spread(stored, self.most) if stored else shown(trajectory, self.most)
        missing = [number for number, image in pictures if image not in self.asker.pictures]
        if missing or not pictures:
            return evidence_missing(self.name, missing)
        messages = judge_messages(trajectory, pictures)
        sent = f"screenshots {', '.join(str(number) for number, _ in pictures)}"
        verdict = could_not_tell(self.name, "no_verdict", "not asked")
        for attempt in range(self.asker.attempts):
            try:
                reply = await self.asker.ask(
                    trajectory.id, self.name, "verdict", messages, temperature=self.config.model.temperature,
                    max_tokens=REPLY_TOKENS, seed=0, attempt=attempt,
                )  # fmt: skip
            except NoReply as failed:
                if attempt and failed.kind == "not_stored":
                    break
                return could_not_tell(self.name, failed.kind, f"{failed} [{sent}]")
            verdict = self._read(reply, len(trajectory.steps), sent)
            if verdict.success is not None:
                break
        numbers = [number for number, _ in pictures]
        return verdict.model_copy(update={"details": {"pictures": numbers}})

    def _read(self, reply: Reply, steps: int, sent: str) -> Verdict:
        """The verdict of one reply."""
        said = None if reply.finish == "refused" else read_verdict(reply.text)
        if said is None or said.success is None:
            kind: Unjudged = "truncated" if reply.finish == "length" else "no_verdict"
            if reply.finish == "refused" or (said is None and REFUSAL.search(reply.text)):
                kind = "refused"
            return could_not_tell(self.name, kind, f"{one_line(reply.text, 200)} [{sent}]")
        notes = f"[{sent}]" + (" [reply was cut]" if reply.finish == "length" else "")
        step = said.first_error
        return Verdict(
            success=said.success,
            judge=self.name,
            reason=f"{said.reason} {notes}".strip(),
            first_error=step - 1 if step is not None and not said.success and 1 <= step <= steps else None,
        )
