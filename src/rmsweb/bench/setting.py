"""What a number of an exam depends on besides the model: task set, texts, step limit, judge, viewport, runs, sampling.

Owns `Asked` (exam.json: what a run was asked for, written before its first episode), the comparison key (`Setting`),
the lines that stand under every exam table, and the warnings beside it. Promises that what was never recorded is said
to be so and not guessed. Sets of tasks are named as in `tasksets`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import PurePath
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from rmsweb.bench.judges.naming import judge_parts, said_sampling, split_sampling
from rmsweb.bench.metrics import Result
from rmsweb.bench.wording import counted
from rmsweb.errors import DataError, RunError
from rmsweb.manifest import difference
from rmsweb.records import Record, Score, Task
from rmsweb.store import Run
from rmsweb.tasksets.dates import dated
from rmsweb.tasksets.taskset import ids_hash, text_hash

FILE = "exam.json"
SHOWN = 8
"""Most differences that an error names."""


class Asked(Record):
    """What one exam of a run was asked for."""

    tasks: tuple[Task, ...]
    runs: int = 1
    tasks_of: int | None = None
    """Tasks that the file holds, where fewer were asked for."""
    version: str = ""
    task_file: str = ""
    notes: tuple[str, ...] = ()
    """What the reader of the file has to say: assumed start addresses, ids that are in no known version ..."""
    excluded: dict[str, str] = Field(default_factory=dict)
    contamination: dict[str, int] | None = None


class Setting(NamedTuple):
    """What runs must share to stand in one table, in words. `WORDS` names the fields for people."""

    task_set: str
    texts: str
    step_cap: str
    judge: str
    """Protocol, model and options; how the model is asked is the next field."""
    judge_sampling: str
    """`not recorded` for verdicts from before it was; empty for rules."""
    viewport: str
    """Of the attempts that recorded one; `not recorded` where none did."""
    runs: str
    """Of each task, as asked for; `as found` for imported attempts."""
    steps: str
    """Whether the act that ends an episode is a step."""


WORDS = {
    "task_set": "task set",
    "texts": "task texts",
    "step_cap": "step limit",
    "judge": "judge",
    "judge_sampling": "sampling of the judge",
    "viewport": "viewport",
    "runs": "runs of each task",
    "steps": "steps",
}


def step_cap(tasks: Sequence[Task]) -> tuple[int, int] | None:
    """Smallest and largest step limit."""
    caps = [t.max_steps for t in tasks]
    return (min(caps), max(caps)) if caps else None


def setting_of(
    tasks: Sequence[Task], rows: Sequence[Result], *, capped: bool = True, runs: int | None = 1, with_end: bool = True
) -> Setting:
    """The comparison key of rows that were asked for `tasks`. `capped`: their step limits are those they ran under.
    `runs`: of each task (None: nobody knows). `with_end`: see `eval.steps_with_end`."""
    caps = step_cap(tasks) if capped else None
    each = hashlib.sha256("\n".join(sorted(f"{t.id}\t{t.max_steps}" for t in tasks)).encode()).hexdigest()
    judges = sorted({r.judge for r in rows if r.judge and r.success is not None})
    views = sorted({r.viewport for r in rows if r.viewport})
    return Setting(
        task_set=f"{counted(len(tasks), 'task')}, ids {ids_hash(tasks)}",
        texts=text_hash(tasks),
        step_cap=said_cap(caps) if caps is None or caps[0] == caps[1] else f"{said_cap(caps)} (by task {each[:8]})",
        judge=" and ".join(dict.fromkeys(split_sampling(judge)[0] for judge in judges)) or "no verdict",
        judge_sampling=" and ".join(dict.fromkeys(filter(None, map(said_sampling, judges)))),
        viewport=", ".join(map(said_size, views)) or said_size(None),
        runs="as found" if runs is None else str(runs),
        steps="the final act included" if with_end else "without the final act",
    )


def said_size(viewport: tuple[int, int] | None) -> str:
    """`1280\u00d7800`, or `not recorded`."""
    return f"{viewport[0]}\u00d7{viewport[1]}" if viewport else "not recorded"


def said_cap(caps: tuple[int, int] | None) -> str:
    """`15`, `30 to 70`, or `not recorded`."""
    if caps is None:
        return "not recorded"
    return str(caps[0]) if caps[0] == caps[1] else f"{caps[0]} to {caps[1]}"


def differing(settings: Sequence[Setting]) -> list[str]:
    """`step limit (15 / 30)` for each field in which settings differ. Texts are named only where the ids agree, the
    sampling of the judge only where the judge does."""
    found = []
    for field, word in WORDS.items():
        values = list(dict.fromkeys(str(getattr(s, field)) for s in settings))
        told = {"texts": "task_set", "judge_sampling": "judge"}.get(field)  # the field that says it already
        if told is not None:  # said where any two are alike in that field and differ in this
            pairs = {(getattr(s, told), str(getattr(s, field))) for s in settings}
            values = values if len(pairs) > len({first for first, _ in pairs}) else []
        if len(values) > 1:
            found.append(f"{word} ({' / '.join(values)})")
    return found


def write_asked(run: Run, asked: Mapping[str, Asked]) -> None:
    """Write exam.json: exam name -> what was asked for. Raises RunError as `refuse_other_tasks`."""
    refuse_other_tasks(run, {name: one.tasks for name, one in asked.items()})
    store_asked(run, asked)


def store_asked(run: Run, asked: Mapping[str, Asked]) -> None:
    """Write exam.json whatever was there: of an import, whose attempts grow by the same command."""
    run.write_json(FILE, {name: json.loads(one.model_dump_json(exclude_defaults=True)) for name, one in asked.items()})


def read_asked(run: Run) -> dict[str, Asked]:
    """exam name -> what the run was asked for; empty for runs that did not record it. Raises DataError."""
    path = run.path / FILE
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): Asked.model_validate(one) for name, one in value.items()}
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", path) from error
    except (ValueError, AttributeError) as error:
        raise DataError(f"not the record of an exam: {error}; the same eval command writes it again", path) from error


def refuse_other_tasks(run: Run, wanted: Mapping[str, Sequence[Task]]) -> None:
    """Raise RunError when a run that holds attempts was asked for other tasks than `wanted`, by exam name.

    A file may be edited between two calls, and attempts at one text must not be scored under another. What tasks a run
    from before exam.json was asked for is not known.
    """
    if not run.file("trajectory").exists() or b"\n" not in run.file("trajectory").read_bytes():
        return
    before = read_asked(run)
    lines = [line for name in wanted if name in before for line in _other_tasks(before[name].tasks, wanted[name])]
    lines += [f"exam {name}: not asked for any more" for name in before if name not in wanted]
    lines += [f"exam {name}: not asked for then" for name in wanted if before and name not in before]
    if lines:
        more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
        said = "\n  ".join([*lines[:SHOWN], *more])
        advice = "put the task file back as it was or choose another -o"
        raise RunError(f"{run.path} holds attempts at other tasks; {advice}:\n  {said}")


def _other_tasks(old: Sequence[Task], new: Sequence[Task]) -> list[str]:
    """One line for each task in which two lists differ."""
    was, now = ({task.id: task.model_dump(mode="json") for task in tasks} for tasks in (old, new))
    gone = [f"task {ident}: not among the tasks any more" for ident in was if ident not in now]
    added = [f"task {ident}: not among the tasks then" for ident in now if ident not in was]
    return [
        *(f"task {ident} {line}" for ident in was if ident in now for line in difference(was[ident], now[ident])),
        *gone,
        *added,
    ]


def recorded_overlap(run: Run, exam: str) -> dict[str, int] | None:
    """Overlap counts that a run from before exam.json left in scores.json; None where there are none."""
    path = run.path / "scores.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["disjoint"][exam] if path.exists() else None
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(found, dict):
        return None
    return {key: len(value) if isinstance(value, list) else int(value) for key, value in found.items()}


EXPLORER = ("reflect", "explorer.py")
"""What a run's manifest names as the input of the scripted explorer: the end of its module's path."""
ELEMENTS = "the list of page elements"
SAID = {"screenshot": "screenshot", "elements": ELEMENTS, "both": f"screenshot and {ELEMENTS}"}
"""`profile.observation` -> in words."""


def facts_of(
    tasks: Sequence[Task], asked: Asked | None, manifest: Mapping[str, Any], judge: str, model: str = ""
) -> dict[str, Any]:
    """Fields of Score that say what a number is. `manifest`: of the run, in which `model` is its name; empty for
    attempts made elsewhere, of which sampling, observation, step limit and day are not known."""
    config = _section(manifest, "config")
    policy, explorer = _section(config, "policy"), _is_explorer(manifest, model)
    protocol, judge_model = judge_parts(judge) if judge else ("", "")
    return {
        "protocol": protocol,
        "judge_model": judge_model,
        "observation": _observation(config, explorer),
        "temperature": policy.get("temperature"),
        "top_p": None if explorer else policy.get("top_p"),
        "seed": config.get("seed"),
        "dataset": ids_hash(tasks),
        "texts": text_hash(tasks),
        "tasks": len(tasks),
        "step_cap": step_cap(tasks) if config else None,
        "steps_with_end": bool(_section(config, "eval").get("steps_with_end", True)),
        "version": asked.version if asked else "",
        "task_file": asked.task_file if asked else "",
        "tasks_of": asked.tasks_of if asked else None,
        "excluded": asked.excluded if asked else {},
        "contamination": asked.contamination if asked else None,
        "extra": {**({"notes": list(asked.notes)} if asked and asked.notes else {}), **_passed(tasks, manifest)},
    }


def _is_explorer(manifest: Mapping[str, Any], model: str) -> bool:
    """Whether a model of a run is the scripted explorer, which looks at no picture. A checkpoint and a served model
    have other inputs."""
    given = _section(_section(manifest, "inputs"), model).get("path")
    return isinstance(given, str) and PurePath(given).parts[-2:] == EXPLORER


def _observation(config: Mapping[str, Any], explorer: bool) -> str:
    said = str(_section(config, "profile").get("observation", ""))
    return f"{ELEMENTS} (scripted explorer)" if explorer else SAID.get(said, said)


def _passed(tasks: Sequence[Task], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Of tasks from a file: how many had dates behind them on the day on which the run began; nothing where none had,
    or where the day is not known."""
    try:
        day = date.fromisoformat(str(manifest.get("started", ""))[:10])
    except ValueError:
        return {}
    count = len(dated([task for task in tasks if task.suite not in OWN], day))
    return {"passed": count, "day": day.isoformat()} if count else {}


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = config.get(name)
    return value if isinstance(value, Mapping) else {}


