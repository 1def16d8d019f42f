"""The fields of a call: typed readers, their other names, and the errors of a reply that is no action. Pure.

A reader takes a value only where its meaning is certain: decimal numbers written as text, `{"href": url}`, a point as
`{"x":, "y":}` or `"500, 40"`. NaN, hex, one number, words or numbers off the scale are typed errors.
"""

import math
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Literal, NamedTuple, TypeVar

from rmsweb.actions import Point, Viewport
from rmsweb.replies.keys import canonical_keys

T = TypeVar("T")


class ParseErrorKind(StrEnum):
    """Why a reply is no action."""

    EMPTY = "empty"
    """Nothing but blanks."""
    REFUSED = "refused"
    """The model or its provider declined to answer."""
    TRUNCATED = "truncated"
    """Cut by the length limit, or a call that ends in its middle."""
    NO_CALL = "no_call"
    """No committed call; JSON that is only talked about is none."""
    SEVERAL_CALLS = "several_calls"
    """Two calls that differ."""
    MALFORMED = "malformed"
    """A call that is no JSON."""
    MISSING_ACTION = "missing_action"
    """A call without an action name."""
    UNKNOWN_ACTION = "unknown_action"
    MISSING_FIELD = "missing_field"
    BAD_VALUE = "bad_value"
    """A field of the wrong type or out of its range."""
    BAD_COORDINATE = "bad_coordinate"
    """No two numbers, or outside the scale."""
    BAD_KEY = "bad_key"
    """A key name that nothing is called by."""


