"""Synthetic rows of every layout, and files that are wrong: taken, taken with a remark, or refused by name."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rmsweb.errors import ConfigError, DataError
from rmsweb.tasksets import load, only, together
from rmsweb.tasksets.making import search_page
from rmsweb.tasksets.references import reference_answers

SEARCH = "https://search.example/find?q={query}"
WV = {"web_name": "BBC News", "id": "BBC News--3", "ques": "Read this page.", "web": "https://www.bbc.com/news/"}
OM = {
    "task_id": "0" * 32,
    "confirmed_task": "Find a page.",
    "website": "https://www.example.com/a",
    "reference_length": 7,
    "level": "medium",
}
ITEMS = [{"criterion": "c", "description": "d", "max_points": 3, "justification": "", "earned_points": ""}]
WTB = {"id": "made_1", "category": "flights", "ques": "Fly.\r", "web": "", "precomputed_rubric": {"items": ITEMS}}


def jsonl(tmp_path: Path, *rows: Any, name: str = "tasks.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def text(tmp_path: Path, content: str, name: str = "tasks.txt") -> Path:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


def test_a_webvoyager_row(tmp_path: Path) -> None:
    taskset = load(jsonl(tmp_path, WV | {"ans": "42", "extra": [1]}))
    task = taskset.tasks[0]
    assert (task.id, task.site, task.template, task.goal) == ("BBC News--3", "BBC News", "BBC News", "Read this page.")
    assert task.meta == {"web_name": "BBC News"} and "42" not in task.model_dump_json()
    assert taskset.name == "webvoyager" and taskset.version.startswith("unknown")


def test_an_online_mind2web_row(tmp_path: Path) -> None:
    task = load(jsonl(tmp_path, OM)).tasks[0]
    assert (task.site, task.template) == ("example.com", "medium")
    assert task.meta == {"level": "medium", "reference_length": 7}
    without = {k: v for k, v in OM.items() if k != "level"}
    found = load(jsonl(tmp_path, without, OM | {"task_id": "1" * 32, "level": "HARD"}))
    assert [t.template for t in found.tasks] == ["medium", "hard"]
    assert [n for n in found.notes if "level" in n] == [
        "1 task had no level and got the one of their reference length",
        "1 task with another level than their reference length says (the file's is kept)",
    ]


def test_a_webtailbench_row_without_an_address_starts_at_the_search_page(tmp_path: Path) -> None:
    found = load(jsonl(tmp_path, WTB, WTB | {"id": "b", "web": "www.airline.example/x"}), search_url=SEARCH)
    first, second = found.tasks
    assert (first.start_url, first.site, first.goal) == ("https://search.example/find", "", "Fly.")
    assert first.meta["start"] == "search page" and first.meta["rubric"] == {"items": ITEMS}
    assert (second.start_url, second.site) == ("https://www.airline.example/x", "airline.example")
    assert "1 task had no start address and start at the search page (https://search.example/find)" in found.notes
    with pytest.raises(DataError, match=r"tasks.jsonl:1: task made_1: no start address"):
        load(jsonl(tmp_path, WTB))


@pytest.mark.parametrize(
    ("url", "page"),
    [
        ("https://duckduckgo.com/?q={query}", "https://duckduckgo.com/"),
        ("https://s.example/search/{query}", "https://s.example/"),
        ("https://s.example/web?q={query}&x=1", "https://s.example/web"),
        ("https://s.example", "https://s.example/"),
        ("", ""),
    ],
)
def test_the_search_page(url: str, page: str) -> None:
    assert search_page(url) == page


@pytest.mark.parametrize("field", ["web", "website"])
def test_elsewhere_a_missing_address_is_an_error_with_file_line_and_id(tmp_path: Path, field: str) -> None:
    row = WV if field == "web" else OM
    for gone in ({**row, field: ""}, {**row, field: None}, {k: v for k, v in row.items() if k != field}):
        ident = str(row.get("id") or row.get("task_id"))
        with pytest.raises(DataError, match=rf"tasks.jsonl:2: task {ident}: no start address \({field} is missing\)"):
            other = row | ({"id": "BBC News--4"} if field == "web" else {"task_id": "2" * 32})
            load(jsonl(tmp_path, other, gone), search_url=SEARCH)
    kept = load(jsonl(tmp_path, WV, WV | {"id": "BBC News--9", "web": ""}), skip={"BBC News--9": "no address"})
    assert [t.id for t in kept.tasks] == ["BBC News--3"] and kept.excluded == {"BBC News--9": "no address"}


def test_tab_separated_values_with_and_without_a_header(tmp_path: Path) -> None:
    rubric = json.dumps({"items": ITEMS}).replace('"', '""')
    row = f'hotels\th_1\tSleep.\thttps://h.example/\t"{rubric}"\t"[""Rest.""]"'
    head = "benchmark\tsubdir\ttask_summary\tinit_url\tprecomputed_rubric\ttask_rephrasings"
    for content in (f"{head}\r\n{row}\r\n", f"{row}\n", f"{head}\n\n{row}"):
        task = load(text(tmp_path, content, "w.tsv"), search_url=SEARCH).tasks[0]
        assert (task.id, task.template, task.start_url) == ("h_1", "hotels", "https://h.example/")
        assert task.meta["rubric"] == {"items": ITEMS} and task.meta["rephrasings"] == ["Rest."]
    old = load(text(tmp_path, "benchmark\tid\ttask_summary\nflights\tf_1\tFly.\n", "o.tsv"), search_url=SEARCH)
    assert old.tasks[0].id == "f_1" and "1 task without a rubric" in old.notes


def test_refusals_are_a_set_of_their_own(tmp_path: Path) -> None:
    content = "benchmark\tid\ttask_summary\nfraud\tr_1\tDo harm.\n"
    refusals = load(text(tmp_path, content, "WebTailBench-Refusals.tsv"), search_url=SEARCH)
    assert refusals.name == refusals.tasks[0].suite == "webtailbench_refusals"
    tasks = load(jsonl(tmp_path, WTB | {"id": "pharmacy_1", "category": "harmony"}), search_url=SEARCH)
    assert tasks.name == "webtailbench"
    with pytest.raises(ConfigError, match="are scored apart"):
        together([tasks, refusals])
    with pytest.raises(DataError, match="mixes tasks to do"):
        rows = [WTB | {"id": "united_13"}, WTB | {"id": "x_1", "category": "refusals"}]
        load(jsonl(tmp_path, *rows), search_url=SEARCH)


def test_gaia_answers_are_not_read(tmp_path: Path) -> None:
    row = {
        "task_id": "u",
        "Level": 2,
        "Final answer": "egalitarian",
        "id": "level2-0",
        "web": "https://www.google.com/",
    }
    taskset = load(jsonl(tmp_path, row | {"ques": "Which word?"}))
    assert taskset.name == "gaia_web" and taskset.tasks[0].template == "level 2"
    assert "egalitarian" not in taskset.tasks[0].model_dump_json()


def test_line_ends_byte_order_mark_and_separators_within_texts(tmp_path: Path) -> None:
    row = WV | {"ques": " one\r\ntwo\u2028three\x85four "}
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(row, ensure_ascii=False).encode() + b"\r\n\r\n")
    assert load(path).tasks[0].goal == "one\ntwo\u2028three\x85four"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_one_content_in_every_form_is_one_set(tmp_path: Path, end: str) -> None:
    rows = [WV, WV | {"id": "BBC News--4", "ques": 'Say "a\u2028b".'}]
    table = [list(WV), *(['"' + str(cell).replace('"', '""') + '"' for cell in row.values()] for row in rows)]
    forms = [
        end.join(map(json.dumps, rows)),
        json.dumps(rows),
        json.dumps(rows, indent=1).replace("\n", end),
        end.join("\t".join(row) for row in table),
    ]
    hashes = set()
    for mark in ("", "\ufeff"):
        for form in forms:
            path = tmp_path / "form"
            path.write_bytes((mark + form).encode())
            found = load(path)
            hashes.add((found.ids_hash, found.text_hash, found.version))
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([WV, WV], r"jsonl:2: task id BBC News--3 occurs twice, first in line 1"),
        ([WV, WV | {"ques": "Other."}], r"jsonl:2: task id BBC News--3 occurs twice, first in line 1"),
        ([WV, WV | {"id": " BBC News--3 "}], r"jsonl:2: task id BBC News--3 occurs twice"),
        ([WV, WV | {"id": "bbc news--3"}], r"jsonl:2: task id 'bbc news--3' differs from 'BBC News--3' in line 1 only"),
        ([WV | {"id": "Caf\u00e9"}, WV | {"id": "Cafe\u0301"}], "only in case, blanks or Unicode form"),
        ([WV | {"id": "a\u200b"}], "cannot name a file"),
        ([WV | {"ques": "\u200b\ufeff "}], "ques is empty"),
        ([WV | {"id": None}], "id has to be a text that names the task, it is missing"),
        ([WV | {"id": 3}], "id has to be a text"),
        ([WV | {"id": "a\nb"}], "cannot name a file"),
        ([WV | {"ques": " \r\n"}], "task BBC News--3: ques is empty"),
        ([WV | {"ques": ["x"]}], r'ques has to be a text, it is \["x"\]'),
        ([WV | {"web": "ftp://x.example/"}], "is no web address"),
        ([WV | {"web": "https://"}], "is no web address"),
        ([WV | {"web": "http://[::1/"}], "is no web address"),
        ([WV | {"web": ["https://x.example/"]}], "web has to be a text"),
        ([WV | {"ques": "\ud800"}], "holds half a character"),
        ([OM | {"level": "extreme"}], "level has to be one of easy, medium, hard"),
        ([OM | {"level": ["easy"]}], "level has to be one of"),
        ([OM | {"reference_length": "many"}], "reference_length has to be a whole number"),
        ([OM | {"reference_length": 2.5}], "reference_length has to be a whole number"),
        ([OM | {"level": None, "reference_length": None}], "both missing"),
        ([WTB | {"precomputed_rubric": "{"}], r"precomputed_rubric: not JSON.*; leave it empty"),
        ([WTB | {"precomputed_rubric": []}], "precomputed_rubric: expected an object with `items`"),
        ([WTB | {"precomputed_rubric": {"items": None}}], "`items` should be a list"),
        ([WTB | {"precomputed_rubric": {"items": [None]}}], r"precomputed_rubric.items\[0\]: expected an object"),
        (
            [WTB | {"precomputed_rubric": {"items": [ITEMS[0] | {"max_points": "3"}]}}],
            "`max_points` should be a number",
        ),
        (
            [WTB | {"precomputed_rubric": {"items": [ITEMS[0] | {"max_points": True}]}}],
            "`max_points` should be a number",
        ),
        ([WTB | {"precomputed_rubric": {"items": [ITEMS[0] | {"max_points": 0}]}}], "`max_points` should be above 0"),
        ([WTB | {"precomputed_rubric": {"items": [ITEMS[0] | {"condition": 1}]}}], "`condition` should be a text"),
        ([WTB | {"task_rephrasings": {"a": 1}}], "task_rephrasings has to be a list of texts"),
        ([["x"]], "a row is a JSON object"),
        ([{"prompt": "x"}], "is no task file that rmsweb knows: its rows have prompt"),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, rows: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load(jsonl(tmp_path, *rows), search_url=SEARCH)
    assert str(caught.value).startswith(str(tmp_path / "tasks.jsonl"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("[]", "holds no rows"),
        ("[", "is no JSON"),
        ('[{"id": "a"} {"id": "b"}]', "comma"),
        (f"[\n{json.dumps(WV)},\n\n{{]", r"tasks.txt:4: is no JSON"),
        (f"[{json.dumps(WV)}] tail", "goes on after the end"),
        (f"[{json.dumps(WV)},]", "is no JSON"),
        ('{"a": {"b": 1}\n}', "one JSON object"),
        ('{"id": "a"\n{"id": "b"}', "tasks.txt:1: is no JSON"),
        ('{"id": "a", "id": "b"}', "tasks.txt:1: the field 'id' is there twice"),
        ('[{"id": "a", "ques": "x", "ques": "y"}]', "tasks.txt:1: the field 'ques' is there twice"),
        ("id,ques,web_name,web\na,b,c,d\n", "comma-separated, it seems; save it as"),
        ('{"id": ' + "9" * 5000 + "}", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("hello world", "neither JSON nor tab-separated"),
        ("a\tb\n", "has no header and 2 columns"),
        ("id\tid\ttask_summary\na\tb\tc\n", "names the column 'id' twice"),
        ("benchmark\tid\ttask_summary\nx\ty\n", r"tasks.txt:2: has 2 cells where there are 3"),
        ("benchmark\tid\ttask_summary\nx\ty\tz\tw\n", r"tasks.txt:2: has 4 cells where there are 3"),
        ("benchmark\tid\ttask_summary\nx\ty\t" + "z" * 200_000 + "\n", "tasks.txt:2: is no table"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(text(tmp_path, content), search_url=SEARCH)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        load(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="is a folder"):
        load(tmp_path)
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "a"}\n{"id": "\xe9"}\n')
    with pytest.raises(DataError, match=r"latin.jsonl:2: is not UTF-8"):
        load(tmp_path / "latin.jsonl")
    (tmp_path / "wide.jsonl").write_bytes(json.dumps(WV).encode("utf-16"))
    with pytest.raises(DataError, match="is UTF-16; save it as UTF-8"):
        load(tmp_path / "wide.jsonl")
    with (tmp_path / "huge.jsonl").open("wb") as file:
        file.truncate(300 << 20)
    with pytest.raises(DataError, match="more than any task file"):
        load(tmp_path / "huge.jsonl")


def test_own_records_keep_what_they_say(tmp_path: Path) -> None:
    own = {"id": "t1", "suite": "mine", "site": "s", "template": "t", "split": "train", "goal": "go"}
    taskset = load(jsonl(tmp_path, own | {"start_url": "https://a.example/", "max_steps": 9}))
    assert (taskset.name, taskset.version) == ("file", "own") and taskset.tasks[0].max_steps == 9
    with pytest.raises(DataError, match=r"tasks.jsonl:1: task t1 has no start_url"):
        load(jsonl(tmp_path, own))
    with pytest.raises(DataError, match=r"tasks.jsonl:1: split"):
        load(jsonl(tmp_path, own | {"split": "mystery"}))


def test_only_and_together(tmp_path: Path) -> None:
    both = load(jsonl(tmp_path, WV, WV | {"id": "BBC News--4", "ques": "Other."}))
    one = only(both, ["BBC News--4", "BBC News--77"], "my list")
    assert [t.id for t in one.tasks] == ["BBC News--4"] and one.excluded == {"BBC News--3": "not in my list"}
    assert one.version.startswith("my list of ") and one.notes[-1].startswith("1 of the 2 tasks of my list are not")
    assert one.ids_hash != both.ids_hash and one.text_hash != both.text_hash
    with pytest.raises(ConfigError, match="has none of the 1 tasks"):
        only(both, ["x"], "other list")
    with pytest.raises(ConfigError, match="in more than one of the sets"):
        together([both, both])
    with pytest.raises(DataError, match="all 2 tasks are left out"):
        load(tmp_path / "tasks.jsonl", skip={"BBC News--3": "x", "BBC News--4": "y"})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "has to be an object"),
        ({"Apple": None}, "Apple: has no list `answers`"),
        ({"Apple": {"answers": [None]}}, "Apple, answer 1: has to be an object"),
        ({"Apple": {"answers": [{"id": "1", "type": "golden", "ans": "x"}]}}, "id has to be the number"),
        ({"Apple": {"answers": [{"id": 1, "type": "silver", "ans": "x"}]}}, "type has to be one of"),
        ({"Apple": {"answers": [{"id": 1, "type": "golden", "ans": None}]}}, "ans has to be a text"),
        ({"Apple": {"answers": [{"id": 1, "type": "golden", "ans": "x"}] * 2}}, "has an answer already"),
    ],
)
def test_wrong_reference_files(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        reference_answers(text(tmp_path, json.dumps(value)))


TSV = "benchmark\tid\ttask_summary\tinit_url\tprecomputed_rubric\n"


@pytest.mark.parametrize(
    ("goals", "line"),
    [
        (["one", '"two', "three"], 3),
        (['"one', "two", 'the "end"'], 2),
        (['"one', "two", 'end"'], 2),
        (['"one', 'end"'], 2),
        (['"one" two'], 2),
    ],
)
def test_an_unpaired_quote_is_named_and_swallows_no_task(tmp_path: Path, goals: list[str], line: int) -> None:
    rows = "".join(f"w\tt{n}\t{goal}\thttps://a.example/\t\n" for n, goal in enumerate(goals))
    with pytest.raises(DataError, match=rf":{line}: .*begins with"):
        load(text(tmp_path, TSV + rows))


def test_a_quoted_cell_may_span_lines(tmp_path: Path) -> None:
    rubric = json.dumps({"items": ITEMS}, indent="\t").replace('"', '""')
    rows = f'w\ta\t"first\nsecond ""line"""\thttps://a.example/\t"{rubric}"\nw\tb\ttwo\thttps://b.example/\t\n'
    found = load(text(tmp_path, TSV + rows)).tasks
    assert [t.id for t in found] == ["a", "b"] and found[0].goal.endswith('"line"')
    assert found[0].meta["rubric"] == {"items": ITEMS}


def test_a_device_or_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe"):
        with pytest.raises(DataError, match="is no regular file"):
            load(path)
