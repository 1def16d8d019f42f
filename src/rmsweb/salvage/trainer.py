"""SalvageDSTrainer over TRL's GRPOTrainer (1.16): sampled groups in, L = policy term + anchor + rehearsal out.

Owns the way from a batch of states to TRL's batch dictionary. TRL keeps the loop, the clipped policy loss with KL
and vLLM's importance ratio, checkpoints, DDP and LoRA. Promises: every method (`salvage_ds`, `grpo`, `dapo`,
`ce_references`, `rehearsal_only`) runs through this one code by settings; a rejected group gives exactly zero policy
gradient, KL included; sampling is seeded by the update's number, so a resumed run draws what the first would have.
`dapo` drops dead groups and divides by the live ones; nothing is refilled, so that methods are compared at equal
numbers of sampled replies. It never decides what a reply is worth: the scorer does.

The trick that keeps this small: TRL multiplies `tool_mask` into every reduction, so it carries our row weights, and
with `loss_type="dapo"` the divisor is `num_items_in_batch`, which is ours too (batch.py owns both).
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import Tensor
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import use_adapter

from rmsweb.config import AnchorConfig, RLConfig
from rmsweb.errors import ConfigError, RunError
from rmsweb.records import Fate, Group
from rmsweb.salvage import batch, groups, prefix
from rmsweb.salvage.batch import Row, Target
from rmsweb.salvage.gate import Competence, Gated, Running, advantages, count, gate, logprob
from rmsweb.salvage.groups import Outcome, Sampled, Scorer, State
from rmsweb.salvage.prefix import Encoded
from rmsweb.salvage.settings import check, trl_settings

CACHED_PROMPTS = 512
"""Tokenised prompts kept, pictures included (0.9 MB each at 320x224)."""
WORST_SAMPLER_DIFFERENCE = 0.02
"""Mean |logp(vLLM) - logp(trainer)| at the first update; a corrupted prompt measured 0.13, a sound one 0.008."""
WHOLE = AnchorConfig(tokens="reply")


@dataclass
class SalvageDSConfig(GRPOConfig):  # type: ignore[misc]
    """GRPOConfig plus our settings; make it with `from_rl`."""

    salvage: dict[str, Any] = field(default_factory=dict, metadata={"help": "RLConfig as JSON"})

    @classmethod
    def from_rl(
        cls, rl: RLConfig, output_dir: str, *, seed: int = 0, max_new_tokens: int = 512, processes: int = 1, **more: Any
    ) -> "SalvageDSConfig":
        """Our settings in TRL's words; `more` goes to GRPOConfig. Raises ConfigError where they do not fit together."""
        return cls(output_dir=output_dir, **(trl_settings(rl, seed, max_new_tokens, processes) | more))