OWN = ("sites", "miniwob")
"""Suites that are made here and have no file, version or day."""


def what_it_is(score: Score) -> tuple[str, str, str]:
    """Which tasks were done how; how a rate comes from them; what they share with training tasks."""
    s = score
    of = f" of the {s.tasks_of} in the file" if s.tasks_of and s.tasks_of != s.tasks else ""
    own = s.suite in OWN
    version = f" {s.version}" if s.version else "" if own else " (version not recorded)"
    file = f", file {s.task_file}" if s.task_file else ""
    runs = f"{f'{s.least_runs} to ' if s.least_runs else ''}{counted(s.runs, 'run')} of each"
    first = (
        f"What it is: {counted(s.tasks or s.n, 'task')}{of} of {s.suite}{version} (ids {s.dataset}, ids with texts "
        f"{s.texts or 'not recorded'}{file}), step limit {said_cap(s.step_cap)}, {runs}, "
        f"viewport {said_size(s.viewport)}, observation {s.observation or 'not recorded'}, {_sampling(s)}."
    )
    by = f"Judged by {s.protocol} with {s.judge_model}" if s.judge_model else f"Judged by {s.protocol}"
    by += f" (sampling: {asked})" if (asked := said_sampling(s.judge)) else ""
    by = by if s.protocol else "No verdict is stored with these attempts"
    out = f"{counted(len(s.excluded), 'task')} left out ({_reasons(s.excluded)})" if s.excluded else "No task left out"
    second = (
        f"{by}. Of all divides by the {counted(s.n, 'episode')} asked for (aborted, unjudged, missing: not "
        f"solved), of judged by those with a verdict. {out}."
    )
    second += _unrecorded(s)
    if s.extra.get("passed"):
        second += (
            f" The dates of {counted(s.extra['passed'], 'task')} had passed when the run began ({s.extra['day']})."
        )
    return first, second, _overlap(s.contamination)


