"""Knobs of the three parts and of the learner: collect, samples, sft, pretrain, mine, rl."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic.types import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from rmsweb.config.world import ModelConfig, Section


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
