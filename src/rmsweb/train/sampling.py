"""Replies from a Qwen3-VL in this process: one pass over each prompt, any number of replies continue its cache.

Owns M-RoPE positions at decoding, the suppressed tokens and the per-row random streams. Promises that a row's draw
depends on its own seed and its own probabilities only, never on the rows beside it (up to float rounding), and that
sampled token ids come back exactly as they were drawn, the end mark included. `LocalModel` uses it; the RL trainer
has a shared prefix of its own (`salvage/prefix.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

SUPPRESSED = -1e4
"""Logit of ids that a reply may never hold: a sampled image placeholder makes the next training forward fail."""


class Prefill(NamedTuple):
    """What decoding needs after the prompts, already repeated: N = sum of replies over prompts."""

    cache: Any
    logits: torch.Tensor
    """(N, V), for the first reply token."""
    attention: torch.Tensor
    """(N, L)."""
    position: torch.Tensor
    """(N,): M-RoPE position of the first reply token, equal on all three axes."""


class Sampled(NamedTuple):
    """One reply."""

    ids: tuple[int, ...]
    """End mark included, where there is one."""
    logprobs: tuple[float, ...]
    """Natural log of each id's probability under the distribution that it was drawn from (greedy: at temperature 1)."""
    ended: bool
    """False when it was cut at the token limit."""


@dataclass(frozen=True, slots=True)
class Draw:
    """How one reply is drawn."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    max_tokens: int = 512


def suppressed_ids(model: Any) -> list[int]:
    """Image, video and vision ids of this model; suppress them in sampling and in the policy's loss alike."""
    config = model.config
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    return [value for name in names if (value := getattr(config, name, None)) is not None]


def end_ids(model: Any) -> list[int]:
    """Ids that end a reply."""
    ends = model.generation_config.eos_token_id
    return [] if ends is None else list(ends) if isinstance(ends, (list, tuple)) else [int(ends)]


