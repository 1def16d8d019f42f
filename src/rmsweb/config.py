"""Every knob of a run: one frozen pydantic tree. TOML in, resolved JSON out; an unknown key is an error.

A default carries its reason: [A] the paper's abstract, otherwise our reading with its precedent (docs/method.md).
A new knob is a field here, never a flag.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.types import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from rmsweb.errors import ConfigError


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
    extra_body: dict[str, Any] = Field(default_factory=dict)


class SuiteConfig(Section):
    name: Literal["sites", "miniwob", "file"] = "sites"
    split: Literal["train", "dev", "heldout", "heldout_template", "typed", "exam"] = "train"
    sites: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    count: int = Field(default=64, ge=1)
    offset: int = Field(default=0, ge=0)
    path: str = ""
    """JSONL of Task records (suite file)."""


class JudgeConfig(Section):
    kind: Literal["rules", "chat"] = "rules"
    model: ModelConfig = ModelConfig()
    images: PositiveInt = 8
    """Most screenshots sent; first, last and evenly spaced between, gaps are named."""
    attempts: int = Field(default=3, ge=1)


class CollectConfig(Section):
    """Part 1."""

    arm: Literal["reflect", "plain"] = "reflect"
    """plain: the control that resamples without reflection."""
    retries: int = Field(default=2, ge=0)
    """[reading] R3L and Reflexion use 1-3."""
    step_budget: int = Field(default=8, ge=1)
    """A success with more steps is 'success but inefficient' and earns a retry."""
    browser_steps: PositiveInt | None = None
    """Stop opening attempts when this many browser steps are spent (equal-cost comparisons)."""
    infra_retries: int = Field(default=2, ge=0)
    reflector: Literal["rules", "chat"] = "rules"
    reflector_model: ModelConfig = ModelConfig()
    reflection_chars: PositiveInt = 800
    policy: ModelConfig = ModelConfig(kind="explorer", temperature=1.0)


class SamplesConfig(Section):
    leaks: Literal["drop", "rewrite", "keep"] = "drop"
    """What happens to a thought that gives the guidance away."""
    skip_noops: bool = True
    """Do not imitate steps that changed nothing (they stay in histories)."""
    skip_detours: bool = True
    """Leave out what lies between two visits of the same state: the shorter path is imitated."""
    skip_tagged: bool = True


class OptimizerConfig(Section):
    learning_rate: float = Field(default=1e-5, gt=0)
    warmup_steps: NonNegativeInt = 10
    schedule: Literal["linear", "constant", "cosine"] = "linear"
    weight_decay: NonNegativeFloat = 0.0
    max_grad_norm: NonNegativeFloat = 1.0
    muon: bool = False
    """Muon for matrices, AdamW for the rest (the tiny model's SFT)."""


class SFTConfig(Section):
    steps: PositiveInt | None = None
    """Updates; None: `epochs` decides."""
    epochs: PositiveFloat = 2.0
    batch: PositiveInt = 16
    accumulation: PositiveInt = 1
    grounding: float = Field(default=0.0, ge=0, lt=1)
    """Share of synthetic grounding pages mixed in (tiny model only; the same in every arm)."""
    freeze_vision: bool = False
    lora_rank: NonNegativeInt = 0
    optimizer: OptimizerConfig = OptimizerConfig()


class PretrainConfig(Section):
    """The tiny base model (stands for what a real model brings from its pretraining)."""

    vision_steps: int = Field(default=900, ge=1)
    """Updates of the vision stage: dense reading of every cell."""
    vision_batch: PositiveInt = 32
    matching_steps: int = Field(default=500, ge=1)
    """Updates of the matching stage: which cells does the goal name? Two layers, no replies."""
    grounding_steps: int = Field(default=5000, ge=1)
    """Updates of the grounding stage: goal first, then the picture, then the reply."""
    grounding_batch: PositiveInt = 16
    match_weight: float = 1.0
    """Label at layer 1: does the goal name this element? Without it the circuit did not form (embedded study)."""
    value_weight: float = 0.25
    """Labels at layer 2: the value beside this element, and its place."""
    shift: int = Field(default=0, ge=0, le=8)
    """Pages are moved by up to this many pixels, both ways down and right."""
    vision_layers: int = Field(default=2, ge=1)
    probe_pages: PositiveInt = 400
    """Fresh pages that the recorded reading accuracy is measured on."""
    optimizer: OptimizerConfig = OptimizerConfig(learning_rate=2e-3, warmup_steps=50, weight_decay=0.01, muon=True)


class MineConfig(Section):
    """Part 2."""

    tasks: int = Field(default=64, ge=1)
    """Fresh training tasks: those right behind the suite's own `count`."""
    rollouts: int = Field(default=2, ge=1)
    """k rollouts per task."""
    temperature: NonNegativeFloat = 0.7
    detectors: tuple[Literal["first_error", "divergence", "mechanical", "instability", "flip"], ...] = (
        "first_error",
        "divergence",
        "mechanical",
        "instability",
    )
    """flip is dear (browser steps for every fixed state) and left out."""
    samples: int = Field(default=4, ge=2)
    """Replies drawn at a state to measure instability."""
    probe_states: int = Field(default=400, ge=0)
    """Most states at which replies are drawn, those of failed trajectories first."""
    agreement: float = Field(default=0.75, gt=0, le=1)
    """Unstable: fewer agree with a reference, else with each other. 1 flags .92 of a young policy's states."""
    first_error: Literal["rules", "chat"] = "rules"
    labels: Literal["rules", "chat"] = "rules"
    judge_model: ModelConfig = ModelConfig()
    judge_calls: int = Field(default=3, ge=1)
    judge_agreement: float = Field(default=0.6, gt=0, le=1)
    """Share of `judge_calls` for one first error that must name the same step."""
    states: int = Field(default=256, ge=1)
    """States to keep, routine ones included."""
    sampling: Literal["mined", "uniform"] = "mined"
    """uniform: the control, the same number drawn from all verified states the policy visited."""
    routine_share: float = Field(default=0.5, ge=0, le=1)
    """Measured: 75 % hard states cost 14 points, natural proportion gained 13.5 (docs/method.md)."""
    alpha: float = Field(default=0.5, ge=0)
    beta: float = Field(default=1.0, ge=0)
    floor: float = Field(default=0.02, ge=0, le=1)
    """Least share of the hard states that a mode gets, as far as it has states."""
    cap: float = Field(default=0.4, gt=0, le=1)
    """Most states of one template or site, as a share."""
    task_cap: int = Field(default=8, ge=1)
    fix_attempts: int = Field(default=2, ge=0)
    fix_tries: int = Field(default=4, ge=0)
    """Teacher continuations from one replayed state (attempts), of one failed rollout over all its states (tries)."""
    fix_steps: int | None = Field(default=None, ge=0)
    """Stop asking the teacher when this many browser steps are spent, replays included."""
    flip_attempts: int = Field(default=1, ge=1)
    infra_retries: int = Field(default=2, ge=0)


class MatchConfig(Section):
    grow: PositiveFloat = 1.2
    distance: NonNegativeFloat = 0.04
    """Of the viewport's diagonal-free normalised axes."""
    token_f1: float = Field(default=0.8, ge=0, le=1)
    scroll_factor: float = Field(default=2.0, ge=1)
    strict: bool = False
    """No cross-kind equivalences."""


class GateConfig(Section):
    tau: float = Field(default=0.0, ge=0)
    c_lo: int = Field(default=2, ge=1)
    """With 1 the gate is DAPO's filter."""
    p_hi: float | None = Field(default=None, gt=0, le=1)
    """None: (G-1)/G."""
    clusters: bool = True
    """Ask for two distinct action clusters."""
    competence: Literal["count", "logprob", "running"] = "count"


class AnchorConfig(Section):
    weight: NonNegativeFloat = 0.3
    decay: Literal["none", "linear"] = "none"
    tokens: Literal["call", "call+target", "reply"] = "call+target"
    context: Literal["ref", "self", "none"] = "ref"
    all_fail: NonNegativeFloat = 1.0
    low: NonNegativeFloat = 1.0
    no_contrast: NonNegativeFloat = 0.5
    all_pass: NonNegativeFloat = 0.0
    cap: float = Field(default=1.0, gt=0, le=1)
    """Most anchored groups of a batch, as a share."""


class RLConfig(Section):
    """Part 3."""

    method: Literal["salvage_ds", "grpo", "dapo", "ce_references", "rehearsal_only"] = "salvage_ds"
    reward: Literal["two_pole", "three_pole", "zero_one", "graded", "judge"] = "two_pole"
    group: int = Field(default=8, ge=2)
    temperature: float = Field(default=1.0, gt=0)
    steps: PositiveInt = 48
    states_per_step: PositiveInt = 32
    normalize_std: bool = False
    clip_low: float = Field(default=0.2, ge=0, lt=1)
    clip_high: NonNegativeFloat = 0.28
    kl: NonNegativeFloat = 0.0
    length: Literal["constant", "token", "sequence"] = "constant"
    """Divisor of a reply's summed loss: a constant (Dr.GRPO), all tokens of the batch (DAPO), its length (GRPO)."""
    length_constant: int | None = Field(default=None, ge=1)
    """Tokens, for `constant`; None: the profile's max_new_tokens."""
    rehearsal: int = Field(default=0, ge=0)
    """SFT samples beside each update, in every method alike."""
    rehearsal_weight: float = Field(default=1.0, ge=0)
    """Of the mean rehearsal loss against the mean group loss."""
    accumulation: int = Field(default=1, ge=1)
    """Micro-batches an update is split into."""
    save_steps: int = Field(default=8, ge=1)
    """Updates between the checkpoints that a killed run goes on from."""
    dev_share: float = Field(default=0.125, ge=0, lt=1)
    """Of the states, in whole tasks: set apart, examined before and after, never trained on."""
    shared_prefix: bool = True
    """One prompt pass per group, in sampling and in training."""
    use_vllm: bool = False
    lora_rank: NonNegativeInt = 0
    match: MatchConfig = MatchConfig()
    gate: GateConfig = GateConfig()
    anchor: AnchorConfig = AnchorConfig()
    optimizer: OptimizerConfig = OptimizerConfig(learning_rate=1e-6)


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


class Config(Section):
    """A whole recipe."""

    seed: int = Field(default=0, ge=0, lt=2**31)
    profile: ProfileConfig = ProfileConfig()
    browser: BrowserConfig = BrowserConfig()
    episode: EpisodeConfig = EpisodeConfig()
    suite: SuiteConfig = SuiteConfig()
    judge: JudgeConfig = JudgeConfig()
    policy: ModelConfig = ModelConfig()
    """The student: what sft, mine, rl and eval start from."""
    collect: CollectConfig = CollectConfig()
    samples: SamplesConfig = SamplesConfig()
    sft: SFTConfig = SFTConfig()
    pretrain: PretrainConfig = PretrainConfig()
    mine: MineConfig = MineConfig()
    rl: RLConfig = RLConfig()
    eval: EvalConfig = EvalConfig()


def load(path: Path | None, overrides: list[str] | None = None) -> Config:
    """A recipe file plus `a.b=value` overrides (TOML values; bare words are strings). Raises ConfigError."""
    data: dict[str, Any] = {}
    if path is not None:
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"recipe {path} does not exist; give -c a TOML file (see recipes/)") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"recipe {path} is not TOML: {error}") from error
    for item in overrides or []:
        _override(data, item)
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc']))}: {e['msg']}{_given(e)}" for e in error.errors()]
        raise ConfigError(f"{path or 'settings'}: {len(lines)} wrong setting(s):\n" + "\n".join(lines)) from None


def _override(data: dict[str, Any], item: str) -> None:
    key, equals, text = item.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {item!r}: write key.path=value, for instance --set rl.group=16")
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        value = text
    *parents, last = key.strip().split(".")
    for parent in parents:
        child = data.setdefault(parent, {})
        if not isinstance(child, dict):
            raise ConfigError(f"--set {item!r}: {parent} is a value, not a section")
        data = child
    data[last] = value


def _given(error: Any) -> str:
    """The wrong value, unless it may be a secret that was put in place of its name or into an address."""
    return "" if {"api_key_env", "base_url"} & set(error["loc"]) else f" (got {error['input']!r})"
