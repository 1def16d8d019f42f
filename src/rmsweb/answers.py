"""Whether two answers say the same: numbers, units, currencies and addresses compared as such. Pure.

Promises: no substring is ever a match; a number matches a number of the same value however it is written; an address
matches an address, never a longer one. Where one side is a bare value, the other may be a sentence with exactly one
value in it.
"""

import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

NUMBER_WORDS: Mapping[str, int] = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20,
}  # fmt: skip
_CURRENCIES: Mapping[str, str] = {
    "$": "usd", "us$": "usd", "usd": "usd", "dollar": "usd", "dollars": "usd",
    "€": "eur", "eur": "eur", "euro": "eur", "euros": "eur",
    "£": "gbp", "gbp": "gbp", "pound sterling": "gbp",
    "¥": "jpy", "jpy": "jpy", "yen": "jpy",
    "₹": "inr", "inr": "inr", "rupees": "inr", "chf": "chf", "francs": "chf",
}  # fmt: skip
_UNITS: Mapping[str, tuple[str, str]] = {
    # unit -> (what it measures, how many base units it is)
    "mg": ("mass", "0.001"), "g": ("mass", "1"), "gram": ("mass", "1"), "kg": ("mass", "1000"),
    "kilogram": ("mass", "1000"), "oz": ("mass", "28.349523125"), "lb": ("mass", "453.59237"),
    "mm": ("length", "0.001"), "cm": ("length", "0.01"), "m": ("length", "1"), "meter": ("length", "1"),
    "metre": ("length", "1"), "km": ("length", "1000"), "kilometer": ("length", "1000"),
    "kilometre": ("length", "1000"), "inch": ("length", "0.0254"), "inches": ("length", "0.0254"),
    "ft": ("length", "0.3048"), "feet": ("length", "0.3048"), "mile": ("length", "1609.344"),
    "mi": ("length", "1609.344"),
    "ml": ("volume", "0.001"), "l": ("volume", "1"), "liter": ("volume", "1"), "litre": ("volume", "1"),
    "sec": ("time", "1"), "second": ("time", "1"), "min": ("time", "60"), "minute": ("time", "60"),
    "hr": ("time", "3600"), "h": ("time", "3600"), "hour": ("time", "3600"), "day": ("time", "86400"),
    "kb": ("data", "1000"), "mb": ("data", "1000000"), "gb": ("data", "1000000000"), "tb": ("data", "1000000000000"),
    "%": ("percent", "1"), "percent": ("percent", "1"), "per cent": ("percent", "1"),
}  # fmt: skip
_UNIT_NAMES = sorted([*_UNITS, *(name + "s" for name in _UNITS if len(name) > 1)], key=len, reverse=True)
_CURRENCY_NAMES = sorted(_CURRENCIES, key=len, reverse=True)
_VALUE = re.compile(
    rf"(?P<before>{'|'.join(map(re.escape, _CURRENCY_NAMES))})?\s*"
    r"(?<![\w./:])(?<!\d[-−])(?P<number>[-−]?(?:\d[\d.,'  ]*\d|\d)(?:\.(?!\d))?)"
    rf"(?:\s*(?P<behind>{'|'.join(map(re.escape, [*_CURRENCY_NAMES, *_UNIT_NAMES]))})(?![\w]))?"
    r"(?P<glued>[\w:/]|-\d)?"
)
_ADDRESS = re.compile(r"^(?:https?://)?(?:[\w-]+\.)+[a-z]{2,}(?::\d+)?(?:[/?#]\S*)?$|^https?://\S+$", re.IGNORECASE)


class Value(NamedTuple):
    """A number as it was written, and the currency or unit it counts; `unit` is empty for a bare number."""

    amount: Decimal
    unit: str = ""

    def measured(self) -> tuple[str, Decimal]:
        """(what it measures, how much in base units)."""
        if self.unit not in _UNITS:
            return self.unit, self.amount
        kind, factor = _UNITS[self.unit]
        return kind, self.amount * Decimal(factor)


