"""Supervised fine-tuning through TRL's SFTTrainer, unchanged: what a policy should say at each kept step.

Loss falls on the last assistant turn only, nothing is cut (`max_length=None`), and a checkpoint loads with plain
transformers. Before the first update the labels are checked: no labelled token, or far too many, stops the stage.
A kill -9 loses at most the updates since the last trainer checkpoint; the same command goes on from there.
"""

import hashlib
import json
import logging
import math
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmsweb.config import Config
from rmsweb.errors import ConfigError, DataError, RunError
from rmsweb.records import TrainSample
from rmsweb.store import Run
from rmsweb.train.rows import dataset, row

log = logging.getLogger(__name__)
_TORCH_WRITING = re.compile(r"inline_container|PytorchStreamWriter")
"""Parts of torch that write a file."""

Progress = Callable[[int, int, dict[str, float]], None]
"""(updates done, updates in all, latest metrics)"""


def run(
    config: Config,
    run: Run,
    samples: Sequence[TrainSample],
    images: Mapping[str, bytes],
    start: Path,
    *,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Fine-tune the checkpoint `start` on `samples` into RUN/checkpoint; returns the summary.

    Raises DataError for unusable samples.
    """
    if not samples:
        raise DataError("nothing to imitate: no kept trajectory gave a sample; collect more, then `rmsweb samples`")
    from rmsweb.train.tiny import load_model

    model, processor = load_model(start, precise=config.sft.lora_rank == 0)
    model.train()
    rows = [row(sample, config.profile, images) for sample in samples]
    rows += grounding_rows(len(rows), config)
    trainer = build_trainer(config, model, processor, rows, run.path / "trainer")
    share = check_labels(trainer)
    if not run.metrics():
        run.log({"step": 0, "labelled_share": share, "rows": len(rows)})
    trainer.add_callback(_reporter(run, progress))
    last = last_checkpoint(run.path / "trainer")
    with writing_weights(run):
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
        weights = save(trainer.model, processor, run)
    updates = trainer.state.global_step
    summary = {"checkpoint": str(run.path / "checkpoint"), "updates": updates, "weights_sha256": weights}
    run.write_json("summary.json", summary)
    finish(run, updates, weights)
    return summary


def continued(config: Config) -> Config:
    """The control `sft_continued`: as many updates as RL makes, of as many samples as RL takes states, with RL's
    optimizer and LoRA rank, on the old SFT set."""
    wanted, batch = config.rl.states_per_step, config.sft.batch
    split = wanted % batch == 0
    update = {
        "steps": config.rl.steps,
        "batch": batch if split else wanted,
        "accumulation": wanted // batch if split else 1,
        "optimizer": config.rl.optimizer,
        "lora_rank": config.rl.lora_rank,
    }
    return config.model_copy(update={"sft": config.sft.model_copy(update=update)})


def refuse_divergence(step: int, logs: Mapping[str, Any]) -> None:
    """Raises RunError when the loss or the gradient is no number any more: every later update would be lost."""
    for name in ("loss", "grad_norm"):
        value = logs.get(name)
        if isinstance(value, float) and not math.isfinite(value):
            raise RunError(
                f"training diverged: {name} is {value} at update {step}; lower the learning rate or max_grad_norm and "
                "train into another -o"
            )


@contextmanager
def writing_weights(run: Run) -> Iterator[None]:
    """Raises RunError for weights that cannot be written (a full disk); torch and safetensors say it each their way."""
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not _TORCH_WRITING.search(str(error)):
            raise
        raise RunError(
            f"{run.path}: the weights cannot be written ({str(error).splitlines()[0]}); is the disk full? Nothing is "
            "lost, the same command goes on once this is cured"
        ) from error


def save(model: Any, processor: Any, run: Run) -> str:
    """Write RUN/checkpoint in one move, LoRA folded in, and drop the trainer's own; returns the weights' SHA-256.

    The caller writes its summary and then finishes the run: a kill in between only repeats this.
    """
    beside, path = run.path / ".checkpoint.part", run.path / "checkpoint"
    shutil.rmtree(beside, ignore_errors=True)
    model = model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
    model.save_pretrained(beside)
    processor.save_pretrained(beside)
    shutil.rmtree(path, ignore_errors=True)
    beside.rename(path)
    return hashlib.sha256(b"".join(p.read_bytes() for p in sorted(path.glob("*.safetensors")))).hexdigest()


def finish(run: Run, updates: int, weights: str) -> None:
    """Mark the run finished, then drop the trainer's own checkpoints (renamed first: no half of one may stay)."""
    run.finish(updates=updates, weights_sha256=weights)
    folder, gone = run.path / "trainer", run.path / ".trainer.gone"
    shutil.rmtree(gone, ignore_errors=True)
    if folder.exists():
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def build_trainer(config: Config, model: Any, processor: Any, rows: Sequence[dict[str, Any]], folder: Path) -> Any:
    """TRL's SFTTrainer over the rows; the optimizer is ours (Muon for the tiny model when asked)."""
    from transformers import PrinterCallback, get_scheduler
    from trl import SFTConfig as Arguments
    from trl import SFTTrainer

    from rmsweb.train.optimizer import build_optimizer

    sft, batch = config.sft, config.sft.batch
    updates = sft.steps or max(1, round(sft.epochs * len(rows) / (batch * sft.accumulation)))
    arguments = Arguments(
        output_dir=str(folder),
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=sft.accumulation,
        max_steps=updates,
        max_grad_norm=sft.optimizer.max_grad_norm,
        seed=config.seed,
        data_seed=config.seed,
        max_length=None,
        completion_only_loss=True,
        logging_steps=max(1, updates // 50),
        save_steps=max(25, updates // 4),
        save_total_limit=1,
        report_to="none",
        disable_tqdm=True,
        **hardware(),
    )
    if sft.freeze_vision:
        model.model.visual.requires_grad_(False)
    if sft.lora_rank:
        from peft import get_peft_model

        # Before the optimizer is made: it has to hold the adapters' parameters.
        model = get_peft_model(model, lora(sft.lora_rank))
    optimizer = build_optimizer(model, sft.optimizer)
    schedule = get_scheduler(
        sft.optimizer.schedule, optimizer, num_warmup_steps=sft.optimizer.warmup_steps, num_training_steps=updates
    )
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=dataset(rows),
        processing_class=processor,
        optimizers=(optimizer, schedule),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def hardware() -> dict[str, Any]:
    """Trainer settings that follow from the machine: bf16 and checkpointing on a GPU, plain fp32 on a CPU."""
    import torch

    on_gpu = torch.cuda.is_available()
    return {"use_cpu": not on_gpu, "bf16": on_gpu, "activation_checkpointing": on_gpu, "dataloader_pin_memory": on_gpu}


def lora(rank: int) -> Any:
    """LoRA over the language model's linear layers, or None."""
    if rank == 0:
        return None
    from peft import LoraConfig

    targets = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"
    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, task_type="CAUSAL_LM")


def check_labels(trainer: Any) -> float:
    """Share of tokens with a label in the first batch. Raises DataError at 0 % and over 60 % (field-log S52)."""
    labels = next(iter(trainer.get_train_dataloader()))["labels"]
    share = float((labels != -100).float().mean())
    if share == 0 or share > 0.6:
        raise DataError(f"{share:.0%} of the first batch's tokens carry loss; the chat template does not mark replies")
    return share


def grounding_rows(count: int, config: Config) -> list[dict[str, Any]]:
    """Synthetic grounding pages beside `count` rows: `sft.grounding` is their share of the whole set."""
    share = config.sft.grounding
    if share == 0:
        return []
    if not 0 < share < 1:
        raise ConfigError(f"sft.grounding is {share}; give a share between 0 and 1")
    if config.profile.layout != "compact":
        raise ConfigError("sft.grounding draws pages of the compact profile; set it to 0 for other profiles")
    from rmsweb.train.pages import grounding_examples

    return grounding_examples(round(count * share / (1 - share)), seed=config.seed)


def last_checkpoint(folder: Path) -> Path | None:
    """The newest whole trainer checkpoint; one that was torn or lacks a part is passed over, with a warning."""
    numbered = [path for path in folder.glob("checkpoint-*") if path.name.rpartition("-")[2].isdecimal()]
    found = sorted(numbered, key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for path in found:
        fault = _fault(path)
        if fault is None:
            return path
        log.warning("%s is passed over (%s): training goes on from the one before it, or anew", path, fault)
    return None


def _fault(checkpoint: Path) -> str | None:
    """What is wrong with a trainer checkpoint. Parts in the layouts of FSDP and ZeRO are only looked for."""
    from safetensors import SafetensorError, safe_open

    try:
        json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "trainer_state.json cannot be read"
    for path in checkpoint.glob("*.safetensors"):
        try:
            with safe_open(path, framework="pt"):
                pass
        except (OSError, SafetensorError):
            return f"{path.name} cannot be read"
    if not [*checkpoint.glob("optimizer*"), *checkpoint.glob("global_step*")]:
        return "the optimizer's state is missing"
    torn = [path.name for path in sorted(checkpoint.glob("*.pt")) if not zipfile.is_zipfile(path)]
    return f"{torn[0]} cannot be read" if torn else None


def _reporter(run: Run, progress: Progress | None) -> Any:
    from transformers import TrainerCallback

    # A resumed run makes the updates since its checkpoint again; their lines are there.
    last = max((line["step"] for line in run.metrics() if "step" in line), default=-1)

    class Reporter(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            refuse_divergence(state.global_step, logs or {})
            if "loss" in (logs or {}) and state.global_step > last:
                kept = {k: v for k, v in logs.items() if isinstance(v, int | float)}
                run.log({"step": state.global_step, **kept})

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if progress:
                progress(state.global_step, state.max_steps, {})

    return Reporter()
