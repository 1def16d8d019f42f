"""Screenshots of foreign attempts: into the run's image store, numbered as their files are.

Promises: a PNG is stored byte for byte; JPEG and WebP become PNG with the same pixels, and the record names them; what
is no whole picture is a missing picture with a reason, never a stored one; order is by number, never by name.
"""

import base64
import binascii
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rmsweb.bench.formats.files import clean, inside
from rmsweb.errors import DataError
from rmsweb.store import PNG_MAGIC, Images

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
MOST_BYTES = 64 << 20
MOST_PIXELS = 80_000_000
_NUMBER = re.compile(r"\d+")

Shots = list[tuple[int, str]]
"""(number, SHA-256) in order; empty where a number that belongs there has no whole picture."""


class Unreadable(Exception):
    """Why a picture cannot be used."""


class Pictures:
    """The pictures of one attempt. `notes` says what was odd, `converted` what was no PNG."""

    def __init__(self, images: Images) -> None:
        self.images = images
        self.notes: list[str] = []
        self.converted: list[str] = []
        self.size: tuple[int, int] | None = None
        """Pixels of the first whole picture."""

    def add(self, path: Path | None, name: str) -> str:
        """Store the picture of a file; empty, with a note, where there is none."""
        try:
            if path is None:
                raise Unreadable("is not in the folder")
            if path.stat().st_size > MOST_BYTES:
                raise Unreadable(f"is larger than {MOST_BYTES >> 20} MB")
            return self.put(path.read_bytes(), name)
        except OSError as error:
            return self._missing(name, f"cannot be read: {error.strerror or error}")
        except Unreadable as error:
            return self._missing(name, str(error))

    def add_base64(self, text: str, name: str) -> str:
        """Store a picture that stands in a text, with or without `data:...;base64,` before it."""
        try:
            return self.put(base64.b64decode(text.rpartition("base64,")[2], validate=True), name)
        except (binascii.Error, ValueError):
            return self._missing(name, "is no base64")
        except Unreadable as error:
            return self._missing(name, str(error))

    def put(self, data: bytes, name: str) -> str:
        """SHA-256 of the stored picture. Raises Unreadable."""
        kind, size = _probe(data)
        if kind != "PNG":
            data = _as_png(data)
            self.converted.append(f"{clean(name)}: {kind}")
        self.size = self.size or size
        return self.images.put(data)

    def _missing(self, name: str, why: str) -> str:
        self.notes.append(f"screenshot {clean(name)} {why}")
        return ""


class Numbered(NamedTuple):
    """Picture files in order."""

    files: list[tuple[int, str]]
    gaps: list[int]
    """Numbers that are left out between the first and the last."""


def numbered(names: Iterable[str], where: Path) -> Numbered:
    """Picture files by the first integer in their name, as upstream's readers sort them.

    Raises DataError: a name without digits, or two names with the same number.
    """
    found: dict[int, str] = {}
    for name in sorted(names):
        if not name.lower().endswith(SUFFIXES) or name.startswith("."):
            continue
        digits = _NUMBER.search(Path(name).stem)
        if digits is None:
            raise DataError(
                f"screenshot {name!r} has no number in its name; name them 0_screenshot.png, 1_screenshot.png ...",
                where,
            )
        number = int(digits.group()[:18])
        if number in found:
            raise DataError(
                f"screenshots {found[number]!r} and {name!r} have the same number {number} (the first integer in "
                "the name counts); their order is not known: rename them",
                where,
            )
        found[number] = name
    files = sorted(found.items())
    if not files:
        return Numbered([], [])
    first, last = files[0][0], files[-1][0]
    # Numbers that are no step numbers (times, ids) order the pictures and say nothing about missing ones.
    steps = last - first + 1 <= 3 * len(files) + 10
    return Numbered(files, [n for n in range(first, last + 1) if n not in found] if steps else [])


def stored(files: Numbered, folder: Path, pictures: Pictures) -> Shots:
    """The pictures of numbered files, a gap as a missing picture with a note."""
    if files.gaps:
        pictures.notes.append(f"screenshots {', '.join(map(str, files.gaps[:20]))} are missing (a gap in the numbers)")
    shots = [(number, pictures.add(inside(folder, name), name)) for number, name in files.files]
    return sorted([*shots, *((number, "") for number in files.gaps)])


def write_numbered(
    images: Images, shots: Sequence[str], folder: Path, pattern: str, start: int
) -> tuple[list[str], list[str]]:
    """Write pictures as `pattern.format(number)`, counted from `start`; returns (file names, notes).

    A picture that is not in the store keeps its number: the gap says that it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names, notes = [], []
    for number, sha in enumerate(shots, start):
        name = pattern.format(number)
        if sha and sha in images:
            (folder / name).write_bytes(images[sha])
            names.append(name)
        else:
            notes.append(f"{name} is not in the image store")
    return names, notes


def _probe(data: bytes) -> tuple[str, tuple[int, int]]:
    """Kind and size of a whole picture. Raises Unreadable."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            kind, size = image.format or "", image.size
            if size[0] * size[1] > MOST_PIXELS:
                raise Unreadable(f"has {size[0]} x {size[1]} pixels, more than are read")
            if kind not in ("PNG", "JPEG", "WEBP"):
                raise Unreadable(f"is {kind or 'of unknown kind'}, not PNG, JPEG or WebP")
            image.verify()
        with Image.open(io.BytesIO(data)) as image:  # `verify` reads no pixels, and nothing can be read after it
            image.load()
    except Unreadable:
        raise
    except Image.DecompressionBombError:
        raise Unreadable("has more pixels than are read") from None
    except Exception as error:
        # Pillow's decoders raise many kinds (SyntaxError, struct.error, its own) on bytes that are no picture.
        raise Unreadable(f"is no whole picture ({type(error).__name__})") from None
    if kind == "PNG" and not (data.startswith(PNG_MAGIC) and b"IEND" in data[-16:]):
        raise Unreadable("is a PNG that was cut")
    return kind, size


def _as_png(data: bytes) -> bytes:
    """The same pixels as PNG. Raises Unreadable."""
    from PIL import Image

    out = io.BytesIO()
    try:
        with Image.open(io.BytesIO(data)) as image:
            plain = image if image.mode in ("L", "LA", "RGB", "RGBA") else image.convert("RGB")
            plain.save(out, "PNG")
    except Exception as error:
        raise Unreadable(f"is no whole picture ({type(error).__name__})") from None
    return out.getvalue()
