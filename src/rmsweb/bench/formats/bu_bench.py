"""Run rows of browser-use's benchmark: `<run_data>/<run>/<task_id>.json`. Read only.

A row (browser-use/benchmark, run_eval.py): `agent_trace` of `agent_task`, `final_result`, `agent_steps` (one text a
step), `ground_truth`, `screenshots_b64`; `metrics` of `steps`, `duration` in seconds, `cost` in dollars; `judgement` of
`verdict`, `reasoning`, `failure_reason`, `impossible_task`, `reached_captcha`; where the run broke `error`. Upstream
scores what broke and what timed out 0; here the first is an infra error without a verdict, the second a failure at
the limit. The screenshots have no numbers, so which step each belongs to is known only where there is one for every
step. A run's folder is named `<framework>_<version>_browser_<b>_model_<m>_start_at_<time>`: what stands before the time
is the agent. The reference answer never enters the record.
"""

import re
from pathlib import Path
from typing import Any

from rmsweb.actions import Answer
from rmsweb.bench.formats.attempts import UNSAID, Attempt, Move, stored_verdict
from rmsweb.bench.formats.files import count, field, head_of, number, one, read_json, texts
from rmsweb.bench.formats.pictures import Pictures, Shots
from rmsweb.records import Stop, Verdict

NOTHING = "Agent did not return a result"
"""What upstream writes for a missing answer."""
_RUN = re.compile(r"(.+_browser_.+_model_.+?)(?:_start_at_.+)?\Z")
_DONE = re.compile(r"""["']done["']""")


def units(folder: Path, names: list[str]) -> list[Path]:
    """Rows of this folder."""
    found = [folder / name for name in names if name.endswith(".json")]
    return [path for path in found if head_of(path).removeprefix(b"{").lstrip().startswith(b'"agent_trace"')]


def read(path: Path, pictures: Pictures) -> Attempt:
    """One row. Raises DataError: fields of a wrong type."""
    data = read_json(path, dict)
    trace = field(data, "agent_trace", dict, path)
    metrics = field(data, "metrics", dict, path, {})
    given = trace.get("final_result")
    answer = given if isinstance(given, str) and given and given != NOTHING else None
    lines = texts(trace, "agent_steps", path)
    shots: Shots = [
        (k, pictures.add_base64(text, f"{k} of screenshots_b64"))
        for k, text in enumerate(texts(trace, "screenshots_b64", path))
    ]
    moves = [Move(intent=one(text), raw=text) for text in lines]
    notes = []
    if len(shots) not in (len(lines), len(lines) + 1):
        notes.append(f"{len(shots)} screenshots for {len(lines)} steps; matched from the first")
    if answer is not None:
        if moves and _DONE.search(moves[-1].raw):  # the step that gave the answer is one of the steps
            moves[-1] = Move(action=Answer(text=answer), raw=moves[-1].raw)
        else:
            moves.append(Move(action=Answer(text=answer), raw=answer))
    error, named = data.get("error"), _RUN.match(path.parent.name)
    agent = named.group(1) if named else ""
    stop, detail = _stop(str(error) if error else "", answer)
    return Attempt(
        task_id=path.stem,
        goal=field(trace, "agent_task", str, path, ""),
        moves=moves,
        shots=shots,
        seen=[sha for _, sha in shots],
        answer=answer,
        stop=stop,
        detail=detail,
        facts={"agent": agent, "cost": number(metrics.get("cost")) or None},
        notes=notes,
        verdicts=_verdicts(data, stop),
        agent=agent,
        stated=count(metrics.get("steps")) or None,
        listed=bool(lines),
        viewport=pictures.size,
        wall_s=number(metrics.get("duration")) or 0.0,
    )


def _stop(error: str, answer: str | None) -> tuple[Stop, str]:
    if "timed out after" in error:
        return Stop.STEP_LIMIT, error[:1000]
    if error:
        return Stop.BROWSER_ERROR, error[:1000]
    return (Stop.ANSWERED, "") if answer is not None else (Stop.DONE, UNSAID)


def _verdicts(data: dict[str, Any], stop: Stop) -> list[Verdict]:
    """The stored judgement; of a row that timed out, which nobody judged, upstream's score."""
    judged = data.get("judgement")
    if not isinstance(judged, dict):
        late = stop is Stop.STEP_LIMIT
        return [stored_verdict("judgement", 0.0, "timed out: upstream scores it 0 without a judge")] if late else []
    said = judged.get("verdict")
    why = judged.get("failure_reason") or judged.get("reasoning")
    flags = {k: judged.get(k) is True for k in ("impossible_task", "reached_captcha")}
    label = float(said) if isinstance(said, bool) else None
    return [stored_verdict("judgement", label, why if isinstance(why, str) else "", **flags)]
