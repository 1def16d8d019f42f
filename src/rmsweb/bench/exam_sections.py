"""The report's sections on what the policies can do: one for each group of like exam runs.

Owns success on all denominators, pairs, tables by site, template, level and segment, failure modes, controls. Cost is
in cost_sections.py, other judges in judge_sections.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rmsweb.bench import cost_sections, metrics, plots
from rmsweb.bench.compare import Group
from rmsweb.bench.examples import exam_examples
from rmsweb.bench.layout import Cell, Chart, Section, Table
from rmsweb.bench.metrics import Result
from rmsweb.bench.scores import models_of
from rmsweb.bench.setting import WORDS, differing
from rmsweb.bench.wording import (
    TOO_FEW,
    WHY_TOO_FEW,
    between,
    bounds_said,
    counted,
    named_pair,
    number,
    pair_bounds,
    percent,
    signed,
    step_bounds,
    verdict,
)
from rmsweb.records import Outcome
from rmsweb.statistics import wilson

TITLES = {
    "heldout": "Exam: held-out seeds",
    "heldout_template": "Exam: held-out templates",
    "miniwob": "Exam: MiniWoB++",
    "imported": "Exam: imported attempts",
    "webvoyager": "Exam: WebVoyager",
    "online_mind2web": "Exam: Online-Mind2Web",
    "webtailbench": "Exam: WebTailBench",
    "webtailbench_refusals": "Exam: WebTailBench, refusals",
}
MARKS = ("no_answer", "blocked", "captcha", "step_limit", "claimed", "claimed_not_done")
MOST_MODES = 9
MOST_PARTS = 30
"""Rows of a table by site or the like; the largest ones are shown."""
FAR = 0.3
"""Pairs that differ by more would squeeze the others in the chart."""


def exam_section(group: Group, beside: Sequence[Group]) -> Section | None:
    """The section of a group; `beside`: the groups of the same exam, itself included. None where nobody acted."""
    number_of = beside.index(group) + 1
    title = TITLES.get(group.exam, f"Exam: {group.exam}")
    section = Section(group.exam if number_of == 1 else f"{group.exam}-{number_of}", title)
    if len(beside) > 1:
        section.title = f"{title}, part {number_of} of {len(beside)}"
        section.lead.append(own_setting(group, beside))
    numbers = group.numbers()
    if not numbers["models"]:
        return None
    _success(section, numbers)
    _outcomes(section, numbers)
    _other_averages(section, numbers)
    _pairs(section, numbers)
    cost_sections.add(section, numbers, group)
    _parts(section, numbers)
    _modes(section, group.rows, numbers["models"])
    _controls(section, numbers)
    return section


def own_setting(group: Group, beside: Sequence[Group]) -> str:
    """What is this part's own among the groups of one exam."""
    different = differing([g.setting for g in beside])
    fields = [name for name, word in WORDS.items() if any(said.startswith(word) for said in different)]
    said = ", ".join(f"{WORDS[name]} {getattr(group.setting, name)}" for name in fields)
    runs = ", ".join(paper.stage.name for paper in group.papers)
    return f"This part: {said}; runs: {runs}."


def examples(groups: Sequence[Group]) -> Section:
    """Episodes of every group of like exam runs, chosen by rule: of two models, or of the one there is."""
    section = Section("examples", "Examples from the exam")
    for group in groups:
        models = models_of(group.rows)
        if models:
            chosen = compared(models) if len(models) > 1 else (models[0],)
            section.examples += exam_examples([one for paper in group.papers for one in paper.attempts()], *chosen)
    return section


def compared(models: Sequence[str]) -> tuple[str, str]:
    """The two models that before / after views put side by side: sft and rl, else the first and the last."""
    return ("sft", "rl") if {"sft", "rl"} <= set(models) else (models[0], models[-1])


