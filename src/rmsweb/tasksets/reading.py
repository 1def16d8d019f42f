"""Reads a task file into rows and says by their content which layout they have.

Owns the tolerance for file forms: JSON lines, a JSON array, tab-separated values with or without a header line.
Promises an error with path and line (or row) for anything else, never a traceback. Makes no tasks.
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rmsweb.errors import DataError
from rmsweb.halves import cleaned

LARGEST = 256 << 20
"""Bytes; no task file comes near it (the largest known one has 2.1 MB), a dump given by mistake does."""
TSV_COLUMNS = ("benchmark", "id", "task_summary", "init_url", "precomputed_rubric", "task_rephrasings")
"""WebTailBench's columns in their order, for a file without a header line."""
TEXT_FIELDS = ("task_summary", "ques", "instruction")
"""Where the layouts of WebTailBench keep the task text."""
LAYOUTS = (
    "a WebVoyager row has web_name, id, ques, web; an Online-Mind2Web row task_id, confirmed_task, website; "
    "a WebTailBench row id, task_summary (or ques and category); an rmsweb row is a Task record"
)


QUOTES = 'a cell that begins with " ends with one, and each " in it is written twice'


class Row(NamedTuple):
    """One row: where it stands (1-based line) and its fields."""

    line: int
    data: dict[str, Any]


class TaskFile(NamedTuple):
    """A file's rows. `layout`: own, webvoyager, gaia_web, online_mind2web or webtailbench."""

    path: Path
    sha256: str
    layout: str
    rows: list[Row]


def read(path: Path) -> TaskFile:
    """The rows of a task file. Raises DataError when it is no such file."""
    return parse(read_bytes(path), path)


def parse(raw: bytes, path: Path) -> TaskFile:
    """The rows of a task file's bytes; `path` is what errors call it. Raises DataError when they are no such file."""
    text = decode(raw, path)
    start = text.lstrip()[:1]
    if not start:
        raise DataError("is empty: there are no tasks in it", path)
    if start == "[":
        rows = list(_array(text, path))
    elif start == "{":
        rows = list(_lines(text, path))
    else:
        rows = list(_table(text, path))
    if not rows:
        raise DataError("holds no rows: there are no tasks in it", path)
    if "\\ud" in text or "\\uD" in text:
        _refuse_halves(rows, path)
    return TaskFile(path, hashlib.sha256(raw).hexdigest(), _layout(rows[0], path), rows)


