import io
import json
from pathlib import Path
from typing import Any

import pytest
from foreign import put
from made import build
from specimens import VIEWPORT, picture

from rmsweb.actions import LeftClick, Point, Type
from rmsweb.bench.formats import chat, export_runs
from rmsweb.bench.formats.chat import PLACE, Problem, validate
from rmsweb.config import Config
from rmsweb.errors import ConfigError, DataError
from rmsweb.records import Decision, Observation, Task, TrainSample
from rmsweb.store import Images, Run
from rmsweb.train.rows import row as sft_row

COMPACT = {"layout": "compact", "coordinates": "compact", "viewport": VIEWPORT, "images": 0}
FULL = {"layout": "full", "coordinates": "qwen3vl", "viewport": VIEWPORT, "images": 2}
LITERAL = "Explain what <image> means on this page"


def samples(images: Images, goal: str = "read the number", text: str = "mug") -> list[TrainSample]:
    """Three steps of one episode; the last types."""
    made = {
        "task_id": "t",
        "goal": goal,
        "moves": [(LeftClick(point=Point(x=32, y=64)), "first <image>"), (LeftClick(point=Point(x=64, y=32)), "")],
        "faults": set(),
        "end": "none",
        "last": ("", ""),
    }
    steps = build(images, made).steps
    task = Task(id="t", suite="sites", site="s", template="t", split="train", goal=goal)
    now = Observation(image=images.put(picture("now")), url="http://127.0.0.1/9")
    last = Decision(action=Type(text=text, point=Point(x=16, y=16)), intent="search", thought="write it")
    found = [
        TrainSample(id=f"t#0@{k}", task=task, history=steps[:k], now=step.before, decision=step.decision)
        for k, step in enumerate(steps)
    ]
    return [*found, TrainSample(id="t#0@2", task=task, history=steps, now=now, decision=last, weight=2.0)]


def run_with(path: Path, profile: dict[str, Any], **options: str) -> tuple[Path, list[TrainSample]]:
    config = Config.model_validate({"profile": profile})
    with Run.open(path, "samples", config) as run:
        found = samples(run.images, **options)
        for sample in found:
            run.append("sample", sample)
        run.finish()
    return path, found


def rows(out: Path, style: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / f"{style}.jsonl").read_text(encoding="utf-8").split("\n") if line]


def read_back(row: dict[str, Any]) -> list[dict[str, Any]]:
    """A row of either style as a trainer reads it: messages of texts and pictures (by path)."""
    if "messages" in row:
        return [{"role": m["role"], "content": _parts(m["content"])} for m in row["messages"]]
    images = iter(row["images"])
    said = [{"from": "system", "value": row["system"]}] if "system" in row else []
    messages = []
    for turn in [*said, *row["conversations"]]:
        parts: list[dict[str, str]] = []
        for position, piece in enumerate(turn["value"].split(PLACE)):
            parts += [{"type": "image", "image": next(images)}] if position else []
            parts += [{"type": "text", "text": piece}] if piece else []
        messages.append(
            {"role": {"human": "user", "gpt": "assistant"}.get(turn["from"], turn["from"]), "content": parts}
        )
    return messages


