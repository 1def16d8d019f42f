"""One prompt pass per group: sampling and scoring of G replies that share a prompt. Needs torch and a Qwen3-VL.

A group is one row: the prompt once, then all replies side by side under a block mask (a reply sees the prompt and
itself), each continuing the prompt's M-RoPE positions. Promises: log-probabilities and gradients equal those of G
repeated rows to 1e-5 (tested); one forward of the model per call, so DDP and gradient checkpointing work as usual.
Also owns what belongs to any sampling of such models: the barred picture tokens and vLLM's double expansion.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rmsweb.errors import ConfigError
from rmsweb.salvage.batch import Row
from rmsweb.salvage.groups import Sampled

BARRED = ("<|image_pad|>", "<|video_pad|>", "<|vision_pad|>", "<|vision_start|>", "<|vision_end|>")
BARRED_LOGIT = -1e4


class Encoded(NamedTuple):
    """One prompt, tokenised once; P tokens, I pictures of together K patches."""

    ids: Tensor
    """(P,)"""
    types: Tensor
    """(P,) 1 where a picture token stands."""
    positions: Tensor
    """(3, P) M-RoPE positions."""
    pixels: Tensor | None
    """(K, patch values)"""
    grids: Tensor | None
    """(I, 3)"""


class Prompts(NamedTuple):
    """N prompts, left-padded to P."""

    ids: Tensor
    mask: Tensor
    types: Tensor
    positions: Tensor
    """(3, N, P)"""
    pixels: Tensor | None
    grids: Tensor | None
    images: list[int]
    """Pictures of each prompt."""

    def inputs(self) -> dict[str, Tensor]:
        """Keyword arguments of the model but for ids, mask and positions."""
        if self.pixels is None or self.grids is None:
            return {}
        return {"pixel_values": self.pixels, "image_grid_thw": self.grids}


class Scores(NamedTuple):
    """Of the R replies in columns C; 0 at padding."""

    logps: Tensor
    entropies: Tensor


def core(model: Any) -> Any:
    """The bare Qwen3-VL inside DDP and PEFT wrappers. Raises ConfigError for another architecture."""
    model = getattr(model, "module", model)
    model = model.get_base_model() if hasattr(model, "get_base_model") else model
    if not hasattr(getattr(model, "model", None), "get_rope_index"):
        raise ConfigError(f"{type(model).__name__} has no M-RoPE: Part 3 trains the Qwen-VL family")
    return model


def encode(processor: Any, model: Any, messages: Sequence[Mapping[str, Any]]) -> Encoded:
    """Tokenises one prompt through the model's own chat template; pictures are PIL images in the image parts."""
    data = processor.apply_chat_template(
        [list(messages)], add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )
    ids, grids = data["input_ids"], data.get("image_grid_thw")
    types = data.get("mm_token_type_ids", torch.zeros_like(ids))
    positions, _ = core(model).model.get_rope_index(
        ids, mm_token_type_ids=types, image_grid_thw=grids, attention_mask=torch.ones_like(ids)
    )
    return Encoded(ids[0], types[0], positions[:, 0], data.get("pixel_values"), grids)


def collate(encoded: Sequence[Encoded], pad: int, device: torch.device) -> Prompts:
    """Left-pads prompts into a batch; each keeps its own pictures, however many there are."""
    width = max(len(one.ids) for one in encoded)
    ids = torch.full((len(encoded), width), pad)
    mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
    positions = torch.zeros(3, len(encoded), width, dtype=torch.long)
    for i, one in enumerate(encoded):
        start = width - len(one.ids)
        ids[i, start:], mask[i, start:], types[i, start:] = one.ids, 1, one.types
        positions[:, i, start:] = one.positions
    pixels = [one.pixels for one in encoded if one.pixels is not None]
    grids = [one.grids for one in encoded if one.grids is not None]
    return Prompts(
        ids.to(device),
        mask.to(device),
        types.to(device),
        positions.to(device),
        torch.cat(pixels).to(device) if pixels else None,
        torch.cat(grids).to(device) if grids else None,
        [0 if one.grids is None else len(one.grids) for one in encoded],
    )