def _success(section: Section, numbers: Mapping[str, Any]) -> None:
    scores = numbers["scores"]
    rated = {m: s for m, s in scores.items() if s["judged"]}
    if rated:
        each = ", ".join(f"{m} {percent(s['success'])}" for m, s in reversed(rated.items()))
        section.lead.append(f"Of {counted(numbers['n'], 'task')} solved: {each}.")
        rows = [(m, s["success"], tuple(s["interval"]), s["success_judged"]) for m, s in rated.items()]
        several = any(s["runs"] > 1 for s in rated.values())
        how = "bootstrap over tasks, runs nested in them" if several else "Wilson"
        caption = f"{counted(numbers['n'], 'task')}, the same for every model; bars are 95 % intervals ({how})."
        if any(s["judged"] < s["n"] for s in rated.values()):
            caption += " Diamonds: over judged tasks only."
        section.charts.append(Chart("Tasks solved", plots.dots(rows), caption))
    for model, s in scores.items():
        if model not in rated:
            ran = s["marks"].get("ran", 0)
            section.lead.append(
                f"{model}: {ran} of {s['n']} ran, none has a verdict in this run: there is no score here."
            )
    section.tables.append(_success_table(numbers))
    positive = numbers.get("raw_reward_above_zero") or {}
    if positive:
        said = ", ".join(f"{m} {won} of {scores[m]['n']}" for m, won in positive.items())
        section.notes.append(f"Solved means raw reward 1. With any raw reward above 0 as success: {said}.")


def _success_table(numbers: Mapping[str, Any]) -> Table:
    scores = numbers["scores"]
    upstream = any(s["success_upstream"] is not None for s in scores.values())
    table = []
    for model, s in scores.items():
        cost = numbers["cost"][model]
        table.append(
            [
                model, f"{s['successes']} of {s['n']}" if s["judged"] else "no score", percent(s["success"]),
                between(s["interval"]), percent(s["success_judged"]), str(s["judged"]),
                *([percent(s["success_upstream"])] if upstream else []), number(s["steps_on_solved"], 2),
                number(cost["steps_per_success"], 1), number(cost["tokens_per_task"], 0),
                number(cost["wall_s_per_task"], 1),
            ]
        )  # fmt: skip
    head = (
        "model", "solved", "of all", "95 %", "of judged", "judged",
        *(["as upstream stores"] if upstream else []), "steps on solved", "steps per success", "tokens per episode",
        "seconds per episode",
    )  # fmt: skip
    return Table(head, table, notes=[*numbers["what"], *numbers["warnings"]])


def _outcomes(section: Section, numbers: Mapping[str, Any]) -> None:
    """Typed outcomes, which add up, and what is known across them."""
    scores = numbers["scores"]
    kinds = [kind for kind in (*Outcome, "missing") if any(s["outcomes"].get(kind) for s in scores.values())]
    marks = [mark for mark in MARKS if any(s["marks"].get(mark) for s in scores.values())]
    rows = [
        [m, *(str(s["outcomes"].get(k, 0)) for k in kinds), *(str(s["marks"].get(k, 0)) for k in marks)]
        for m, s in scores.items()
    ]
    named = ["no verdict" if kind == "judge_failed" else kind.replace("_", " ") for kind in kinds]
    head = ["model", *named, *(f"({mark.replace('_', ' ')})" for mark in marks)]
    notes = ["Outcomes add up to the episodes asked for; columns in brackets count across them."] if marks else []
    notes += [line for m, s in scores.items() if s["judged"] and (line := claim_line(m, s))]
    section.tables.append(Table(head, rows, title="Outcomes", notes=notes))


def claim_line(model: str, s: Mapping[str, Any]) -> str:
    """How often the policy said that it was done, against what the judge says of these episodes."""
    claimed, wrong = s["marks"].get("claimed", 0), s["marks"].get("claimed_not_done", 0)
    if not claimed:
        return ""
    return (
        f"Claim against verdict, {model}: said to be done {claimed} times, {wrong} of them judged not to be "
        f"({percent(wrong / claimed)})."
    )


def _other_averages(section: Section, numbers: Mapping[str, Any]) -> None:
    """The same verdicts averaged by other rules: what other harnesses would print for these episodes."""
    scores = {m: s for m, s in numbers["scores"].items() if s["judged"]}
    if not scores:
        return
    upstream = any(s["success_upstream"] is not None for s in scores.values())
    rows = []
    for model, s in scores.items():
        row = [
            model, percent(s["success"]), percent(s["success_judged"]),
            f"{percent(s['success_finished'])} of {s['finished']}", *([_upstream(s)] if upstream else []),
        ]  # fmt: skip
        rows.append(row)
    head = ["model", "all", "judged", "finished, over the limit 0"]
    head += ["as upstream's script stores"] if upstream else []
    notes = [
        "Finished: aborted, unjudged and missing episodes left out, a step limit reached counts as 0 (Fara's webeval)."
    ]
    section.tables.append(Table(head, rows, title="The same verdicts under other rules of averaging", notes=notes))
    if any(s["runs"] > 1 for s in scores.values()):
        section.tables.append(_runs_table(scores))


