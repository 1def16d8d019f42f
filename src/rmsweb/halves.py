"""Half characters: JSON can spell one half of a surrogate pair (`\\ud83d`), which no UTF-8 file can hold.

Foreign attempts are read with `?` in its place (what somebody else's agent wrote is evidence, however broken); a task
file that holds one is refused, since its texts decide which exam it is.
"""

from typing import Any


def clean(text: str) -> str:
    """Text that a record can hold: half characters become `?`."""
    return text.encode("utf-8", "replace").decode()


def cleaned(value: Any) -> Any:
    """A JSON value whose texts and names are `clean`."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): cleaned(item) for key, item in value.items()}
    return value