class ReplyError(ValueError):
    """A reply that is no action; `message` is short enough to be shown to the model."""

    def __init__(self, kind: ParseErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class Frame(NamedTuple):
    """What written coordinates mean: they run over 0..`across` and 0..`down` of a picture of `viewport`."""

    viewport: Viewport
    across: int
    down: int


FIELDS: Mapping[str, str] = {
    "coordinate": "coordinates coord coords point position xy",
    "start_coordinate": "start from startpoint startcoordinates",
    "text": "content value string answer message",
    "press_enter": "enter submit pressreturn",
    "clear_first": "clear replace clearbeforetyping",
    "keys": "key text combination",
    "pixels": "",
    "direction": "",
    "time": "seconds duration",
    "url": "link href address text",
    "query": "q text",
    "tab": "index tabindex tabid id",
    "fact": "text content note",
    "status": "result",
}
"""Field -> other names it is accepted under (folded)."""


def fold(name: str) -> str:
    """Case and punctuation do not count in names."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


class Fields:
    """The fields of one call, taken one by one; what is never taken is ignored and named by `left`."""

    def __init__(self, kind: str, given: Mapping[str, Any], frame: Frame, repairs: list[str]) -> None:
        self.kind, self.frame, self.repairs = kind, frame, repairs
        self.given: dict[str, tuple[str, Any]] = {}
        for key, value in given.items():
            if value is None:
                continue
            if self.given.setdefault(fold(key), (key, value))[1] != value:
                raise ReplyError(ParseErrorKind.BAD_VALUE, f"{key}: given twice with different values")

    def left(self) -> list[str]:
        """Names of the fields that nothing has taken."""
        return [key for key, _ in self.given.values()]

    def raw(self, *names: str) -> Any:
        """A field's value as it came; None when it is not there."""
        for name in names:
            if (found := self.given.pop(fold(name), None)) is not None:
                return found[1]
        return None

    def optional(self, name: str, read: Callable[[Any, str], T], *also: str) -> T | None:
        """The field read by `read`; None when it is not there. Raises ReplyError."""
        for other in (name, *also, *FIELDS[name].split()):
            if (found := self.given.pop(fold(other), None)) is not None:
                if found[0] != name:
                    self.repairs.append(f"alias:{name}<-{found[0]}")
                return read(found[1], name)
        if "coordinate" in name and (pair := self._apart(name)) is not None:
            return read(pair, name)
        return None

    def needed(self, name: str, read: Callable[[Any, str], T], *also: str) -> T:
        """The field read by `read`. Raises ReplyError, also when it is not there."""
        value = self.optional(name, read, *also)
        if value is None:
            kind = ParseErrorKind.BAD_COORDINATE if name == "coordinate" else ParseErrorKind.MISSING_FIELD
            raise ReplyError(kind, f"{self.kind} needs {name}")
        return value

    def _apart(self, name: str) -> list[Any] | None:
        """`x` and `y` as fields of their own."""
        across, down = ("x", "y") if name == "coordinate" else ("startx", "starty")
        if across in self.given and down in self.given:
            self.repairs.append("point_shape")
            return [self.raw(across), self.raw(down)]
        return None

    def point(self, value: Any, name: str) -> Point:
        """Two numbers on the profile's scale -> pixels of the viewport, each axis with its own size."""
        x, y = self._pair(value, name)
        viewport, across, down = self.frame
        if not (0 <= x <= across and 0 <= y <= down):
            scale = f"0..{across}" if across == down else f"0..{across} x 0..{down}"
            raise ReplyError(ParseErrorKind.BAD_COORDINATE, f"{name} {str([x, y])[:40]} is outside {scale}")
        return Point(
            x=min(viewport.width - 1, round(x * viewport.width / across)),
            y=min(viewport.height - 1, round(y * viewport.height / down)),
        )

    def _pair(self, value: Any, name: str) -> tuple[float, float]:
        shape = value
        if isinstance(value, dict) and {fold(key) for key in value} == {"x", "y"}:
            by_name = {fold(key): item for key, item in value.items()}
            shape = [by_name["x"], by_name["y"]]
        elif isinstance(value, str) and (text := re.fullmatch(r"\s*[\[(]?([^,\[\]()]+),([^,\[\]()]+)[\])]?\s*", value)):
            shape = [text[1], text[2]]
        elif isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
            shape = value[0]
        if not isinstance(shape, list) or len(shape) != 2:
            raise ReplyError(ParseErrorKind.BAD_COORDINATE, f"{name} {str(value)[:40]} is no pair [x, y]")
        if shape is not value:
            self.repairs.append("point_shape")
        x, y = (self._number(item, name, ParseErrorKind.BAD_COORDINATE) for item in shape)
        return x, y

    def _number(self, value: Any, name: str, kind: ParseErrorKind = ParseErrorKind.BAD_VALUE) -> float:
        if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,9}(\.\d{1,9})?\s*", value, re.ASCII):
            self.repairs.append(f"number_as_text:{name}")
            value = float(value) if "." in value else int(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ReplyError(kind, f"{name}: {str(value)[:20]!r} is no number")
        if isinstance(value, float) and not math.isfinite(value):
            raise ReplyError(kind, f"{name}: {value} is no number")
        return value

    def whole(self, value: Any, name: str) -> int:
        """A whole number."""
        number = self._number(self._bare(value), name)
        if number != int(number):
            raise ReplyError(ParseErrorKind.BAD_VALUE, f"{name}: {number} is not whole")
        return int(number)

    def tab(self, value: Any, name: str) -> int:
        """Index of a tab, from 0."""
        number = self.whole(value, name)
        if not 0 <= number < 1000:
            raise ReplyError(ParseErrorKind.BAD_VALUE, f"{name}: there is no tab {str(number)[:20]}")
        return number

    def seconds(self, value: Any, name: str) -> float:
        """0..60."""
        number = self._number(self._bare(value), name)
        if not 0 <= number <= 60:
            raise ReplyError(ParseErrorKind.BAD_VALUE, f"{name}: {str(number)[:20]} is outside 0..60 seconds")
        return float(number)

    def text(self, value: Any, name: str) -> str:
        """Text, also none; a number is taken as it is written."""
        value = self._bare(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.repairs.append(f"text_from_number:{name}")
            value = str(value)
        if not isinstance(value, str):
            raise ReplyError(ParseErrorKind.BAD_VALUE, f"{name}: text should stand here")
        return value

    def words(self, value: Any, name: str) -> str:
        """Text that is not blank."""
        text = self.text(value, name)
        if not text.strip():
            raise ReplyError(ParseErrorKind.MISSING_FIELD, f"{self.kind} needs {name}; it is empty")
        return text

    def flag(self, value: Any, name: str) -> bool:
        """True or false."""
        if isinstance(value, str) and fold(value) in ("true", "false"):
            self.repairs.append(f"flag_as_text:{name}")
            return fold(value) == "true"
        if not isinstance(value, bool):
            raise ReplyError(ParseErrorKind.BAD_VALUE, f"{name}: true or false should stand here")
        return value

    def keys(self, value: Any, name: str) -> tuple[str, ...]:
        """Canonical names of keys pressed together."""
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list) or not names or not all(isinstance(key, str) and key for key in names):
            raise ReplyError(ParseErrorKind.BAD_KEY, f"{name}: a list of key names should stand here")
        try:
            keys = canonical_keys(names)
        except KeyError as error:
            unknown = str(error.args[0])[:20]
            raise ReplyError(ParseErrorKind.BAD_KEY, f"{name}: no key is called {unknown!r}") from None
        if list(keys) != value:
            self.repairs.append("key_names")
        return keys

    def status(self, value: Any, name: str) -> Literal["success", "failure"]:
        """How the task ended, as the policy sees it."""
        word = fold(self.text(value, name))
        if word in ("success", "succeeded", "successful", "done", "completed", "complete"):
            found: Literal["success", "failure"] = "success"
        elif word in ("failure", "fail", "failed", "infeasible", "impossible"):
            found = "failure"
        else:
            raise ReplyError(ParseErrorKind.BAD_VALUE, f"{name}: success or failure should stand here")
        if value != found:
            self.repairs.append(f"alias:{name}")
        return found

    def _bare(self, value: Any) -> Any:
        """The value inside a list or an object of one."""
        if isinstance(value, dict | list) and len(value) == 1:
            self.repairs.append("unwrapped")
            return next(iter(value.values())) if isinstance(value, dict) else value[0]
        return value
