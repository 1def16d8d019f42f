"""Reads and checks a WebTailBench rubric: what the rubric judges score against.

Source: microsoft/WebTailBench, column `precomputed_rubric`: `items[]` of `criterion`, `description`, `max_points`,
empty `justification` and `earned_points`, optional `condition`. The rubric is passed on as it stands in the file.
"""

import hashlib
import json
from typing import Any


def read_rubric(value: Any) -> dict[str, Any] | None:
    """The rubric of a cell (JSON text) or field; None when there is none. Raises ValueError, saying what is wrong."""
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"precomputed_rubric is no JSON: {error}; empty the cell to have no rubric") from None
    if value is None or value == {}:
        return None
    if not isinstance(value, dict):
        raise ValueError(f"precomputed_rubric has to be an object with items, it is {json.dumps(value)[:60]}")
    items = value.get("items")
    if not isinstance(items, list) or not items:
        raise ValueError("precomputed_rubric.items has to be a list with at least one criterion")
    for number, item in enumerate(items, start=1):
        _check(item, f"precomputed_rubric item {number}")
    if sum(item["max_points"] for item in items) <= 0:
        raise ValueError("precomputed_rubric gives no points at all")
    return value


def rubric_hash(rubric: dict[str, Any]) -> str:
    """First 8 hex digits of the SHA-256 of what is asked for; fields to be filled in by a judge do not count."""
    items = [[i["criterion"], i["description"], i["max_points"], i.get("condition") or ""] for i in rubric["items"]]
    text = json.dumps(items, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def _check(item: Any, where: str) -> None:
    if not isinstance(item, dict):
        raise ValueError(f"{where} has to be an object, it is {json.dumps(item)[:60]}")
    for field in ("criterion", "description"):
        if not isinstance(item.get(field), str):
            raise ValueError(f"{where}: {field} has to be a text")
    points = item.get("max_points")
    if isinstance(points, bool) or not isinstance(points, int | float) or not 0 <= points < 1e6:
        raise ValueError(f"{where}: max_points has to be a number from 0 on, it is {json.dumps(points)[:40]}")
    if not isinstance(item.get("condition", ""), str | None):
        raise ValueError(f"{where}: condition has to be a text")
