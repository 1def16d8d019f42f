"""Rows of a table that others wrote: CSV, TSV, JSON, JSON lines or parquet, each value as the file has it.

Owns finding the files, reading them row by row, and saying which row of which file is wrong. Knows no column. Columns
that nobody wants are not kept in memory: published tables hold whole logs and screenshots beside their labels.
"""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmsweb.errors import DataError, MissingPartError
from rmsweb.halves import cleaned

KINDS = (".csv", ".tsv", ".json", ".jsonl", ".parquet")
LARGEST_JSON = 1 << 30
"""Bytes of one JSON value that is read whole; JSON lines have no such limit."""
LARGEST_FIELD = 1 << 30
SHARD = re.compile(r"-\d{5}-of-\d{5}$")
CONFIG = re.compile(r"(^|[-_.])(annotations|trajectories)(?=[-_.]|$)")


@dataclass(slots=True, frozen=True)
class Row:
    """One row and where it stands."""

    path: Path
    where: str
    """`line 3` of a text file, `entry 3` of a JSON list, `row 3` of a parquet file; counted from 1."""
    values: dict[str, Any]
    names: tuple[str, ...]
    """All columns that it has, wanted or not (of a parquet file: the wanted ones)."""


def wrong(row: Row, message: str) -> DataError:
    """The error that names the row."""
    return DataError(f"{row.where}: {message}", row.path)


def text(row: Row, column: str) -> str:
    """A value as text: empty where it is missing, null or not a number, `1` for 1.0. Raises DataError for a list."""
    value = row.values.get(column)
    if value is None or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, list | dict | bytes):
        raise wrong(row, f"{column} is a {type(value).__name__}; expected one value")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    said = str(value).strip()
    return said[:-2] if said in ("0.0", "1.0", "2.0") else said


def files_of(path: Path) -> list[Path]:
    """The file itself, or the tables inside a folder, sorted. Raises DataError when there is none."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DataError("there is no such file or folder", path)
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in KINDS and file.is_file())
    if not files:
        raise DataError(f"holds no table: no file ends in {', '.join(KINDS)}", path)
    return files


def split_of(path: Path) -> str:
    """`annotations/internal-00000-of-00001.parquet` and `annotations_internal.csv` -> `internal`; or empty."""
    name = CONFIG.sub("", SHARD.sub("", path.stem)).strip("-_.")
    return name


def rows(path: Path, wanted: Callable[[str], bool]) -> Iterator[Row]:
    """Rows of one file with their wanted columns. Raises DataError; MissingPartError for parquet without pyarrow."""
    kind = path.suffix.lower()
    if kind == ".parquet":
        found: Iterable[tuple[str, Any]] = _parquet(path, wanted)
    elif kind in (".csv", ".tsv"):
        found = _csv(path)
    elif kind == ".jsonl" or (kind != ".json" and _starts_with(path) == "{"):
        found = _lines(path)
    elif kind == ".json" or _starts_with(path) == "[":
        found = _json(path)
    else:
        found = _csv(path)
    names: tuple[str, ...] = ()
    for where, values in found:
        if not isinstance(values, dict):
            raise DataError(f"{where}: expected an object with named fields, got {type(values).__name__}", path)
        if tuple(values) != names:
            names = tuple(values)
        yield Row(path, where, {name: value for name, value in values.items() if wanted(name)}, names)


def _starts_with(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(4096).decode("utf-8-sig", errors="replace").lstrip()[:1]


def _csv(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    before = csv.field_size_limit(LARGEST_FIELD)  # logs in one field are longer than the usual limit
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            heading = file.readline()
            file.seek(0)
            reader = csv.DictReader(file, delimiter=max(",\t;", key=heading.count), restkey="", strict=True)
            reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
            if len(set(reader.fieldnames)) < len(reader.fieldnames):
                raise DataError(f"two columns have the same name: {', '.join(reader.fieldnames)}", path)
            for values in reader:
                if "" in values and "" not in reader.fieldnames:
                    raise DataError("has more fields than the heading", path, reader.line_num)
                yield f"line {reader.line_num}", values
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"not a table in UTF-8: {error}", path) from error
    finally:
        csv.field_size_limit(before)


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"line {number}", _parsed(line, path, number)


def _json(path: Path) -> Iterator[tuple[str, Any]]:
    if path.stat().st_size > LARGEST_JSON:
        raise DataError("is too large to be read as one JSON value; write it as JSON lines (.jsonl)", path)
    value = _parsed(path.read_bytes(), path, None)
    if not isinstance(value, list | dict):
        raise DataError(f"expected a list of rows, got {type(value).__name__}", path)
    for number, one in enumerate(value if isinstance(value, list) else [value], start=1):
        yield f"entry {number}", one


def _parsed(data: bytes, path: Path, line: int | None) -> Any:
    try:
        value = json.loads(data.decode("utf-8-sig"))
        return cleaned(value) if b"\\ud" in data or b"\\uD" in data else value  # half a pair fits into no record
    except (ValueError, RecursionError) as error:  # bad JSON, bad UTF-8 and absurd numbers are all ValueErrors
        raise DataError(f"not JSON in UTF-8: {error}", path, line) from error


def _parquet(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, Any]]:
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError:
        raise MissingPartError(f"{path}: parquet needs pyarrow: pip install pyarrow, or write it as .jsonl") from None
    number = 0
    try:
        file = parquet.ParquetFile(path)
        columns = [name for name in file.schema_arrow.names if wanted(name)]
        for batch in file.iter_batches(columns=columns):
            for values in batch.to_pylist():
                number += 1
                yield f"row {number}", values
    except pyarrow.ArrowException as error:
        raise DataError(f"not a parquet file: {error}", path) from error
