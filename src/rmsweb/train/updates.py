"""One training loop's bookkeeping: optimizer, schedule, clipping, moving averages. Shared by the pretraining stages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rmsweb.config import PretrainConfig
from rmsweb.train.optimizer import build_optimizer, rate

if TYPE_CHECKING:
    import torch

Observer = Callable[[str, int, int, dict[str, float]], None]
"""Called after each update with stage, step, steps and the current measurements."""
WINDOW = 40
"""Updates that a moving average covers."""


class Trainer:
    """Optimizer, schedule and gradient clipping of one stage."""

    def __init__(self, module: Any, config: PretrainConfig, steps: int) -> None:
        self.module, self.config, self.steps, self.step = module, config.optimizer, steps, 0
        self.optimizer = build_optimizer(module, self.config)
        self.rates = [group["lr"] for group in self.optimizer.param_groups]

    def update(self, loss: torch.Tensor) -> None:
        import torch

        factor = rate(self.step, self.steps, self.config)
        for group, base in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = base * factor
        self.module.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.config.max_grad_norm)
        self.optimizer.step()
        self.step += 1


def mean(values: list[float]) -> float:
    known = [v for v in values if v == v]
    return sum(known) / len(known) if known else float("nan")


def means(names: tuple[str, ...], recent: deque[tuple[float, ...]]) -> dict[str, float]:
    return {name: round(mean([row[i] for row in recent]), 4) for i, name in enumerate(names)}


def share(right: torch.Tensor) -> float:
    """Share of true entries; NaN of none."""
    return float(right.float().mean()) if right.numel() else float("nan")
