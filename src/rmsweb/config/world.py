"""Knobs of the world and of who acts and judges in it: profile, browser, episode, models, suite, judge."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.types import NonNegativeFloat, PositiveFloat, PositiveInt

_SECRET = re.compile(r"(?i)(x[_-])?(api[_-]?key|(access|auth|bearer)?[_-]?token|authorization|password|secret|key)")


def secret_key(name: str) -> bool:
    """Whether a setting of this name would hold a key, a token or a password."""
    return _SECRET.fullmatch(name) is not None


def _secret_keys(value: Any) -> list[str]:
    """Such names anywhere in a value."""
    if isinstance(value, dict):
        inner = [name for one in value.values() for name in _secret_keys(one)]
        return [*(str(name) for name in value if secret_key(str(name))), *inner]
    return [name for one in value for name in _secret_keys(one)] if isinstance(value, list) else []


class Section(BaseModel):
    """Frozen, closed; no infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ProfileConfig(Section):
    """What the model sees and how it writes: the same in collection, training and evaluation."""

    name: str = "real"
    viewport: tuple[PositiveInt, PositiveInt] = (1280, 800)
    """1280x800 is exactly 1000 visual tokens at factor 32: no resize."""
    device_scale_factor: PositiveFloat = 1.0
    coordinates: Literal["qwen3vl", "compact", "absolute", "percent"] = "qwen3vl"
    observation: Literal["screenshot", "elements", "both"] = "screenshot"
    images: int = Field(default=3, ge=0, le=4)
    history: int = Field(default=30, ge=0)
    layout: Literal["full", "compact"] = "full"
    """full: system prompt, page facts, Thought / Action / call. compact: goal, last actions, image; name + call."""
    theme: Literal["regular", "compact"] = "regular"
    """Looks of the built-in sites."""
    max_new_tokens: PositiveInt = 512


class BrowserConfig(Section):
    """The world's limits. Safe by default."""

    executable: str = ""
    """Path of a Chromium; empty: RMSWEB_CHROMIUM, headless-shell, chromium, Playwright's own, in this order."""
    concurrency: int = Field(default=4, ge=1)  # episodes at once
    browsers: int = Field(default=1, ge=1)
    recycle_after: PositiveInt = 200
    """Episodes after which a browser is replaced."""
    navigation_timeout_s: float = Field(default=15.0, gt=0)
    action_timeout_s: float = Field(default=10.0, gt=0)
    settle_s: NonNegativeFloat = 2.0
    first_paint_s: NonNegativeFloat = 3.0
    """Longest wait for a first picture that is not one single colour."""
    allowed_hosts: tuple[str, ...] = ()
    """Empty: any public host. Private and loopback addresses need a name here (the built-in sites add theirs)."""
    allow_writes: bool = False
    """Let requests pass that look irreversible (orders, payments, messages, deletions) on hosts that are not ours."""
    dialogs: Literal["accept", "dismiss"] = "accept"
    downloads: bool = False
    """Keep downloads in the run directory; else they are noted and dropped."""
    sandbox: bool = True
    """Chromium's own sandbox. As root it cannot run and is left out with a note in the manifest."""
    storage_state: str = ""
    """Playwright storage-state file to start from; never copied into a run."""
    search_url: str = "https://duckduckgo.com/?q={query}"
    elements: bool = True
    """Record the element list beside the screenshot (needed by the explorer and by `observation=elements`)."""


class EpisodeConfig(Section):
    max_steps: int = Field(default=15, ge=1)
    invalid_replies: PositiveInt = 3
    """Replies in a row that are no action before the episode ends invalid_output."""
    repeats: PositiveInt = 4
    """Same action on the same picture this often ends no_progress."""
    deadline_s: float = Field(default=600.0, gt=0)


class ModelConfig(Section):
    """A chat model: an endpoint, or a checkpoint in this process."""

    kind: Literal["explorer", "tiny", "endpoint", "local", "script"] = "endpoint"
    """explorer: the embedded heuristic agent. tiny: the shipped base. local: a checkpoint. script: a reply file."""
    path: str = ""
    """Checkpoint folder (local) or reply file (script)."""
    base_url: str = Field(default="http://127.0.0.1:8000/v1", pattern=r"^https?://[^@\s]+$")
    name: str = "Qwen/Qwen3-VL-8B-Instruct"
    api_key_env: str = Field(default="OPENAI_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """Name of the environment variable; the key itself is never stored."""
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    connect_timeout_s: float = Field(default=10.0, gt=0)
    timeout_s: float = Field(default=180.0, gt=0)
    attempts: int = Field(default=4, ge=1)
    """All tries of one call together: the only retry layer."""
    concurrency: int = Field(default=8, ge=1)
    token_budget: int | None = Field(default=None, gt=0)
    """Hard stop; the run stays resumable."""
    batch: int = Field(default=16, ge=1)
    """In-process models: requests that share one forward."""
    parameters: Literal["chat", "reasoning"] = "chat"
    """reasoning: `max_completion_tokens` and no sampling settings, as o-series and gpt-5 endpoints want it."""
    extra_body: dict[str, Any] = Field(default_factory=dict)

    @field_validator("base_url")
    @classmethod
    def _no_query(cls, url: str) -> str:
        """What stands here is stored in run.json and shown in errors."""
        if "?" in url or "#" in url:
            raise ValueError("an address ends before its ?; a key is read from the variable that api_key_env names")
        return url

    @field_validator("extra_body")
    @classmethod
    def _no_secret(cls, body: dict[str, Any]) -> dict[str, Any]:
        """What stands here is stored in run.json."""
        if named := _secret_keys(body):
            raise ValueError(f"{named[0]} would be stored; name the environment variable of the key in api_key_env")
        return body


class SuiteConfig(Section):
    name: Literal["sites", "miniwob", "file"] = "sites"
    split: Literal["train", "dev", "heldout", "heldout_template", "typed", "exam"] = "train"
    sites: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    count: int = Field(default=64, ge=1)
    offset: int = Field(default=0, ge=0)
    path: str = ""
    """Task file (suite file): a public benchmark's (`rmsweb tasks list`) or JSONL of Task records."""


class JudgeConfig(Section):
    protocol: str = "rules"
    """`rules` (the suite's own check), `rmsweb/chat`, or a protocol of an exam (docs/exams.md lists them)."""
    pack: str = ""
    """Checkout that holds the upstream wording of the protocol. Protocols named `rmsweb/...` are worded by us."""
    changed_pack: bool = False
    """Take wording whose hash is not the known one; the verdicts then carry its hash in the protocol's name."""
    model: ModelConfig = ModelConfig()
    images: PositiveInt | None = None
    """Most screenshots sent, where the protocol has such a limit; None: the protocol's own."""
    threshold: int = Field(default=3, ge=1, le=5)
    """WebJudge: least score of a screenshot that the final call gets to see."""
    votes: int = Field(default=1, ge=1)
    """Rubric verifier: outcome verdicts, the majority of which counts; an odd number."""
    attempts: int = Field(default=3, ge=1)
    """Times a reply without a verdict is asked for again."""
