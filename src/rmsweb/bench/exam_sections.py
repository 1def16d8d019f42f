"""The report's sections on what the policies can do: one an exam, with pairs, templates, modes, cost, controls."""

from collections.abc import Mapping, Sequence
from typing import Any

from rmsweb.bench import metrics, plots
from rmsweb.bench.examples import exam_examples
from rmsweb.bench.layout import Cell, Chart, Section, Stage, Table
from rmsweb.bench.metrics import Result, result_of
from rmsweb.bench.scores import arm_of, exam_numbers, exam_of, gather, models_of, results_of
from rmsweb.bench.wording import between, named_pair, number, percent, signed, signed_interval, verdict
from rmsweb.statistics import wilson

TITLES = {
    "heldout": "Exam: held-out seeds",
    "heldout_template": "Exam: held-out templates",
    "miniwob": "Exam: MiniWoB++",
}
MOST_MODES = 9
FAR = 0.3
"""Pairs whose whole interval is farther from zero would squeeze the others in the chart."""


def exam_rows(stages: Sequence[Stage]) -> list[Result]:
    """Every episode of the exam runs, read together."""
    return results_of(gather({stage.path: stage.judged for stage in stages}))


def exams(stages: Sequence[Stage]) -> list[Section]:
    """A section for every exam that the runs hold."""
    if not stages:
        return []
    rows = exam_rows(stages)
    config = stages[0].manifest["config"]
    sections = []
    for name in dict.fromkeys(exam_of(r.task) for r in rows):
        here = [r for r in rows if exam_of(r.task) == name]
        section = Section(name, TITLES.get(name, f"Exam: {name}"))
        numbers = exam_numbers(
            here, resamples=config["eval"]["bootstrap"], seed=config["seed"], prices=config["eval"].get("prices")
        )
        if not numbers["models"]:
            continue
        _success(section, numbers)
        _pairs(section, numbers)
        _cost(section, numbers, str(config["eval"].get("prices_date", "")))
        _templates(section, numbers)
        _modes(section, here, numbers["models"])
        _controls(section, numbers)
        sections.append(section)
    return sections


def examples(stages: Sequence[Stage]) -> Section:
    """Episodes of the exam, chosen by rule."""
    section = Section("examples", "Examples from the exam")
    models = models_of([result_of(arm_of(t), t, v) for stage in stages for t, v in stage.judged])
    if len(models) > 1:
        section.examples = exam_examples({stage.path: stage.judged for stage in stages}, *compared(models))
    return section


def compared(models: Sequence[str]) -> tuple[str, str]:
    """The two models that before / after views put side by side: sft and rl, else the first and the last."""
    return ("sft", "rl") if {"sft", "rl"} <= set(models) else (models[0], models[-1])


def _success(section: Section, numbers: Mapping[str, Any]) -> None:
    scores = numbers["scores"]
    each = ", ".join(f"{m} {percent(s['success'])}" for m, s in reversed(scores.items()))
    section.lead.append(f"Of {numbers['n']} tasks solved: {each}.")
    rows = [(m, s["success"], tuple(s["interval"]), s["success_judged"]) for m, s in scores.items()]
    differ = any(s["judged"] < s["n"] for s in scores.values())
    caption = f"{numbers['n']} tasks, the same for every model; bars are 95 % Wilson intervals."
    if differ:
        caption += " Diamonds: over judged tasks only."
    section.charts.append(Chart("Tasks solved", plots.dots(rows), caption))
    table = []
    for model, s in scores.items():
        cost = numbers["cost"][model]
        outcomes = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in s["outcomes"].items() if k != "success")
        table.append(
            [
                model, f"{s['successes']} of {s['n']}", percent(s["success"]), between(s["interval"]),
                percent(s["success_judged"]), str(s["judged"]), number(s["steps_on_solved"], 2),
                number(cost["steps_per_success"], 1), number(cost["tokens_per_task"], 0),
                number(cost["wall_s_per_task"], 1), outcomes or "none",
            ]
        )  # fmt: skip
    head = (
        "model", "solved", "of all", "95 %", "of judged", "judged", "steps on solved", "steps per success",
        "tokens per task", "seconds per task", "not solved",
    )  # fmt: skip
    section.tables.append(Table(head, table, words=frozenset({len(head) - 1})))
    positive = numbers.get("raw_reward_above_zero") or {}
    if positive:
        said = ", ".join(f"{m} {won} of {scores[m]['n']}" for m, won in positive.items())
        section.notes.append(f"Solved means raw reward 1. With any raw reward above 0 as success: {said}.")
    gap = {m: c for m, c in numbers["claimed_not_done"].items() if c}
    if gap:
        said = ", ".join(f"{m} {c}" for m, c in gap.items())
        section.notes.append(f"Said to be done but judged not to be: {said} episodes.")