class SalvageDSTrainer(GRPOTrainer):  # type: ignore[misc]
    """See the module docstring. `on_groups` gets every update's groups, on the main process."""

    def __init__(
        self,
        model: Any,
        args: SalvageDSConfig,
        processing_class: Any,
        states: Sequence[State],
        scorer: Scorer,
        rehearsal: Sequence[State] = (),
        on_groups: Callable[[list[Group]], None] | None = None,
        **more: Any,
    ) -> None:
        from datasets import Dataset

        self.rl = RLConfig.model_validate(args.salvage)
        self.states, self.scorer, self.rehearsal, self.on_groups = states, scorer, rehearsal, on_groups
        check(self.rl, args.per_device_train_batch_size, len(states), len(rehearsal))
        wanted = args.generation_batch_size // args.num_generations * args.max_steps
        order = groups.draws(max(len(states), 1), wanted, args.seed)
        barred = prefix.barred_ids(processing_class.tokenizer)
        if args.use_vllm:
            args.generation_kwargs = {"logit_bias": {i: -100.0 for i in barred}, **(args.generation_kwargs or {})}
        super().__init__(
            model=model,
            args=args,
            processing_class=processing_class,
            reward_funcs=_no_reward,
            train_dataset=Dataset.from_dict({"prompt": [""] * len(order), "state": order}),
            **more,
        )
        for one in (self.model, self.ref_model):
            if one is not None:
                prefix.bar(one, barred)
        attention = prefix.core(self.model).config._attn_implementation
        if self.rl.shared_prefix and attention not in ("sdpa", "eager"):
            raise ConfigError(f"rl.shared_prefix needs sdpa or eager attention, not {attention}; set it to false")
        self.running = Running()
        self._encoded: OrderedDict[tuple[str, int], Encoded] = OrderedDict()
        self._micro: dict[str, Any] = {}
        self._buffer: list[dict[str, Any]] = []
        self._logps: Tensor | None = None
        self._divide = batch.Divisors(1.0, 1.0, 1.0)
        self._sighted = False

    # -- from states to micro-batches ----------------------------------------------------------------------------

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """One micro-batch; a new generation batch is sampled when the last one is used up."""
        every = self.args.steps_per_generation * self.num_iterations
        if self._step % every == 0 or not self._buffer:
            numbers = [row["state"] for row in generation_batch[:: self.num_generations]]
            self._buffer = self._micro_batches(numbers)
        place: int = self._step % self.args.steps_per_generation
        return self._buffer[place]

    def _micro_batches(self, numbers: list[int]) -> list[dict[str, Any]]:
        numbers = [] if self.rl.method == "rehearsal_only" else numbers
        encoded = [self._encode("state", number) for number in numbers]
        outcome = Outcome([], [], [])
        if numbers and self.rl.method != "ce_references":
            began = time.perf_counter()
            outcome = self._sample(numbers, encoded)
            self._metrics["train"]["time/sample"].append(time.perf_counter() - began)
        texts = outcome.texts or [[] for _ in numbers]
        targets = [
            groups.target(self._tokenizer, self.states[n].reply, own, self.rl.anchor if outcome.sampled else WHOLE)
            for n, own in zip(numbers, texts, strict=True)
        ]
        gated = self._gate(numbers, encoded, outcome, targets)
        lessons = self._lessons()
        encoded += [self._encode("rehearsal", n) for n in lessons]
        rows = self._rows(gated, outcome, targets, list(lessons.values()))
        self._check_sight(encoded)
        if not rows:
            rows = [Row(0, (self._tokenizer.eos_token_id,), 0.0, 0.0, [0.0])]
            encoded = encoded or [self._encode("state", 0)]
        parts = batch.micro_batches(rows, self.args.steps_per_generation)
        # TRL gathers per-row figures, so every process needs as many rows.
        sizes = torch.tensor([[len(part) for part in parts]], device=self.accelerator.device)
        parts = batch.filled(parts, self.accelerator.gather(sizes).amax(0).tolist())
        return [self._finished(self._tensors(part, encoded)) for part in parts]

    def _encode(self, kind: str, number: int) -> Encoded:
        """The tokenised prompt of a state or rehearsal sample, from the cache where it is there."""
        key = (kind, number)
        if key not in self._encoded:
            state = (self.states if kind == "state" else self.rehearsal)[number]
            self._encoded[key] = prefix.encode(self.processing_class, self.model, groups.with_pictures(state))
            if len(self._encoded) > CACHED_PROMPTS:
                self._encoded.popitem(last=False)
        self._encoded.move_to_end(key)
        return self._encoded[key]

    def _sample(self, numbers: list[int], encoded: list[Encoded]) -> Outcome:
        sharded = self.is_fsdp_enabled or self.is_deepspeed_enabled
        own = self.rl.shared_prefix and not self.use_vllm and not sharded
        sampled = self._sample_shared(encoded) if own else self._sample_plain(numbers, encoded)
        texts = [[self._tokenizer.decode(r.ids, skip_special_tokens=True) for r in group] for group in sampled]
        scored = [
            self.scorer(number, group_texts, [r.truncated for r in group])
            for number, group_texts, group in zip(numbers, texts, sampled, strict=True)
        ]
        return Outcome(sampled, texts, scored)

    def _sample_shared(self, encoded: list[Encoded]) -> list[list[Sampled]]:
        model, device = self.accelerator.unwrap_model(self.model), self.accelerator.device
        seed = [self.args.seed, self.state.global_step, self.accelerator.process_index]
        dice = torch.Generator(device).manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        model.eval()  # with gradient checkpointing, train mode would switch the cache off
        try:
            return prefix.sample(
                model,
                prefix.collate(encoded, self._tokenizer.pad_token_id, device),
                self.num_generations,
                max_new_tokens=self.max_completion_length,
                temperature=self.temperature,
                stop=self.eos_token_ids,
                generator=dice,
            )
        finally:
            model.train()

    def _sample_plain(self, numbers: list[int], encoded: list[Encoded]) -> list[list[Sampled]]:
        """TRL's own sampling (`generate` or vLLM) over prompts repeated G times."""
        size, pad = self.num_generations, self._image_pad_token_id
        ids = [one.ids.tolist() for one in encoded]
        colocated = self.use_vllm and self.vllm_mode == "colocate"
        ids = [prefix.collapse_images(row, pad) for row in ids] if colocated else ids
        fields = prefix.repeated(encoded, size)
        shown = [groups.pictures(self.states[n]) or None for n in numbers for _ in range(size)]
        images = shown if any(shown) else None
        replies, logprobs = self._generate_single_turn([row for row in ids for _ in range(size)], images, fields, size)
        ends = {*self.eos_token_ids, self._tokenizer.pad_token_id}
        flat = [
            Sampled(list(reply), None if logprobs is None else list(logprobs[i]), reply[-1] not in ends)
            for i, reply in enumerate(replies)
        ]
        return [flat[i : i + size] for i in range(0, len(flat), size)]

    # -- gate and rows -------------------------------------------------------------------------------------------

    def _gate(
        self, numbers: list[int], encoded: list[Encoded], outcome: Outcome, targets: list[Target | None]
    ) -> list[Gated]:
        """Labels and fates of this process's groups; logs the figures and hands the records on."""
        rl = self.rl
        if not outcome.sampled:
            fates = [Fate.ANCHORED if one else Fate.DROPPED for one in targets]
            return [Gated("all_fail", fate, f"{rl.method}: nothing is sampled") for fate in fates]
        gated = gate(
            outcome.rewards,
            outcome.clusters,
            rl.gate,
            anchor=rl.anchor,
            references_N=[one is not None for one in targets],
            method=rl.method,
            competence=self._competence(numbers, encoded, targets),
        )
        found = advantages(outcome.rewards, [g.fate is Fate.ACCEPTED for g in gated], rl.normalize_std)
        keys = [self.states[n].key for n in numbers]
        made = groups.records(keys, self.state.global_step + 1, gated, outcome.scored, found)
        if self.accelerator.num_processes > 1:
            made = gather_object(made)
        lengths = [n for row in outcome.lengths for n in row]
        cut = [r.truncated for row in outcome.sampled for r in row]
        for name, value in {
            **groups.figures(made),
            "completions/mean_length": float(np.mean(lengths)),
            "completions/clipped_ratio": float(np.mean(cut)),
        }.items():
            self._metrics["train"][name].append(value)
        if self.on_groups is not None and self.accelerator.is_main_process:
            self.on_groups(made)
        return gated

    def _competence(self, numbers: list[int], encoded: list[Encoded], targets: list[Target | None]) -> Competence:
        if self.rl.gate.competence == "count":
            return count
        if self.rl.gate.competence == "running":
            return self.running.over([self.states[n].key for n in numbers])
        logps = [-np.inf] * len(targets)
        rows = [batch.target_row(i, one, 1.0, 1.0, "token") for i, one in enumerate(targets) if one is not None]
        if rows:
            micro = self._tensors(rows, encoded)
            found = (self._frozen_logps(self.model, micro) * micro["cross_entropy"]).sum(1).tolist()
            for row, value in zip(rows, found, strict=True):
                logps[row.slot] = value
        return logprob(logps)

    def _lessons(self) -> dict[int, Target]:
        """This process's rehearsal samples of the coming update: numbers and whole replies."""
        wanted, rank, world = self.rl.rehearsal, self.accelerator.process_index, self.accelerator.num_processes
        if not wanted:
            return {}
        first = self.state.global_step * wanted
        order = groups.draws(len(self.rehearsal), first + wanted, self.args.seed + 1)[first:][rank::world]
        found = {n: groups.target(self._tokenizer, self.rehearsal[n].reply, (), WHOLE) for n in order}
        return {n: one for n, one in found.items() if one is not None}

    def _rows(
        self, gated: list[Gated], outcome: Outcome, targets: list[Target | None], lessons: list[Target]
    ) -> list[Row]:
        """Weighted rows of this process; the divisors are summed over all processes."""
        rl, device = self.rl, self.accelerator.device
        own = batch.totals(gated, outcome.lengths, outcome.valid, targets, lessons, rl.method)
        summed = self.accelerator.reduce(torch.tensor(own, device=device, dtype=torch.float64), "sum").tolist()
        constant = rl.length_constant or self.max_completion_length
        self._divide = batch.divisors(batch.Totals(*map(int, summed)), rl.length, self.num_generations, constant)
        rows: list[Row] = []
        if outcome.sampled:
            found = advantages(outcome.rewards, [g.fate is Fate.ACCEPTED for g in gated], rl.normalize_std)
            rows = batch.policy_rows(gated, outcome.sampled, found, outcome.valid, rl.length, merge=not self.use_vllm)
        progress = self.state.global_step / max(self.state.max_steps, 1)
        return rows + batch.target_rows(gated, targets, lessons, rl, progress, self._divide)

    # -- tensors and loss ----------------------------------------------------------------------------------------

    def _tensors(self, rows: list[Row], encoded: list[Encoded]) -> dict[str, Any]:
        return prefix.tensors(
            rows,
            encoded,
            shared=self.rl.shared_prefix,
            pad=self._tokenizer.pad_token_id,
            device=self.accelerator.device,
        )

    def _finished(self, micro: dict[str, Any]) -> dict[str, Any]:
        """Adds the divisor and what other versions of the policy say of the rows."""
        args, device = self.args, self.accelerator.device
        micro["num_items_in_batch"] = torch.tensor(self._divide.policy, device=device)
        every = args.steps_per_generation * self.num_iterations
        corrects = self.use_vllm and self.vllm_importance_sampling_correction
        if corrects or args.gradient_accumulation_steps % every:
            micro["old_per_token_logps"] = self._frozen_logps(self.model, micro)
        if corrects:
            difference = micro["old_per_token_logps"] - micro["sampled_logps"]
            self._check_sampler(difference)
            low, high = self.vllm_importance_sampling_clip_min, self.vllm_importance_sampling_clip_max
            ratio = prefix.importance_ratio(difference, self.vllm_importance_sampling_mode, low, high)
            micro["importance_sampling_ratio"] = ratio
        if self.beta != 0.0:
            micro["ref_per_token_logps"] = self._reference_logps(micro)
        return micro

    def _get_per_token_logps_and_entropies(self, model: Any, *arguments: Any, **options: Any) -> Any:
        """TRL asks here for the micro-batch at hand; with a shared prefix the prompt of a group is read once."""
        micro = self._micro
        if self.rl.shared_prefix:
            anchored = (micro["cross_entropy"] > 0).any(1)
            temperature = torch.where(anchored, 1.0, self.temperature)
            found = prefix.score(
                model, micro["prompts"], micro["places"], micro["completion_ids"], micro["completion_mask"], temperature
            )
            result = found.logps, found.entropies, None
        else:
            result = super()._get_per_token_logps_and_entropies(model, *arguments, **options)
        self._logps = result[0]
        return result

    def _frozen_logps(self, model: Any, micro: dict[str, Any]) -> Tensor:
        """Log-probabilities of a micro-batch without gradient."""
        self._micro = micro
        ids = torch.cat([micro["prompt_ids"], micro["completion_ids"]], 1)
        mask = torch.cat([micro["prompt_mask"], micro["completion_mask"]], 1)
        pictures = ("pixel_values", "image_grid_thw", "num_images", "mm_token_type_ids")
        options = {name: micro[name] for name in pictures if name in micro}
        with torch.no_grad():
            logps: Tensor = self._get_per_token_logps_and_entropies(
                model, ids, mask, micro["completion_ids"].shape[1], **options
            )[0]
        return logps

    def _reference_logps(self, micro: dict[str, Any]) -> Tensor:
        if self.ref_model is not None:
            return self._frozen_logps(self.ref_model, micro)
        model = self.accelerator.unwrap_model(self.model)
        with use_adapter(model, adapter_name="ref" if "ref" in model.peft_config else None):
            logps = self._frozen_logps(self.model, micro)
        return logps

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        self._micro = inputs
        policy: Tensor = super()._compute_loss(model, inputs)
        assert self._logps is not None
        logps, sampled = self._logps, inputs.get("sampled_logps")
        if not self.rl.shared_prefix and self.temperature != 1.0:
            logps = prefix.plain_logps(model, inputs)  # TRL's head is at sampling temperature; the anchor is not
        # The same factor that TRL's divisor carries: DDP averages over processes, accumulation adds up.
        split = self.current_gradient_accumulation_steps
        losses = -(logps * inputs["cross_entropy"]).sum(1)
        losses = losses * (self.accelerator.num_processes * self.args.steps_per_generation / split)
        loss: Tensor = policy + losses.sum()
        if not torch.isfinite(loss):
            update = self.state.global_step + 1
            raise RunError(f"the loss of update {update} is {loss.item()}; the checkpoint before it is sound")
        parts = torch.stack([policy, losses[~inputs["rehearsal"]].sum(), losses[inputs["rehearsal"]].sum()]).detach()
        means = self.accelerator.reduce(parts, "mean").tolist()
        for name, value in zip(("loss/policy", "loss/anchor", "loss/rehearsal"), means, strict=True):
            # Logged values are averaged over micro-batches, losses add up over them.
            self._metrics["train"][name].append(value * split)
        if sampled is not None and not self.use_vllm:
            difference = (self._logps.detach() - sampled).abs().nanmean().item()
            self._metrics["train"]["sampling/logp_difference"].append(difference)
        return loss

    # -- checks --------------------------------------------------------------------------------------------------

    def _check_sampler(self, difference_RC: Tensor) -> None:
        """Stops the first update of a vLLM run whose sampler and trainer do not see the same prompt."""
        mean = difference_RC.abs().nanmean().item()
        self._metrics["train"]["sampling/logp_difference"].append(mean)
        if self.state.global_step == 0 and mean > WORST_SAMPLER_DIFFERENCE:
            raise RunError(
                f"vLLM and the trainer differ by {mean:.3f} nats per token at the first update (at most "
                f"{WORST_SAMPLER_DIFFERENCE}): they do not see the same prompt; set rl.use_vllm = false"
            )

    def _check_sight(self, encoded: list[Encoded]) -> None:
        """Once per process: the trainer's log-probabilities must depend on the picture (field log, S62)."""
        seen = next((one for one in encoded if one.pixels is not None), None)
        if self._sighted or seen is None or seen.pixels is None:
            return
        self._sighted = True
        row = Row(0, (self._tokenizer.eos_token_id,), 0.0, 0.0, [0.0])
        blind = seen._replace(pixels=torch.zeros_like(seen.pixels))
        with_picture, without = (self._frozen_logps(self.model, self._tensors([row], [one])) for one in (seen, blind))
        if torch.equal(with_picture, without):
            raise RunError("the trainer's log-probabilities do not depend on the screenshot: the update would be blind")

    def create_model_card(self, *arguments: Any, **options: Any) -> None:
        """No card beside the checkpoints: the run directory says what was done."""


def _no_reward(completions: Sequence[Any], **_: Any) -> list[float]:
    """Stands where TRL wants a reward function; ours is the scorer."""
    return [0.0] * len(completions)