@torch.no_grad()
def sample(
    model: Any,
    prompts: Prompts,
    copies: int,
    *,
    max_new_tokens: int,
    temperature: float,
    stop: Sequence[int],
    generator: torch.Generator | None = None,
) -> list[list[Sampled]]:
    """Draws `copies` replies for each prompt from one prefill; (N, copies) replies, stopped at any id of `stop`."""
    device, count = prompts.ids.device, len(prompts.ids)
    out = model(
        input_ids=prompts.ids,
        attention_mask=prompts.mask,
        position_ids=prompts.positions,
        mm_token_type_ids=prompts.types,
        use_cache=True,
        logits_to_keep=1,
        **prompts.inputs(),
    )
    logits, cache = out.logits[:, -1:].expand(-1, copies, -1), out.past_key_values
    following = prompts.positions.amax((0, 2)) + 1
    seen = prompts.mask.bool()[:, None, None].expand(-1, 1, copies, -1)
    own = torch.eye(copies, dtype=torch.bool, device=device).expand(count, 1, -1, -1)
    ends = torch.tensor(list(stop), device=device)
    alive = torch.ones(count, copies, dtype=torch.bool, device=device)
    drawn_T: list[Tensor] = []
    logps_T: list[Tensor] = []
    alive_T: list[Tensor] = []
    for t in range(max_new_tokens):
        logp = torch.log_softmax(logits.float() / temperature, -1)
        flat = logp.reshape(count * copies, -1)
        token = torch.multinomial(flat.exp(), 1, generator=generator).view(count, copies)
        drawn_T.append(token)
        logps_T.append(flat.gather(1, token.view(-1, 1)).view(count, copies))
        alive_T.append(alive)
        alive = alive & ~torch.isin(token, ends)
        if t + 1 == max_new_tokens or not alive.any():
            break
        seen = torch.cat([seen, own], -1)
        logits = model(
            input_ids=token,
            attention_mask=seen,
            position_ids=(following + t)[None, :, None].expand(3, -1, copies),
            past_key_values=cache,
            use_cache=True,
        ).logits
    return _replies(torch.stack(drawn_T, 2), torch.stack(logps_T, 2), torch.stack(alive_T, 2), alive)


def _replies(ids_NGT: Tensor, logps_NGT: Tensor, kept_NGT: Tensor, alive_NG: Tensor) -> list[list[Sampled]]:
    lengths, cut = kept_NGT.sum(-1).tolist(), alive_NG.tolist()
    ids, logps = ids_NGT.tolist(), logps_NGT.tolist()
    return [
        [Sampled(ids[i][g][:n], logps[i][g][:n], cut[i][g]) for g, n in enumerate(row)] for i, row in enumerate(lengths)
    ]


