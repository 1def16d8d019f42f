"""SFT: the same prompt as rollout and RL token by token, labels on the reply alone, kills, and what is refused."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from rmsweb.actions import Answer, LeftClick, Point, Viewport
from rmsweb.config import load
from rmsweb.errors import ConfigError, DataError, RunError
from rmsweb.policy import render_messages, render_reply
from rmsweb.records import Decision, Effect, Observation, Step, Task, TrainSample
from rmsweb.salvage import groups, prefix
from rmsweb.store import Run
from rmsweb.train import sft
from rmsweb.train.local import LocalModel
from rmsweb.train.rows import row
from rmsweb.train.tiny import load_model
from tests.salvage.conftest import picture, png
from tests.salvage.stage_world import PROFILE, checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

FULL = ["profile.viewport=[320, 224]", "profile.images=3"]
SMALL = ["sft.batch=2", "sft.steps=4", "sft.optimizer.learning_rate=1e-3", "sft.optimizer.warmup_steps=0"]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("start"))


def sample(run: Run, steps: int, number: int = 0) -> TrainSample:
    """The step after `steps` others, each with a picture of its own."""
    shas = [run.images.put(png(picture(10 * number + i, (320, 224)))) for i in range(steps + 1)]
    seen = [Observation(image=sha, url=f"http://h/{i}", title=f"page {i}") for i, sha in enumerate(shas)]
    task = Task(id=f"t{number}", suite="sites", site="shop", template="add", split="train", goal="add red mug to cart")
    history = tuple(
        Step(
            index=i,
            before=seen[i],
            decision=Decision(thought="go on", intent="red mug", action=LeftClick(point=Point(x=160, y=112))),
            effect=Effect(changed=True),
            after=seen[i + 1],
        )
        for i in range(steps)
    )
    decision = Decision(thought="It is 7.", intent="done", action=Answer(text="7"))
    return TrainSample(id=f"t{number}@{steps}", task=task, history=history, now=seen[-1], decision=decision)


@pytest.mark.parametrize("profile", [PROFILE, FULL], ids=["compact", "full"])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_rollout_sft_and_rl_read_the_same_tokens(tmp_path: Path, start: Path, profile: list[str], steps: int) -> None:
    settings = load(None, [*profile, *SMALL])
    with Run.open(tmp_path / "run", "sft", settings) as run:
        made = sample(run, steps)
        model, processor = load_model(start)
        messages = render_messages(settings.profile, made.task, made.history, made.now)

        local = LocalModel(model, processor, run.images)
        read = processor.apply_chat_template(
            [[local._conversation(message) for message in messages]],
            add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt",
        )  # fmt: skip
        rollout, pixels = read["input_ids"][0].tolist(), read["pixel_values"]

        one = row(made, settings.profile, run.images)
        state = groups.State("s", one["prompt"], tuple(one["images"]))
        encoded = prefix.encode(processor, model, groups.with_pictures(state))
        assert encoded.ids.tolist() == rollout
        assert encoded.pixels is not None and encoded.pixels.equal(pixels)

        trainer = sft.build_trainer(settings, model, processor, [one, one], tmp_path / "trainer")
        batch = next(iter(trainer.get_train_dataloader()))
        ids = [
            i for i, on in zip(batch["input_ids"][0].tolist(), batch["attention_mask"][0].tolist(), strict=True) if on
        ]
        assert ids[: len(rollout)] == rollout
        assert batch["pixel_values"][: len(pixels)].equal(pixels)
        shown = rollout.count(processor.tokenizer.convert_tokens_to_ids("<|vision_start|>"))
        assert shown == (1 if profile is PROFILE else min(steps, 3) + 1) == len(one["images"])


@pytest.mark.parametrize("profile", [PROFILE, FULL], ids=["compact", "full"])
def test_labels_are_the_reply_and_its_end(tmp_path: Path, start: Path, profile: list[str]) -> None:
    settings = load(None, [*profile, *SMALL])
    with Run.open(tmp_path / "run", "sft", settings) as run:
        made = [sample(run, 3, 0), sample(run, 1, 1)]
        model, processor = load_model(start)
        rows = [row(one, settings.profile, run.images) for one in made]
        trainer = sft.build_trainer(settings, model, processor, rows, tmp_path / "trainer")
        tokenizer = processor.tokenizer
        for batch in trainer.get_train_dataloader():
            for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True):
                on = (labels != -100).nonzero().flatten().tolist()
                assert on == list(range(on[0], on[-1] + 1)), "one turn"
                assert labels[on].equal(ids[on])
                wanted = render_reply(settings.profile, made[0].decision, Viewport(320, 224))
                reply = tokenizer(wanted, add_special_tokens=False)["input_ids"]
                assert labels[on][: len(reply)].tolist() == reply
                assert tokenizer.decode(labels[on][len(reply) :]).strip() == "<|im_end|>"
        assert sft.check_labels(trainer) < 0.6


@pytest.mark.slow
def test_a_killed_run_goes_on_and_logs_each_update_once(tmp_path: Path, start: Path) -> None:
    settings = load(None, [*PROFILE, *SMALL, "sft.steps=30"])

    class Killed(Exception):
        pass

    def play(folder: Path, until: int = 10**6) -> dict[str, Any]:
        def stop(done: int, steps: int, _: dict[str, float]) -> None:
            if done == until:
                raise Killed

        with Run.open(folder, "sft", settings) as run:
            made = [sample(run, 1, i) for i in range(4)]
            return sft.run(settings, run, made, run.images, start, progress=stop)

    whole = play(tmp_path / "whole")
    with pytest.raises(Killed):
        play(tmp_path / "cut", until=28)  # trainer checkpoint at 25
    assert play(tmp_path / "cut")["weights_sha256"] == whole["weights_sha256"]
    lines = [[m["step"] for m in Run.read_only(tmp_path / name).metrics()] for name in ("whole", "cut")]
    assert lines[0] == lines[1] == list(range(31))
    summary = json.loads((tmp_path / "cut/summary.json").read_text())
    assert summary["updates"] == 30 and not (tmp_path / "cut/trainer").exists()


def trainer_checkpoint(folder: Path, **changed: bytes | None) -> Path:
    """As the trainer writes one; `changed`: a part's bytes, or None for a part that is not there."""
    from safetensors.torch import save

    packed = io.BytesIO()
    torch.save({"a": torch.zeros(4)}, packed)
    parts = {"trainer_state.json": b"{}", "model.safetensors": save({"a": torch.zeros(4)}), "optimizer.pt": packed}
    folder.mkdir(parents=True)
    for name, given in parts.items():
        whole = given.getvalue() if isinstance(given, io.BytesIO) else given
        data = changed.get(name.partition(".")[0], whole)
        if data is not None:
            (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    "changed",
    [
        {"trainer_state": b'{"epoch'}, {"trainer_state": None}, {"trainer_state": b""}, {"optimizer": None},
        {"optimizer": b""}, {"optimizer": b"PK half"}, {"model": b""}, {"model": b"\x08\0\0\0\0\0\0\0{"},
    ],
)  # fmt: skip
def test_torn_trainer_checkpoints_are_passed_over(
    tmp_path: Path, changed: dict[str, bytes | None], caplog: pytest.LogCaptureFixture
) -> None:
    older = trainer_checkpoint(tmp_path / "checkpoint-9")
    assert sft.last_checkpoint(tmp_path) == older and not caplog.records
    trainer_checkpoint(tmp_path / "checkpoint-10", **changed)
    trainer_checkpoint(tmp_path / "checkpoint-tmp")
    assert sft.last_checkpoint(tmp_path) == older and "checkpoint-10 is passed over" in caplog.text
    assert sft.last_checkpoint(tmp_path / "none") is None


