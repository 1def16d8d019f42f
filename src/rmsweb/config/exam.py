"""Knobs of the exam."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rmsweb.config.world import Section


class EvalConfig(Section):
    split: Literal["heldout", "dev"] = "heldout"
    """dev: the third seed range, to choose settings on."""
    tasks: int = Field(default=200, ge=1)
    """Held-out seeds of the trained templates. [reading] 200 paired tasks resolve about 6 points."""
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
    prices: dict[str, tuple[float, float]] = Field(default_factory=dict)
    """Model name -> money per million tokens read and written; empty: cost in tokens and steps only."""
    prices_date: str = ""  # when they were looked up; printed beside every amount
    allow_overlap: bool = False
    """Go on although exam tasks occur in the training data; every score then says how many."""
