"""Optimizers: AdamW, or Muon for matrices with AdamW for the rest, behind one `torch.optim.Optimizer`.

Owns which parameter goes where and the learning-rate curve. Muon is what lets the tiny model learn to read in minutes;
real models take AdamW.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

from rmsweb.config import OptimizerConfig

if TYPE_CHECKING:
    import torch

MUON_FACTOR = 10.0
"""Muon's rate over AdamW's; chosen in the prototype at 2e-2 / 2e-3."""


def build_optimizer(model: Any, config: OptimizerConfig, extra: tuple[Any, ...] = ()) -> torch.optim.Optimizer:
    """An optimizer over the trainable parameters of `model` and of the `extra` modules.

    `learning_rate` is AdamW's; with `muon` the matrices get `MUON_FACTOR` times that. Works with torch's schedulers and
    with transformers' Trainer, which see ordinary parameter groups.
    """
    import torch

    named = [item for module in (model, *extra) for item in module.named_parameters() if item[1].requires_grad]
    seen: dict[int, tuple[str, torch.nn.Parameter]] = {}
    for name, parameter in named:
        seen.setdefault(id(parameter), (name, parameter))
    matrices = [p for name, p in seen.values() if config.muon and _is_matrix(name, p)]
    chosen = {id(p) for p in matrices}
    rest = [p for _, p in seen.values() if id(p) not in chosen]
    rate, decay = config.learning_rate, config.weight_decay

    def adamw() -> torch.optim.AdamW:
        return torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.98 if config.muon else 0.999), weight_decay=decay)

    def muon() -> torch.optim.Muon:
        return torch.optim.Muon(matrices, lr=rate * MUON_FACTOR, momentum=0.95, weight_decay=decay, ns_steps=5)

    if not matrices:
        return adamw()
    if not rest:  # adapters are matrices, all of them
        return muon()
    optimizer: torch.optim.Optimizer = _pair_class()(muon(), adamw())
    return optimizer


def _is_matrix(name: str, parameter: torch.nn.Parameter) -> bool:
    """Embeddings are tables and the patch embedding is a convolution: both belong to AdamW."""
    return parameter.ndim == 2 and "embed" not in name and "lm_head" not in name


@cache
def _pair_class() -> type:
    import torch

    class MuonWithAdamW(torch.optim.Optimizer):
        """Two optimizers stepped as one; its groups are theirs, so a scheduler reaches both."""

        def __init__(self, muon: torch.optim.Muon, adamw: torch.optim.AdamW) -> None:
            self.parts = (muon, adamw)
            super().__init__([p for part in self.parts for g in part.param_groups for p in g["params"]], {})
            self.param_groups = [group for part in self.parts for group in part.param_groups]

        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            for part in self.parts:
                part.step()  # type: ignore[no-untyped-call]

        def state_dict(self) -> dict[str, Any]:
            return {"parts": [part.state_dict() for part in self.parts]}

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            for part, state in zip(self.parts, state_dict["parts"], strict=True):
                part.load_state_dict(state)
            self.param_groups = [group for part in self.parts for group in part.param_groups]

    return MuonWithAdamW


def rate(step: int, total: int, config: OptimizerConfig, flat: float = 0.6, floor: float = 0.05) -> float:
    """Multiplier of the learning rate at `step` of `total`: warm-up, a flat part, then the schedule's way down."""
    warm = min(1.0, (step + 1) / max(1, config.warmup_steps))
    done = step / max(1, total)
    match config.schedule:
        case "constant":
            return warm
        case "linear":
            return warm * (1.0 if done < flat else max(floor, (1 - done) / (1 - flat)))
        case "cosine":
            return warm * max(floor, 0.5 * (1 + math.cos(math.pi * done)))
