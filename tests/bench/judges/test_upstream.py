"""Our judges against upstream's own scripts on the same attempts: the same questions, pictures and labels.

Opt-in, since it imports and runs code that is not ours: RMSWEB_UPSTREAM names a folder that holds checkouts of
MinorJerry/WebVoyager, OSU-NLP-Group/Online-Mind2Web and allenai/molmoweb under their own names, in revisions whose
judges have the known hashes. Their clients are replaced by a script; nothing leaves the machine.
"""

import asyncio
import base64
import hashlib
import importlib
import io
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import attempts
import pytest
import specimens

from rmsweb.bench.formats import export_runs, import_runs
from rmsweb.bench.judges import build
from rmsweb.bench.judges.asking import Pictures
from rmsweb.bench.judges.packs import load
from rmsweb.bench.judges.webjudge import General
from rmsweb.bench.judges.webjudge_records import read_records
from rmsweb.bench.judges.webjudge_replay import layout_of
from rmsweb.bench.judges.webvoyager import Original
from rmsweb.chat import Message
from rmsweb.config import Config, JudgeConfig
from rmsweb.records import Task, Trajectory, Verdict
from rmsweb.store import Run
from rmsweb.testing import ScriptModel

GIVEN = os.environ.get("RMSWEB_UPSTREAM", "")
if not GIVEN:
    pytest.skip("RMSWEB_UPSTREAM names no folder with checkouts of upstream's judges", allow_module_level=True)
DATA = Path(__file__).parents[3].parent / "shared" / "data"

Asked = list[tuple[str, tuple[tuple[str, str], ...]]]
"""A conversation: (role, parts), a part being ("text", words) or ("image", SHA-256 of its bytes)."""

MODES = {
    "Autonomous_eval": "autonomous",
    "AgentTrek_eval": "agenttrek",
    "WebVoyager_eval": "webvoyager/osu",
    "WebJudge_Online_Mind2Web_eval": "webjudge/om2w",
    "WebJudge_general_eval": "webjudge/general",
}
LAST = [
    'Thoughts: fine.\nStatus: "success"',
    'Thoughts: no.\nStatus: "failure"',
    "Status: unsuccessful",
    "status: failure, although a success message is shown",
    "Thoughts only",
    "SUCCESS",
    "NOT SUCCESS",
    "FAILURE",
    "**Status**: Success",
    "Status: \nstatus: success",
]
SHAPES: dict[str, dict[str, Any]] = {
    "whole": {},
    "no answer": {"answer": False},
    "no thoughts": {"thoughts": False},
    "one page": {"pages": 1},
}


def checkout(name: str) -> Path:
    folder = Path(GIVEN) / name
    if not folder.is_dir():
        pytest.skip(f"RMSWEB_UPSTREAM holds no {name}")
    return folder


class _Anything(ModuleType):
    """Stands for a client library that upstream imports and, with a scripted client, never uses."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {}) if name.endswith("Error") else lambda *given, **named: lambda made: made


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path, str], ModuleType]]:
    """Imports a module of a checkout, and forgets it and everything it brought afterwards."""
    before, roots = set(sys.modules), list[Path]()
    for name in ("openai", "backoff"):
        monkeypatch.setitem(sys.modules, name, _Anything(name))

    def get(root: Path, name: str) -> ModuleType:
        roots.append(root.resolve())
        monkeypatch.syspath_prepend(str(root))
        return importlib.import_module(name)

    yield get
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        places = [module.__file__] if getattr(module, "__file__", None) else list(getattr(module, "__path__", []))
        if any(Path(place).resolve().is_relative_to(root) for place in places for root in roots):
            del sys.modules[name]


def theirs(messages: list[dict[str, Any]]) -> Asked:
    """A conversation as an OpenAI client gets it."""
    found: Asked = []
    for message in messages:
        parts = message["content"]
        parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
        found.append((message["role"], tuple(_their_part(part) for part in parts)))
    return found


def _their_part(part: dict[str, Any]) -> tuple[str, str]:
    if part["type"] == "text":
        return "text", part["text"]
    data = base64.b64decode(part["image_url"]["url"].partition("base64,")[2])
    return "image", f"{hashlib.sha256(data).hexdigest()} {part['image_url'].get('detail', '')}"


def ours(messages: list[Message], pictures: Pictures) -> Asked:
    return [
        (
            message["role"],
            tuple(
                ("text", part["text"])
                if part["type"] == "text"
                else ("image", f"{hashlib.sha256(pictures[part['image']]).hexdigest()} {part.get('detail', '')}")
                for part in message["content"]
            ),
        )
        for message in messages
    ]


def script(last: str) -> Callable[[Asked], str]:
    """One judge for both sides: replies depend on the question alone, also the score of a picture."""

    def answer(asked: Asked) -> str:
        system = asked[0][1][0][1]
        if "**Score**" in system:
            picture = next(name for _, parts in reversed(asked) for kind, name in parts if kind == "image")
            form = attempts.HASHES if "### Score" in system else attempts.PICTURE
            return form.format(int(picture[:4], 16) % 5 + 1)
        return attempts.POINTS if "key points explicitly stated" in system else last

    return answer


def judged(
    protocol: str, pack: Path, trajectory: Trajectory, stored: Any, last: str, **options: Any
) -> tuple[list[Asked], Verdict]:
    pictures = Pictures(stored)
    answer = script(last)
    model = ScriptModel(lambda messages: answer(ours(messages, pictures)), name="m")
    config = JudgeConfig.model_validate({"protocol": protocol, "pack": str(pack), "attempts": 1, **options})
    judge = build(config, model, pictures)
    assert judge.name.startswith(f"{protocol}:"), "exact wording carries no mark"
    verdict = asyncio.run(judge(trajectory))
    return [ours(messages, pictures) for messages in model.calls], verdict


def upstream_label(verdict: Verdict) -> int | None:
    """The label that upstream's script would print."""
    label = verdict.details.get("upstream_label", verdict.success)
    return None if label is None else int(label)