def same_answer(given: str, expected: str) -> bool:
    """Whether two answers say the same. An empty answer says nothing and equals nothing."""
    if not given.strip() or not expected.strip():
        return False
    if plain(given) == plain(expected):
        return True
    if is_address(given) or is_address(expected):
        return is_address(given) and is_address(expected) and canonical_url(given) == canonical_url(expected)
    if not (_is_bare(given) or _is_bare(expected)):
        return False
    left, right = values(given), values(expected)
    return len(left) == 1 and len(right) == 1 and _same_value(left[0], right[0])


def plain(text: str) -> str:
    """Compatibility forms folded, small case, one blank between words, no quotation marks or stops around."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = " ".join(folded.split()).strip(" \"'“”‘’`.,;:!")
    return re.sub(r"^(?:the|a|an) (?=\S)", "", words)


def is_address(text: str) -> bool:
    """Whether the whole text is a web address."""
    return bool(_ADDRESS.match(text.strip().strip("<>")))


def canonical_url(url: str) -> str:
    """One spelling per address: no scheme, default port, fragment or last slash; small-case host, sorted query."""
    text = url.strip().strip("<>")
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:  # No address after all; it equals only itself.
        return text
    host = (parts.hostname or "") + (f":{port}" if port not in (None, 80, 443) else "")
    query = urlencode(sorted(parse_qsl(parts.query, keep_blank_values=True)))
    path = unquote(parts.path).rstrip("/")
    return f"{host}{path}" + (f"?{query}" if query else "")


def values(text: str) -> list[Value]:
    """The different values in a text, in their order; times, dates and words with digits in them are none."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    found: dict[Value, None] = {}
    for match in _VALUE.finditer(folded):
        if match["glued"]:
            continue
        amount = number(match["number"])
        if amount is not None:
            found[Value(amount, _unit(match["before"]) or _unit(match["behind"]))] = None
    for word in re.findall(r"[a-z]+", folded):
        if word in NUMBER_WORDS:
            found[Value(Decimal(NUMBER_WORDS[word]))] = None
    return list(found)


def number(text: str) -> Decimal | None:
    """A number as people write it: `5,310`, `1.234,56`, `000170`, `0.`, `-3`; None when it could mean two things."""
    digits = text.replace("−", "-").strip().rstrip(".")
    digits = re.sub(r"(?<=\d)['  ](?=\d{3}(?!\d))", "", digits)
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", digits):
        digits = digits.replace(",", "")
    elif re.fullmatch(r"-?\d{1,3}(\.\d{3})+,\d+", digits) or re.fullmatch(r"-?\d{1,3}(\.\d{3}){2,}", digits):
        digits = digits.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"-?\d+,\d{1,2}", digits):
        digits = digits.replace(",", ".")
    if not re.fullmatch(r"-?\d+(\.\d+)?", digits):
        return None
    try:
        return Decimal(digits).normalize() + 0
    except InvalidOperation:
        return None


def _unit(name: str | None) -> str:
    if not name:
        return ""
    return _CURRENCIES.get(name) or (name if name in _UNITS else name.removesuffix("s"))


def _same_value(a: Value, b: Value) -> bool:
    """Equal amounts of the same thing; where one side names no unit, the number as written counts."""
    if not (a.unit and b.unit):
        return a.amount == b.amount
    (kind_a, amount_a), (kind_b, amount_b) = a.measured(), b.measured()
    return kind_a == kind_b and abs(amount_a - amount_b) <= abs(amount_a) * Decimal("1e-9")


def _is_bare(text: str) -> bool:
    """Whether the text is nothing but one value."""
    folded = unicodedata.normalize("NFKC", text).casefold().strip(" \"'“”.!")
    if folded in NUMBER_WORDS:
        return True
    match = _VALUE.fullmatch(folded)
    return bool(match and not match["glued"])
