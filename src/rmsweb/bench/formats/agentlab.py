"""AgentLab / BrowserGym experiment folders: summary_info.json and screenshots. Read only, and never unpickled.

Actions, goal and task id lie in pickles, and a pickle runs code when it is read: none is opened. What is read: n_steps,
cum_reward, err_msg, terminated, truncated, token and cost totals, `screenshot_step_<i>.png`. The task id comes from the
folder's name; the task's text has to come from a task set. A cost of 0 with tokens is an unknown cost. The stored
verdict is the reward: 1 is a success, as in the papers; `details.browsergym` counts everything above 0.

A seed makes another instance of a task (other text, other page), so `miniwob.click-test` under two seeds is two tasks,
`miniwob.click-test/seed-5` and so on, and only the same seed again is another run. `SEEDLESS` names the benchmarks
whose tasks are the same under every seed (BrowserGym's task classes take one configuration by its number). A benchmark
that is not known counts as one with instances: reading two instances as two runs of one task would make pass@k of them.

n_steps counts every action that was handed to the environment, the one that ends the episode included; 0 is unknown.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rmsweb.bench.formats.attempts import Attempt, Move, stored_verdict
from rmsweb.bench.formats.files import child, count, field, number, read_json
from rmsweb.bench.formats.pictures import Pictures, numbered, stored
from rmsweb.errors import DataError
from rmsweb.records import Stop

SUMMARY = "summary_info.json"
_MODEL = re.compile(
    r"openai|anthropic|azure|rate.?limit|llm|api key|context length|retryerror|parseerror", re.IGNORECASE
)
SEEDLESS = re.compile(r"(?:webarena|visualwebarena|safearena|assistantbench)\.(?:[\w-]+\.)*\d+")
"""Tasks that a seed does not change."""
_STAMP = re.compile(r"\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}_")
_TAIL = re.compile(r"_(\d+)(?:_[0-9a-f]{6,8})?\Z")


def units(folder: Path, names: list[str]) -> list[Path]:
    """Attempts of this folder."""
    return [folder] if SUMMARY in names else []


def read(folder: Path, pictures: Pictures) -> Attempt:
    """One experiment. Raises DataError: a summary that cannot be read, a try that AgentLab put aside."""
    if folder.name.startswith("_") and _STAMP.match(folder.name, 1):
        raise DataError(
            "is a try that AgentLab ran again and put aside (`_` before its name); the later one counts", folder
        )
    path = child(folder, SUMMARY)
    data = read_json(path, dict)
    names = [p.name for p in folder.iterdir()]
    plain = [n for n in names if n.startswith("screenshot_step_")]
    marked = [n for n in names if n.startswith("screenshot_som_step_")]
    shots = stored(numbered(plain or marked, folder), folder, pictures)
    error = field(data, "err_msg", str, path, "")
    steps = count(data.get("n_steps"))
    tokens, cost = _usage(data)
    agent, task_id, seed = _named(folder.name)
    notes = ["actions lie in pickles, which are not opened"]
    if not plain and marked:
        notes.append("screenshots with marks only (screenshot_som_step_*)")
    stop, detail = _stop(data, error)
    reward = number(data.get("cum_reward"))
    # One move without a line for each step that was counted: steps and tokens are known, the actions are not.
    moves = [Move() for _ in range(min(steps, 10_000))]
    if moves:
        moves[-1].prompt_tokens, moves[-1].completion_tokens = tokens
    verdict = stored_verdict(
        SUMMARY, None if reward is None else float(reward >= 1), "cumulative reward", reward=reward,
        browsergym=None if reward is None else int(reward > 0),
    )  # fmt: skip
    return Attempt(
        task_id=task_id,
        goal="",
        moves=moves,
        shots=shots,
        seen=[sha for _, sha in shots],
        answer=None,
        stop=stop,
        detail=detail,
        site=task_id.partition(".")[0],
        agent=agent,
        seed=None if SEEDLESS.fullmatch(task_id) else seed,
        facts={
            "agent": agent,
            "seed": seed,
            "cum_reward": reward,
            "cost": cost,
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
        },
        notes=notes,
        verdicts=[] if reward is None else [verdict],
        stated=steps or None,
        viewport=pictures.size,
        wall_s=(number(data.get("stats.cum_step_elapsed")) or 0) + (number(data.get("stats.cum_agent_elapsed")) or 0),
    )


def _named(name: str) -> tuple[str, str, int | None]:
    """(agent, task id, seed) of `<time>_<agent>_on_<task>_<seed>[_<hash>]`; the whole name where it is none such."""
    bare = _STAMP.sub("", name, count=1)
    agent, found, rest = bare.rpartition("_on_")
    tail = _TAIL.search(rest) if found else None
    return (agent, rest[: tail.start()], int(tail.group(1)[:18])) if tail else (agent, rest if found else bare, None)


def _usage(data: Mapping[str, Any]) -> tuple[tuple[int, int], float | None]:
    """((prompt, completion) tokens, cost); the cost is None where it is not known."""
    tokens = count(data.get("stats.cum_input_tokens")), count(data.get("stats.cum_output_tokens"))
    cost = number(data.get("stats.cum_cost"))
    return tokens, None if not cost and any(tokens) else cost


def _stop(data: Mapping[str, Any], error: str) -> tuple[Stop, str]:
    if error:
        return (Stop.MODEL_ERROR if _MODEL.search(error) else Stop.BROWSER_ERROR), error[:1000]
    if data.get("truncated") is True and data.get("terminated") is not True:
        return Stop.STEP_LIMIT, "truncated"
    return Stop.DONE, "terminated" if data.get("terminated") is True else "neither terminated nor truncated"
