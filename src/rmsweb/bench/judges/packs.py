"""Upstream wording out of the user's own checkout: string constants by `ast`, never by importing; hash checked.

Owns what a pack is and the three ways a protocol can be worded: exact (known hash), changed (another hash, by
`judge.changed_pack`), ours (`prompts/exams/`). Promises that the way stands in the protocol's name.
"""

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rmsweb.errors import ConfigError, DataError

HASH_LETTERS = 16


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
    """Our name of a text -> qualified name of the constant: `NAME`, or `function.name` for one inside a function."""


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


def load(pack: Pack, checkout: Path, *, changed: bool = False) -> Wording:
    """The wording of a pack. `checkout`: the folder of the checkout, or the file itself.

    Raises ConfigError when the file is not there, has another hash (unless `changed`) or lacks a text.
    """
    checkout = Path(checkout)
    path = checkout if checkout.is_file() else checkout / pack.file
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"judge.pack: {path} cannot be read ({error.strerror}); give the checkout of {pack.source} "
            f"that holds {pack.file}, or choose the protocol's `rmsweb/...` wording"
        ) from None
    digest = hashlib.sha256(data).hexdigest()
    known = digest.startswith(pack.sha256)
    if not known and not changed:
        raise ConfigError(
            f"judge.pack: {path} has sha256 {digest[:HASH_LETTERS]}, {pack.source} has {pack.sha256}; check "
            "that revision out, or set judge.changed_pack = true: the protocol's name then carries the hash"
        )
    found = constants(data.decode("utf-8", errors="replace"), path)
    absent = [name for name in pack.texts.values() if name not in found]
    if absent:
        raise ConfigError(
            f"judge.pack: {path} has no text named {', '.join(absent)}; it is not the file of {pack.source}"
        )
    texts = {name: found[constant] for name, constant in pack.texts.items()}
    return Wording(
        texts, "" if known else f"changed-{digest[:8]}/", f"{pack.source} {pack.file} {digest[:HASH_LETTERS]}"
    )


def constants(source: str, path: Path | str = "pack") -> dict[str, str]:
    """String constants that a Python file assigns: module level by name, inside functions and classes by dotted name.

    An f-string's fields stand as `{expression}`; constants joined with `+` or by juxtaposition are joined; `.strip()`
    and `textwrap.dedent` are applied. A name assigned twice keeps the first text, later ones are `name#2`, `name#3` ...
    Raises DataError when the file is no Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise DataError(f"no Python file: {error}", path) from None
    found: dict[str, str] = {}
    _walk(tree, "", found)
    return found


def _walk(node: ast.AST, prefix: str, found: dict[str, str]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            _walk(child, f"{prefix}{child.name}.", found)
            continue
        if isinstance(child, ast.Assign | ast.AnnAssign) and child.value is not None:
            text = _text(child.value)
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            for target in targets:
                if text is not None and isinstance(target, ast.Name):
                    _keep(found, prefix + target.id, text)
        _walk(child, prefix, found)


def _keep(found: dict[str, str], name: str, text: str) -> None:
    number, key = 1, name
    while key in found:
        number += 1
        key = f"{name}#{number}"
    found[key] = text


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
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return _called(node.func, node)
    return None


def _called(function: ast.Attribute, call: ast.Call) -> str | None:
    if function.attr == "dedent" and len(call.args) == 1:
        import textwrap

        inner = _text(call.args[0])
        return None if inner is None else textwrap.dedent(inner)
    if function.attr in ("strip", "lstrip", "rstrip") and not call.args:
        inner = _text(function.value)
        return None if inner is None else str(getattr(inner, function.attr)())
    return None
