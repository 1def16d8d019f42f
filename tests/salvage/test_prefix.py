"""One prompt pass per group equals repeated rows, in log-probabilities and in gradients."""

from typing import Any

import pytest
import torch

from rmsweb.salvage.prefix import Encoded, Prompts, bar, barred_ids, collapse_images, collate, encode, sample, score
from tests.salvage.conftest import messages, picture

CPU = torch.device("cpu")


def prompts_of(processor: Any, model: Any, counts: list[int]) -> list[Encoded]:
    made = []
    for i, count in enumerate(counts):
        images = [picture(10 * i + j, (96, 64) if j % 2 else (64, 96)) for j in range(count)]
        made.append(encode(processor, model, messages(f"Task: click the {'green ' * i}button", *images)))
    return made


def plain(model: Any, prompt: Encoded, ids: list[int], temperature: float) -> torch.Tensor:
    """The ordinary forward of one row, without padding, cache or mask of ours."""
    full = torch.cat([prompt.ids, torch.tensor(ids)])[None]
    types = torch.cat([prompt.types, torch.zeros(len(ids), dtype=torch.long)])[None]
    pictures = {} if prompt.pixels is None else {"pixel_values": prompt.pixels, "image_grid_thw": prompt.grids}
    logits = model(input_ids=full, attention_mask=torch.ones_like(full), mm_token_type_ids=types, **pictures).logits
    logp = torch.log_softmax(logits[0, len(prompt.ids) - 1 : -1].float() / temperature, -1)
    return logp.gather(1, torch.tensor(ids)[:, None])[:, 0]


def first_probabilities(model: Any, prompt: Encoded) -> torch.Tensor:
    """Of the first token of a reply."""
    ids, pictures = prompt.ids[None], {"pixel_values": prompt.pixels, "image_grid_thw": prompt.grids}
    with torch.no_grad():
        out = model(
            input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=prompt.types[None], **pictures
        )
    return out.logits[0, -1].softmax(-1)


def padded(replies: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, replies))
    ids, mask = torch.zeros(len(replies), width, dtype=torch.long), torch.zeros(len(replies), width, dtype=torch.long)
    for i, reply in enumerate(replies):
        ids[i, : len(reply)], mask[i, : len(reply)] = torch.tensor(reply), 1
    return ids, mask


@pytest.mark.parametrize("counts", [[1, 1, 1], [1, 3, 2], [0, 2, 0], [0, 0, 0]])
def test_scores_and_gradients_equal_plain_rows(processor: Any, model: Any, counts: list[int]) -> None:
    """S63: each row keeps its own pictures, whatever their number."""
    encoded = prompts_of(processor, model, counts)
    dice = torch.Generator().manual_seed(1)
    slots = [0, 0, 0, 1, 2, 2]
    lengths = [5, 1, 7, 4, 2, 6]
    replies = [torch.randint(0, 300, (n,), generator=dice).tolist() for n in lengths]
    temperatures = torch.tensor([1.0, 0.7, 1.3, 1.0, 1.0, 0.5])
    weights = torch.randn(len(replies), max(lengths), generator=dice)

    expected = [plain(model, encoded[s], r, float(t)) for s, r, t in zip(slots, replies, temperatures, strict=True)]
    sum((e * weights[i, : len(e)]).sum() for i, e in enumerate(expected)).backward()  # type: ignore[union-attr]
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()

    ids, mask = padded(replies)
    found = score(model, collate(encoded, 0, CPU), slots, ids, mask, temperatures)
    for i, row in enumerate(expected):
        torch.testing.assert_close(found.logps[i, : len(row)], row, atol=1e-5, rtol=0)
        assert not found.logps[i, len(row) :].any()
    (found.logps * weights).sum().backward()
    for name, parameter in model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-5, rtol=1e-4, msg=name)
        else:
            assert parameter.grad is None or not parameter.grad.any()


def draw(model: Any, prompts: Prompts, seed: int = 3, **more: Any) -> Any:
    settings = {"max_new_tokens": 6, "temperature": 0.9, "stop": [2]} | more
    return sample(model, prompts, 4, generator=torch.Generator().manual_seed(seed), **settings)