def positions(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
    """M-RoPE positions (3, B, L) of processor inputs, with or without pictures."""
    attention = inputs["attention_mask"]
    if inputs.get("image_grid_thw") is None:
        text: torch.Tensor = (attention.cumsum(-1) - 1).clamp(min=0)[None].expand(3, -1, -1)
        return text
    found, _ = model.model.get_rope_index(
        inputs["input_ids"],
        mm_token_type_ids=inputs["mm_token_type_ids"],
        image_grid_thw=inputs["image_grid_thw"],
        attention_mask=attention,
    )
    index: torch.Tensor = found
    return index


def prefill(model: Any, inputs: dict[str, Any], n: int | Sequence[int] = 1) -> Prefill:
    """One forward over B left-padded prompts; the result is repeated `n` times each (or n[i] times prompt i)."""
    import torch

    batch = inputs["input_ids"].shape[0]
    device = inputs["input_ids"].device
    counts = torch.tensor([n] * batch if isinstance(n, int) else list(n), device=device)
    rows = torch.repeat_interleave(torch.arange(batch, device=device), counts)
    where = positions(model, inputs)
    accepted = {
        k: v for k, v in inputs.items() if k in ("input_ids", "attention_mask", "pixel_values", "image_grid_thw")
    }
    out = model(**accepted, position_ids=where, use_cache=True, logits_to_keep=1)
    attention = inputs["attention_mask"]
    following = where.masked_fill(attention[None] == 0, -1).amax((0, 2)) + 1
    cache = out.past_key_values
    if len(rows) != batch or bool((counts != 1).any()):
        cache.batch_select_indices(rows)
    return Prefill(cache, out.logits[:, -1][rows], attention[rows], following[rows])


def sample_shared(
    model: Any, inputs: dict[str, Any], draws: Sequence[Sequence[Draw]], suppressed: Sequence[int] | None = None
) -> list[list[Sampled]]:
    """Replies to B prompts; `draws[i]` says how prompt i's replies are drawn (its length is their number).

    `inputs` are the processor's tensors, left-padded. Works without gradients; the model's mode is the caller's.
    """
    import torch

    flat = [draw for group in draws for draw in group]
    limit = max(draw.max_tokens for draw in flat)
    blocked = list(suppressed_ids(model) if suppressed is None else suppressed)
    with torch.no_grad():
        state = prefill(model, inputs, [len(group) for group in draws])
        decoded = _decode(model, state, flat, limit, blocked)
    replies = iter(decoded)
    return [[next(replies) for _ in group] for group in draws]


def _decode(model: Any, state: Prefill, draws: list[Draw], limit: int, blocked: list[int]) -> list[Sampled]:
    import torch

    device = state.logits.device
    ends = torch.tensor(end_ids(model), device=device)
    limits = [draw.max_tokens for draw in draws]
    chance = _uniforms(draws, limit).to(device)
    temperature = torch.tensor([draw.temperature for draw in draws], device=device)[:, None]
    top_p = torch.tensor([draw.top_p for draw in draws], device=device)[:, None]
    ids: list[list[int]] = [[] for _ in draws]
    logs: list[list[float]] = [[] for _ in draws]
    ended = [False] * len(draws)
    live = torch.arange(len(draws), device=device)
    cache, logits, attention, position = state
    for step in range(limit):
        token, log = _pick(logits, temperature[live], top_p[live], chance[live, step], blocked)
        over = torch.isin(token, ends).tolist()
        for row, drawn, value, end in zip(live.tolist(), token.tolist(), log.tolist(), over, strict=True):
            ids[row].append(drawn)
            logs[row].append(value)
            ended[row] = end
        going = torch.tensor(
            [not end and len(ids[row]) < limits[row] for row, end in zip(live.tolist(), over, strict=True)],
            device=device,
        )
        if not bool(going.any()):
            break
        if not bool(going.all()):
            kept = going.nonzero()[:, 0]
            cache.batch_select_indices(kept)
            live, token, attention, position = live[kept], token[kept], attention[kept], position[kept]
        attention = torch.cat([attention, attention.new_ones(len(live), 1)], 1)
        where = (position + step)[None, :, None].expand(3, -1, 1)
        out = model(
            input_ids=token[:, None],
            attention_mask=attention,
            position_ids=where,
            past_key_values=cache,
            use_cache=True,
        )
        cache, logits = out.past_key_values, out.logits[:, -1]
    return [Sampled(tuple(i), tuple(p), e) for i, p, e in zip(ids, logs, ended, strict=True)]


def _uniforms(draws: list[Draw], limit: int) -> torch.Tensor:
    """(N, limit) numbers of 0..1, each row from its own seed."""
    import torch

    rows = torch.zeros(len(draws), limit)
    for row, draw in enumerate(draws):
        if draw.temperature > 0:
            stream = torch.Generator().manual_seed(draw.seed % (2**63))
            rows[row, : draw.max_tokens] = torch.rand(draw.max_tokens, generator=stream)
    return rows


def _pick(
    logits: torch.Tensor, temperature: torch.Tensor, top_p: torch.Tensor, chance: torch.Tensor, blocked: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token for each row by inverting its cumulative distribution, and its log-probability."""
    import torch

    logits = logits.float().clone()
    logits[:, blocked] = SUPPRESSED
    greedy = temperature[:, 0] <= 0
    logs = (logits / torch.where(temperature > 0, temperature, 1.0)).log_softmax(-1)
    if bool((top_p < 1).any()):
        ordered, order = logs.sort(-1, descending=True)
        before = ordered.exp().cumsum(-1) - ordered.exp()
        dropped = torch.zeros_like(logs, dtype=torch.bool).scatter(-1, order, before >= top_p)
        logs = logs.masked_fill(dropped, float("-inf")).log_softmax(-1)
    total = logs.exp().double().cumsum(-1)
    drawn = torch.searchsorted(total, chance.double()[:, None] * total[:, -1:], right=True)[:, 0]
    drawn = drawn.clamp(max=logits.shape[-1] - 1)
    token = torch.where(greedy, logits.argmax(-1), drawn)
    return token, logs.gather(-1, token[:, None])[:, 0]
