"""Knobs of the exam."""

from __future__ import annotations

from datetime import date
from typing import Literal, Self

from pydantic import Field, model_validator

from rmsweb.config.world import Section


class EvalConfig(Section):
    split: Literal["heldout", "dev"] = "heldout"
    """dev: the third seed range, to choose settings on."""
    tasks: int | None = Field(default=None, ge=1)
    """Tasks of the first exam. None: 200 held-out seeds of the trained templates, or all of a task file. [reading] 200
    paired tasks resolve about 6 points."""
    template_tasks: int = Field(default=0, ge=0)
    """Tasks of held-out templates, reported apart; 0: none."""
    miniwob_tasks: int = Field(default=0, ge=0)
    controls: int = Field(default=50, ge=0)
    """Tasks on which blank and swapped screenshots are tried; 0: none."""
    runs: int = Field(default=1, ge=1)
    """Repetitions of each task (with temperature > 0); tables and intervals nest them in tasks."""
    bootstrap: int = Field(default=2000, ge=100)
    """Resamples of every interval of a difference."""
    max_steps: int | None = Field(default=None, ge=1)
    infra_retries: int = Field(default=2, ge=0)
    """Times an episode is played again that the browser or the endpoint broke."""
    exclude: dict[str, str] = Field(default_factory=dict)
    """Task id -> why it is left out; printed with every score. Without a reason no task is left out."""
    steps_with_end: bool = True
    """Count the final answer or terminate as a step in every number of steps."""
    prices: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """Model name -> money per million tokens read and written; empty: cost in tokens and steps only."""
    prices_date: str = ""
    """Day on which the prices were looked up (YYYY-MM-DD); needed with prices, printed beside every amount."""
    allow_overlap: bool = False
    """Go on although exam tasks occur in the training data; every score then says how many."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.prices and not self.prices_date:
            raise ValueError("prices need eval.prices_date, the day on which they were looked up (YYYY-MM-DD)")
        if self.prices_date:
            try:
                date.fromisoformat(self.prices_date)
            except ValueError:
                raise ValueError(f"prices_date {self.prices_date!r} is no day; write it as YYYY-MM-DD") from None
        if any(min(price) < 0 for price in self.prices.values()):
            raise ValueError("prices are money per million tokens and cannot be negative")
        if unsaid := [name for name, reason in self.exclude.items() if not reason.strip()]:
            raise ValueError(f'exclude says no reason for {", ".join(unsaid[:3])}; write id = "why"')
        return self