def test_training_that_diverges_stops() -> None:
    sft.refuse_divergence(3, {"loss": 0.5, "grad_norm": 1, "note": "x"})
    for logs in ({"loss": float("nan")}, {"loss": 0.0, "grad_norm": float("inf")}):
        with pytest.raises(RunError, match=r"training diverged: .* at update 3; lower the learning rate"):
            sft.refuse_divergence(3, logs)


FULL = """
import resource, signal, sys, pathlib, torch, safetensors.torch
from rmsweb.config import Config
from rmsweb.store import Run
from rmsweb.train import sft
run = Run.open(pathlib.Path(sys.argv[1]), "sft", Config())
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
weights = {"a": torch.zeros(9999)}
for write in (lambda: safetensors.torch.save_file(weights, run.path / "x"), lambda: torch.save(weights, run.path / "y"),
              lambda: torch.zeros(2) @ torch.zeros(3)):
    try:
        with sft.writing_weights(run):
            write()
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_a_full_disk_is_an_error_that_can_be_acted_on(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, tmp_path / "r"], capture_output=True, text=True, check=True)
    first, second, *third = done.stdout.splitlines()
    for line in (first, second):
        assert line.startswith("RunError") and "is the disk full? Nothing is lost" in line
    assert third[0].startswith("RuntimeError")


def test_refusals(tmp_path: Path, start: Path) -> None:
    settings = load(None, [*PROFILE, *SMALL])
    with Run.open(tmp_path / "run", "sft", settings) as run:
        with pytest.raises(DataError, match="nothing to imitate"):
            sft.run(settings, run, [], run.images, start)
        bare = sample(run, 0).model_copy(update={"decision": Decision(intent="none")})
        with pytest.raises(DataError, match="no action"):
            row(bare, settings.profile, run.images)
    with pytest.raises(ConfigError, match="grounding"):
        sft.grounding_rows(10, load(None, ["sft.grounding=0.2"]))
    assert sft.grounding_rows(10, settings) == []
