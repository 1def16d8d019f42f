"""Published figures: grouped by what they may be compared under, second-hand ones visibly so."""

import io

import pytest
from rich.console import Console

from rmsweb.bench import leaderboard
from rmsweb.errors import DataError


def value(benchmark: str, model: str, protocol: str) -> list[float | None]:
    rows = leaderboard.rows()
    return [r.value for r in rows if (r.benchmark, r.model) == (benchmark, model) and protocol in r.heading.protocol]


def test_figures_stand_under_their_protocol() -> None:
    assert value("WebVoyager", "Fara-7B", "webvoyager/fara") == [73.5, 73.5]
    assert value("WebTailBench", "Fara-7B", "rubric/process") == [48.8]
    assert value("WebTailBench", "Fara-7B", "rubric/outcome") == [24.1]
    assert value("WebTailBench", "Fara-7B", "older than the Universal Verifier") == [38.4]
    assert value("WebTailBench", "MolmoWeb-8B", "webvoyager/molmoweb") == [49.5]
    assert value("Online-Mind2Web", "OpenWebRL-4B", "agenttrek") == [67.0]
    assert value("Online-Mind2Web", "Qwen3-VL-8B-Instruct", "OpenForge") == [38.7]
    assert value("Online-Mind2Web", "Qwen3-VL-8B-Instruct", "Weblica") == [28.6]


def test_no_heading_holds_unlike_figures() -> None:
    for heading, rows in leaderboard.grouped().items():
        assert {row.heading for row in rows} == {heading}
        assert len({(row.model, row.source) for row in rows}) == len(rows)
        if leaderboard.UNSTATED in heading.protocol:
            assert len({row.source for row in rows}) == 1, "what states no protocol stands alone"
        values = [row.value or 0.0 for row in rows]
        assert values == sorted(values, reverse=True)
    assert all(row.source and (row.value is None or 0 < row.value <= 100) for row in leaderboard.rows())


def test_rmsweb_has_gains_and_no_absolute_value() -> None:
    own = [row for row in leaderboard.rows() if row.model.startswith("RMSWeb")]
    assert [(row.model, row.value, row.said) for row in own] == [
        ("RMSWeb 8B", None, "+2.4 to +7.0 points"),
        ("RMSWeb 32B", None, "+1.2 to +7.7 points"),
    ]
    assert all(row.tag == "S" for row in own)


def test_the_printed_table() -> None:
    console = Console(width=100, file=io.StringIO(), record=True)
    leaderboard.table(console)
    said = console.export_text()
    lines = said.splitlines()
    weblica = next(i for i, line in enumerate(lines) if "Weblica's judge" in line)
    assert any("SECOND-HAND" in line for line in lines[weblica : weblica + 8])
    for part in ("Only figures under one heading may be compared", "+2.4 to +7.0 points", "90.53", "87.0"):
        assert part in said, part
    assert "[S]" not in said


def test_a_heading_that_does_not_state_everything_says_that_nothing_under_it_compares() -> None:
    for heading in leaderboard.grouped():
        whole = leaderboard.UNSTATED not in heading.said + heading.version
        assert (heading.warning == "") is whole
    bare = leaderboard.Heading("WebVoyager", "595 tasks", "webvoyager/fara", "not stated", "not stated", "all")
    assert bare.warning.endswith("may be compared: judge model, step limit not stated.")
    assert bare._replace(judge="GPT-4o", step_cap="100").warning == ""
    console = Console(width=200, file=io.StringIO(), record=True)
    leaderboard.table(console)
    lines = console.export_text().splitlines()
    stated = [i for i, line in enumerate(lines) if line.startswith("judged by")]
    for i in stated:
        assert lines[i + 1].startswith("Not even the figures under this heading") is (
            "not stated" in lines[i - 1] + lines[i]
        )


def test_a_figure_that_another_source_states_too_says_so_at_its_row() -> None:
    """Of rows with one benchmark and one figure in two sources, one is marked as what may be copied."""
    rows = [row for row in leaderboard.rows() if row.value is not None]
    for row in rows:
        twins = [o for o in rows if (o.benchmark, o.value) == (row.benchmark, row.value) and o.source != row.source]
        twins = [o for o in twins if o.model[:8] == row.model[:8] and not o.model.startswith("Fara")]
        if twins:
            assert any("may be copied" in one.note for one in (row, *twins)), (row.model, row.source)
    molmo = [row for row in rows if row.model == "MolmoWeb-8B" and row.source == "Fara1.5 README"]
    assert [row.value for row in molmo] == [78.2, 35.3]
    assert all("may be copied" in row.note and "allenai/molmoweb" in row.note for row in molmo)


def test_a_spoilt_file_is_said_to_be_so() -> None:
    with pytest.raises(DataError, match=r"leaderboard\.toml: is not TOML"):
        leaderboard.read("[[table]")
    with pytest.raises(DataError, match=r"leaderboard\.toml: tag"):
        leaderboard.read('[[table]]\nbenchmark = "x"\nsource = "y"\ntag = "Q"\n[table.values]\nm = 1.0\n')
