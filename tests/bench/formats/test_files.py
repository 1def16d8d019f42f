import json
from pathlib import Path

import pytest
from foreign import put
from hypothesis import given
from hypothesis import strategies as st

from rmsweb.bench.formats.files import child, count, field, inside, number, parse_json, read_json, safe_name, texts
from rmsweb.errors import DataError


@pytest.mark.parametrize("name", ["a", "BBC News--3", "fb7b4f784cfd_110325", "sites.shop+add=1@x"])
def test_a_safe_task_id_is_its_own_folder_name(name: str) -> None:
    assert safe_name(name) == name


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "/abs", "a\0b", "", ".", "..", ".git", "x" * 300, "é" * 150, "a:b", "a "]
)
def test_an_unsafe_task_id_becomes_one_plain_name(name: str, tmp_path: Path) -> None:
    safe = safe_name(name)
    (tmp_path / safe).mkdir()
    assert (tmp_path / safe).parent == tmp_path and len(safe.encode()) <= 200 and safe != name


@given(st.text(), st.text())
def test_names_stay_different_and_inside(one: str, other: str) -> None:
    first, second = safe_name(one), safe_name(other)
    assert (first == second) == (one == other)
    assert "/" not in first and "\0" not in first and not first.startswith(".") and first


def test_surrogates_as_they_stand_in_foreign_ids_do_not_crash() -> None:
    assert safe_name("\ud800x") == safe_name("\ud800x") != safe_name("x")


def test_nothing_outside_the_folder_is_named(tmp_path: Path) -> None:
    root = tmp_path / "attempt"
    put(tmp_path / "secret.png", b"x")
    put(root / "a.png", b"x")
    put(root / "images" / "b.png", b"x")
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    (root / "within.png").symlink_to(root / "a.png")
    (root / "loop.png").symlink_to(root / "loop.png")
    for name in ("../secret.png", str(tmp_path / "secret.png"), "link.png", "loop.png", "a\0.png", "", ".", "gone.png"):
        assert inside(root, name) is None, name
    assert inside(root, "a.png") == root / "a.png" == inside(root, "within.png")
    assert inside(root, "/home/other/run/a.png") == root / "a.png"
    assert inside(root, r"C:\runs\b.png") == root / "images" / "b.png"
    with pytest.raises(DataError, match="leads out of the folder"):
        child(root, "link.png")


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not JSON"), ("[1]", "holds a list, an object"), ("null", "holds null"), ("[" * 100_000, "JSON")],
)
def test_bad_json_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        read_json(put(tmp_path / "x.json", text), dict)
    assert "x.json" in str(error.value)


def test_bytes_that_are_no_text_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not UTF-8"):
        read_json(put(tmp_path / "x.json", b"\xff\xfe"), dict)
    with pytest.raises(DataError, match="cannot be read"):
        read_json(tmp_path, dict)


def test_json_is_cleaned(tmp_path: Path) -> None:
    read = parse_json('{"a": "\\ud800", "b": [NaN, "\\ud83d\\ude00"], "\\udfff": Infinity}', tmp_path)
    assert read == {"a": "?", "b": [None, "😀"], "?": None}
    json.dumps(read).encode()


def test_fields_have_their_type(tmp_path: Path) -> None:
    data = {"a": 1, "b": None, "c": [None, "x"], "d": ["x", 3], "e": True}
    assert field(data, "b", str, tmp_path, "none") == "none" and texts(data, "c", tmp_path) == ["", "x"]
    for name, kind in (("a", str), ("b", str), ("c", dict), ("e", int)):
        with pytest.raises(DataError, match=f"'{name}'"):
            field(data, name, kind, tmp_path)
    with pytest.raises(DataError, match="entry 1 is a number"):
        texts(data, "d", tmp_path)
    assert number(True) is None and number("3") is None and number(1e400) is None and number(10**400) is None
    assert count(-3) == 0 and count(7.0) == 7 and count(None) == 0
