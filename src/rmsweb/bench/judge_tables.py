"""What a judge-eval summary says, in the terminal (rich). Owns no number: reads a summary, says what is in it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmsweb.bench.wording import NONE, between, number, percent, signed, signed_interval

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def table(summary: Mapping[str, Any], console: "Console | None" = None) -> None:
    """Print what a summary says: labels, people among themselves, every judge under every reading, agents."""
    from rich.console import Console

    console = console or Console()
    for line in label_lines(summary):
        console.print(line, highlight=False, markup=False)
    for name, judge in summary["judges"].items():
        console.print(judge_table(name, judge))
        for line in judge_lines(name, judge):
            console.print(line, highlight=False, markup=False)
    if "agents" in summary:
        console.print(agent_table(summary["agents"]))
        for line in agent_lines(summary["agents"]):
            console.print(line, highlight=False, markup=False)
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
            f"  People among themselves: {humans['agree']} of {humans['pairs']} pairs agree, {_rate_of(humans)}, "
            f"kappa {_plain(humans['kappa'], humans.get('kappa_interval'))}"
        )
    return lines + [f"  {note}" for note in labels["notes"]]


def _rate_of(humans: Mapping[str, Any]) -> str:
    return f"{percent(humans['agreement'])} ({between(humans['interval'])})"


READ_AS = {
    "unjudged_as_failure": "no verdict = failure",
    "unjudged_left_out": "no verdict left out",
    "as_upstream": "as upstream stores it",
}
MEASURES = {
    "accuracy": "accuracy",
    "precision": "precision",
    "recall": "recall",
    "false_positive_rate": "false positives",
    "false_negative_rate": "false negatives",
}


def judge_table(name: str, judge: Mapping[str, Any]) -> "Table":
    """One column a reading of the verdicts, one row a measure, each with its 95 % interval."""
    head, rows = measures(judge)
    found = _table(f"{name} against human labels (95 % intervals)")
    for k, column in enumerate(head):
        found.add_column(column, justify="right" if k else "left")
    for row in rows:
        found.add_row(*row)
    return found


def measures(judge: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """(head, rows) of that table, for terminal and report."""
    unjudged = sum(judge["confusion"]["could_not_judge"].values())
    readings = [key for key in READ_AS if key in judge and (unjudged or key != "unjudged_left_out")]
    said = (READ_AS[key] if unjudged or key == "as_upstream" else "verdicts as said" for key in readings)
    rows = [["comparisons", *(str(judge[key]["n"]) for key in readings)]]
    for measure, words in MEASURES.items():
        rates = [judge[key][measure] for key in readings]
        rows.append([words, *(_percent(rate["value"], rate["interval"]) for rate in rates)])
    rows.append(["F1", *(_percent(judge[key]["f1"]["value"], judge[key]["f1"].get("interval")) for key in readings)])
    kappas = [judge[key]["kappa"] for key in readings]
    rows.append(["kappa", *(_plain(kappa["value"], kappa.get("interval")) for kappa in kappas)])
    gaps = [judge[key]["success_rate"] for key in readings]
    rows.append(["success-rate gap", *(f"{signed(gap['gap'])} {signed_interval(gap['interval'])}" for gap in gaps)])
    return ["measure", *said], rows


def _percent(value: float | None, interval: Sequence[float] | None) -> str:
    return percent(value) + (f" ({between(interval)})" if interval else "")


def _plain(value: float | None, interval: Sequence[float] | None) -> str:
    if interval is None:
        return number(value, 2)
    return f"{number(value, 2)} ({number(interval[0], 2)} to {number(interval[1], 2)})"


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
    """One row an agent: human success, steps, tokens, cost (a 0 that was recorded beside tokens is not known)."""
    from rich.text import Text

    found = _table("Agents by their human labels")
    found.add_column("agent", overflow="fold")
    for heading in ("n", "solved", "success", "steps", "on solved", "input tokens", "cost"):
        found.add_column(heading, justify="right")
    for name, agent in agents.items():
        found.add_row(
            Text(name), str(agent["n"]), str(agent["solved"]), percent(agent["success"]), number(agent["steps_all"], 2),
            number(agent["steps_on_solved"], 2), NONE if (tokens := agent["input_tokens"]) is None else f"{tokens:,}",
            _cost(agent),
        )  # fmt: skip
    return found


def _cost(agent: Mapping[str, Any]) -> str:
    """What is recorded; of how many attempts, where that is not all."""
    if agent["cost_recorded"] is None:
        return "unknown"
    known = agent["n"] - agent["cost_unknown"]
    return f"${agent['cost_recorded']:.2f}" + (f" for {known} of {agent['n']}" if agent["cost_unknown"] else "")


def agent_lines(agents: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What of an agent's labelled attempts is odd: broken by the machine, or left out of the table."""
    lines = []
    for name, agent in agents.items():
        kinds = (("aborted", "aborted, counted by their labels"), ("without_steps", "left out: no step count"))
        if said := [f"{agent[key]} {words}" for key, words in kinds if agent[key]]:
            lines.append(f"{name}: {'; '.join(said)}")
    return lines


def paired_table(rows: Sequence[Mapping[str, Any]]) -> "Table":
    """One row a pair of agents: steps on the tasks that both solved."""
    from rich.text import Text

    found = _table("Steps on tasks that both solved, and tasks that only one solved")
    for heading in ("a", "b"):
        found.add_column(heading, overflow="fold")
    for heading in ("both", "steps a", "steps b", "only a", "only b"):
        found.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        steps = (number(row["steps_a"], 2), number(row["steps_b"], 2))
        found.add_row(
            Text(row["a"]), Text(row["b"]), str(row["both_solved"]), *steps, str(row["a_only"]), str(row["b_only"])
        )
    return found


def _table(title: str) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    return Table(title=Text(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