def test_sampled_log_probabilities_are_the_plain_ones(processor: Any, model: Any) -> None:
    encoded = prompts_of(processor, model, [1, 2])
    groups = draw(model, collate(encoded, 0, CPU))
    assert [len(g) for g in groups] == [4, 4]
    for prompt, group in zip(encoded, groups, strict=True):
        for reply in group:
            expected = plain(model, prompt, reply.ids, 0.9)
            torch.testing.assert_close(torch.tensor(reply.logprobs), expected, atol=1e-5, rtol=0)
    assert draw(model, collate(encoded, 0, CPU)) == groups, "the generator decides"


def test_replies_stop_at_the_end_mark_and_say_when_they_are_cut(processor: Any, model: Any) -> None:
    encoded = prompts_of(processor, model, [1])
    group = draw(model, collate(encoded, 0, CPU), temperature=4.0)[0]
    first = group[0].ids[0]
    stopped = draw(model, collate(encoded, 0, CPU), stop=[first], temperature=4.0)[0]
    assert stopped[0].ids == [first] and not stopped[0].truncated
    assert all(r.truncated == (r.ids[-1] != first) and len(r.ids) <= 6 for r in stopped)
    assert any(r.truncated and len(r.ids) == 6 for r in stopped)


def test_sampling_follows_the_distribution(processor: Any, model: Any) -> None:
    encoded = prompts_of(processor, model, [1])
    torch.manual_seed(0)
    expected = first_probabilities(model, encoded[0])
    many = sample(model, collate(encoded, 0, CPU), 4000, max_new_tokens=1, temperature=1.0, stop=[])[0]
    counts = torch.bincount(torch.tensor([r.ids[0] for r in many]), minlength=len(expected)) / 4000
    assert (counts - expected).abs().max() < 0.03


def test_picture_tokens_are_barred_in_sampling_generation_and_loss_s64(processor: Any, model: Any) -> None:
    tokenizer = processor.tokenizer
    ids = barred_ids(tokenizer)
    assert len(ids) == 5
    encoded = prompts_of(processor, model, [1])
    assert first_probabilities(model, encoded[0])[ids].min() > 0
    bar(model, ids)
    assert first_probabilities(model, encoded[0])[ids].max() == 0
    many = sample(model, collate(encoded, 0, CPU), 2000, max_new_tokens=1, temperature=2.0, stop=[])[0]
    assert not {r.ids[0] for r in many} & set(ids)
    assert not any("bias" in name for name in model.state_dict() if "lm_head" in name)
    prompt = encoded[0]
    generated = model.generate(
        input_ids=prompt.ids[None].expand(50, -1),
        attention_mask=torch.ones(50, len(prompt.ids)),
        mm_token_type_ids=prompt.types[None].expand(50, -1),
        pixel_values=prompt.pixels.repeat(50, 1),  # type: ignore[union-attr]
        image_grid_thw=prompt.grids.repeat(50, 1),  # type: ignore[union-attr]
        do_sample=True,
        temperature=5.0,
        max_new_tokens=4,
    )
    assert not set(generated[:, len(prompt.ids) :].flatten().tolist()) & set(ids)


def test_a_picture_changes_the_trainers_log_probabilities_s62(processor: Any, model: Any) -> None:
    red, blue = (encode(processor, model, messages("click", picture(seed))) for seed in (1, 2))
    prompts = collate([red, blue], 0, CPU)
    ids, mask = padded([[5, 6], [5, 6]])
    found = score(model, prompts, [0, 1], ids, mask, torch.ones(2)).logps
    assert (found[0] - found[1]).abs().max() > 1e-4


def test_collapse_images_leaves_one_placeholder_a_picture() -> None:
    assert collapse_images([1, 9, 9, 9, 2, 1, 9, 9, 2, 3, 9], 9) == [1, 9, 2, 1, 9, 2, 3, 9]
    assert collapse_images([9, 9], 9) == [9] and collapse_images([], 9) == []
