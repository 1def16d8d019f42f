"""Makes Task records of a file's rows: one function a layout, validation, and the rule for missing start addresses.

Promises that a row is taken as it is, taken with a remark, or refused with path, line and id; none is dropped in
silence. Copies named fields only: an answer in a row (GAIA's `Final answer`) never reaches a Task.

Rule for the start address: one without a scheme gets `https://`. A WebTailBench row without one starts at the search
page (the agent picks the site, as upstream does); in every other layout that is an error.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import JsonValue, ValidationError

from rmsweb.errors import DataError
from rmsweb.records import Task
from rmsweb.tasksets.reading import TEXT_FIELDS, Row, TaskFile
from rmsweb.tasksets.rubrics import read_rubric
from rmsweb.tasksets.taskset import clean, counted, plain_id

LEVELS = ("easy", "medium", "hard")
EASY_MOST, MEDIUM_MOST = 5, 10
"""Reference lengths up to which Online-Mind2Web calls a task easy, and medium."""
REMARKS = {
    "search": "had no start address and start at the search page",
    "scheme": "had a start address without a scheme and got https://",
    "id": "had blanks around the id, which are dropped (meta.id_in_file keeps the file's spelling)",
    "level": "had no level and got the one of their reference length",
    "odd_level": "with another level than their reference length says (the file's is kept)",
    "no_rubric": "without a rubric",
}


class Made(NamedTuple):
    """Tasks in the file's order, ids that were left out with the reason, notes."""

    tasks: list[Task]
    excluded: dict[str, str]
    notes: list[str]


class _Place(NamedTuple):
    """A row, where it stands, and what to remark about it."""

    file: TaskFile
    row: Row
    remarks: list[str]

    def error(self, message: str, ident: str = "") -> DataError:
        of = f"task {ident}: " if ident else ""
        return DataError(of + message, self.file.path, self.row.line)


def make(file: TaskFile, search_url: str, skip: Mapping[str, str]) -> Made:
    """The tasks of a file. Raises DataError for a row that is no task or an id that comes twice."""
    tasks: list[Task] = []
    excluded: dict[str, str] = {}
    remarked: Counter[str] = Counter()
    lines: dict[str, int] = {}
    spelled: dict[str, str] = {}
    page = search_page(search_url)
    builder = BUILDERS[file.layout]
    for row in file.rows:
        place = _Place(file, row, [])
        ident = _identity(place)
        if ident in lines:
            raise place.error(f"task id {ident} occurs twice, first in line {lines[ident]}")
        if (like := spelled.setdefault(plain_id(ident), ident)) != ident:
            raise place.error(
                f"task id {ident!r} differs from {like!r} in line {lines[like]} only in case, blanks or Unicode form; "
                "give one of them another id, or drop it"
            )
        lines[ident] = row.line
        if ident in skip:
            excluded[ident] = skip[ident]
            continue
        tasks.append(builder(place, ident, page))
        remarked.update(place.remarks)
    notes = [
        f"{counted(n)} {REMARKS[kind]}" + (f" ({page})" if kind == "search" else "") for kind, n in remarked.items()
    ]
    if unknown := [ident for ident in skip if ident not in lines]:
        notes.append(f"{len(unknown)} ids to leave out are not in the file, such as {unknown[0]}")
    if not tasks:
        raise DataError(f"all {len(file.rows)} tasks are left out", file.path)
    return Made(tasks, excluded, notes)


def search_page(search_url: str) -> str:
    """The page of a search engine: the address of `browser.search_url` without the query. Empty stays empty."""
    if not search_url:
        return ""
    parts = urlsplit(search_url.split("{", 1)[0])
    path = "/" if "{" in search_url and not parts.query else parts.path or "/"
    return f"{parts.scheme}://{parts.netloc}{path}"


def _identity(place: _Place) -> str:
    """The id, outer blanks dropped: trajectory ids (`task#attempt`) and folders are made of it."""
    data = place.row.data
    field = {"online_mind2web": "task_id"}.get(place.file.layout, "id")
    if field not in data and "subdir" in data:
        field = "subdir"
    ident = data.get(field)
    if not isinstance(ident, str) or not ident.strip():
        raise place.error(f"{field} has to be a text that names the task, it is {_said(ident)}")
    ident = ident.strip()
    if not ident.isprintable() or ident in (".", ".."):
        raise place.error(f"{field} {ident!r} cannot name a file or a trajectory")
    if ident != data[field] and place.file.layout != "own":
        place.remarks.append("id")
    return ident