def _parts(content: Any) -> list[dict[str, str]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [p if p["type"] == "text" else {"type": "image", "image": p["image_url"]["url"]} for p in content]


def merged(messages: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """(role, texts with `|` where a picture stands, neighbouring texts joined)."""
    return [(m["role"], "".join(p.get("text") or "\0" for p in m["content"]).split("\0")) for m in messages]


@pytest.mark.parametrize("style", ["openai", "sharegpt"])
@pytest.mark.parametrize("profile", [COMPACT, FULL], ids=["compact", "full"])
def test_texts_and_pictures_are_what_sft_sees(tmp_path: Path, profile: dict[str, Any], style: str) -> None:
    run, found = run_with(tmp_path / "samples", profile, goal=LITERAL)
    summary = export_runs("chat", run, tmp_path / "out", style=style)
    written, images = rows(tmp_path / "out", style), Run.read_only(run).images
    assert summary["rows"] == len(written) == 3 and summary["refused"] == [] and summary["weighted"] == 1
    for sample, one in zip(found, written, strict=True):
        assert (one["id"], one["weight"]) == (sample.id, sample.weight)
        wanted = sft_row(sample, Config.model_validate({"profile": profile}).profile, images)
        back = read_back(one)
        assert merged(back) == merged([*wanted["prompt"], *wanted["completion"]])
        paths = [p["image"] for m in back for p in m["content"] if p["type"] == "image"]
        assert [(tmp_path / "out" / p).read_bytes() for p in paths] == wanted["images"]
        assert not any(Path(p).is_absolute() for p in paths)
    report = validate(tmp_path / "out" / f"{style}.jsonl")
    assert report == {"rows": 3, "pictures": summary["pictures"], "problems": [], "whole": True}


@pytest.mark.slow
def test_tokens_are_what_sft_sees(tmp_path: Path) -> None:
    from PIL import Image

    from rmsweb.train.processor import build_processor
    from rmsweb.train.tokenizer import build_tokenizer

    processor = build_processor(build_tokenizer())

    def ids(messages: list[dict[str, Any]], pictures: list[bytes]) -> list[int]:
        text = processor.apply_chat_template(messages, tokenize=False)
        shown = [Image.open(io.BytesIO(png)).convert("RGB") for png in pictures]
        return processor(text=[text], images=shown)["input_ids"][0]  # type: ignore[no-any-return]

    run, found = run_with(tmp_path / "samples", COMPACT, goal=LITERAL)
    images, profile = Run.read_only(run).images, Config.model_validate({"profile": COMPACT}).profile
    for style in ("openai", "sharegpt"):
        export_runs("chat", run, tmp_path / style, style=style)
        for sample, one in zip(found, rows(tmp_path / style, style), strict=True):
            wanted, back = sft_row(sample, profile, images), read_back(one)
            paths = [p["image"] for m in back for p in m["content"] if p["type"] == "image"]
            read = [(tmp_path / style / p).read_bytes() for p in paths]
            assert list(ids(back, read)) == list(ids([*wanted["prompt"], *wanted["completion"]], wanted["images"]))


def test_a_literal_placeholder_is_escaped_in_both_styles(tmp_path: Path) -> None:
    run, _ = run_with(tmp_path / "samples", COMPACT, goal=LITERAL, text="type <image> here")
    for style in ("openai", "sharegpt"):
        summary = export_runs("chat", run, tmp_path / style, style=style)
        assert summary["refused"] == [] and validate(tmp_path / style / f"{style}.jsonl")["problems"] == []
        written = (tmp_path / style / f"{style}.jsonl").read_text()
        assert written.count("<image>") == (3 if style == "sharegpt" else 0)
        assert "what < image> means" in written and "\\\\u003cimage> here" in written


def test_a_placeholder_that_the_renderer_let_through_is_refused_by_row() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "see <video>"}, {"type": "image", "image": "0" * 64}]},
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}]},
    ]
    with pytest.raises(DataError, match="'<video>', which the trainer would take for a picture"):
        chat._sharegpt(messages)  # type: ignore[arg-type]


def test_a_sample_without_an_action_is_refused_by_number(tmp_path: Path) -> None:
    with Run.open(tmp_path / "samples", "samples", Config.model_validate({"profile": COMPACT})) as run:
        good, bad, _ = samples(run.images)
        for sample in (good, bad.model_copy(update={"decision": Decision(raw="?")})):
            run.append("sample", sample)
        run.finish()
    summary = export_runs("chat", tmp_path / "samples", tmp_path / "out")
    assert summary["rows"] == 1 and summary["refused"] == [
        {"sample": "t#0@1", "number": 2, "reason": "has no action to imitate"}
    ]


def test_pictures_lie_there_once(tmp_path: Path) -> None:
    run, _ = run_with(tmp_path / "samples", FULL)
    summary = export_runs("chat", run, tmp_path / "out", style="openai")
    used = sum(
        len([p for m in read_back(r) for p in m["content"] if p["type"] == "image"])
        for r in rows(tmp_path / "out", "openai")
    )
    files = list((tmp_path / "out" / "images").rglob("*.png"))
    assert used == 6 and len(files) == summary["pictures"] == 3
    export_runs("chat", run, tmp_path / "out", style="sharegpt")
    assert sorted((tmp_path / "out" / "images").rglob("*.png")) == sorted(files)
    registered = json.loads((tmp_path / "out" / "dataset_info.json").read_text())
    assert (
        registered["rmsweb"]["file_name"] == "sharegpt.jsonl"
        and "base64" not in (tmp_path / "out" / "openai.jsonl").read_text()
    )


