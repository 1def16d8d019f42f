"""Training data as chat JSONL with pictures: what SFT sees, for other trainers.

One row a sample, in one of two styles. `openai`: `messages` with content parts, pictures as `image_url` with a relative
path. `sharegpt` (LLaMA-Factory): `conversations` of human and gpt, `<image>` where a picture stands, `images` in order;
dataset_info.json beside it registers the file. Texts are those of `policy.render_messages` and `render_reply`, to the
byte. Pictures are copied once, named by their hash. Text that reads as a placeholder is already written apart (`<
image>`) by the renderer; a row in which one is left is refused, by number. `validate` reads every row again.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from rmsweb.actions import Viewport
from rmsweb.bench.formats.files import inside, json_bytes, parse_json
from rmsweb.chat import Message
from rmsweb.config import Config, ProfileConfig
from rmsweb.errors import ConfigError, DataError
from rmsweb.policy import render_messages, render_reply
from rmsweb.records import TrainSample
from rmsweb.store import PNG_MAGIC, Run, write_atomic

STYLES = ("openai", "sharegpt")
PLACE = "<image>"
PLACEHOLDER = re.compile(r"<(?:image|video|audio)>", re.IGNORECASE)
PICTURES = "images"
_ROLES = {"system": "system", "user": "human", "assistant": "gpt"}
MOST_PROBLEMS = 200


class Problem(NamedTuple):
    """What is wrong with a row of a training file."""

    row: int
    """From 1."""
    field: str
    message: str


def export(
    source: Run, out: Path, *, style: str = "openai", begin: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Write `<style>.jsonl` and the pictures of a run of `samples` into `out`. Raises ConfigError, DataError.

    `begin` is called when all was read, before anything is written.
    """
    if style not in STYLES:
        raise ConfigError(f"chat style {style!r} is unknown; choose {' or '.join(STYLES)}")
    samples = source.read("sample", TrainSample)
    if not samples:
        raise DataError("no samples; give a run made by `rmsweb samples`", source.file("sample"))
    profile = _profile(source)
    rows, refused, pictures = [], [], set()
    for number, sample in enumerate(samples, 1):
        try:
            messages = turns(sample, profile)
            row = _openai(messages) if style == "openai" else _sharegpt(messages)
        except DataError as error:
            refused.append({"sample": sample.id, "number": number, "reason": str(error)})
            continue
        pictures |= {part["image"] for message in messages for part in message["content"] if part["type"] == "image"}
        rows.append({"id": sample.id, "weight": sample.weight, **row})
    if not rows:
        raise DataError(f"every row was refused: {refused[0]['reason']}", source.file("sample"))
    begin()
    for sha in sorted(pictures):
        _copy(source, sha, out)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_atomic(out / f"{style}.jsonl", text.encode())
    if style == "sharegpt":
        write_atomic(out / "dataset_info.json", json_bytes(_registration()))
    return {
        "format": "chat",
        "style": style,
        "rows": len(rows),
        "pictures": len(pictures),
        "refused": refused,
        "weighted": sum(sample.weight != 1.0 for sample in samples),
    }


def turns(sample: TrainSample, profile: ProfileConfig) -> list[Message]:
    """Prompt and reply of a sample, as SFT sees them. Raises DataError for a sample without an action."""
    if sample.decision.action is None:
        raise DataError("has no action to imitate")
    try:
        reply = render_reply(profile, sample.decision, Viewport(*profile.viewport))
    except ValueError as error:
        raise DataError(str(error)) from None
    last: Message = {"role": "assistant", "content": [{"type": "text", "text": reply}]}
    return [*render_messages(profile, sample.task, sample.history, sample.now), last]


def relative(sha: str) -> str:
    """Path of a picture, from the folder of the JSONL file."""
    return f"{PICTURES}/{sha[:2]}/{sha}.png"


def validate(path: Path) -> dict[str, Any]:
    """Read every row again, of either style: pictures exist and are PNG, placeholders and pictures are equally many,
    roles are known, the last turn is a reply. Returns {rows, pictures, problems, whole}: problems as `Problem`s,
    `whole` False where it stopped at `MOST_PROBLEMS` of them, at the last of `rows`.

    One picture given as a text instead of a list counts as one picture. Raises DataError when there is no row at all.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise DataError("is no file; give the JSONL file of an export", path)
    rows, problems, pictures = 0, list[Problem](), set[str]()
    whole = True
    for number, value in _rows(path, problems):
        rows += 1
        found, wrong = _check(value)
        for name in found:
            wrong += _picture_problems(path.parent, name, pictures)
        problems += [Problem(number, where, said) for where, said in wrong]
        if len(problems) >= MOST_PROBLEMS:
            whole = False
            break
    if not rows and not problems:
        raise DataError("holds no row", path)
    return {"rows": rows, "pictures": len(pictures), "problems": problems, "whole": whole}


def _openai(messages: list[Message]) -> dict[str, Any]:
    rows = []
    for message in messages:
        parts: list[dict[str, Any]] = [
            {"type": "image_url", "image_url": {"url": relative(part["image"])}}
            if part["type"] == "image"
            else {"type": "text", "text": part["text"]}
            for part in message["content"]
        ]
        plain = all(part["type"] == "text" for part in parts)
        rows.append({"role": message["role"], "content": "".join(p["text"] for p in parts) if plain else parts})
    return {"messages": rows}


def _sharegpt(messages: list[Message]) -> dict[str, Any]:
    """Raises DataError where a text holds a placeholder: the trainer would count a picture too many."""
    turned, images, system = [], [], ""
    for message in messages:
        value = ""
        for part in message["content"]:
            if part["type"] == "image":
                images.append(relative(part["image"]))
                value += PLACE
            elif found := PLACEHOLDER.search(part["text"]):
                raise DataError(f"the text holds {found.group()!r}, which the trainer would take for a picture")
            else:
                value += part["text"]
        if message["role"] == "system":
            system += value
        else:
            turned.append({"from": _ROLES[message["role"]], "value": value})
    return {**({"system": system} if system else {}), "conversations": turned, "images": images}


def _registration() -> dict[str, Any]:
    columns = {"messages": "conversations", "images": "images", "system": "system"}
    tags = {"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt"}
    return {"rmsweb": {"file_name": "sharegpt.jsonl", "formatting": "sharegpt", "columns": columns, "tags": tags}}


def _profile(source: Run) -> ProfileConfig:
    try:
        return Config.model_validate(source.manifest["config"]).profile
    except ValidationError as error:
        raise DataError(
            f"its settings are not those of this version: {error.errors()[0]['msg']}", source.path
        ) from None


def _copy(source: Run, sha: str, out: Path) -> None:
    target = out / relative(sha)
    if target.exists() and hashlib.sha256(target.read_bytes()).hexdigest() == sha:
        return
    write_atomic(target, source.images[sha])


def _rows(path: Path, problems: list[Problem]) -> Iterator[tuple[int, dict[str, Any]]]:
    """(row number, row) of a JSONL file; a line that is no object is a problem. Raises DataError."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    value = parse_json(line.decode("utf-8"), path, number)
                except (DataError, UnicodeDecodeError) as error:
                    problems.append(Problem(number, "", f"not a JSON line: {error}"))
                    continue
                if isinstance(value, dict):
                    yield number, value
                else:
                    problems.append(Problem(number, "", "a row has to be an object"))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from None


