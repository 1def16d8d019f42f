"""Published figures: grouped by what they may be compared under, second-hand ones visibly so."""

import io

import pytest

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
    from rich.console import Console

    console = Console(width=100, file=io.StringIO(), record=True)
    leaderboard.table(console)
    said = console.export_text()
    lines = said.splitlines()
    weblica = next(i for i, line in enumerate(lines) if "Weblica's judge" in line)
    assert any("SECOND-HAND" in line for line in lines[weblica : weblica + 8])
    for part in ("Only figures under one heading may be compared", "+2.4 to +7.0 points", "90.53", "87.0"):
        assert part in said, part


def test_a_spoilt_file_is_said_to_be_so() -> None:
    with pytest.raises(DataError, match=r"leaderboard\.toml: is not TOML"):
        leaderboard.read("[[table]")
    with pytest.raises(DataError, match=r"leaderboard\.toml: tag"):
        leaderboard.read('[[table]]\nbenchmark = "x"\nsource = "y"\ntag = "Q"\n[table.values]\nm = 1.0\n')