def submission(folder: Path, layout: str, shape: dict[str, Any]) -> tuple[Path, Trajectory, Any]:
    """One of our own attempts as a submission, and the same read back."""
    stored, names = attempts.store(shape.get("pages", 4))
    with Run.open(folder / "run", "eval", Config()) as run:
        for data in stored.values():
            run.images.put(data)
        words = {key: value for key, value in shape.items() if key != "pages"}
        made = attempts.attempt(names, **words)
        goal = made.task.goal.replace("<|im_end|>", "{task}")
        run.append("trajectory", made.model_copy(update={"task": made.task.model_copy(update={"goal": goal})}))
        run.finish()
    export_runs(layout, folder / "run", folder / "out")
    return folder / "out", *read_back(folder / "out", folder / "back")


def read_back(folder: Path, out: Path) -> tuple[Trajectory, Any]:
    import_runs("auto", folder, out)
    run = Run.read_only(out)
    return run.read("trajectory", Trajectory)[0], run.images


def run_theirs(
    module: ModuleType, folder: Path, mode: str, last: str, out: Path
) -> tuple[list[Asked], int, dict[str, Any]]:
    """Online-Mind2Web's own loop over the one submission of a folder: (questions, label, stored line)."""
    asked: list[Asked] = []
    answer = script(last)

    class Engine:
        def generate(self, messages: list[dict[str, Any]]) -> list[str]:
            asked.append(theirs(messages))
            return [answer(asked[-1])]

    task = next(path.parent.name for path in folder.glob("*/result.json"))
    labels: list[int] = []
    where = SimpleNamespace(output_path=str(out), mode=mode, model="m", score_threshold=3, trajectories_dir=str(folder))
    module.auto_eval(where, [task], labels, threading.Lock(), Engine())
    line = json.loads(next(out.glob("*.json")).read_text())
    return asked, labels[0], line


def in_stages(asked: list[Asked]) -> list[Asked]:
    """Pictures are asked about side by side, in any order; all else in its own."""
    return [*asked[:1], *sorted(asked[1:-1]), *asked[-1:]] if len(asked) > 1 else asked


@pytest.mark.parametrize("shape", list(SHAPES))
@pytest.mark.parametrize("layout", ["om2w", "om2w_v2"])
@pytest.mark.parametrize("mode", list(MODES))
def test_online_mind2web_asks_what_we_ask_of_what_we_export(
    mode: str, layout: str, shape: str, tmp_path: Path, modules: Callable[[Path, str], ModuleType]
) -> None:
    root = checkout("Online-Mind2Web")
    folder, trajectory, images = submission(tmp_path, layout, SHAPES[shape])
    module = modules(root / "src", "run")
    asked, label, _ = run_theirs(module, folder, mode, LAST[0], tmp_path / "theirs")
    our, verdict = judged(MODES[mode], root, trajectory, images, LAST[0])
    assert in_stages(our) == in_stages(asked)
    assert upstream_label(verdict) == label


def first_layout(folder: Path, count: int, **fields: Any) -> Path:
    """A submission as others write them, with `count` pictures named as the shipped example's are."""
    place = folder / "t1" / "trajectory"
    place.mkdir(parents=True)
    for number in range(count):
        (place / f"{number}_full_screenshot.png").write_bytes(specimens.picture(str(number)))
    result = {"task_id": "t1", "task": "buy a mug", "action_history": ["a -> CLICK", "b -> TYPE: x\ny", "c"], **fields}
    (folder / "t1" / "result.json").write_text(json.dumps(result))
    return folder