def what_lines(scores: Mapping[str, Score]) -> list[str]:
    """Two lines that say what the numbers of an exam are; more where the models are not alike in it."""
    parts = {model: what_it_is(score) for model, score in scores.items()}
    firsts, seconds, overlaps = ([parts[m][k] for m in parts] for k in range(3))
    models = list(parts)
    if not models:
        return []
    if len(set(seconds)) == len(set(overlaps)) == 1:
        return [*_by_models(models, firsts), f"{seconds[0]} {overlaps[0]}"]
    return [*_by_models(models, firsts), *_by_models(models, seconds), *_by_models(models, overlaps)]


def unlike(a: Score, b: Score) -> str:
    """`observation (screenshot / ...)` where two models of one table are not alike in what they are shown; or empty."""
    seen = [s.observation or "not recorded" for s in (a, b)]
    return f"observation ({seen[0]} / {seen[1]})" if seen[0] != seen[1] else ""


def warnings(scores: Mapping[str, Score]) -> list[str]:
    """What a reader has to know before comparing the models of one table: unlike ones, and greedy runs repeated."""
    said, seen = [], dict[str, list[str]]()
    for model, score in scores.items():
        seen.setdefault(score.observation or "not recorded", []).append(model)
    if len(seen) > 1:
        each = "; ".join(f"{', '.join(models)}: {words}" for words, models in seen.items())
        said.append(f"Unlike models: they differ in observation ({each}). Their difference is not the models' alone.")
    greedy = [model for model, score in scores.items() if score.runs > 1 and score.temperature == 0]
    if greedy:
        said.append(
            f"{', '.join(greedy)}: several runs at temperature 0 repeat one greedy choice; they are no independent "
            "samples, and pass@k and the spread between runs say little."
        )
    return said