def _check(row: dict[str, Any]) -> tuple[list[str], list[tuple[str, str]]]:
    """(picture paths, problems) of a row."""
    if "messages" in row:
        return _check_messages(row)
    return _check_turns(row)


def _check_messages(row: dict[str, Any]) -> tuple[list[str], list[tuple[str, str]]]:
    """The openai style; an `images` list beside it (TRL's way) holds the pictures of bare image parts."""
    messages, wrong, paths, bare = row["messages"], list[tuple[str, str]](), list[str](), 0
    if not isinstance(messages, list) or not messages:
        return [], [("messages", "has to be a list of messages")]
    for position, message in enumerate(messages):
        where = f"messages.{position}"
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _ROLES:
            wrong.append((where, "has no role system, user or assistant"))
            continue
        for part in _parts(message.get("content")):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "text" and isinstance(part.get("text"), str):
                continue
            if kind == "image_url" and isinstance(part.get("image_url"), dict):
                paths.append(str(part["image_url"].get("url", "")))
            elif kind == "image":
                name = part.get("image")
                paths += [name] if isinstance(name, str) else []
                bare += not isinstance(name, str)
            else:
                wrong.append((where, "holds a part that is neither text nor a picture"))
    beside = _listed(row.get("images"))
    if bare != len(beside):
        wrong.append(("images", f"{bare} bare image parts, {len(beside)} pictures"))
    last = messages[-1]
    if not isinstance(last, dict) or last.get("role") != "assistant" or not last.get("content"):
        wrong.append(("messages", "the last message is no reply"))
    return [*paths, *beside], wrong


def _check_turns(row: dict[str, Any]) -> tuple[list[str], list[tuple[str, str]]]:
    """The sharegpt style."""
    turns, wrong = row.get("conversations"), list[tuple[str, str]]()
    if not isinstance(turns, list) or not turns:
        return [], [("conversations", "neither messages nor conversations")]
    places = str(row.get("system") or "").count(PLACE)
    for position, turn in enumerate(turns):
        value = turn.get("value") if isinstance(turn, dict) else None
        if not isinstance(value, str) or turn.get("from") not in (*_ROLES.values(), "user", "assistant"):
            wrong.append((f"conversations.{position}", "has no known `from`, or no text `value`"))
            continue
        places += value.count(PLACE)
    images = row.get("images")
    if images is not None and not isinstance(images, list | str):
        wrong.append(("images", "has to be a list of paths"))
    paths = _listed(images)
    if places != len(paths):
        wrong.append(("images", f"{places} placeholders {PLACE}, {len(paths)} pictures"))
    said = [turn.get("from") for turn in turns if isinstance(turn, dict)]
    spoken = [name in ("gpt", "assistant") for name in said[said[:1] == ["system"] :]]
    if spoken != [bool(position % 2) for position in range(len(spoken))]:
        wrong.append(("conversations", "human and gpt do not take turns, human first; trainers drop such a row"))
    last = turns[-1]
    if not isinstance(last, dict) or last.get("from") not in ("gpt", "assistant") or not last.get("value"):
        wrong.append(("conversations", "the last turn is no reply"))
    return paths, wrong


def _picture_problems(folder: Path, name: str, seen: set[str]) -> list[tuple[str, str]]:
    if name in seen:
        return []
    if Path(name).is_absolute():
        return [("images", f"{name!r} is an absolute path")]
    path = inside(folder, name)
    if path is None:
        return [("images", f"{name!r} does not exist below {folder}")]
    with path.open("rb") as file:
        head = file.read(12)
    if not (head.startswith((PNG_MAGIC, b"\xff\xd8")) or head[8:12] == b"WEBP"):
        return [("images", f"{name!r} is no PNG, JPEG or WebP")]
    seen.add(name)
    return []


def _listed(images: Any) -> list[str]:
    """Paths of a row's pictures; one picture may stand as a text."""
    if isinstance(images, str):
        return [images]
    return [name if isinstance(name, str) else "" for name in images] if isinstance(images, list) else []


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else [None]