def second_layout(folder: Path, *actions: str, **fields: Any) -> Path:
    place = folder / "t1" / "trajectory"
    place.mkdir(parents=True)
    steps = []
    for number, action in enumerate(actions):
        (place / f"{number:04d}.png").write_bytes(specimens.picture(str(number)))
        steps.append({"step": number, "screenshot": f"{number:04d}.png", "action": action, "thought": f"t{number}"})
    result = {"schema_version": "online-mind2web-v2", "task_id": "t1", "task": "buy a mug", "action_history": steps}
    (folder / "t1" / "result.json").write_text(json.dumps({**result, **fields}))
    return folder


FOREIGN: dict[str, Callable[[Path], Path]] = {
    "fewer thoughts": lambda at: first_layout(at, 3, thoughts=["one"], final_result_response="42"),
    "more thoughts": lambda at: first_layout(at, 4, thoughts=["1", "2", "3", "4"], final_result_response="42"),
    "blank thoughts": lambda at: first_layout(at, 3, thoughts=["", "", ""]),
    "blank answer": lambda at: first_layout(at, 3, thoughts=["1", "2", "3"], final_result_response=""),
    "null answer": lambda at: first_layout(at, 3, thoughts=["1", "2", "3"], final_result_response=None),
    "more pictures than are shown": lambda at: first_layout(at, 130, thoughts=["1", "2", "3"]),
    "pictures of the task": lambda at: first_layout(
        at, 3, thoughts=["1", "2", "3"], input_image_paths=["trajectory/1_full_screenshot.png"]
    ),
    "ends with an action": lambda at: second_layout(at, "a -> CLICK", "b -> CLICK"),
    "ends with an answer": lambda at: second_layout(
        at, "a -> CLICK", "TASK_COMPLETE -> ANSWER: 42", agent_final_answer="42"
    ),
    "a failed action": lambda at: second_layout(at, "a -> CLICK | FAILED", " b | SUCCESS ", "TASK_COMPLETE"),
    "answer in the last word alone": lambda at: second_layout(at, "a", "TASK_COMPLETE -> ANSWER: 42"),
    "blanks in the answer": lambda at: second_layout(at, "a", "TASK_COMPLETE", agent_final_answer=" 42 "),
    "pictures of the task, second layout": lambda at: second_layout(
        at, "a", "TASK_COMPLETE", input_image_paths=["trajectory/0000.png"]
    ),
    "answer and no last word": lambda at: second_layout(at, "a -> CLICK", "b -> CLICK", agent_final_answer="42"),
    "blank answer, second layout": lambda at: second_layout(at, "a", "TASK_COMPLETE", agent_final_answer=""),
}


