import base64
import io
import struct
import zlib
from pathlib import Path

import pytest
from foreign import jpeg, put, webp
from specimens import VIEWPORT, picture

from rmsweb.bench.formats.pictures import Pictures, numbered, write_numbered
from rmsweb.errors import DataError
from rmsweb.store import Images


def test_order_is_by_number() -> None:
    names = [f"screenshot_{n}.png" for n in range(1, 13)] + ["note.txt", ".hidden_3.png"]
    assert [n for n, _ in numbered(names, Path("x")).files] == list(range(1, 13))


def test_a_name_without_digits_is_refused() -> None:
    with pytest.raises(DataError, match=r"'final\.png' has no number in its name"):
        numbered(["0_a.png", "final.png"], Path("x"))


def test_two_names_of_one_number_are_refused() -> None:
    with pytest.raises(DataError, match=r"'01_b.png' and '1_a.png' have the same number 1"):
        numbered(["1_a.png", "01_b.png"], Path("x"))


def test_gaps_are_told_but_not_between_numbers_that_are_no_steps() -> None:
    assert numbered(["0.png", "3.png", "1.png"], Path("x")).gaps == [2]
    assert numbered(["1700000000123.png", "1700000009999.png", "999999999999999999999.png"], Path("x")).gaps == []


def test_a_png_is_stored_as_given_and_others_keep_their_pixels(tmp_path: Path) -> None:
    from PIL import Image

    pictures = Pictures(Images(tmp_path / "images"))
    assert pictures.images[pictures.add(put(tmp_path / "a.png", picture("a")), "a.png")] == picture("a")
    assert pictures.converted == [] and pictures.size == VIEWPORT
    for name, data in (("b.jpg", jpeg("b")), ("c.webp", webp("c"))):
        kept = pictures.images[pictures.add(put(tmp_path / name, data), name)]
        before = Image.open(io.BytesIO(data)).convert("RGB").tobytes()
        assert Image.open(io.BytesIO(kept)).convert("RGB").tobytes() == before
    assert pictures.converted == ["b.jpg: JPEG", "c.webp: WEBP"]


@pytest.mark.parametrize(
    "data", [b"", b"no picture", picture("x")[:-20], picture("x")[:40], b"\x89PNG\r\n\x1a\n", jpeg("x")[:30]]
)
def test_what_is_no_whole_picture_is_a_missing_one(tmp_path: Path, data: bytes) -> None:
    pictures = Pictures(Images(tmp_path / "images"))
    assert pictures.add(put(tmp_path / "a.png", data), "a.png") == ""
    assert len(pictures.notes) == 1 and "a.png" in pictures.notes[0] and len(pictures.images) == 0


def png(width: int, height: int, pixels: bytes) -> bytes:
    """A PNG with sound chunks, whatever its pixels are."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def test_a_png_whose_pixels_cannot_be_read_is_a_missing_one(tmp_path: Path) -> None:
    whole = zlib.compress(b"\0" + bytes(64))
    assert Pictures(Images(tmp_path / "images")).put(png(64, 1, whole), "whole")
    for data in (png(64, 64, whole[:-6]), png(64, 1, b"no zlib at all"), png(60000, 60000, whole)):
        pictures = Pictures(Images(tmp_path / "broken"))
        assert pictures.add(put(tmp_path / "a.png", data), "a.png") == ""
        assert len(pictures.notes) == 1 and len(pictures.images) == 0
    assert "more pixels than are read" in pictures.notes[0]


def test_base64_of_older_dumps(tmp_path: Path) -> None:
    pictures = Pictures(Images(tmp_path / "images"))
    text = base64.b64encode(picture("a")).decode()
    assert pictures.add_base64(text, "0") == pictures.add_base64(f"data:image/png;base64,{text}", "1") != ""
    assert pictures.add_base64("not base64!", "2") == "" and "is no base64" in pictures.notes[-1]


def test_a_picture_that_is_not_stored_leaves_a_gap(tmp_path: Path) -> None:
    images = Images(tmp_path / "images")
    names, notes = write_numbered(
        images, [images.put(picture("a")), "0" * 64, images.put(picture("b"))], tmp_path / "out", "{}.png", 0
    )
    assert names == ["0.png", "2.png"] and notes == ["1.png is not in the image store"]
