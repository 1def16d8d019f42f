"""RLConfig in TRL's words, and the checks that need no engine. Pure."""

from typing import Any

from rmsweb.config import RLConfig
from rmsweb.errors import ConfigError


def trl_settings(rl: RLConfig, seed: int, max_new_tokens: int, processes: int) -> dict[str, Any]:
    """Keyword arguments of SalvageDSConfig. Raises ConfigError where the settings do not fit together."""
    parts = rl.accumulation * processes
    if rl.states_per_step % parts:
        raise ConfigError(
            f"rl.states_per_step {rl.states_per_step} is no multiple of {parts} (accumulation x processes)"
        )
    if rl.optimizer.muon:
        raise ConfigError("rl.optimizer.muon: Part 3 trains with AdamW; muon is for the tiny model's SFT")
    return {
        "per_device_train_batch_size": rl.states_per_step * rl.group // parts,
        "gradient_accumulation_steps": rl.accumulation,
        "num_generations": rl.group,
        "max_completion_length": max_new_tokens,
        "max_steps": rl.steps,
        "temperature": rl.temperature,
        "beta": rl.kl,
        "epsilon": rl.clip_low,
        "epsilon_high": rl.clip_high,
        "loss_type": "dapo",
        "learning_rate": rl.optimizer.learning_rate,
        "warmup_steps": rl.optimizer.warmup_steps,
        "lr_scheduler_type": rl.optimizer.schedule,
        "weight_decay": rl.optimizer.weight_decay,
        "max_grad_norm": rl.optimizer.max_grad_norm,
        "shuffle_dataset": False,
        "use_vllm": rl.use_vllm,
        "vllm_mode": "colocate",
        "seed": seed,
        "logging_steps": 1,
        "save_steps": rl.save_steps,
        "save_total_limit": 2,
        "report_to": "none",
        "disable_tqdm": True,
        "salvage": rl.model_dump(mode="json"),
    }


def check(rl: RLConfig, rows_per_micro_batch: int, states: int, rehearsal: int) -> None:
    """Raises ConfigError for settings that would train on nothing or tear a group apart."""
    if rl.method == "rehearsal_only" and not rl.rehearsal:
        raise ConfigError("rl.method rehearsal_only trains on rl.rehearsal samples an update: set it above 0")
    if rl.method != "rehearsal_only" and not states:
        raise ConfigError("no state to train on: mine states with verified references first")
    if rl.rehearsal and not rehearsal:
        raise ConfigError("rl.rehearsal asks for SFT samples beside each update, and there are none")
    if rows_per_micro_batch % rl.group:
        raise ConfigError("a group may not span processes or micro-batches: raise rl.states_per_step")