def _runs_table(scores: Mapping[str, Mapping[str, Any]]) -> Table:
    """Several runs of each task: one row a number and one column a model, so that no k is out of sight."""
    at = {m: {int(k): v for k, v in s["pass_at"].items()} for m, s in scores.items()}
    rows = [
        [f"run {k + 1}", *(percent(s["by_run"][k]) if k < len(s["by_run"]) else "" for s in scores.values())]
        for k in range(max(len(s["by_run"]) for s in scores.values()))
    ]
    rows.append(["tasks that runs disagree on", *(percent(s["unstable"]) for s in scores.values())])
    for k in sorted({k for passed in at.values() for k in passed}):
        cells = (f"{percent(at[m][k][0])} ({between(at[m][k][1:])})" if k in at[m] else "" for m in scores)
        rows.append([f"pass@{k} (95 %)", *cells])
    return Table(("of all tasks", *scores), rows, title="Several runs of each task")


def _upstream(s: Mapping[str, Any]) -> str:
    if s["success_upstream"] is None:
        return "no such reading"
    return f"{percent(s['success_upstream'])} of all, {s['labelled_upstream']} of {s['n']} labelled"


def _pairs(section: Section, numbers: Mapping[str, Any]) -> None:
    paired, models = numbers["paired"], numbers["models"]
    if not paired:
        return
    named = {key: named_pair(key, models) for key in paired}
    # The pairs that the work is about come first: the last model against the others, nearest first.
    order = sorted(paired, key=lambda k: (-models.index(named[k][0]), -models.index(named[k][1])))
    rows = [(f"{named[k][0]} \u2212 {named[k][1]}", paired[k]["difference"], pair_bounds(paired[k])) for k in order]
    caption = "Same tasks; 95 % bootstrap over tasks, each pair by itself. Filled: zero lies outside."
    close = [row for row in rows if abs(row[1]) <= FAR]
    if close and len(close) < len(rows):
        caption += f" Pairs more than {100 * FAR:.0f} points apart are in the table only."
    section.charts.append(Chart("Paired differences in success", plots.forest(close or rows), caption))
    last = models[-1]
    section.lead += [verdict(paired[k], *named[k]) for k in order if named[k][0] == last]
    steps = [
        (f"{named[k][0]} \u2212 {named[k][1]}", c["difference"], step_bounds(c))
        for k in order
        if (c := paired[k]["common_steps"])["interval"] is not None
    ]
    if steps:
        caption = "On tasks that both solve; fewer is better (left). Own means would reward giving up on long tasks."
        svg = plots.forest(steps, scale=1.0, unit="steps")
        section.charts.append(Chart("Steps on commonly solved tasks", svg, caption))
    table = []
    for key in order:
        p, (a, b) = paired[key], named[key]
        c = p["common_steps"]
        table.append(
            [
                f"{a} \u2212 {b}", str(p["n"]), signed(p["difference"]), bounds_said(pair_bounds(p)),
                signed(p["judged"]["difference"]), bounds_said(pair_bounds(p["judged"])),
                f"{p['a_only']} : {p['b_only']}", _p_value(p["mcnemar_p"]), _both(c),
                f"{number(c['a'], 2)} : {number(c['b'], 2)}",
            ]
        )  # fmt: skip
    head = (
        "pair", "tasks", "all tasks", "95 %", "judged by both", "95 %", "only one solves", "McNemar p", "both solve",
        "their steps",
    )  # fmt: skip
    notes = [WHY_TOO_FEW] if any(TOO_FEW in row for row in table) else []
    notes += [
        f"{row[0]}: unlike models, in {paired[k]['unlike']}."
        for k, row in zip(order, table, strict=True)
        if paired[k]["unlike"]
    ]
    section.tables.append(Table(head, table, title="Paired differences, in points", notes=notes))


