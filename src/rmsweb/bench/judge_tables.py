"""What a judge-eval summary says, in the terminal (rich). Owns no number: reads a summary, says what is in it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmsweb.bench.wording import NONE, between, number, percent, signed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def table(summary: Mapping[str, Any], console: "Console | None" = None) -> None:
    """Print what a summary says: labels, people among themselves, every judge under every reading, agents."""
    from rich.console import Console

    console = console or Console()
    for line in label_lines(summary):
        console.print(line, highlight=False)
    console.print(judge_table(summary["judges"]))
    for name, judge in summary["judges"].items():
        for line in judge_lines(name, judge):
            console.print(line, highlight=False)
    if "agents" in summary:
        console.print(agent_table(summary["agents"]))
        console.print(paired_table(summary["paired_steps"]))


def label_lines(summary: Mapping[str, Any]) -> list[str]:
    """What the labels are, and how far people agree: the ceiling for any judge."""
    labels, humans = summary["labels"], summary["humans"]
    lines = [
        f"Labels: {labels['format']}, {labels['rows']} rows, {labels['trajectories']} trajectories, "
        f"{labels['annotators']} annotators; rule for several annotators: {labels['rule']}"
    ]
    if labels["not_executable"]:
        lines.append(f"  {labels['not_executable']} not executable: counted as failures")
    if labels["several_annotators"]:
        lines.append(
            f"  {labels['several_annotators']} labelled by several people: {labels['contradictory']['count']} "
            f"contradictory, {labels['ties']['count']} ties, {labels['undecided']['count']} without a label"
        )
    if humans["pairs"]:
        lines.append(
            f"  People among themselves: {humans['agree']} of {humans['pairs']} pairs agree, "
            f"{percent(humans['agreement'])} ({between(humans['interval'])}), kappa {_kappa(humans)}"
        )
    return lines + [f"  {note}" for note in labels["notes"]]


def _kappa(humans: Mapping[str, Any]) -> str:
    interval = humans.get("kappa_interval")
    return number(humans["kappa"], 2) + (f" ({_from_to(interval)})" if interval else "")


def _from_to(interval: Sequence[float] | None) -> str:
    return NONE if interval is None else f"{number(interval[0], 2)} to {number(interval[1], 2)}"


READ_AS = {
    "unjudged_as_failure": "no verdict = failure",
    "unjudged_left_out": "no verdict left out",
    "as_upstream": "as upstream stores it",
}


def judge_table(judges: Mapping[str, Mapping[str, Any]]) -> "Table":
    """One row a judge and reading; rates in percent, intervals of 95 %."""
    found = _table("Judges against human labels (95 % intervals: Wilson; kappa and F1 by bootstrap over tasks)")
    headings = ("judge", "reading", "n", "accuracy", "precision", "recall", "F1", "kappa", "false pos.", "false neg.")
    for heading in (*headings, "gap in points"):
        found.add_column(heading, justify="left" if heading in ("judge", "reading") else "right")
    for name, judge in judges.items():
        unjudged = sum(judge["confusion"]["could_not_judge"].values())
        readings = [key for key in READ_AS if key in judge and (unjudged or key != "unjudged_left_out")]
        for key in readings:
            rates = judge[key]
            f1, kappa = rates["f1"], rates["kappa"]
            found.add_row(
                name, READ_AS[key] if unjudged or key == "as_upstream" else "as it says", str(rates["n"]),
                *(_rate(rates[rate]) for rate in ("accuracy", "precision", "recall")),
                f"{percent(f1['value'])}\n{between(f1.get('interval'))}",
                f"{number(kappa['value'], 2)}\n{_from_to(kappa.get('interval'))}",
                *(_rate(rates[rate]) for rate in ("false_positive_rate", "false_negative_rate")),
                signed(rates["success_rate"]["gap"]),
            )  # fmt: skip
    return found


def _rate(rate: Mapping[str, Any]) -> str:
    return f"{percent(rate['value'])}\n{between(rate['interval'])}"


def judge_lines(name: str, judge: Mapping[str, Any]) -> list[str]:
    """The confusion table in words, and what is not in it."""
    rows = judge["confusion"]
    said = ", ".join(
        f"{row.replace('_', ' ')}: {cells['success']} human success, {cells['failure']} human failure"
        for row, cells in rows.items()
        if row != "could_not_judge" or sum(cells.values())
    )
    lines = [f"{name}: {judge['n']} comparisons on {judge['tasks']} tasks; {said}"]
    kinds = (
        ("judged_without_label", "judged, no label"),
        ("judged_with_undecided_label", "judged, label undecided"),
        ("labels_without_judgement", "labelled, not judged"),
        ("ambiguous", "fit several labels or trajectories"),
    )
    apart = [f"{judge[key]['count']} {words}" for key, words in kinds if judge[key]["count"]]
    if apart:
        lines.append(f"  left out: {'; '.join(apart)}")
    if judge["clustered"]:
        lines.append("  several trajectories share a task: Wilson intervals are somewhat too narrow (summary: by task)")
    if mean := judge["by_agent"].get("mean_over_parts"):
        one = mean["unjudged_as_failure"]
        lines.append(
            f"  mean over {len(judge['by_agent']['parts'])} agents: accuracy {percent(one['mean_accuracy'])}, "
            f"success-rate gap {number(100 * one['mean_absolute_gap'])} points"
        )
    return lines


def agent_table(agents: Mapping[str, Mapping[str, Any]]) -> "Table":
    """One row an agent: human success, steps, tokens, cost (unknown where 0 was recorded beside tokens)."""
    found = _table("Agents by their human labels")
    for heading in ("agent", "n", "solved", "success", "steps, all", "steps, solved", "input tokens", "cost"):
        found.add_column(heading, justify="left" if heading == "agent" else "right")
    for name, agent in agents.items():
        found.add_row(
            name, str(agent["n"]), str(agent["solved"]), percent(agent["success"]), number(agent["steps_all"], 2),
            number(agent["steps_on_solved"], 2), f"{agent['input_tokens']:,}",
            "unknown" if agent["cost"] is None else f"${agent['cost']:.2f}",
        )  # fmt: skip
    return found


def paired_table(rows: Sequence[Mapping[str, Any]]) -> "Table":
    """One row a pair of agents: steps on the tasks that both solved."""
    found = _table("Steps on tasks solved by both")
    for heading in ("a", "b", "both solved", "steps a", "steps b", "only a solved", "only b solved"):
        found.add_column(heading, justify="left" if heading in ("a", "b") else "right")
    for row in rows:
        steps = (number(row["steps_a"], 2), number(row["steps_b"], 2))
        found.add_row(row["a"], row["b"], str(row["both_solved"]), *steps, str(row["a_only"]), str(row["b_only"]))
    return found


def _table(title: str) -> "Table":
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