def _own(place: _Place, ident: str, page: str) -> Task:
    try:
        task = Task.model_validate(place.row.data)
    except ValidationError as error:
        first = error.errors()[0]
        raise place.error(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if not task.start_url:
        raise place.error(f"task {task.id} has no start_url; add one")
    return task if task.id == ident else task.model_copy(update={"id": ident})


def _webvoyager(place: _Place, ident: str, page: str) -> Task:
    data = place.row.data
    start = _start(place, ident, "web", "")
    site = clean(_text(place, ident, "web_name")) if "web_name" in data else ident.rpartition("--")[0]
    site = site or _host(start)
    return _task(place, ident, "webvoyager", site, site, start, _goal(place, ident, "ques"), {"web_name": site})


def _gaia(place: _Place, ident: str, page: str) -> Task:
    level = place.row.data.get("Level", ident.partition("-")[0].removeprefix("level"))
    start = _start(place, ident, "web", "")
    meta: dict[str, JsonValue] = {"level": str(level)}
    return _task(place, ident, "gaia_web", "", f"level {level}", start, _goal(place, ident, "ques"), meta)


def _online_mind2web(place: _Place, ident: str, page: str) -> Task:
    start = _start(place, ident, "website", "")
    length = _length(place, ident)
    level = place.row.data.get("level")
    due = "" if length is None else LEVELS[(length > EASY_MOST) + (length > MEDIUM_MOST)]
    if level is None or level == "":
        if not due:
            raise place.error("level and reference_length are both missing; one is needed", ident)
        place.remarks.append("level")
        level = due
    level = level.strip().lower() if isinstance(level, str) else level
    if level not in LEVELS:
        raise place.error(f"level has to be one of {', '.join(LEVELS)}, it is {_said(level)}", ident)
    if due and level != due:
        place.remarks.append("odd_level")
    meta: dict[str, JsonValue] = {"level": level, "reference_length": length}
    goal = _goal(place, ident, "confirmed_task")
    return _task(place, ident, "online_mind2web", _host(start), level, start, goal, meta)


def _webtailbench(place: _Place, ident: str, page: str) -> Task:
    data = place.row.data
    segment_field = next((name for name in ("benchmark", "category", "segment") if name in data), "")
    segment = clean(_text(place, ident, segment_field)) if segment_field else ""
    text_field = next((name for name in TEXT_FIELDS if name in data), TEXT_FIELDS[0])
    own = next((name for name in ("init_url", "web", "website") if clean(str(data.get(name) or ""))), "")
    start = _start(place, ident, own or "init_url", page)
    meta: dict[str, JsonValue] = {"segment": segment}
    if not own:
        place.remarks.append("search")
        meta["start"] = "search page"
    try:
        rubric = read_rubric(data.get("precomputed_rubric"))
        rephrasings = _rephrasings(data.get("task_rephrasings"))
    except ValueError as error:
        raise place.error(str(error), ident) from None
    if rubric is None:
        place.remarks.append("no_rubric")
    else:
        meta["rubric"] = rubric
    if rephrasings:
        meta["rephrasings"] = rephrasings
    site = _host(start) if own else ""
    return _task(place, ident, "webtailbench", site, segment, start, _goal(place, ident, text_field), meta)


BUILDERS: dict[str, Callable[[_Place, str, str], Task]] = {
    "own": _own,
    "webvoyager": _webvoyager,
    "gaia_web": _gaia,
    "online_mind2web": _online_mind2web,
    "webtailbench": _webtailbench,
}


def _task(
    place: _Place, ident: str, suite: str, site: str, template: str, start: str, goal: str, meta: dict[str, JsonValue]
) -> Task:
    if "id" in place.remarks:
        raw = place.row.data.get("task_id" if suite == "online_mind2web" else "id") or place.row.data.get("subdir")
        meta = {**meta, "id_in_file": raw}
    return Task(
        id=ident,
        suite=suite,
        site=site,
        template=template or "unknown",
        split="exam",
        goal=goal,
        start_url=start,
        meta=meta,
    )


def _goal(place: _Place, ident: str, field: str) -> str:
    goal = clean(_text(place, ident, field))
    if not any(letter.isprintable() and not letter.isspace() for letter in goal):
        raise place.error(f"{field} is empty: there is nothing to do", ident)
    return goal


def _text(place: _Place, ident: str, field: str) -> str:
    value = place.row.data.get(field)
    if not isinstance(value, str):
        raise place.error(f"{field} has to be a text, it is {_said(value)}", ident)
    return value


def _start(place: _Place, ident: str, field: str, page: str) -> str:
    """The start address, or `page` where there is none; see the rule in the module's docstring."""
    value = place.row.data.get(field)
    address = clean(value) if isinstance(value, str) else ""
    if not address:
        if value not in (None, "") and not isinstance(value, str):
            raise place.error(f"{field} has to be a text, it is {_said(value)}", ident)
        if page:
            return page
        raise place.error(f"no start address ({field} is missing); add one, or leave the task out by its id", ident)
    if re.match(r"[\w-]+(\.[\w-]+)+(:\d+)?(/|\?|#|$)", address):
        place.remarks.append("scheme")
        address = f"https://{address}"
    try:
        parts = urlsplit(address)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and " " not in address
    except ValueError:
        sound = False
    if not sound:
        raise place.error(f"{field} {address[:80]!r} is no web address (http or https)", ident)
    return address


def _host(address: str) -> str:
    return (urlsplit(address).hostname or "").removeprefix("www.")


def _length(place: _Place, ident: str) -> int | None:
    value: Any = place.row.data.get("reference_length")
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool) or int(value) != float(value) or int(value) < 0:
            raise ValueError
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise place.error(f"reference_length has to be a whole number, it is {_said(value)}", ident) from None


def _rephrasings(value: Any) -> list[JsonValue]:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"task_rephrasings is no JSON: {error}") from None
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(f"task_rephrasings has to be a list of texts, it is {_said(value)}")
    return [clean(text) for text in value]


def _said(value: Any) -> str:
    return "missing" if value is None else json.dumps(value, default=str)[:60]