def _both(common: Mapping[str, Any]) -> str:
    """How many tasks both solve, and of how many of them the steps are unknown."""
    unknown = common["unknown"]
    return f"{common['n'] + unknown}" + (f" (steps of {unknown} unknown)" if unknown else "")


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _parts(section: Section, numbers: Mapping[str, Any]) -> None:
    """Tables by site, template, level, segment: successes over the episodes asked for."""
    scores = {m: s for m, s in numbers["scores"].items() if s["judged"]}
    for kind in dict.fromkeys(kind for s in scores.values() for kind in s["breakdown"]):
        of = {m: s["breakdown"].get(kind, {}) for m, s in scores.items()}
        sizes = {value: n for counts in of.values() for value, (_, n) in counts.items()}
        shown = sorted(sorted(sizes, key=lambda value: -sizes[value])[:MOST_PARTS])
        rows: list[list[Cell | str]] = []
        for value in shown:
            cells = [Cell(percent(c[0] / c[1], 0), c[0] / c[1]) if (c := of[m].get(value)) else "" for m in scores]
            rows.append([value, str(sizes[value]), *cells])
        title = f"Solved, by {kind}"
        if len(sizes) > len(shown):
            title += f" (the {len(shown)} largest of {len(sizes)})"
        section.tables.append(Table((kind, "episodes", *scores), rows, title=title))


def _modes(section: Section, results: Sequence[Result], models: Sequence[str]) -> None:
    """Failure modes of two models, as a share of all their episodes; the table has them all."""
    if len(models) < 2:
        return
    from rmsweb.mine.taxonomy import load

    before, after = compared(models)
    of = {m: [r for r in results if r.model == m] for m in models}
    counts = {m: metrics.by_mode(of[m]) for m in models}
    known = load().modes

    def title(code: str) -> str:
        return (
            f"{known[code].title}: {code.split('.')[-1].replace('_', ' ')}" if code in known else code.replace("_", " ")
        )

    codes = sorted({c for m in models for c in counts[m]}, key=lambda c: -sum(counts[m].get(c, 0) for m in models))
    both = [c for c in codes if counts[before].get(c, 0) + counts[after].get(c, 0)]
    both = sorted(both, key=lambda c: -counts[before].get(c, 0) - counts[after].get(c, 0))[:MOST_MODES]
    rate = {m: {c: counts[m].get(c, 0) / len(of[m]) for c in codes} for m in models}
    rows = [(title(c), rate[before][c], rate[after][c]) for c in both]
    if not rows:
        return
    caption = "One mode for each failed episode, by the rules of Part 2; shares of all episodes."
    section.charts.append(
        Chart(f"Failure modes, {before} and {after}", plots.before_after(rows, (before, after)), caption)
    )
    table: list[list[Cell | str]] = [
        [title(c), *(Cell(str(counts[m].get(c, 0)), rate[m][c]) for m in models)] for c in codes
    ]
    section.tables.append(Table(("failure mode", *models), table, title="Failed episodes, by mode"))


def _controls(section: Section, numbers: Mapping[str, Any]) -> None:
    controls: Mapping[str, Mapping[str, Any]] = numbers["controls"]
    models = dict.fromkeys(c["model"] for c in controls.values() if c["interval"])
    shades = plots.colours([*numbers["models"], *(m for m in models if m not in numbers["models"])])
    for model in models:
        mine = [(k, c) for k, c in controls.items() if c["model"] == model and c["interval"]]
        section.charts.append(_control_chart(model, mine, shades[model]))


def _control_chart(model: str, controls: Sequence[tuple[str, Mapping[str, Any]]], colour: str) -> Chart:
    """One model in its own colour, its controls in grey."""
    names = {kind: kind.rpartition("+")[2] for kind, _ in controls}
    n = controls[0][1]["n"]
    # A control that was broken off has fewer tasks than the other: each then says its own number.
    own = {kind: "" if c["n"] == n else f" (n = {c['n']})" for kind, c in controls}
    rows = [(f"{names[k]} picture{own[k]}", c["success"], tuple(c["interval"]), None) for k, c in controls]
    shade = {row[0]: plots.NAMED["base"] for row in rows}
    true = controls[0][1]["true_pictures"]
    if true is not None:
        won = round(true * n)
        rows.insert(0, ("true picture", won / n, tuple(wilson(won, n)), None))
        shade["true picture"] = colour
    caption = (
        f"{model} on the same {counted(n, 'task')} when it is shown, instead of the page, a white picture or the "
        "picture of another task of the same site."
    )
    svg = plots.dots(rows, shade, f"solved by {model}, n = {counted(n, 'task')}")
    return Chart("Controls: does it look?", svg, caption)
