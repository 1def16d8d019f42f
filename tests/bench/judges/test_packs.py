"""Packs on synthetic files that are laid out as the upstream scripts are; every text here is our own."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from rmsweb.bench.judges import wording
from rmsweb.bench.judges.packs import Pack, Wording, constants, fill, fill_format, fill_in_turn, find, load
from rmsweb.config import JudgeConfig
from rmsweb.errors import ConfigError, DataError

SCRIPT = '''"""A judge."""
import os
from jinja2 import Template
SYSTEM = """Rules
are rules."""
USER: str = "Goal <goal> " "and <answer>"
GREETING = f"Hello {name}, {1 + 1:>3} {{braces}}"
LONG = "a" + "b" + f"{c}"
SHORT = """
   text
""".strip()
FLAT = textwrap.dedent("""
    deep
    deeper
""")
ASKED = Template(
    """Goal: {{ goal }}
"""
)
NUMBER, MIXED = 3, SYSTEM + "x"

class Reply(Base):
    thought: str = Field(description="why")
    verdict: Literal["GOOD", "BAD"] = Field("first", description="which")

async def judge(task):
    prompt = """one {task}"""
    if not task:
        prompt = """two"""
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": [{"type": "text", "text": "Say it:\\n"}]},
    ]
    for i in range(3):
        messages.append({"type": "text", "text": f"Picture {i+1}"})

class Bench:
    def run(self):
        SYSTEM_TEXT = "inner"
        return SYSTEM_TEXT
'''


def pack_of(path: Path, texts: dict[str, str], source: str = SCRIPT) -> Pack:
    path.write_bytes(source.encode())
    return Pack("somebody/judge@1", path.name, hashlib.sha256(source.encode()).hexdigest()[:16], texts)


def test_constants_by_name_in_every_scope() -> None:
    found = constants(SCRIPT)
    assert found["SYSTEM"] == "Rules\nare rules." and found["USER"] == "Goal <goal> and <answer>"
    assert found["GREETING"] == "Hello {name}, {1 + 1} {braces}" and found["LONG"] == "ab{c}"
    assert found["SHORT"] == "text" and found["FLAT"] == "\ndeep\ndeeper\n"
    assert found["ASKED"] == "Goal: {{ goal }}"
    assert found["judge.prompt"] == "one {task}" and found["judge.prompt#2"] == "two"
    assert found["Bench.run.SYSTEM_TEXT"] == "inner"
    assert found["Reply.thought[0]"] == "why"
    assert (found["Reply.verdict[0]"], found["Reply.verdict[1]"]) == ("first", "which")
    assert "NUMBER" not in found and "MIXED" not in found


def test_addresses(tmp_path: Path) -> None:
    texts = {
        "system": "SYSTEM", "inner": "*.SYSTEM_TEXT", "cue": "=Say it:*", "step": "=Picture {*}",
        "why": "Reply.thought[0]",
    }  # fmt: skip
    loaded = load(pack_of(tmp_path / "judge.py", texts), tmp_path)
    assert dict(loaded.texts) == {
        "system": "Rules\nare rules.", "inner": "inner", "cue": "Say it:\n", "step": "Picture {i + 1}", "why": "why",
    }  # fmt: skip
    assert loaded.prefix == "" and loaded.name("family/one") == "family/one"
    assert loaded.source.startswith("somebody/judge@1 judge.py ")


def test_an_address_must_name_one_text() -> None:
    named = {"a.X": "one", "b.X": "two", "c.Y[0]": "three", "Z": "four"}
    every = [*named.values(), "four", "fifth"]
    assert find("*.X", named, every) is None and find("X", named, every) is None and find("=f*", named, every) is None
    assert find("*.Y[0]", named, every) == "three" and find("*.Z", named, every) == "four"
    assert find("=fo*", named, every) == "four" and find("=nothing*", named, every) is None
    assert find("=[a]*", {}, ["[a] text", "a text"]) == "[a] text"


def test_the_file_itself_or_its_checkout(tmp_path: Path) -> None:
    pack = pack_of(tmp_path / "judge.py", {"system": "SYSTEM"})
    assert load(pack, tmp_path / "judge.py").texts == load(pack, tmp_path).texts


def test_windows_line_ends_are_the_same_file(tmp_path: Path) -> None:
    pack = pack_of(tmp_path / "judge.py", {"system": "SYSTEM"})
    (tmp_path / "judge.py").write_bytes(SCRIPT.replace("\n", "\r\n").encode())
    loaded = load(pack, tmp_path)
    assert loaded.prefix == "" and loaded.texts["system"] == "Rules\nare rules."


def test_another_hash_is_refused_or_stands_in_the_name(tmp_path: Path) -> None:
    pack = pack_of(tmp_path / "judge.py", {"system": "SYSTEM"})
    changed = SCRIPT.replace("are rules", "bend").encode()
    (tmp_path / "judge.py").write_bytes(changed)
    with pytest.raises(ConfigError, match="changed_pack"):
        load(pack, tmp_path)
    loaded = load(pack, tmp_path, changed=True)
    digest = hashlib.sha256(changed).hexdigest()[:8]
    assert loaded.texts["system"] == "Rules\nbend." and loaded.name("family/one") == f"changed-{digest}/family-one"


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (None, ConfigError, "cannot be read .*somebody/judge@1"),
        (b"SYSTEM = ", DataError, "no Python file"),
        (b"SYSTEM = '\xff'", DataError, "not UTF-8"),
        (b"SYSTEM = 'a\x00b'", DataError, "no Python file"),
        (b"OTHER = 'text'", ConfigError, r"no text, or more than one, for system \(SYSTEM\)"),
        (b"SYSTEM = prompt()", ConfigError, "no text"),
        (b"", ConfigError, "no text"),
        (b"X = " + b"(" * 3000 + b")" * 3000, DataError, "no Python file"),
        (b"#" * (4 * 2**20 + 1), ConfigError, "larger than 4 MiB"),
    ],
)
def test_bad_files_say_what_and_where(tmp_path: Path, content: bytes | None, error: type[Exception], says: str) -> None:
    pack = pack_of(tmp_path / "judge.py", {"system": "SYSTEM"})
    (tmp_path / "judge.py").unlink()
    if content is not None:
        (tmp_path / "judge.py").write_bytes(content)
    with pytest.raises(error, match=says) as raised:
        load(pack, tmp_path, changed=True)
    assert "judge.py" in str(raised.value)


def test_a_folder_in_the_file_s_place(tmp_path: Path) -> None:
    pack = pack_of(tmp_path / "judge.py", {"system": "SYSTEM"})
    (tmp_path / "judge.py").unlink()
    (tmp_path / "judge.py").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load(pack, tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    pack = pack_of(tmp_path / "judge.py", {"system": "SYSTEM"})
    (tmp_path / "judge.py").write_bytes(b"\xef\xbb\xbf" + SCRIPT.encode())
    assert load(pack, tmp_path, changed=True).texts["system"] == "Rules\nare rules."


def test_our_wording_and_a_pack_exclude_each_other() -> None:
    pack = Pack("somebody/judge@1", "judge.py", "0" * 16, {"system": "SYSTEM"})
    own = {"system": "webvoyager_system"}
    ours = wording(pack, own, JudgeConfig(protocol="rmsweb/family-one"))
    assert ours.name("family/one") == "rmsweb/family-one" and "VERDICT: SUCCESS" in ours.texts["system"]
    with pytest.raises(ConfigError, match="leave one out"):
        wording(pack, own, JudgeConfig(protocol="rmsweb/family-one", pack="somewhere"))
    with pytest.raises(ConfigError, match=r"set judge\.pack to a checkout of somebody/judge@1"):
        wording(pack, own, JudgeConfig(protocol="family/one"))


def test_a_digest_follows_the_texts() -> None:
    one = Wording({"a": "x", "b": "y"}, "rmsweb/", "")
    assert one.digest == Wording({"b": "y", "a": "x"}, "", "other").digest and len(one.digest) == 8
    assert one.digest != Wording({"a": "x", "b": "z"}, "rmsweb/", "").digest
    assert one.digest != Wording({"a": "xb", "": "y"}, "rmsweb/", "").digest


def test_a_text_without_a_place_for_a_value_is_refused() -> None:
    words = Wording({"user": "Goal <goal>"}, "changed-0/", "a file")
    assert words.need("user", ["<goal>"]) == "Goal <goal>"
    with pytest.raises(ConfigError, match="no place for <answer>"):
        words.need("user", ["<goal>", "<answer>"])


def test_the_three_ways_to_fill() -> None:
    values = {"<goal>": "buy <num> {x}", "<num>": "7"}
    assert fill("<goal>: <num> {y}", values) == "buy <num> {x}: 7 {y}"
    assert fill_in_turn("<goal>: <num> {y}", values) == "buy 7 {x}: 7 {y}"
    assert fill("{{ goal }} {i + 1}", {"{{ goal }}": "{i + 1}", "{i + 1}": r"\1"}) == r"{i + 1} \1"
    assert fill("text", {}) == "text"
    assert fill_format("{goal} {{kept}}", {"goal": "{num}", "num": "7"}) == "{num} {kept}"


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{goal} {other}", "fields"), ("{} {goal}", "fields"), ("{0}", "fields"), ("{goal.__class__}", "fields"),
        ("{goal", "cannot be filled"), ("}", "cannot be filled"), ("{goal:9q}", "cannot be filled"),
    ],
)  # fmt: skip
def test_a_template_that_asks_for_more_is_an_error(template: str, says: str) -> None:
    values: dict[str, Any] = {"goal": "x"}
    with pytest.raises(ConfigError, match=says):
        fill_format(template, values)
