"""One update with fixed replies; under torchrun each process has its share. Writes the gradients: `... OUT SHARED`."""

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from rmsweb.salvage.groups import Sampled
from rmsweb.salvage.trainer import SalvageDSConfig, SalvageDSTrainer
from tests.salvage.conftest import build_model, build_processor
from tests.salvage.test_trainer import by_state, rl, states

REWARDS = {0: [1.0, 1, -1, -1], 1: [-1.0] * 4, 2: [1.0, None, 1, -1], 3: [1.0] * 4}


def main(out: str, shared: bool) -> None:
    import os

    processes = int(os.environ.get("WORLD_SIZE", "1"))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    processor = build_processor()
    grads: dict[str, torch.Tensor] = {}

    class Keep(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            grads.update({n.removeprefix("module."): p.grad for n, p in model.named_parameters() if p.grad is not None})

    config = rl(shared_prefix=shared, rehearsal=2)
    options = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "save_strategy": "no"}
    with tempfile.TemporaryDirectory() as folder:
        arguments = SalvageDSConfig.from_rl(config, folder, max_new_tokens=6, processes=processes, **options)
        trainer = SalvageDSTrainer(
            build_model(processor),
            arguments,
            processor,
            states(),
            by_state(REWARDS),
            rehearsal=states(2),
            on_groups=lambda groups: grads.update(groups=torch.tensor(len(groups))),
            callbacks=[Keep()],
        )
        fixed = [Sampled(ids, None, True) for ids in ([5, 6, 7], [5, 6, 7], [8, 9], [9])]
        trainer._sample_shared = lambda encoded: [fixed for _ in encoded]
        trainer._sample_plain = lambda numbers, encoded: [fixed for _ in encoded]
        trainer.train()
        if trainer.accelerator.is_main_process:
            torch.save(grads, Path(out))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "shared")
