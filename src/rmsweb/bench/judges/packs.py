"""Upstream wording out of the user's own checkout: string constants by `ast`, never by importing; hash checked.

Owns what a pack is, the three ways a protocol can be worded (exact: known hash; changed: another hash, by
`judge.changed_pack`; ours: `prompts/exams/`) and the three ways upstream fills a text. Promises that the way stands in
the protocol's name, and that a text without a place for what it has to hold is an error before any model is asked.
"""

import ast
import hashlib
import re
import string
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from rmsweb.errors import ConfigError, DataError

HASH_LETTERS = 16
LARGEST = 4 * 2**20
"""Bytes; a larger file is no script with prompts."""


@dataclass(slots=True, frozen=True)
class Pack:
    """Where upstream keeps the wording of one protocol."""

    source: str
    """Repository and revision, for people."""
    file: str
    """Path inside the checkout."""
    sha256: str
    """First 16 hexadecimal digits of the known file."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Our name of a text -> its address in the file, see `find`."""


@dataclass(slots=True, frozen=True)
class Wording:
    """The texts of a protocol and where they come from."""

    texts: Mapping[str, str]
    prefix: str
    """Empty: exact upstream wording. `rmsweb/`: ours. `changed-<hash>/`: a file that is not the known one."""
    source: str

    def name(self, protocol: str) -> str:
        """The protocol's name under this wording: `webvoyager/fara`, `rmsweb/webvoyager-fara` ..."""
        return f"{self.prefix}{protocol.replace('/', '-')}" if self.prefix else protocol

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits over the texts: our own wording may change from one release to the next."""
        parts = "\0".join(f"{name}\0{text}" for name, text in sorted(self.texts.items()))
        return hashlib.sha256(parts.encode()).hexdigest()[:8]

    def need(self, text: str, tokens: Collection[str]) -> str:
        """The text, which must hold every token. Raises ConfigError."""
        words = self.texts[text]
        absent = [token for token in tokens if token not in words]
        if absent:
            raise ConfigError(f"{self.source}: its text {text!r} has no place for {', '.join(absent)}")
        return words


def load(pack: Pack, checkout: Path, *, changed: bool = False) -> Wording:
    """The wording of a pack. `checkout`: the folder of the checkout, or the file itself.

    A checkout with Windows line ends is the same file. Raises ConfigError when the file is not there, has another hash
    (unless `changed`) or lacks a text; DataError when it is no Python.
    """
    checkout = Path(checkout)
    path = checkout if checkout.is_file() else checkout / pack.file
    data = _read(path, pack)
    digest = hashlib.sha256(data).hexdigest()
    same = (digest, hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest())
    known = any(one.startswith(pack.sha256) for one in same)
    if not known and not changed:
        raise ConfigError(
            f"judge.pack: {path} has sha256 {digest[:HASH_LETTERS]}, {pack.source} has {pack.sha256}; check "
            "that revision out, or set judge.changed_pack = true: the protocol's name then carries the hash"
        )
    try:
        source = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 ({error.reason} at byte {error.start})", path) from None
    named, every = _texts(source, path)
    found = {name: find(address, named, every) for name, address in pack.texts.items()}
    absent = [f"{name} ({pack.texts[name]})" for name, text in found.items() if text is None]
    if absent:
        raise ConfigError(
            f"judge.pack: {path} has no text, or more than one, for {', '.join(absent)}; "
            f"it is not the file of {pack.source}"
        )
    texts = {name: text for name, text in found.items() if text is not None}
    return Wording(
        texts, "" if known else f"changed-{digest[:8]}/", f"{pack.source} {pack.file} {digest[:HASH_LETTERS]}"
    )


def _read(path: Path, pack: Pack) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"judge.pack: {path} is larger than {LARGEST >> 20} MiB: that is not {pack.file}")
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"judge.pack: {path} cannot be read ({error.strerror}); give the checkout of {pack.source} "
            f"that holds {pack.file}, or choose the protocol's `rmsweb/...` wording"
        ) from None


def find(address: str, named: Mapping[str, str], every: Collection[str]) -> str | None:
    """The text at an address; None when there is none, or several that differ.

    `NAME`, `function.NAME`: an assigned constant (see `constants`). `*.NAME`: the same in any one function or class.
    `=GLOB`: the only text of the whole file that matches, assigned or not; `*` stands for anything, `[` for itself.
    """
    if address.startswith("="):
        glob = address[1:].replace("[", "[[]")
        matching = {text for text in every if fnmatchcase(text, glob)}
    elif address.startswith("*"):
        glob = address.replace("[", "[[]")
        matching = {text for name, text in named.items() if fnmatchcase(f".{name}", glob)}
    else:
        matching = {named[address]} if address in named else set()
    return matching.pop() if len(matching) == 1 else None


def constants(source: str, path: Path | str = "pack") -> dict[str, str]:
    """String constants that a Python file assigns: module level by name, inside functions and classes by dotted name.

    An f-string's fields stand as `{expression}`; constants joined with `+` or by juxtaposition are joined; `.strip()`,
    `textwrap.dedent` and `Template` are applied. A name assigned twice keeps the first text, later ones are `name#2`,
    `name#3` ... Texts within another call (`field = Field(description=...)`) are `name[0]`, `name[1]` ...
    Raises DataError when the file is no Python.
    """
    return _texts(source, path)[0]


def _texts(source: str, path: Path | str) -> tuple[dict[str, str], list[str]]:
    """(assigned texts by name, every text of the file)."""
    try:
        tree = ast.parse(source)
        found: dict[str, str] = {}
        _walk(tree, "", found)
        return found, list(_within(tree))
    except (SyntaxError, ValueError) as error:
        raise DataError(f"no Python file: {error}", path) from None
    except (RecursionError, MemoryError):
        raise DataError("no Python file that can be read: it is nested too deeply", path) from None


def _walk(node: ast.AST, prefix: str, found: dict[str, str]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            _walk(child, f"{prefix}{child.name}.", found)
            continue
        if isinstance(child, ast.Assign | ast.AnnAssign) and child.value is not None:
            text = _text(child.value)
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    _keep_all(found, prefix + target.id, text, child.value)
        _walk(child, prefix, found)


def _keep_all(found: dict[str, str], name: str, text: str | None, value: ast.expr) -> None:
    if text is not None:
        _keep(found, name, text)
    elif isinstance(value, ast.Call):
        given = (*value.args, *(word.value for word in value.keywords))
        for number, inner in enumerate(text for one in given if (text := _text(one)) is not None):
            _keep(found, f"{name}[{number}]", inner)


def _keep(found: dict[str, str], name: str, text: str) -> None:
    number, key = 1, name
    while key in found:
        number += 1
        key = f"{name}#{number}"
    found[key] = text


def _within(node: ast.AST) -> Iterator[str]:
    """Every text of the tree; what is joined counts as one."""
    if isinstance(node, ast.expr) and (text := _text(node)) is not None:
        yield text
        return
    for child in ast.iter_child_nodes(node):
        yield from _within(child)


def _text(node: ast.expr) -> str | None:
    """The text an expression stands for; None where it is no constant text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        parts = [
            str(value.value) if isinstance(value, ast.Constant) else "{" + ast.unparse(value.value) + "}"  # type: ignore[attr-defined]
            for value in node.values
        ]
        return "".join(parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return None if left is None or right is None else left + right
    return _called(node) if isinstance(node, ast.Call) else None


def _called(call: ast.Call) -> str | None:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name == "dedent" and len(call.args) == 1:
        inner = _text(call.args[0])
        return None if inner is None else textwrap.dedent(inner)
    if name == "Template" and len(call.args) == 1:
        inner = _text(call.args[0])
        # Jinja drops one line break at the end of a template.
        return None if inner is None else inner.removesuffix("\n")
    if isinstance(function, ast.Attribute) and name in ("strip", "lstrip", "rstrip") and not call.args:
        inner = _text(function.value)
        return None if inner is None else str(getattr(inner, name)())
    return None


def fill(template: str, values: Mapping[str, str]) -> str:
    """Every token (`{{ task }}`, `{i + 1}` ...) replaced in one pass: what a value holds is never filled again."""
    tokens = "|".join(re.escape(token) for token in sorted(values, key=len, reverse=True))
    return re.sub(tokens, lambda match: values[match.group()], template) if values else template


def fill_in_turn(template: str, values: Mapping[str, str]) -> str:
    """Token after token by `str.replace`, as some scripts do: a later token in an earlier value is filled as well."""
    for token, value in values.items():
        template = template.replace(token, value)
    return template


def fill_format(template: str, values: Mapping[str, str]) -> str:
    """`str.format` with these values. Raises ConfigError where the template asks for another or is none."""
    try:
        wanted = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
        if not wanted <= set(values):
            raise ConfigError(f"a template has the fields {sorted(wanted)}, its protocol fills {sorted(values)}")
        return template.format(**values)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"a template cannot be filled by format: {error}") from None
