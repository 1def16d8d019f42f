"""Names of keys: one canonical (Playwright) name each, and what models call them. Pure.

Case and punctuation of an alias do not count: `page_down`, `Page Down` and `PAGEDOWN` are one. An unknown name is an
error, never a guess.
"""

import re
from collections.abc import Mapping

MODIFIERS = ("Control", "Shift", "Alt", "Meta", "ControlOrMeta")

_OTHERS: Mapping[str, str] = {
    "Enter": "return ret newline carriagereturn kpenter numpadenter",
    "Escape": "esc",
    "Tab": "tabulator",
    "Space": "spacebar blank",
    "Backspace": "bksp backspc",
    "Delete": "del",
    "Insert": "ins",
    "ArrowUp": "up uparrow keyup",
    "ArrowDown": "down downarrow keydown",
    "ArrowLeft": "left leftarrow keyleft",
    "ArrowRight": "right rightarrow keyright",
    "PageUp": "pgup prior",
    "PageDown": "pgdn pgdown next",
    "Home": "begin",
    "End": "",
    "CapsLock": "caps",
    "NumLock": "",
    "ScrollLock": "",
    "PrintScreen": "prtsc printscr print sysrq",
    "Pause": "break",
    "ContextMenu": "menu apps",
    "Control": "ctrl ctl controlleft controlright ctrlleft ctrlright",
    "Shift": "shiftleft shiftright",
    "Alt": "option opt altleft altright",
    "Meta": "cmd command win windows super os metaleft metaright",
    "ControlOrMeta": "ctrlorcmd cmdorctrl commandorcontrol mod",
}

_SIGNS: Mapping[str, str] = {
    "plus": "+", "minus": "-", "dash": "-", "equal": "=", "equals": "=", "comma": ",", "period": ".", "dot": ".",
    "slash": "/", "backslash": "\\", "semicolon": ";", "quote": "'", "backquote": "`", "bracketleft": "[",
    "bracketright": "]",
}  # fmt: skip

NAMED: frozenset[str] = frozenset({*_OTHERS, *(f"F{number}" for number in range(1, 25))})
"""Canonical names of all keys that are more than one character."""


def _fold(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _table() -> dict[str, str]:
    table = {_fold(name): name for name in NAMED}
    for name, aliases in _OTHERS.items():
        for alias in aliases.split():
            table[alias] = name
    table.update(_SIGNS)
    for letter in "abcdefghijklmnopqrstuvwxyz":
        table["key" + letter] = letter
    for digit in "0123456789":
        table["digit" + digit] = table["numpad" + digit] = digit
    return table


ALIASES: Mapping[str, str] = _table()
"""Folded name -> canonical name."""


def canonical_key(name: str) -> str | None:
    """The canonical name of one key; None when nothing is called so. A single printable character names itself."""
    if name in NAMED:
        return name
    if name == " ":
        return "Space"
    if len(name) == 1:
        return name if name.isprintable() else {"\n": "Enter", "\r": "Enter", "\t": "Tab"}.get(name)
    return ALIASES.get(_fold(name))


def canonical_keys(names: list[str]) -> tuple[str, ...]:
    """Keys pressed together, chords like `ctrl+a` split, letters of a shortcut in small case. Raises KeyError(name)."""
    parts = [part for name in names for part in _split(name)]
    keys = []
    for part in parts:
        key = canonical_key(part)
        if key is None:
            raise KeyError(part)
        keys.append(key)
    shortcut = any(key in MODIFIERS and key != "Shift" for key in keys)
    return tuple(key.lower() if shortcut and len(key) == 1 and key.lower().isascii() else key for key in keys)


def _split(name: str) -> list[str]:
    """`Ctrl+Shift+a` -> three names; `+` and `ctrl++` keep the plus key. Dashes join only behind a modifier."""
    if len(name) == 1:
        return [name]
    text = name.strip()
    if canonical_key(text) is not None and "+" not in text:
        return [text]
    if text.endswith("++"):
        return [*_split(text[:-2]), "+"]
    if "+" in text:
        return [part.strip() or part for part in text.split("+")]
    head, dash, rest = text.partition("-")
    if dash and rest and canonical_key(head) in MODIFIERS:
        return [head, *_split(rest)]
    return [text]
