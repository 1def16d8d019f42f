"""Text that is meant as JSON -> the value it means, where that is certain.

Owns the tolerant reader: Python dicts, smart quotes, trailing commas, bare keys, raw line breaks in strings, unescaped
quotation marks, a missing last brace. Strict JSON is tried first and never altered. Every leniency used is named in
`Read.repairs`. Raises MalformedJson, whatever the text; never evaluates code, never guesses a number.
"""

import json
import re
from typing import Any, NamedTuple

DEPTH = 32
"""Deepest nesting that is read; a call needs four."""

LITERALS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}
CLOSING = {'"': '"”', "'": "'’", "“": '”“"', "”": '”"', "‘": "’‘'", "’": "’'", "`": "`"}
"""Opening quotation mark -> marks that may end the string."""
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}

_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_]\w*")
_AFTER_KEY = re.compile(r"\s*:")
_AFTER_VALUE = re.compile(r"\s*(?:[}\])]|,\s*(?:[\"'“‘”’`}\])\[{(]|[A-Za-z_]\w*\s*:|-?\d))")

_NEXT_FIELD = re.compile(r"\s*[\"'“‘”’`:]")


class MalformedJson(ValueError):
    """The text is no JSON value, nor one with certain repairs; `cut` when it merely ends too early."""

    def __init__(self, message: str, cut: bool = False) -> None:
        super().__init__(message)
        self.cut = cut


class Read(NamedTuple):
    """A value, the position behind it, and what had to be repaired."""

    value: Any
    end: int
    repairs: tuple[str, ...]


def read_json(text: str, start: int = 0, stop: int | None = None, *, close: bool = False) -> Read:
    """The JSON value that begins at `start` (blanks before it allowed); what follows it is left alone.

    `stop` ends the text early. `close`: braces of objects that are still open at the end may be supplied (the writer
    has said by other means that the value is complete). Raises MalformedJson.
    """
    text = text if stop is None else text[:stop]
    begin = _SPACE.match(text, start)
    at = begin.end() if begin else start
    for strict, repairs in ((True, ()), (False, ("raw_line_break",))):
        try:
            value, end = json.JSONDecoder(object_pairs_hook=_object, strict=strict).raw_decode(text, at)
            return Read(value, end, repairs)
        except MalformedJson:
            raise
        except (ValueError, RecursionError):
            continue
    reader = _Reader(text, at, close)
    value = reader.value(0)
    return Read(value, reader.at, tuple(dict.fromkeys(reader.repairs)) or ("loose_json",))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict; a key that is given twice with two values has no certain meaning."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and found[key] != value:
            raise MalformedJson(f"{key!r} is given twice with different values")
        found[key] = value
    return found


class _Reader:
    """Recursive descent over one value."""

    def __init__(self, text: str, at: int, close: bool) -> None:
        self.text, self.at, self.close = text, at, close
        self.repairs: list[str] = []

    def value(self, depth: int) -> Any:
        if depth > DEPTH:
            raise MalformedJson("nested too deeply")
        self._blanks()
        sign = self._peek()
        if sign == "{":
            return self._dict(depth)
        if sign and sign in "[(":
            return self._list(depth)
        if sign in CLOSING:
            return self._string(_AFTER_VALUE)
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            return self._number(number.group())
        word = _WORD.match(self.text, self.at)
        if word and word.group() in LITERALS:
            self.at = word.end()
            if word.group() in ("True", "False", "None"):
                self.repairs.append("python_literal")
            return LITERALS[word.group()]
        if word and word.group() in ("NaN", "Infinity"):
            self.at = word.end()
            return float(word.group())
        raise self._error("a value")

    def _number(self, text: str) -> int | float:
        try:
            return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
        except ValueError:  # Python refuses whole numbers of thousands of digits.
            raise self._error("a number of sane length") from None

    def _dict(self, depth: int) -> dict[str, Any]:
        self.at += 1
        pairs: list[tuple[str, Any]] = []
        while True:
            self._blanks()
            if self._peek() == "}":
                self.at += 1
                return _object(pairs)
            # A digit at the very end may be half a number.
            if not self._peek() and self.close and pairs and not self.text.rstrip()[-1].isdigit():
                self.repairs.append("missing_brace")
                return _object(pairs)
            if pairs:
                self._comma("}")
                if self._peek() == "}":
                    continue
            key = self._key()
            self._blanks()
            if self._peek() != ":":
                raise self._error("':'")
            self.at += 1
            pairs.append((key, self.value(depth + 1)))

    def _list(self, depth: int) -> list[Any]:
        end = "]" if self._peek() == "[" else ")"
        if end == ")":
            self.repairs.append("python_tuple")
        self.at += 1
        values: list[Any] = []
        while True:
            self._blanks()
            if self._peek() == end:
                self.at += 1
                return values
            if values:
                self._comma(end)
                if self._peek() == end:
                    continue
            values.append(self.value(depth + 1))

    def _comma(self, end: str) -> None:
        if self._peek() != ",":
            raise self._error(f"',' or {end!r}")
        self.at += 1
        self._blanks()
        if self._peek() == end:
            self.repairs.append("trailing_comma")

    def _key(self) -> str:
        if self._peek() in CLOSING:
            return self._string(_AFTER_KEY)
        word = _WORD.match(self.text, self.at)
        if word is None:
            raise self._error("a key")
        self.at = word.end()
        self.repairs.append("bare_key")
        return word.group()

    def _string(self, behind: re.Pattern[str]) -> str:
        """A string; a mark ends it only where what follows is what has to follow a key or a value."""
        opening = self.text[self.at]
        if opening != '"':
            self.repairs.append("quotes")
        self.at += 1
        letters: list[str] = []
        while self.at < len(self.text):
            letter = self.text[self.at]
            if letter in CLOSING[opening]:
                if behind.match(self.text, self.at + 1) or (self.close and not self.text[self.at + 1 :].strip()):
                    self.at += 1
                    return "".join(letters)
                if _NEXT_FIELD.match(self.text, self.at + 1):
                    raise self._error("a comma")  # Else the next field would be read as part of this text.
                if opening == '"':
                    self.repairs.append("unescaped_quote")
            if letter == "\\":
                letters.append(self._escape())
                continue
            letters.append(letter)
            self.at += 1
        raise MalformedJson("a string is not closed", cut=True)

    def _escape(self) -> str:
        sign = self.text[self.at + 1 : self.at + 2]
        if sign in ("u", "x"):
            digits = 4 if sign == "u" else 2
            code = self.text[self.at + 2 : self.at + 2 + digits]
            if re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", code):
                self.at += 2 + digits
                return chr(int(code, 16))
        self.at += 2
        if sign in ESCAPES:
            return ESCAPES[sign]
        self.repairs.append("bad_escape")
        return "\\" + sign

    def _blanks(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _error(self, wanted: str) -> MalformedJson:
        near = self.text[self.at : self.at + 20]
        if not near.strip():
            return MalformedJson(f"it ends where {wanted} should stand", cut=True)
        return MalformedJson(f"{wanted} should stand before {near!r}")