def read_bytes(path: Path) -> bytes:
    """A file's bytes. Raises DataError when it is missing, a folder, unreadable or far too large."""
    try:
        if path.is_dir():
            raise DataError("is a folder; name the task file in it", path)
        if path.exists() and not path.is_file():  # a device or pipe may have no end
            raise DataError("is no regular file; save the tasks into one", path)
        if (size := path.stat().st_size) > LARGEST:
            raise DataError(f"has {size / 1e6:.0f} MB, more than any task file ({LARGEST / 1e6:.0f} MB)", path)
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError("does not exist ('rmsweb tasks list' names what can be fetched)", path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from None


def decode(raw: bytes, path: Path) -> str:
    """UTF-8 text, a byte order mark dropped."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise DataError("is UTF-16; save it as UTF-8", path) from None
        raise DataError(f"is not UTF-8: {error}", path, raw[: error.start].count(b"\n") + 1) from None


def decode_json(raw: bytes, path: Path) -> Any:
    """The value of a whole JSON file. Raises DataError with the line where it is none."""
    try:
        value = json.loads(decode(raw, path), object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise DataError(f"is no JSON: {error.msg}", path, error.lineno) from None
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        raise DataError(_why(error), path) from None
    _refuse_halves([Row(1, {"": value})], path)
    return value


def _refuse_halves(rows: list[Row], path: Path) -> None:
    for row in rows:
        if cleaned(row.data) != row.data:
            raise DataError("holds half a character (\\ud800 to \\udfff without its pair); mend it", path, row.line)


def _lines(text: str, path: Path) -> Iterator[Row]:
    # Not splitlines: a task text may hold U+2028 and its like unescaped. A bare carriage return it cannot hold.
    for number, line in enumerate(re.split("\r\n|\n|\r", text), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            if isinstance(error, json.JSONDecodeError) and _is_object(text):
                raise DataError(f"is one JSON object, no list of tasks; {LAYOUTS}", path) from None
            raise DataError(_why(error), path, number) from None
        yield Row(number, _fields(value, path, number))


class _Twice(ValueError):
    """A field that an object has more than once."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose fields are all there once: of two ids or texts nobody could say which is meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(f"the field {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, _Twice) else f"is no JSON: {error}"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _array(text: str, path: Path) -> Iterator[Row]:
    """Elements of a JSON array, one after the other, so that each knows its line."""
    decoder, at = json.JSONDecoder(object_pairs_hook=_object), text.index("[") + 1
    line, counted = text.count("\n", 0, at) + 1, at
    first = True
    while True:
        at = _skip_blanks(text, at)
        line, counted = line + text.count("\n", counted, at), at
        if text[at : at + 1] == "]" and first:
            break
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            where = getattr(error, "lineno", line)
            raise DataError(_why(error), path, where) from None
        yield Row(line, _fields(value, path, line))
        first, at = False, _skip_blanks(text, at)
        if text[at : at + 1] == "]":
            break
        if text[at : at + 1] != ",":
            raise DataError("is no JSON: a comma or ] is missing", path, text.count("\n", 0, at) + 1)
        at += 1
    if text[at + 1 :].strip():
        raise DataError("goes on after the end of its JSON array", path, text.count("\n", 0, at) + 1)


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _table(text: str, path: Path) -> Iterator[Row]:
    """Rows of tab-separated values, quoted as spreadsheets do."""
    head = re.split("[\r\n]", text, maxsplit=1)[0]
    if "\t" not in head and any(head.count(mark) > 1 for mark in ",;"):
        raise DataError("is comma-separated, it seems; save it as JSON lines or as tab-separated values", path, 1)
    if "\t" not in head:
        raise DataError(f"is neither JSON nor tab-separated values; {LAYOUTS}", path, 1)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t", strict=True)
    header: list[str] | None = None
    end = 0
    try:
        for cells in reader:
            line, end = end + 1, reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = _header(cells, path)
                if header == [cell.strip() for cell in cells]:
                    continue
            if len(cells) > len(header) or len(cells) < min(3, len(header)):
                raise DataError(f"has {len(cells)} cells where there are {len(header)} columns", path, line)
            if len(header) > 2 and any(_swallows(cell, len(header)) for cell in cells):
                raise DataError(f"a quoted cell goes on to line {end} and holds whole rows; {QUOTES}", path, line)
            yield Row(line, dict(zip(header, cells, strict=False)))
    except csv.Error as error:
        raise DataError(f"is no table of tab-separated values: {error}; {QUOTES}", path, end + 1) from None


def _swallows(cell: str, columns: int) -> bool:
    """Whether an unpaired quote made rows part of a cell: it spans lines and holds the tabs of a row, those that
    indent a line not counted."""
    first, *more = cell.split("\n")
    return bool(more) and first.count("\t") + sum(line.lstrip().count("\t") for line in more) >= columns - 1


def _header(cells: list[str], path: Path) -> list[str]:
    """The column names that a first line gives; where it gives none, WebTailBench's columns by their place."""
    names = [cell.strip() for cell in cells]
    if any(name in TEXT_FIELDS for name in names):
        if double := {name for name in names if names.count(name) > 1}:
            raise DataError(f"names the column {sorted(double)[0]!r} twice", path, 1)
        return names
    if {"id", "task_id", "subdir", "benchmark"} & set(names):
        raise DataError(f"has the columns {', '.join(names)}, but none with the task text ({TEXT_FIELDS[0]})", path, 1)
    if not 3 <= len(cells) <= len(TSV_COLUMNS):
        raise DataError(f"has no header and {len(cells)} columns; expected are {', '.join(TSV_COLUMNS)}", path, 1)
    return list(TSV_COLUMNS[: len(cells)])


def _fields(value: Any, path: Path, line: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"a row is a JSON object with fields, this is {json.dumps(value)[:60]}", path, line)
    return value


def _layout(row: Row, path: Path) -> str:
    """The layout of a file, by the names of its first row's fields."""
    keys = set(row.data)
    if any(key.endswith("_human_label") for key in keys):
        raise DataError("holds human labels, no tasks; 'rmsweb judge-eval' reads it", path, row.line)
    if {"goal", "suite"} <= keys:
        return "own"
    if "confirmed_task" in keys:
        return "online_mind2web"
    if "ques" in keys and {"Level", "Final answer"} & keys:
        return "gaia_web"
    if "ques" in keys and ("web_name" in keys or "--" in str(row.data.get("id", ""))):
        return "webvoyager"
    if keys.intersection(TEXT_FIELDS) and {"id", "subdir"} & keys:
        return "webtailbench"
    some = ", ".join(sorted(map(str, keys))[:8])
    raise DataError(f"is no task file that rmsweb knows: its rows have {some}; {LAYOUTS}", path, row.line)
