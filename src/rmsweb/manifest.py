"""run.json: what a run was started with; summary.json: what came of it.

Owns its shape and the comparison with what is wanted now. Promises that a file of another shape is an error that names
it, and that every difference is said in words. Writes nothing.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rmsweb.errors import DataError, RunError
from rmsweb.records import SCHEMA


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a run. Raises DataError for a file that is none, RunError for another record schema."""
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"not a run manifest: {error}", path) from error
    if not isinstance(manifest, dict) or not {"verb", "schema", "config", "inputs"} <= manifest.keys():
        raise DataError("not a run manifest: verb, schema, config or inputs are missing", path)
    inputs = manifest["inputs"]
    if not isinstance(manifest["config"], dict) or not isinstance(manifest["verb"], str):
        raise DataError("not a run manifest: verb has to be a text, config an object", path)
    if not isinstance(inputs, dict) or not all(map(_is_input, inputs.values())):
        raise DataError("not a run manifest: inputs has to be an object of {path, sha256}, both texts", path)
    if not isinstance(manifest.get("counts", {}), dict) or not isinstance(manifest.get("wall_s", 0.0), int | float):
        raise DataError("not a run manifest: counts has to be an object, wall_s a number", path)
    if manifest["schema"] != SCHEMA:
        raise RunError(
            f"{path.parent} has record schema {manifest.get('schema')}, this rmsweb reads {SCHEMA}; "
            f"use rmsweb {manifest.get('version', '?')} or collect again into another folder"
        )
    return manifest


def read_summary(path: Path, *names: str) -> dict[str, Any]:
    """A run's summary.json. Raises DataError for a file that is none, or that lacks one of `names`."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"not a summary: {error}; remove it, the command writes it again", path) from error
    if not isinstance(value, dict) or not value or not set(names) <= value.keys():
        lacking = ", ".join(names) or "its fields"
        raise DataError(f"not a summary: no object with {lacking}; remove it, the command writes it again", path)
    return value


def difference(old: Any, new: Any, prefix: str = "") -> list[str]:
    """Lines `a.b: old -> new` for every leaf in which two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        lines: list[str] = []
        for key in sorted(old.keys() | new.keys()):
            lines += difference(old.get(key), new.get(key), f"{prefix}.{key}" if prefix else key)
        return lines
    return [] if old == new else [f"{prefix}: {json.dumps(old)} -> {json.dumps(new)}"]


HOW = ("base_url", "api_key_env", "token_budget", "timeout_s", "connect_timeout_s", "concurrency", "attempts")
"""Settings of a model that say how it is reached and how long it may take, not what it is: they may change."""


def _comparable(value: Any) -> Any:
    """A config without what may change when a run goes on."""
    if not isinstance(value, dict):
        return value
    model = "api_key_env" in value
    return {key: _comparable(one) for key, one in value.items() if not (model and key in HOW)}


def _is_input(item: object) -> bool:
    return isinstance(item, dict) and all(isinstance(item.get(key), str) for key in ("path", "sha256"))


def changes_between(manifest: dict[str, Any], wanted: dict[str, Any], compare: Sequence[str] | None) -> str:
    """What keeps a run from going on, as the rest of a sentence about its directory; empty: nothing does."""
    if manifest["verb"] != wanted["verb"]:
        return f"holds a run of `{manifest['verb']}`, not of `{wanted['verb']}`; choose another -o"
    names = wanted["config"].keys() if compare is None else compare
    old, new = ({name: _comparable(m["config"].get(name)) for name in names} for m in (manifest, wanted))
    lines = difference(old, new) + _other_inputs(manifest["inputs"], wanted["inputs"])
    if not lines:
        return ""
    advice = "go on with the old ones or choose another -o"
    return f"was started with other settings or inputs; {advice}:\n  " + "\n  ".join(lines)


def _other_inputs(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Lines about inputs whose content differs, by their paths; where an input lies may change."""
    lines = []
    for name in sorted(old.keys() | new.keys()):
        was, now = (side.get(name, {"path": "not given", "sha256": ""}) for side in (old, new))
        if was["sha256"] != now["sha256"]:
            changed = f"{now['path']} has changed since (SHA-256 {was['sha256'][:12]} -> {now['sha256'][:12]})"
            moved = f"{was['path']} -> {now['path']}"
            lines.append(f"inputs.{name}: {changed if was['path'] == now['path'] else moved}")
    return lines
