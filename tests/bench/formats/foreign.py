"""Folders as other projects write them, and small things the tests of the formats share."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from specimens import picture

from rmsweb.bench.formats import import_runs
from rmsweb.records import Trajectory, Verdict
from rmsweb.store import Run

DATA = (Path(__file__).parents[3] / ".." / "shared" / "data").resolve()
EXAMPLES = DATA / "trajectories"


def real(name: str) -> Path:
    """A folder of real attempts; skips the test where it is absent."""
    if not (EXAMPLES / name).is_dir():
        pytest.skip(f"../shared/data is absent: no {EXAMPLES / name}")
    return EXAMPLES / name


def jpeg(text: str) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(picture(text))).convert("RGB").save(out, "JPEG")
    return out.getvalue()


def webp(text: str) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(picture(text))).save(out, "WEBP", lossless=True)
    return out.getvalue()


def put(path: Path, value: Any) -> Path:
    """Write JSON, text or bytes, with the folders it needs. JSON may hold lone surrogates, as foreign files do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, bytes):
        path.write_bytes(value)
    else:
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def om2w(folder: Path, *, shots: list[str] | None = None, **fields: Any) -> Path:
    result = {
        "task_id": folder.name,
        "task": "buy a mug",
        "action_history": ["<a> -> CLICK", "<input> -> TYPE: mug"],
        "thoughts": ["open it", "write it"],
        "final_result_response": "done",
        **fields,
    }
    put(folder / "result.json", {k: v for k, v in result.items() if v != "left out"})
    for name in ["0_screenshot.png", "1_screenshot.png", "2_screenshot.png"] if shots is None else shots:
        put(folder / "trajectory" / name, picture(name))
    return folder


def run_of(out: Path) -> Run:
    return Run.read_only(out)


def trajectories(out: Path) -> list[Trajectory]:
    return run_of(out).read("trajectory", Trajectory)


def verdicts(out: Path) -> list[Verdict]:
    return run_of(out).read("verdict", Verdict)


def imported(format: str, folder: Path, out: Path, **options: Any) -> Trajectory:
    """The one trajectory of a folder."""
    import_runs(format, folder, out, **options)
    (found,) = trajectories(out)
    return found


def facts(trajectory: Trajectory) -> dict[str, Any]:
    said = trajectory.evidence["imported"]
    assert isinstance(said, dict)
    return said