def score(
    model: Any,
    prompts: Prompts,
    slots_R: Sequence[int],
    ids_RC: Tensor,
    mask_RC: Tensor,
    temperature_R: Tensor,
) -> Scores:
    """Log-probabilities and entropies of R replies, each under the prompt `slots_R` names, in one forward.

    Logits are divided by each reply's temperature. Columns are right-padded; gradients flow.
    """
    lengths = mask_RC.sum(1).tolist()
    device = ids_RC.device
    used = [0] * len(prompts.ids)
    begins = []
    for slot, length in zip(slots_R, lengths, strict=True):
        begins.append(used[slot])
        used[slot] += length
    tail = max(used)
    rows = torch.repeat_interleave(torch.arange(len(slots_R)), torch.tensor(lengths))
    columns = torch.cat([torch.arange(length) for length in lengths])
    slots = torch.tensor(list(slots_R))[rows]
    place = torch.tensor(begins)[rows] + columns
    rows, columns, slots, place = (tensor.to(device) for tensor in (rows, columns, slots, place))

    tail_ids = prompts.ids.new_full((len(prompts.ids), tail), 0)
    segment, step = torch.zeros_like(tail_ids), torch.zeros_like(tail_ids)
    tokens = ids_RC[rows, columns]
    tail_ids[slots, place], segment[slots, place], step[slots, place] = tokens, rows + 1, columns
    following = prompts.positions.amax((0, 2)) + 1
    positions = torch.cat([prompts.positions, (following[:, None] + step)[None].expand(3, -1, -1)], 2)
    logits = model(
        input_ids=torch.cat([prompts.ids, tail_ids], 1),
        attention_mask=_block_mask(prompts.mask.bool(), segment),
        position_ids=positions,
        mm_token_type_ids=torch.cat([prompts.types, torch.zeros_like(tail_ids)], 1),
        use_cache=False,
        logits_to_keep=tail + 1,
        **prompts.inputs(),
    ).logits
    # The prompt's last column (0 here) predicts a first token, the token before it any other.
    wanted = logits[slots, torch.where(columns == 0, torch.zeros_like(place), place)].float()
    logp = torch.log_softmax(wanted / temperature_R.to(device)[rows, None], -1)
    token_logps = logp.gather(1, tokens[:, None])[:, 0]
    with torch.no_grad():
        token_entropies = -(logp.exp() * logp).sum(-1)
    empty = torch.zeros(ids_RC.shape, dtype=logp.dtype, device=device)
    return Scores(empty.index_put((rows, columns), token_logps), empty.index_put((rows, columns), token_entropies))


def _block_mask(prompt_NP: Tensor, segment_NT: Tensor) -> Tensor:
    """(N, 1, P+T, P+T) bool: causal; the tail sees the prompt and its own reply; padding sees itself only."""
    count, width = prompt_NP.shape
    total = width + segment_NT.shape[1]
    segment = torch.cat([prompt_NP.new_zeros((count, width), dtype=torch.long), segment_NT], 1)
    real = torch.cat([prompt_NP, segment_NT > 0], 1)
    in_prompt = torch.arange(total, device=prompt_NP.device) < width
    mask = torch.ones(total, total, dtype=torch.bool, device=prompt_NP.device).tril()
    mask = mask & real[:, None] & (in_prompt | (segment[:, None] == segment[:, :, None]))
    return (mask | torch.eye(total, dtype=torch.bool, device=mask.device))[:, None]


def tensors(
    rows: Sequence[Row], encoded: Sequence[Encoded], *, shared: bool, pad: int, device: torch.device
) -> dict[str, Any]:
    """TRL's batch dictionary of R rows, and what our loss adds to it.

    `shared`: each prompt once, `places` says which row belongs to which. Otherwise every row brings its own prompt
    and pictures, as TRL's plain path wants them.
    """
    width, slots = max(len(row.ids) for row in rows), sorted({row.slot for row in rows})
    prompts = collate([encoded[s] for s in (slots if shared else [row.slot for row in rows])], pad, device)
    places = [slots.index(row.slot) if shared else i for i, row in enumerate(rows)]

    def padded(values: Sequence[Sequence[float]], dtype: torch.dtype, fill: float = 0) -> Tensor:
        full = [[*one, *[fill] * (width - len(one))] for one in values]
        return torch.tensor(full, dtype=dtype, device=device)

    batch: dict[str, Any] = {
        "prompt_ids": prompts.ids[places],
        "prompt_mask": prompts.mask[places],
        "completion_ids": padded([row.ids for row in rows], torch.long, pad),
        "completion_mask": padded([[1] * len(row.ids) for row in rows], torch.long),
        "tool_mask": padded([[row.weight] * len(row.ids) for row in rows], torch.float32),
        "advantages": torch.tensor([row.advantage for row in rows], dtype=torch.float32, device=device),
        "cross_entropy": padded([row.cross_entropy for row in rows], torch.float32),
        "rehearsal": torch.tensor([row.rehearsal for row in rows], device=device),
        "prompts": prompts,
        "places": places,
    }
    if any(row.logprobs for row in rows):
        nothing = float("nan")
        known = [row.logprobs or [nothing] * len(row.ids) for row in rows]
        batch["sampled_logps"] = padded(known, torch.float32, nothing)
    if not shared:
        types = torch.cat([prompts.types, torch.zeros_like(batch["completion_ids"])], 1)
        batch |= {**prompts.inputs(), "mm_token_type_ids": types, "num_images": prompts.images}
    return batch


