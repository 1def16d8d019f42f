"""From replies of a protocol's last question to a Verdict: asks again where a reply says nothing, and says why.

Promises: `success` is only what a reply said in words; what upstream's parser would have stored instead stands in
`details["upstream_label"]`. A cut reply that holds its verdict is read and marked; a refusal, an empty reply, a prompt
that is too long and an endpoint that failed are different reasons.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rmsweb.bench.judges.asking import Asker, NoReply
from rmsweb.chat import Message, Reply
from rmsweb.judge import REFUSAL, Unjudged, could_not_tell
from rmsweb.policy import one_line
from rmsweb.records import INFRA_STOPS, Trajectory, Verdict


@dataclass(slots=True, frozen=True)
class Said:
    """What a protocol's parser makes of one reply."""

    success: bool | None
    """What the reply says in words; None when it holds no verdict."""
    upstream_label: int | None
    """What the upstream script would store: 1, 0, or None."""
    reason: str = ""


async def settle(
    asker: Asker,
    trajectory: Trajectory,
    judge: str,
    messages: list[Message],
    read: Callable[[Reply], Said],
    *,
    key: str = "verdict",
    pictures: Sequence[int] = (),
    details: Mapping[str, Any] | None = None,
    **sampling: Any,
) -> Verdict:
    """Ask the last question until a reply holds a verdict (at most `asker.attempts` times). Raises BudgetError.

    `pictures`: numbers of the screenshots in `messages`. `sampling`: temperature, max_tokens, seed of `Asker.ask`.
    """
    facts: dict[str, Any] = {"pictures": list(pictures), **(details or {})}
    verdict = could_not_tell(judge, "no_verdict", "not asked")
    for attempt in range(asker.attempts):
        try:
            reply = await asker.ask(trajectory.id, judge, key, messages, attempt=attempt, **sampling)
        except NoReply as failed:
            if attempt and failed.kind == "not_stored":
                break  # a replay: the reply that was stored last is all there is
            return could_not_tell(judge, failed.kind, str(failed)).model_copy(update={"details": facts})
        verdict = verdict_of(judge, read(reply), reply, facts)
        if verdict.success is not None:
            break
    return verdict


def verdict_of(judge: str, said: Said, reply: Reply, details: Mapping[str, Any]) -> Verdict:
    """The verdict of one reply. A refusal says nothing, whatever words it holds."""
    facts = {**details, "upstream_label": said.upstream_label}
    refused = reply.finish == "refused" or (said.success is None and bool(REFUSAL.search(reply.text)))
    if said.success is None or refused:
        kind: Unjudged = "refused" if refused else "truncated" if reply.finish == "length" else "no_verdict"
        return could_not_tell(judge, kind, one_line(reply.text, 300)).model_copy(update={"details": facts})
    if reply.finish == "length":
        facts["cut"] = True
    return Verdict(success=said.success, judge=judge, reason=one_line(said.reason, 1000), details=facts)


def without_call(judge: str, success: bool, reason: str, **details: Any) -> Verdict:
    """A label that the protocol gives without asking a model (no answer, no action ...)."""
    facts = {"pictures": [], "upstream_label": int(success), "asked": False, **details}
    return Verdict(success=success, judge=judge, reason=reason, details=facts)


def infra(judge: str, trajectory: Trajectory) -> Verdict | None:
    """The verdict of an episode that the machine broke: none; None for every other episode."""
    if trajectory.stop in INFRA_STOPS:
        return could_not_tell(judge, "infra", trajectory.detail)
    return None


def evidence_missing(judge: str, numbers: Sequence[int]) -> Verdict:
    """Screenshots that the protocol has to show are not stored."""
    which = f"screenshots {', '.join(map(str, numbers))} are not stored" if numbers else "there is no screenshot"
    return could_not_tell(judge, "missing_evidence", which)
