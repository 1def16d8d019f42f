"""Foreign files, read without trust: JSON of bounded size and type, names that stay inside one folder, safe file names.

Promises: nothing outside the folder that the user named is read, by whatever path, link or name; bad bytes, bad JSON
and wrong types are DataErrors that name the file and the field; a lone surrogate becomes `?`, since a record cannot
hold one. Never unpickles, never runs what it reads.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rmsweb.errors import ConfigError, DataError
from rmsweb.halves import clean as clean
from rmsweb.halves import cleaned

T = TypeVar("T")
MOST_BYTES = 512 << 20
"""Largest file of text or JSON that is read."""
DEEPEST = 8
"""Levels below the folder at which attempts are looked for."""
NAME_BYTES = 200
"""Most bytes of a file name that is made from a task id."""
_HEAD = 4096
_PLAIN = re.compile(r"[A-Za-z0-9_+=@-][A-Za-z0-9 _.+=@-]*")
_ODD = re.compile(r"[^A-Za-z0-9 _.+=@-]+")
_WORDS = {str: "text", list: "a list", dict: "an object", bool: "true or false", int: "a number", float: "a number"}


def read_text(path: Path) -> str:
    """A UTF-8 file. Raises DataError when it is missing, too large, a folder or not UTF-8."""
    if path.exists() and not path.is_file():
        raise DataError("cannot be read: it is a folder, a pipe or a device", path)
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise DataError(f"{size >> 20} MB are more than the {MOST_BYTES >> 20} MB that are read", path)
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text (byte {error.start}); convert the file", path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from None


def parse_json(text: str, path: Path, line: int | None = None) -> Any:
    """One JSON value; NaN and infinities are None, texts are `clean`. Raises DataError."""
    try:
        return cleaned(json.loads(text, parse_constant=lambda _: None))
    except RecursionError:
        raise DataError("JSON nested too deeply", path, line) from None
    except ValueError as error:
        raise DataError(f"not JSON: {error}", path, line) from None


def read_json(path: Path, kind: type[T]) -> T:
    """A JSON file whose value is of `kind` (dict or list). Raises DataError."""
    value = parse_json(read_text(path), path)
    if not isinstance(value, kind):
        raise DataError(f"holds {_named(value)}, {_WORDS[kind]} was expected", path)
    return value


def field(data: Mapping[str, Any], name: str, kind: type[T], path: Path, default: T | None = None) -> T:
    """A field of a JSON object; null counts as missing. Raises DataError: wrong type, or missing without a default."""
    value = data.get(name)
    if value is None:
        if default is None:
            raise DataError(f"field {name!r} is missing", path)
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise DataError(f"field {name!r} is {_named(value)}, {_WORDS[kind]} was expected", path)
    return value


def texts(data: Mapping[str, Any], name: str, path: Path, *, needed: bool = False) -> list[str]:
    """A field that lists texts; null entries are empty texts. Raises DataError."""
    values: list[Any] = field(data, name, list, path, None if needed else [])
    for number, value in enumerate(values):
        if value is not None and not isinstance(value, str):
            raise DataError(f"field {name!r}, entry {number} is {_named(value)}, text was expected", path)
    return [value or "" for value in values]


def number(value: Any) -> float | None:
    """A finite number, else None (missing, true, text, NaN)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def count(value: Any) -> int:
    """A count, 0 where the value is none."""
    found = number(value)
    return int(found) if found is not None and 0 <= found < 2**53 else 0


def inside(root: Path, name: str, base: Path | None = None) -> Path | None:
    """The file that `name` means from `base` (default `root`), if it lies in `root`; None for every other.

    An absolute name is one of another machine: a file of the same last name in `base`, or in a folder `screenshots` or
    `images` of it, is taken for it. Links are followed only as far as they stay in `root`.
    """
    base = base or root
    if not name or "\0" in name:
        return None
    given = Path(name.replace("\\", "/"))
    places = [base / given]
    if given.is_absolute() or re.match(r"[A-Za-z]:/", given.as_posix()):
        places = [given, *(base / folder / given.name for folder in ("", "screenshots", "images"))]
    top = root.resolve()
    for place in places:
        try:
            real = place.resolve()
            if real.is_relative_to(top) and real.is_file():
                return real
        except (OSError, ValueError, RuntimeError):
            continue
    return None


def child(folder: Path, name: str) -> Path:
    """A file of an attempt's folder. Raises DataError: missing, or a link that leads out of the folder."""
    found = inside(folder, name)
    if found is None:
        link = (folder / name).is_symlink()
        raise DataError(
            "is a link that leads out of the folder; copy the file" if link else "is missing", folder / name
        )
    return found


def head_of(path: Path) -> bytes:
    """The first bytes of a file, after a byte order mark and blanks; empty for a link and for what cannot be read."""
    try:
        if path.is_symlink() or not path.is_file():  # a pipe would be waited for
            return b""
        with path.open("rb") as file:
            return file.read(_HEAD).lstrip(b"\xef\xbb\xbf \t\r\n")
    except OSError:
        return b""


def walk(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """(folder, its file names) from `root` down, sorted; links to folders are not followed. Raises ConfigError."""
    if not root.is_dir():
        raise ConfigError(f"{root} is no folder; give the folder that holds the attempts")
    for name, folders, files in os.walk(root):
        folder = Path(name)
        folders[:] = sorted(f for f in folders if not f.startswith(".") and not (folder / f).is_symlink())
        if len(folder.relative_to(root).parts) >= DEEPEST:
            folders[:] = []
        yield folder, sorted(files)


def safe_name(task_id: str) -> str:
    """A folder name for a task id: itself where that is safe, else cut, cleaned, and with a hash behind it."""
    if _PLAIN.fullmatch(task_id) and len(task_id) <= NAME_BYTES and not task_id.endswith((".", " ")):
        return task_id
    digest = hashlib.sha256(task_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    short = _ODD.sub("_", task_id).strip("._ ")[: NAME_BYTES - 9]
    return f"{short}-{digest}" if short else digest


def json_bytes(value: Any) -> bytes:
    """A JSON file as the writers write it: UTF-8, indented, non-ASCII as it is."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def one(text: str) -> str:
    """Text in one line, words kept."""
    return " ".join(text.split())


def line(name: str, arguments: Mapping[str, Any]) -> str:
    """A foreign action in one line: `name(key=value, ...)`, values as JSON."""
    given = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items())
    return f"{name}({given})"


def _named(value: Any) -> str:
    return "null" if value is None else _WORDS.get(type(value), type(value).__name__)
