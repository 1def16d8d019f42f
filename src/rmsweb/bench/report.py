"""The stage `report`: one HTML file from any set of run directories, and the exams' scores as CSV and Markdown beside.

Promises: the file is whole by itself (style, font, charts and pictures inline; no script; works offline); every number
in it is computed from the runs' own records; what is absent is left out and named; unlike exam runs stand apart, and
what differs is said first. Text of pages and models is escaped, and a policy in the page forbids everything that is not
inline style, font or picture.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmsweb.bench import compare, exam_sections, export, judge_sections, protocols, training_sections, trust_sections
from rmsweb.bench.compare import Examined
from rmsweb.bench.costs import use_of
from rmsweb.bench.layout import Section, Stage, Table, stages_in
from rmsweb.bench.wording import number, percent
from rmsweb.store import write_atomic

if TYPE_CHECKING:
    from jinja2 import Environment

TRAINING = ("collect", "sft", "mine", "rl")
NOTES = (
    "Solved is what the judge says, never what the policy says of itself. Over all tasks, an episode that was aborted, "
    "could not be judged or never ran counts as not solved; over judged tasks it is left out.",
    "Rates have 95 % intervals: Wilson for one run of each task, a bootstrap over tasks where there are several runs. "
    "Differences are paired: the same tasks, a percentile bootstrap over tasks. "
    "An interval that contains zero is reported as no difference resolved, whatever its sign. Intervals stand for "
    "themselves; nothing is corrected for the number of comparisons.",
    "Intervals cover the choice of tasks, not the luck of a training run: a claim about a method needs several seeds.",
    "Steps are the policy's decisions, the final answer or terminate included unless eval.steps_with_end is false.",
    "A number belongs to its judge, task version, step limit and denominator. Two reports that differ in one of them "
    "cannot be compared, whatever the name of the benchmark.",
)


def write_report(given: Mapping[str, Path], out: Path, summary: Mapping[str, Any] | None = None) -> Path:
    """Write the report of the runs named (name -> run directory, or a folder of them). Returns its path.

    Beside it, where there is an exam, scores.csv (one line an episode and judge) and scores.md; for a report of another
    name than report.html they are NAME-scores.csv and NAME-scores.md. `summary` (a demo's summary.json) adds what only
    it knows, such as the wall time of the whole.
    """
    out, stages = Path(out), stages_in(given)
    examined = compare.examined(stages)
    write_atomic(out, render(stages, summary, examined).encode())
    for name, text in export.files(examined).items():
        write_atomic(out.with_name(name if out.stem == "report" else f"{out.stem}-{name}"), text.encode())
    return out


def render(stages: Sequence[Stage], summary: Mapping[str, Any] | None = None, examined: Examined | None = None) -> str:
    """The page as text; `examined`: what `compare.examined` makes of the stages, where it is at hand."""
    examined = examined or compare.examined(stages)
    every = examined.stages
    by_verb = {verb: [s for s in stages if s.verb == verb] for verb in (*TRAINING, trust_sections.VERB)}
    exams = [*exam_parts(examined), *judge_sections.judged_only(examined.judged, judge_sections.drawn(stages))]
    training = [getattr(training_sections, verb)(by_verb[verb]) for verb in TRAINING]
    trust = trust_sections.sections(by_verb[trust_sections.VERB])
    sections = [*exams, *_judging(every), *trust, *training, exam_sections.examples(examined.groups)]
    absent = [s.title for s in training if s.empty] + ([] if exams else ["Exam"])
    doubts = [line for s in every for line in training_sections.warnings_of(s)]
    unfinished = [f"{s.name} is not finished: its numbers will change." for s in every if not s.run.finished]
    return _environment().get_template("report.html.jinja").render(
        title=_title(stages),
        sections=[s for s in sections if not s.empty],
        absent=absent,
        warnings=[*compare.apart(examined.groups), *compare.warnings(examined.groups), *unfinished],
        doubts=doubts,
        headline=headline(exams),
        facts=facts(every, summary or {}),
        runs=_runs_table(every),
        configs=[(s.name, json.dumps(_changed(s), indent=1, ensure_ascii=False)) for s in every],
        notes=NOTES,
        css=_text("report.css"),
        font=base64.b64encode(_font()).decode(),
    )  # fmt: skip


def exam_parts(examined: Examined) -> list[Section]:
    """A section for every group of like exam runs, with every judge of it."""
    found = []
    for group in examined.groups:
        section = exam_sections.exam_section(group, examined.beside(group))
        if section is not None:
            benches = judge_sections.benches_of(group, examined.judged)
            judge_sections.add(section, group, benches, **judge_sections.drawn([group.papers[0].stage]))
            found.append(section)
    return found


def _judging(stages: Sequence[Stage]) -> list[Section]:
    table = judge_sections.cost_table(stages)
    return [Section("judging", "Judging: what it cost", tables=[table])] if table else []


def headline(exams: Sequence[Section]) -> list[str]:
    """The first sentences of the first exam: its differences, null results included."""
    return exams[0].lead if exams else []


def facts(stages: Sequence[Stage], summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was run, in a few words each; a fact that differs between the runs is given with all its values."""

    acted = [s for s in stages if s.verb not in (compare.IMPORT, protocols.JUDGE)]
    judging = [s for s in stages if s.verb != compare.IMPORT]

    def over(*keys: str, of: str = "config", among: Sequence[Stage] = acted) -> str:
        values: dict[str, None] = {}
        for stage in among:
            value: Any = stage.manifest.get(of, {})
            for key in keys:
                value = value.get(key) if isinstance(value, Mapping) else None
            if value not in (None, ""):
                values.setdefault("\u00d7".join(map(str, value)) if isinstance(value, list) else str(value))
        return ", ".join(values)

    revisions = dict.fromkeys(f"{s.manifest.get('version')} ({s.manifest.get('git') or 'no git'})" for s in stages)
    versions = {k: v for s in stages for k, v in s.manifest.get("versions", {}).items()}
    wall = summary.get("wall_s")
    found = [
        ("rmsweb", ", ".join(revisions)),
        ("seed", over("seed")),
        ("viewport", over("profile", "viewport")),
        ("observation", over("profile", "observation")),
        ("profile", over("profile", "name")),
        ("suite", over("suite", "name")),
        ("judge", over("judge", "protocol", among=judging)),
        ("started", min((str(s.manifest.get("started", "")) for s in stages), default="")),
        ("wall time", f"{wall / 60:.1f} min in all" if isinstance(wall, int | float) else ""),
        ("versions", ", ".join(f"{k} {v}" for k, v in versions.items())),
    ]
    return [(name, value) for name, value in found if value]


def _title(stages: Sequence[Stage]) -> str:
    parents = {s.path.resolve().parent.name for s in stages}
    name = parents.pop() if len(parents) == 1 and len(stages) > 1 else ", ".join(s.name for s in stages[:3])
    return f"rmsweb report: {name}"


def _runs_table(stages: Sequence[Stage]) -> Table:
    rows = []
    for s in stages:
        m = s.manifest
        counts = ", ".join(_counted(k, v) for k, v in m.get("counts", {}).items())
        wall = f"{m.get('wall_s', 0):.0f} s"
        rows.append([s.name, s.verb, str(m.get("status", "")), wall, *_used(s), counts])
    head = ("run", "verb", "status", "wall", "tokens", "tokens per episode", "pictures shown", "counts")
    notes = ["Tokens and pictures are the acting models'; what judges used is in the table of judging."]
    return Table(head, rows, words=frozenset({1, 2, 7}), notes=notes)


def _counted(name: str, value: Any) -> str:
    """`40 updates`; a hash is none of these: `weights 03c1174d5a0f`."""
    if isinstance(value, str):
        return f"{name.removesuffix('_sha256').replace('_', ' ')} {value[:12]}"
    return f"{value} {name.replace('_', ' ')}"


def _used(stage: Stage) -> tuple[str, str, str]:
    """Tokens in all and per episode, and pictures that the prompts of a run held (`profile.images` of the latest)."""
    episodes = [t for t, _ in stage.judged]
    tokens = sum((use.prompt_tokens or 0) + (use.completion_tokens or 0) for use in map(use_of, episodes))
    profile = stage.manifest["config"].get("profile", {})
    pictures = stage.verb != compare.IMPORT and profile.get("observation") != "elements"
    most = (1 if profile.get("layout") == "compact" else int(profile.get("images", 0)) + 1) if pictures else 0
    shown = sum(min(k + 1, most) for t in episodes for k in range(len(t.steps))) if tokens else 0
    return str(tokens or ""), number(tokens / len(episodes), 0) if tokens else "", str(shown or "")


def _changed(stage: Stage) -> Any:
    """The stage's settings that differ from the defaults."""
    from rmsweb.config import Config

    return _apart(json.loads(Config().model_dump_json()), stage.manifest["config"])


def _apart(default: Any, value: Any) -> Any:
    if isinstance(default, Mapping) and isinstance(value, Mapping):
        changed = {k: _apart(default.get(k), v) for k, v in value.items() if default.get(k) != v}
        return {k: v for k, v in changed.items() if v != {}}
    return value


@lru_cache(maxsize=1)
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rmsweb.bench"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["percent"] = percent
    return environment


def _text(name: str) -> str:
    return (resources.files("rmsweb.bench") / "templates" / name).read_text(encoding="utf-8")


def _font() -> bytes:
    return (resources.files("rmsweb.web") / "static" / "fonts" / "inter.woff2").read_bytes()
