"""The numbers of a summary as tables in the terminal (rich). Owns no number: reads a summary, says what is in it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rmsweb.bench.wording import between, bounds_said, named_pair, number, pair_bounds, percent, signed, verdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PARTS = ("paired", "controls", "n", "dataset", "what")


def models_in(heldout: Mapping[str, Any]) -> list[str]:
    """Model names of a `heldout` summary, in its order (other exams stand there too and carry `paired`)."""
    return [
        key
        for key, value in heldout.items()
        if key not in PARTS and isinstance(value, Mapping) and "success" in value and "paired" not in value
    ]


def exams_in(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """exam name -> its summary: `heldout`, then those kept apart inside it or beside it."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, value in summary.items():
        if isinstance(value, Mapping) and "paired" in value:
            found[name] = value
            found.update({k: v for k, v in value.items() if isinstance(v, Mapping) and "paired" in v})
    return found


def demo_table(summary: Mapping[str, Any], console: "Console | None" = None) -> None:
    """Print what a demo or an exam measured: both collect arms, models, differences, controls."""
    from rich.console import Console

    console = console or Console()
    if "collect" in summary:
        console.print(collect_table(summary["collect"]))
    for name, exam in exams_in(summary).items():
        if not models_in(exam):
            continue
        console.print(model_table(name, exam))
        for line in exam.get("what", ()):
            console.print(line, highlight=False, style="dim")
        for line in exam.get("warnings", ()):
            console.print(line, highlight=False, markup=False, style="yellow")
        if exam["paired"]:
            console.print(paired_table(exam))
        for line in control_lines(exam):
            console.print(line, highlight=False)


def collect_table(collect: Mapping[str, Mapping[str, Any]]) -> "Table":
    """One row an arm: yield by attempt, steps of kept successes, browser steps per success."""
    curves = {arm: yields(value.get("yield_at")) for arm, value in collect.items()}
    # An arm may have resampled more often than the other: the common attempts one by one, then the end.
    width = min((len(curve) for curve in curves.values() if curve), default=0)
    table = _table("Collection: solved within k attempts")
    headings = (
        "arm",
        *(f"k = {k + 1}" for k in range(width)),
        "in the end",
        "steps of kept",
        "browser steps / success",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "arm" else "right", no_wrap=heading == "arm")
    for arm, value in collect.items():
        cells = [percent(rate) for rate in curves[arm][:width]] + [""] * (width - len(curves[arm]))
        cells.append(percent(curves[arm][-1]) if curves[arm] else "")
        kept, spent = value.get("steps_of_kept"), value.get("browser_steps_per_success")
        table.add_row(arm, *cells, number(_last(kept), 2), number(_last(spent), 1))
    return table


def yields(value: Any) -> list[float]:
    """Yields by attempt from a list or from a mapping keyed by the number of attempts."""
    if isinstance(value, Mapping):
        return [float(value[key]) for key in sorted(value, key=lambda k: int(k))]
    return [float(x) for x in value or ()]


def model_table(name: str, exam: Mapping[str, Any]) -> "Table":
    """One row a model: success on both denominators with intervals, steps on solved."""
    table = _table(f"Exam {name}: {exam['n']} tasks, the same for every model")
    table.add_column("model")
    for heading in ("solved", "95 % interval", "of judged", "steps on solved"):
        table.add_column(heading, justify="right")
    for model in models_in(exam):
        e = exam[model]
        table.add_row(
            model, percent(e["success"]), between(e["interval"]), percent(e.get("success_judged")),
            number(e.get("steps_on_solved"), 2),
        )  # fmt: skip
    return table


def paired_table(exam: Mapping[str, Any]) -> "Table":
    """One row a pair: difference in points, interval, and what it says."""
    models = models_in(exam)
    table = _table("Paired differences on the same tasks, in points (95 % bootstrap interval)")
    table.add_column("pair", no_wrap=True)
    table.add_column("difference", justify="right", no_wrap=True)
    table.add_column("interval", justify="right", no_wrap=True)
    table.add_column("reading")
    for key, pair in exam["paired"].items():
        a, b = named_pair(key, models)
        table.add_row(
            f"{a} {chr(0x2212)} {b}", signed(pair["difference"]), bounds_said(pair_bounds(pair)), verdict(pair, a, b)
        )
    return table


def control_lines(exam: Mapping[str, Any]) -> Sequence[str]:
    """One sentence a control."""
    lines = []
    for kind, c in exam.get("controls", {}).items():
        beside = f", {percent(c['true_pictures'])} with the true ones" if c.get("true_pictures") is not None else ""
        lines.append(
            f"{kind} screenshots, {c['model']}: {percent(c['success'])} ({between(c['interval'])}) "
            f"of {c['n']} tasks{beside}"
        )
    return lines


def _last(value: Any) -> float | None:
    """A number, or the last of a list of numbers (some summaries give one for each attempt)."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return float(value[-1]) if value and value[-1] is not None else None
    return None if value is None else float(value)


def _table(title: str) -> "Table":
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
