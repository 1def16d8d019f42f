"""What an exam's attempts cost, beside what they solve: charts with their Pareto front, the step budget, a table."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rmsweb.bench import plots
from rmsweb.bench.compare import Group
from rmsweb.bench.layout import Chart, Section, Table
from rmsweb.bench.wording import NONE, number

KINDS = ("money_per_task", "tokens_per_task", "steps_per_task")
"""What success is set against: the first that is known of every model, and steps in any case."""


def add(section: Section, numbers: Mapping[str, Any], group: Group) -> None:
    """Put charts and tables of cost into the section of an exam."""
    rated = [m for m in numbers["models"] if numbers["scores"][m]["judged"]]
    dates = prices_dates(group)
    words = {
        "money_per_task": f"money per episode (prices of {dates or 'the runs themselves'})",
        "tokens_per_task": "tokens per episode, read and written",
        "steps_per_task": "steps per episode, solved or not",
    }
    known = [kind for kind in KINDS if rated and all(numbers["cost"][m][kind] for m in rated)]
    if len(rated) > 1:
        for kind in dict.fromkeys([*known[:1], *known[-1:]]):
            _against(section, numbers, rated, kind, words[kind])
    _budget(section, numbers, rated)
    _table(section, numbers, dates, changes(group, numbers))


def prices_dates(group: Group) -> str:
    """Days of the price tables that the group's runs were made with."""
    configs = [paper.stage.manifest["config"].get("eval", {}) for paper in group.papers]
    return ", ".join(sorted({str(c.get("prices_date") or "unknown day") for c in configs if c.get("prices")}))


def _against(section: Section, numbers: Mapping[str, Any], models: list[str], kind: str, label: str) -> None:
    scores, costs, spread = numbers["scores"], numbers["cost"], numbers["spread"]
    points = {
        m: plots.Spot(
            costs[m][kind], scores[m]["success"], tuple(scores[m]["interval"]),
            tuple(spread[m][kind]) if spread[m].get(kind) else None,
        )
        for m in models
    }  # fmt: skip
    best = plots.front({m: (spot.x, spot.rate) for m, spot in points.items()})
    title = "Success against steps" if kind == "steps_per_task" else "Success against cost"
    caption = f"Filled and joined: no other model is both cheaper and better ({', '.join(best)}). Bars: 95 %."
    section.charts.append(Chart(title, plots.scatter(points, label, best), caption))


def _budget(section: Section, numbers: Mapping[str, Any], models: list[str]) -> None:
    curves = {m: [(float(x), y) for x, y in numbers["curve"][m]] for m in models if len(numbers["curve"][m]) > 1}
    if not any(curve[-1][1] for curve in curves.values()):
        return  # nothing to see, and an axis of thousandths
    longest = max(len(c) for c in curves.values())
    whole = {m: c + [(float(x), c[-1][1]) for x in range(len(c) + 1, longest + 2)] for m, c in curves.items()}
    caption = "A success counts only if it took no more steps than the budget."
    if without := [m for m in models if not numbers["curve"][m] and numbers["scores"][m]["successes"]]:
        caption += f" No line for {', '.join(without)}: the steps of some of what they solved are not known."
    svg = plots.lines(whole, "step budget", stairs=True)
    section.charts.append(Chart("Success within a step budget", svg, caption))


def changes(group: Group, numbers: Mapping[str, Any]) -> list[str]:
    """A line for every model that several like runs hold: how its tokens and steps changed from run to run."""
    held: dict[str, list[str]] = {}
    for paper in group.papers:
        for model, name in paper.names.items():
            if model and name in numbers["cost"]:
                held.setdefault(model, []).append(name)
    said = []
    for names in held.values():
        for before, after in pairwise(names):
            old, new = numbers["cost"][before], numbers["cost"][after]
            parts = [
                f"{word} {old[kind]:.0f} to {new[kind]:.0f} ({new[kind] / old[kind]:.2f} times)"
                for kind, word in (("tokens_per_task", "tokens"), ("steps_per_task", "steps"))
                if old[kind] and new[kind]
            ]
            if parts:
                said.append(f"From {before} to {after}, per episode: {', '.join(parts)}.")
    return said


def _table(section: Section, numbers: Mapping[str, Any], dates: str, changed: Sequence[str]) -> None:
    rows = []
    for model in numbers["models"]:
        c = numbers["cost"][model]
        if not c["tokens_per_task"] and not c["money_per_task"]:
            continue
        by = {"prices": f"prices of {dates}", "record": "the run's own record"}.get(c["money_by"], "")
        if not by:
            all_unknown = c["money_unknown"] == c["episodes"]
            by = "no prices, no recorded cost" if all_unknown else f"unknown for {c['money_unknown']} episodes"
        rows.append(
            [
                model, number(c["steps_per_task"], 1), number(c["steps_per_success"], 1),
                number(c["tokens_per_task"], 0), number(c["tokens_per_success"], 0),
                money(c["money_per_task"]), money(c["money_per_success"]), by,
            ]
        )  # fmt: skip
    if rows:
        head = (
            "model", "steps per episode", "steps per success", "tokens per episode", "tokens per success",
            "money per episode", "money per success", "money by",
        )  # fmt: skip
        notes = ["What the judge used is not in it. A recorded cost of 0 beside tokens is unknown, not free.", *changed]
        section.tables.append(Table(head, rows, title="Cost of the attempts", words=frozenset({7}), notes=notes))


def money(value: float | None) -> str:
    """Three digits that count."""
    return NONE if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"
