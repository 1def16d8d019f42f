"""Every value of every file of every format, replaced by what does not belong there: read or refused, never a crash."""

import base64
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from foreign import put
from specimens import picture

from rmsweb.bench import reading
from rmsweb.bench.formats.attempts import join, trajectory_of
from rmsweb.bench.formats.pictures import Pictures
from rmsweb.bench.formats.registry import find, reader
from rmsweb.errors import RmswebError
from rmsweb.records import Trajectory
from rmsweb.store import Images, dump

ODD: list[Any] = [None, 1, -7, 10**40, 1e308, True, "", "x\ud800\0", [], {}, [None], [[]], {"a": None}, "9" * 5000]

EMBEDDED = base64.b64encode(picture("e")).decode()
FILES: dict[str, dict[str, Any]] = {
    "om2w": {
        "result.json": {
            "task_id": "t",
            "task": "g",
            "action_history": ["a", "b"],
            "thoughts": ["1", "2"],
            "final_result_response": "r",
            "input_image_paths": ["trajectory/0_s.png"],
        }
    },
    "webvoyager": {
        "interact_messages.json": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "Now given a task: g  Please interact with http://a/ and get"},
            {"role": "assistant", "content": "Thought: t\n\nAction: Click [1]"},
            {"role": "user", "content": [{"type": "text", "text": "Observation"}, {"type": "image_url"}]},
            {"role": "assistant", "content": "Thought: t\n\nAction: ANSWER; r"},
        ]
    },
    "fara": {
        "t_final_answer.json": {
            "final_answer": "r",
            "screenshots": ["screenshot_1.png"],
            "is_aborted": False,
            "token_usage": {"m": {"prompt_tokens": 1, "completion_tokens": 2}},
        },
        "task_data.json": {"id": "t", "question": "g", "init_url": "u", "viewport_width": 3, "rmsweb": {"stop": "x"}},
        "times.json": {"duration": 1.5},
        "scores/gpt_eval.json": {"score": 1, "gpt_response_text": '{"outcome_reasoning": 3}'},
        "web_surfer.log": {
            "source": "WebSurfer",
            "message": "m",
            "url": "u",
            "action": "scroll",
            "arguments": {"action": "scroll", "thoughts": "t", "pixels": 3, "coordinate": [1, 2], "keys": ["a"]},
        },
    },
    "molmoweb": {
        "trajectory.json": {
            "1": {
                "screenshot": "screenshot_001.png",
                "other_obs": {"url": "u", "open_pages_titles": ["T"]},
                "action": {
                    "action_str": "mouse_click(x=1)",
                    "action_output": {
                        "thought": "t",
                        "action_name": "mouse_click",
                        "action": {"x": 1, "y": 2, "msg": "[ANSWER] r"},
                    },
                },
                "error": {"E": "x"},
                "raw_output": "raw",
            }
        },
        "metadata.json": {"goal": "g"},
        "webvoyager_verdict.json": {"thought": "t", "verdict": "SUCCESS"},
    },
    "agentlab": {
        "summary_info.json": {
            "n_steps": 2,
            "cum_reward": 1.0,
            "err_msg": None,
            "terminated": True,
            "truncated": False,
            "stats.cum_input_tokens": 3,
            "stats.cum_output_tokens": 4,
            "stats.cum_cost": 0.1,
            "stats.cum_step_elapsed": 1.0,
        }
    },
    "browser_use": {
        "t.json": {
            "history": [
                {
                    "model_output": {
                        "thinking": "t",
                        "current_state": {"memory": "m"},
                        "action": [{"wait": {"seconds": 3}}],
                    },
                    "result": [
                        {"is_done": True, "extracted_content": "r", "judgement": {"verdict": True, "reasoning": "x"}}
                    ],
                    "state": {
                        "url": "u",
                        "title": "T",
                        "tabs": [{"title": "T"}],
                        "screenshot": EMBEDDED,
                        "screenshot_path": None,
                    },
                    "metadata": {"step_start_time": 1.0, "step_end_time": 2.0},
                }
            ],
            "task": "g",
        }
    },
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all values in a JSON value, its own included."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    whole = copy.deepcopy(value)
    target = whole
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = new
    return whole


def lay(root: Path, format: str) -> Path:
    folder = root / "taskt"
    for name in (
        "trajectory/0_s.png",
        "screenshot1.png",
        "screenshot_1.png",
        "images/screenshot_001.png",
        "screenshot_step_0.png",
    ):
        put(folder / name, picture(name))
    for name, value in FILES[format].items():
        put(folder / name, json.dumps(value) + "\n")
    return folder


@pytest.mark.parametrize("format", list(FILES))
def test_any_odd_value_is_read_or_refused(tmp_path: Path, format: str) -> None:
    folder, images = lay(tmp_path / "in", format), Images(tmp_path / "images")
    assert find(format, tmp_path / "in")[0] == format
    read = refused = 0
    for name, value in FILES[format].items():
        for path in places(value):
            for new in ODD:
                put(folder / name, json.dumps(changed(value, path, new)) + "\n")
                try:
                    for unit in find(format, tmp_path / "in")[1]:
                        pictures = Pictures(images)
                        attempt = reader(format).read(unit, pictures)
                        task, _ = join(attempt, {})
                        made = trajectory_of(attempt, task, format=format, path="p", model="m", number=0)
                        whole = Trajectory.model_validate_json(dump(made))
                        reading.acts(whole), reading.screenshots(whole), reading.decided_on(whole)
                        read += 1
                except RmswebError as error:
                    assert str(error)
                    refused += 1
        put(folder / name, json.dumps(value) + "\n")
    assert read > 20 and read + refused > 100, (read, refused)
