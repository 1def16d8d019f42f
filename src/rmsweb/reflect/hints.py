"""The machine-readable part of reflections: what the embedded explorer takes from them.

Owns the JSON form under `Reflection.hints` and how the hints of several reflections add up. A chat policy never sees
hints; it reads the reflection's sentences.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from rmsweb.records import Reflection
from rmsweb.reflect.reading import Move


@dataclass(slots=True)
class Hints:
    """What to do otherwise next time."""

    avoid: set[Move] = field(default_factory=set)
    """Moves that were wrong: page, kind, label, text. An empty page stands for any page."""
    prefer: Counter[str] = field(default_factory=Counter)
    """Labels worth trying, with a weight."""
    strict: bool = False
    """Act only where the page shows every word of the goal; take no label that fits in part."""
    verify: bool = False
    """Answer only with a value that stands beside the goal's words."""
    fill: bool = False
    """Fill in every field before a form is sent."""
    query: str = ""
    """The only text worth searching for."""

    def to_json(self) -> dict[str, JsonValue]:
        """Settings at rest are left out."""
        out: dict[str, JsonValue] = {}
        if self.avoid:
            moves = sorted(self.avoid, key=lambda m: (m.page, m.kind, m.label, m.text))
            out["avoid"] = [[m.page, m.kind, m.label, m.text] for m in moves]
        if self.prefer:
            out["prefer"] = dict(sorted(self.prefer.items()))
        for name in ("strict", "verify", "fill"):
            if getattr(self, name):
                out[name] = True
        if self.query:
            out["query"] = self.query
        return out


def read_hints(hints: Mapping[str, JsonValue]) -> Hints:
    """Hints of one reflection. What cannot be read is left out: a chat model may have written anything."""
    out = Hints(
        strict=hints.get("strict") is True,
        verify=hints.get("verify") is True,
        fill=hints.get("fill") is True,
    )
    avoid = hints.get("avoid")
    for item in avoid if isinstance(avoid, list) else []:
        if isinstance(item, list) and len(item) == 4 and all(isinstance(part, str) for part in item):
            out.avoid.add(Move(*map(str, item)))
    prefer = hints.get("prefer")
    for label, weight in prefer.items() if isinstance(prefer, dict) else []:
        if isinstance(weight, int) and not isinstance(weight, bool):
            out.prefer[label] = weight
    query = hints.get("query")
    out.query = query if isinstance(query, str) else ""
    return out


def merge(reflections: Iterable[Reflection]) -> Hints:
    """All reflections so far: what to avoid and prefer adds up, the last query wins."""
    out = Hints()
    for reflection in reflections:
        hints = read_hints(reflection.hints)
        out.avoid |= hints.avoid
        for label, weight in hints.prefer.items():
            out.prefer[label] = max(out.prefer[label], weight)
        out.strict |= hints.strict
        out.verify |= hints.verify
        out.fill |= hints.fill
        out.query = hints.query or out.query
    return out