@pytest.mark.parametrize("kind", list(FOREIGN))
@pytest.mark.parametrize("mode", list(MODES))
def test_online_mind2web_on_what_others_write(
    mode: str,
    kind: str,
    tmp_path: Path,
    modules: Callable[[Path, str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root, folder = checkout("Online-Mind2Web"), FOREIGN[kind](tmp_path / "in")
    trajectory, images = read_back(folder, tmp_path / "back")
    monkeypatch.chdir(folder / "t1")  # the script takes pictures of a task from where it runs
    asked, label, _ = run_theirs(modules(root / "src", "run"), folder, mode, LAST[0], tmp_path / "theirs")
    our, verdict = judged(MODES[mode], root, trajectory, images, LAST[0])
    assert in_stages(our) == in_stages(asked)
    assert upstream_label(verdict) == label


@pytest.mark.parametrize("mode", list(MODES))
def test_online_mind2web_on_the_real_submission(
    mode: str, tmp_path: Path, modules: Callable[[Path, str], ModuleType]
) -> None:
    root, folder = checkout("Online-Mind2Web"), DATA / "trajectories" / "online_mind2web"
    if not folder.is_dir():
        pytest.skip("../shared/data is absent")
    trajectory, images = read_back(folder, tmp_path / "back")
    asked, _, line = run_theirs(modules(root / "src", "run"), folder, mode, LAST[0], tmp_path / "theirs")
    our, verdict = judged(MODES[mode], root, trajectory, images, LAST[0])
    assert in_stages(our) == in_stages(asked)
    if mode.startswith("WebJudge"):
        assert verdict.details["scores"] == [one["Score"] for one in line["image_judge_record"]]
        assert verdict.details["key_points"] == line["key_points"]


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("mode", list(MODES))
def test_online_mind2web_labels_odd_replies_as_we_say_it_would(
    mode: str, last: str, tmp_path: Path, modules: Callable[[Path, str], ModuleType]
) -> None:
    root = checkout("Online-Mind2Web")
    folder, trajectory, images = submission(tmp_path, "om2w", {})
    _, label, _ = run_theirs(modules(root / "src", "run"), folder, mode, last, tmp_path / "theirs")
    _, verdict = judged(MODES[mode], root, trajectory, images, last)
    assert upstream_label(verdict) == label


class _Client:
    """Both forms of an OpenAI client's chat call."""

    def __init__(self, reply: Callable[[list[dict[str, Any]]], Any]) -> None:
        self.asked: list[Asked] = []
        self.named: list[dict[str, Any]] = []

        def create(*, messages: list[dict[str, Any]], **named: Any) -> Any:
            self.asked.append(theirs(messages))
            self.named.append(named)
            usage = SimpleNamespace(prompt_tokens=1, completion_tokens=1)
            return SimpleNamespace(choices=[SimpleNamespace(message=reply(messages))], usage=usage)

        calls = SimpleNamespace(completions=SimpleNamespace(create=create, parse=create))
        self.chat, self.beta = calls, SimpleNamespace(chat=calls)


def voyages(tmp_path: Path) -> list[Path]:
    """WebVoyager folders: the real ones, where they are, and our own as exported."""
    folder, _, _ = submission(tmp_path, "webvoyager", {})
    real = DATA / "trajectories" / "webvoyager"
    return [root for root in (folder, real) if root.is_dir()]


@pytest.mark.parametrize("most", [1, 15])
def test_webvoyager_asks_what_we_ask(most: int, tmp_path: Path, modules: Callable[[Path, str], ModuleType]) -> None:
    root = checkout("WebVoyager")
    module = modules(root / "evaluation", "auto_eval")
    for number, source in enumerate(voyages(tmp_path)):
        import_runs("webvoyager", source, tmp_path / f"back{number}")
        run = Run.read_only(tmp_path / f"back{number}")
        for trajectory in run.read("trajectory", Trajectory):
            said = [*LAST, "the task is a SUCCESS", "It is NOT a SUCCESS"]
            for last in said:
                client = _Client(lambda messages, last=last: SimpleNamespace(content=last))
                folder = next(path for path in source.glob("task*") if path.name == f"task{trajectory.task.id}")
                label = module.auto_eval_by_gpt4v(str(folder), client, "m", most)
                our, verdict = judged("webvoyager/original", root, trajectory, run.images, last, images=most)
                assert our == client.asked
                assert upstream_label(verdict) == label
            named = client.named[0]
            assert {name: named[name] for name in Original.SAMPLING} == Original.SAMPLING


def test_webvoyager_without_an_answer(tmp_path: Path, modules: Callable[[Path, str], ModuleType]) -> None:
    root = checkout("WebVoyager")
    folder, _, _ = submission(tmp_path, "webvoyager", {"answer": False})
    run = Run.read_only(tmp_path / "back")
    client = _Client(lambda messages: SimpleNamespace(content="SUCCESS"))
    module, attempt = modules(root / "evaluation", "auto_eval"), next(folder.glob("task*"))
    label = module.auto_eval_by_gpt4v(str(attempt), client, "m", 15)
    our, verdict = judged("webvoyager/original", root, run.read("trajectory", Trajectory)[0], run.images, "SUCCESS")
    assert (our, client.asked, upstream_label(verdict), label) == ([], [], 0, 0)


def test_molmoweb_asks_what_we_ask(tmp_path: Path, modules: Callable[[Path, str], ModuleType]) -> None:
    from PIL import Image

    root = checkout("molmoweb")
    module = modules(root, "benchmarks.judges.webvoyager_judge")
    stored, names = attempts.store(4)
    trajectory = attempts.attempt(names)
    task = Task(id="t", suite="webvoyager", site="s", template="s", split="exam", goal="On http://s/: find a mug")
    trajectory = trajectory.model_copy(update={"task": task})
    client = _Client(lambda messages: SimpleNamespace(parsed="-"))
    module.OpenAI = lambda: client
    shown = [Image.open(io.BytesIO(stored[step.before.image])) for step in trajectory.steps]
    module.get_verdict(task.goal, trajectory.answer, shown)
    our, _ = judged("webvoyager/molmoweb", root, trajectory, stored, "{}")
    assert our == client.asked
    assert client.named[0]["response_format"].model_json_schema()["properties"].keys() == {"thought", "verdict"}


def test_the_stored_runs_were_asked_in_the_wording_of_the_pack() -> None:
    """AgentRewardBench's 170 stored runs: instructions and headings of the last question are the pack's."""
    root = checkout("Online-Mind2Web")
    if not (DATA / "webjudge").is_dir():
        pytest.skip("../shared/data is absent")
    words = load(General.PACK, root).texts
    runs = read_records(DATA / "webjudge").runs
    assert {run.system_msg for run in runs} == {words["verdict_system"]}
    for found in map(layout_of, ([run] for run in runs)):
        assert found.bare == words["verdict_bare"]
        assert found.before_reasons is None or found.verdict == words["verdict"]