def _pairs(section: Section, numbers: Mapping[str, Any]) -> None:
    paired, models = numbers["paired"], numbers["models"]
    if not paired:
        return
    named = {key: named_pair(key, models) for key in paired}
    # The pairs that the work is about come first: the last model against the others, nearest first.
    order = sorted(paired, key=lambda k: (-models.index(named[k][0]), -models.index(named[k][1])))
    rows = [
        (f"{named[k][0]} \u2212 {named[k][1]}", paired[k]["difference"], tuple(paired[k]["interval"])) for k in order
    ]
    caption = "Same tasks; 95 % bootstrap over tasks, each pair by itself. Filled: zero lies outside."
    close = [row for row in rows if min(abs(x) for x in row[2]) < FAR]
    if close and len(close) < len(rows):
        caption += f" Pairs more than {100 * FAR:.0f} points apart are in the table only."
    section.charts.append(Chart("Paired differences in success", plots.forest(close or rows), caption))
    last = models[-1]
    section.lead += [verdict(paired[k], *named[k]) for k in order if named[k][0] == last]
    steps = [
        (f"{named[k][0]} \u2212 {named[k][1]}", c["difference"], tuple(c["interval"]))
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
                f"{a} \u2212 {b}", str(p["n"]), signed(p["difference"]), signed_interval(p["interval"]),
                signed(p["judged"]["difference"]), signed_interval(p["judged"]["interval"]),
                f"{p['a_only']} : {p['b_only']}", _p_value(p["mcnemar_p"]), str(c["n"]),
                f"{number(c['a'], 2)} : {number(c['b'], 2)}",
            ]
        )  # fmt: skip
    head = (
        "pair", "tasks", "all tasks", "95 %", "judged by both", "95 %", "only one solves", "McNemar p", "both solve",
        "their steps",
    )  # fmt: skip
    section.tables.append(Table(head, table, title="Paired differences, in points"))


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _cost(section: Section, numbers: Mapping[str, Any], prices_date: str) -> None:
    cost, scores = numbers["cost"], numbers["scores"]
    for key, label in (
        ("money_per_task", f"money per task (prices of {prices_date or 'unknown date'})"),
        ("tokens_per_task", "tokens per task, read and written"),
        ("steps_per_task", "browser steps per task"),
    ):
        points = {m: (cost[m][key], scores[m]["success"], tuple(scores[m]["interval"])) for m in scores if cost[m][key]}
        if len(points) > 1 and len(points) == len(scores):
            section.charts.append(Chart("Success against cost", plots.scatter(points, label)))
            break
    curves = {m: [(float(x), y) for x, y in curve] for m, curve in numbers["curve"].items() if len(curve) > 1}
    if curves:
        longest = max(len(c) for c in curves.values())
        whole = {m: c + [(float(x), c[-1][1]) for x in range(len(c) + 1, longest + 2)] for m, c in curves.items()}
        caption = "A success counts only if it took no more steps than the budget."
        section.charts.append(
            Chart("Success within a step budget", plots.lines(whole, "step budget", stairs=True), caption)
        )


def _templates(section: Section, numbers: Mapping[str, Any]) -> None:
    scores = numbers["scores"]
    templates = sorted({t for s in scores.values() for t in s["by_template"]})
    if len(templates) < 2:
        return
    rows: list[list[Cell | str]] = []
    for template in templates:
        counts = {m: s["by_template"].get(template) for m, s in scores.items()}
        n = max(c[1] for c in counts.values() if c)
        cells = [Cell(percent(c[0] / c[1], 0), c[0] / c[1]) if c else "" for c in counts.values()]
        rows.append([template, str(n), *cells])
    section.tables.append(Table(("template", "tasks", *scores), rows, title="Solved, by template"))


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
    controls = numbers["controls"]
    if not controls:
        return
    rows = [(f"{kind} pictures", c["success"], tuple(c["interval"]), None) for kind, c in controls.items()]
    first = next(iter(controls.values()))
    if first["true_pictures"] is not None:
        won = round(first["true_pictures"] * first["n"])
        rows.insert(0, ("true pictures", won / first["n"], tuple(wilson(won, first["n"])), None))
    shade = dict(zip([r[0] for r in rows], ("#d55e00", *["#7f8791"] * len(rows)), strict=False))
    caption = (
        f"{first['model']} on {first['n']} tasks when it is shown, instead of the page, a white picture or the picture "
        "of another task of the same site."
    )
    section.charts.append(Chart("Controls: does it look?", plots.dots(rows, shade), caption))