def test_what_cannot_be_exported_is_named(tmp_path: Path) -> None:
    with Run.open(tmp_path / "eval", "eval", Config()) as run:
        run.finish()
    with pytest.raises(DataError, match="give a run made by `rmsweb samples`"):
        export_runs("chat", tmp_path / "eval", tmp_path / "out")
    made, _ = run_with(tmp_path / "samples", COMPACT)
    with pytest.raises(ConfigError, match="'parquet' is unknown; choose openai or sharegpt"):
        export_runs("chat", made, tmp_path / "other", style="parquet")


TURNS = [{"from": "human", "value": "<image>x"}, {"from": "gpt", "value": "y"}]
USER = {
    "role": "user",
    "content": [{"type": "image_url", "image_url": {"url": "a.png"}}, {"type": "text", "text": "x"}],
}
REPLY = {"role": "assistant", "content": "y"}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"conversations": TURNS, "images": "a.png"}, None),
        ({"conversations": TURNS, "images": ["a.png"]}, None),
        ({"messages": [USER, REPLY]}, None),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}, REPLY], "images": "a.png"}, None),
        ({"conversations": TURNS, "images": []}, ("images", "1 placeholders <image>, 0 pictures")),
        ({"conversations": TURNS, "images": ["a.png", "a.png"]}, ("images", "1 placeholders <image>, 2 pictures")),
        ({"conversations": TURNS, "images": ["gone.png"]}, ("images", "'gone.png' does not exist")),
        ({"conversations": TURNS, "images": ["../out.png"]}, ("images", "'../out.png' does not exist below")),
        ({"conversations": TURNS, "images": ["/etc/passwd"]}, ("images", "absolute path")),
        ({"conversations": TURNS, "images": ["text.png"]}, ("images", "no PNG, JPEG or WebP")),
        ({"conversations": TURNS, "images": 3}, ("images", "has to be a list")),
        ({"conversations": TURNS[:1], "images": "a.png"}, ("conversations", "last turn is no reply")),
        ({"conversations": [TURNS[0], *TURNS], "images": ["a.png", "a.png"]}, ("conversations", "do not take turns")),
        ({"conversations": [{"from": "system", "value": "s"}, *TURNS], "images": "a.png"}, None),
        ({"conversations": [{"from": "bot", "value": "x"}, TURNS[1]]}, ("conversations.0", "no known `from`")),
        ({"messages": [USER]}, ("messages", "last message is no reply")),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}, REPLY]}, ("images", "1 bare image parts, 0")),
        ({"messages": [{"role": "user", "content": [{"type": "audio"}]}, REPLY]}, ("messages.0", "neither text nor")),
        ({"messages": [{"role": "user"}, REPLY]}, ("messages.0", "neither text nor")),
        ({}, ("conversations", "neither messages nor conversations")),
        ([1], ("", "has to be an object")),
        ("text", ("", "not a JSON line")),
    ],
)
def test_every_row_is_checked(tmp_path: Path, row: Any, problem: tuple[str, str] | None) -> None:
    put(tmp_path / "out.png", picture("outside"))
    put(tmp_path / "d" / "a.png", picture("a"))
    put(tmp_path / "d" / "text.png", "no picture")
    line = row if isinstance(row, str) else json.dumps(row)
    good = json.dumps({"conversations": TURNS, "images": ["a.png"]})
    report = validate(put(tmp_path / "d" / "rows.jsonl", f"{good}\n\n{line}\n"))
    if problem is None:
        assert report == {"rows": 2, "pictures": 1, "problems": [], "whole": True}
    else:
        found = [p for p in report["problems"] if isinstance(p, Problem)]
        assert [p.row for p in found] == [3] * len(found) and any(
            p.field == problem[0] and problem[1] in p.message for p in found
        )


def test_a_file_without_rows_or_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no row"):
        validate(put(tmp_path / "empty.jsonl", "\n"))
    with pytest.raises(DataError, match="cannot be read"):
        validate(tmp_path / "gone.jsonl")
    assert validate(put(tmp_path / "bytes.jsonl", b"\xff\n"))["problems"][0].row == 1


def test_odd_types_are_problems_and_a_check_that_stops_says_so(tmp_path: Path) -> None:
    row = json.dumps({"messages": [{"role": ["x"], "content": 5}]}) + "\n"
    report = validate(put(tmp_path / "one.jsonl", row))
    assert ("messages.0", "has no role system, user or assistant") in {p[1:] for p in report["problems"]}
    assert report["whole"]
    long = validate(put(tmp_path / "many.jsonl", row * 500))
    assert not long["whole"] and long["rows"] < 500
    with pytest.raises(DataError, match="is no file"):
        validate(tmp_path)