def _by_models(models: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Each line once, with the models that it is about in front where there are several lines."""
    found: dict[str, list[str]] = {}
    for model, line in zip(models, lines, strict=True):
        found.setdefault(line, []).append(model)
    return list(found) if len(found) == 1 else [f"{', '.join(about)}: {line}" for line, about in found.items()]


def _unrecorded(s: Score) -> str:
    """What some or all episodes did not record, in a sentence; empty where they recorded all of it."""
    there = sum(count for outcome, count in s.outcomes.items() if outcome != "missing")
    kinds = [(kind, s.marks.get(f"{kind}_unknown", 0)) for kind in ("steps", "tokens", "seconds")]
    of = counted(there, "episode")
    said = [f"{kind} of {f'all {of}' if count == there else f'{count} of {of}'}" for kind, count in kinds if count]
    return f" Not recorded, and left out of means: {', '.join(said)}." if said else ""


def _sampling(s: Score) -> str:
    if s.temperature is None:
        return "sampling not recorded"
    top = f", top-p {s.top_p:g}" if s.top_p is not None else ""
    seed = f", seed {s.seed}" if s.seed is not None else ""
    return f"temperature {s.temperature:g}{top}{seed}"


def _reasons(excluded: Mapping[str, str]) -> str:
    reasons: dict[str, int] = {}
    for reason in excluded.values():
        reasons[reason] = reasons.get(reason, 0) + 1
    some = [f"{reason}: {count}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])]
    return "; ".join(some[:4]) + ("; ..." if len(some) > 4 else "")


def _overlap(found: Mapping[str, int] | None) -> str:
    if found is None:
        return "Overlap with training tasks: not recorded."
    bare = found.get("unrecorded", 0)
    unknown = f" What {counted(bare, 'model')} had been trained on before is not recorded." if bare else ""
    if not found.get("training"):
        return f"Overlap with training tasks: none were given to compare with.{unknown}"
    parts = [f"{found.get(key, 0)} {word}" for key, word in OVERLAPS.items()]
    return f"Overlap with {counted(found['training'], 'training task')}: {', '.join(parts)}.{unknown}"


OVERLAPS = {
    "tasks": "ids",
    "worlds": "worlds",
    "templates": "held-out templates",
    "texts": "equal texts on one host",
    "goals": "equal texts elsewhere",
}
"""Counts of `bench.disjoint.Overlap` -> what they are called."""