def repeated(encoded: Sequence[Encoded], copies: int) -> dict[str, Any]:
    """What TRL's own sampling wants beside the ids: every prompt's token types and pictures, `copies` times."""
    rows = [one for one in encoded for _ in range(copies)]
    fields: dict[str, Any] = {"mm_token_type_ids": [one.types.tolist() for one in rows]}
    pixels = [one.pixels for one in rows if one.pixels is not None]
    if pixels:
        fields["pixel_values"] = torch.cat(pixels)
        fields["image_grid_thw"] = torch.cat([one.grids for one in rows if one.grids is not None])
    return fields


def plain_logps(model: Any, batch: Mapping[str, Any]) -> Tensor:
    """Log-probabilities of `tensors(shared=False)` at temperature 1."""
    pictures = {name: batch[name] for name in ("pixel_values", "image_grid_thw") if name in batch}
    ids = batch["completion_ids"]
    logits = model(
        input_ids=torch.cat([batch["prompt_ids"], ids], 1),
        attention_mask=torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1),
        mm_token_type_ids=batch["mm_token_type_ids"],
        use_cache=False,
        logits_to_keep=ids.shape[1] + 1,
        **pictures,
    ).logits[:, :-1]
    logps: Tensor = torch.log_softmax(logits.float(), -1).gather(2, ids[..., None])[..., 0]
    return logps


def importance_ratio(difference_RC: Tensor, mode: str, low: float | None, high: float | None) -> Tensor:
    """Trainer over sampler probability, cut or masked at `low` and `high` (TRL's `vllm_importance_sampling_mode`).

    (R, C), or (R, 1) for the sequence modes; NaN in the log difference (not sampled, not known) counts as equal.
    """
    level, treatment = mode.split("_")
    difference = difference_RC.nan_to_num(0.0)
    ratio = (difference.sum(1, keepdim=True) if level == "sequence" else difference).exp()
    if treatment == "truncate":
        return ratio.clamp(min=low, max=high)
    outside = (ratio < (-torch.inf if low is None else low)) | (ratio > (torch.inf if high is None else high))
    return ratio.masked_fill(outside, 0.0)


def barred_ids(tokenizer: Any) -> list[int]:
    """Ids that only a processor may write: a sampled one would ask for a picture that is not there."""
    known = tokenizer.get_vocab()
    return [known[token] for token in BARRED if token in known]


def bar(model: Any, ids: Sequence[int]) -> None:
    """Takes tokens out of the model's output, in sampling and in the loss alike.

    A constant bias on the output layer, kept out of the state dict: it is there for `generate`, for this module and
    for TRL's fused head, and never in a checkpoint.
    """
    head = core(model).get_output_embeddings()
    bias = torch.zeros(head.weight.shape[0], dtype=head.weight.dtype, device=head.weight.device)
    bias[list(ids)] = BARRED_LOGIT
    head._parameters.pop("bias", None)
    head.register_buffer("bias", bias, persistent=False)


def collapse_images(ids: Sequence[int], image_pad: int) -> list[int]:
    """One placeholder per picture: vLLM expands placeholders itself, and TRL 1.16 hands it expanded ones (#6294).

    Several pictures stay apart because start and end marks stand between them. Only for vLLM in colocate mode.
    """
    return [token for i, token in enumerate(ids) if token != image_pad or i == 0 or ids[i - 1] != image_pad]
