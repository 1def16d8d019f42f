"""The trainer's contract: gradients by hand, identities of method.md 3, methods by settings, resume."""

import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from rmsweb.config import RLConfig
from rmsweb.errors import ConfigError, RunError
from rmsweb.records import Candidate, Fate, Group
from rmsweb.salvage import prefix
from rmsweb.salvage.groups import Sampled, Scored, State, target, with_pictures
from rmsweb.salvage.trainer import SalvageDSConfig, SalvageDSTrainer
from tests.salvage.conftest import build_model, picture, png

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
COLOURS = ["red", "green", "blue", "black"]


def reply(colour: str) -> str:
    call = f'{{"name": "computer_use", "arguments": {{"action": "left_click", "coordinate": [{len(colour)}00, 200]}}}}'
    return f"Thought: look.\nAction: {colour} mug\n<tool_call>\n{call}\n</tool_call>"


def states(count: int = 4, images: int = 1, reference: bool = True) -> list[State]:
    made = []
    for i in range(count):
        parts = [{"type": "text", "text": f"Task: click {COLOURS[i % 4]} " + "mug " * i}]
        parts += [{"type": "image", "text": None}] * images  # type: ignore[list-item]
        pictures = tuple(png(picture(10 * i + j)) for j in range(images))
        text = reply(COLOURS[i % 4]) if reference else ""
        made.append(State(f"s{i}", [{"role": "user", "content": parts}], pictures, text))
    return made


def by_place(values: Sequence[float | None]) -> Callable[..., list[Scored]]:
    """A scorer that looks at nothing but the place in the group."""

    def score(number: int, texts: Sequence[str], cut: Sequence[bool]) -> list[Scored]:
        return [Scored(v, int(v is not None and v > 0), Candidate(raw=t)) for v, t in zip(values, texts, strict=True)]

    return score


def by_state(table: dict[int, Sequence[float | None]]) -> Callable[..., list[Scored]]:
    return lambda number, texts, cut: by_place(table[number])(number, texts, cut)


class Gradients(TrainerCallback):  # type: ignore[misc]
    """Keeps the gradients of the first update, before clipping."""

    def __init__(self) -> None:
        self.found: dict[str, torch.Tensor] = {}

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if not self.found:
            self.found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def rl(**more: Any) -> RLConfig:
    data: dict[str, Any] = {"group": 4, "steps": 1, "states_per_step": 4, "length_constant": 8} | more
    data.setdefault("optimizer", {"learning_rate": 1e-3, "max_grad_norm": 0.0, "warmup_steps": 0})
    return RLConfig.model_validate(data)


def trainer(
    tmp_path: Path,
    model: Any,
    processor: Any,
    config: RLConfig,
    scorer: Any,
    pool: list[State] | None = None,
    **more: Any,
) -> SalvageDSTrainer:
    options = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "save_strategy": "no"}
    options |= more.pop("arguments", {})
    arguments = SalvageDSConfig.from_rl(config, str(tmp_path / "out"), max_new_tokens=6, **options)
    return SalvageDSTrainer(model, arguments, processor, states() if pool is None else pool, scorer, **more)


def first_update(*arguments: Any, **more: Any) -> tuple[dict[str, torch.Tensor], dict[str, float], list[Group]]:
    """Gradients, logged figures and groups of one update."""
    grads, groups = Gradients(), list[Group]()
    made = trainer(*arguments, callbacks=[grads], on_groups=groups.extend, **more)
    made.train()
    return grads.found, made.state.log_history[0], groups


def close(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], tolerance: float) -> None:
    assert a.keys() == b.keys() and a
    largest = max(float(v.abs().max()) for v in b.values())
    assert largest > 100 * tolerance, "nothing is compared"
    for name in a:
        assert float((a[name] - b[name]).abs().max()) <= tolerance * max(1.0, largest), name


def by_hand(model: Any, processor: Any, config: RLConfig, coefficient: float) -> dict[str, torch.Tensor]:
    """Masked cross-entropy of every state's reference, written out: sum over tokens / (N * length constant)."""
    model.zero_grad()
    prefix.bar(model, prefix.barred_ids(processor.tokenizer))
    total = torch.zeros(())
    for one in states():
        aim = target(processor.tokenizer, one.reply, (), config.anchor)
        assert aim is not None
        prompt = processor.apply_chat_template(
            [with_pictures(one)], add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
        )
        ids = torch.cat([prompt["input_ids"], torch.tensor([aim.ids])], 1)
        types = torch.cat([prompt["mm_token_type_ids"], torch.zeros(1, len(aim.ids), dtype=torch.long)], 1)
        out = model(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            mm_token_type_ids=types,
            pixel_values=prompt["pixel_values"],
            image_grid_thw=prompt["image_grid_thw"],
        )
        logp = out.logits[0, -len(aim.ids) - 1 : -1].log_softmax(-1).gather(1, torch.tensor(aim.ids)[:, None])[:, 0]
        total = total - (logp * torch.tensor(aim.mask)).sum()
    (coefficient * total / (4 * 8)).backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_all_rejected_is_masked_cross_entropy_by_hand(
    tmp_path: Path, model: Any, processor: Any, shared: bool, accumulation: int, temperature: float
) -> None:
    """Also the anchor's temperature trap: it is cross-entropy at temperature 1, whatever the sampling temperature."""
    config = rl(shared_prefix=shared, accumulation=accumulation, temperature=temperature)
    expected = by_hand(build_model(processor), processor, config, config.anchor.weight)
    found, logged, groups = first_update(tmp_path, model, processor, config, by_place([-1.0] * 4))
    assert {g.fate for g in groups} == {Fate.ANCHORED} and {g.label for g in groups} == {"all_fail"}
    assert logged["loss/policy"] == 0 and logged["loss/anchor"] > 0
    assert logged["loss"] == pytest.approx(logged["loss/anchor"], rel=1e-3), "accumulation does not change the log"
    close(found, expected, 1e-6)


@pytest.mark.parametrize("which", ["call", "call+target", "reply"])
def test_anchor_gradient_is_zero_outside_the_action_tokens(model: Any, processor: Any, which: str) -> None:
    config = rl(anchor={"tokens": which})
    aim = target(processor.tokenizer, reply("red"), (), config.anchor)
    assert aim is not None
    text = processor.tokenizer.decode([t for t, m in zip(aim.ids, aim.mask, strict=True) if m])
    assert text.startswith({"call": "<tool_call>", "call+target": "Action: red", "reply": "Thought:"}[which])
    assert text.endswith("</tool_call><|im_end|>")
    assert sum(aim.mask) < len(aim.ids) or which == "reply"


def stock_gradients(tmp_path: Path, processor: Any, sampled: list[list[Sampled]], rewards: dict[int, Any]) -> Any:
    """TRL's own GRPOTrainer with loss_type dapo on the very same replies."""
    from datasets import Dataset

    pool, grads, model = states(), Gradients(), build_model(processor)
    order = [int(re.sub(r"\D", "", s.key)) for s in pool]
    rows = [{"prompt": _text_prompt(s), "images": _images(s), "state": i} for i, s in zip(order, pool, strict=True)]

    class Stock(GRPOTrainer):  # type: ignore[misc]
        def _generate_single_turn(self, *a: Any, **k: Any) -> Any:
            return [r.ids for group in sampled for r in group], None

    values = [v for i in range(4) for v in rewards[i]]
    made = Stock(
        model=model,
        reward_funcs=lambda completions, **k: values,
        processing_class=processor,
        train_dataset=Dataset.from_list(rows),
        callbacks=[grads],
        args=GRPOConfig(
            output_dir=str(tmp_path / "stock"),
            per_device_train_batch_size=16,
            num_generations=4,
            max_completion_length=6,
            max_steps=1,
            loss_type="dapo",
            scale_rewards="group",
            epsilon=0.2,
            epsilon_high=0.28,
            beta=0.0,
            max_grad_norm=0.0,
            shuffle_dataset=False,
            report_to="none",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            save_strategy="no",
            disable_tqdm=True,
        ),
    )
    prefix.bar(made.model, prefix.barred_ids(processor.tokenizer))
    made.train()
    return grads.found


def _text_prompt(state: State) -> list[dict[str, Any]]:
    # TRL puts pictures before the text of a string prompt; ours stand where the message has them.
    return [{"role": "user", "content": [dict(part) for part in state.messages[0]["content"]]}]


def _images(state: State) -> list[Any]:
    import io

    from PIL import Image

    return [Image.open(io.BytesIO(one)) for one in state.images]


@pytest.mark.parametrize("shared", [True, False])
def test_equals_dapo_under_its_settings(tmp_path: Path, model: Any, processor: Any, shared: bool) -> None:
    """Two poles, std on, c_lo 1, cluster rule off, token normaliser, lambda 0: TRL's DAPO loss to 1e-6."""
    rewards = {0: [1.0, -1, -1, -1], 1: [-1.0] * 4, 2: [1.0, 1, -1, 1], 3: [1.0] * 4}
    config = rl(
        shared_prefix=shared,
        normalize_std=True,
        length="token",
        gate={"c_lo": 1, "clusters": False},
        anchor={"weight": 0.0},
    )
    made = trainer(tmp_path, model, processor, config, by_state(rewards), callbacks=[grads := Gradients()])
    order = made.train_dataset["state"][:4]
    kept: list[Any] = []
    inner = made._sample

    def sample(numbers: list[int], encoded: Any) -> Any:
        outcome = inner(numbers, encoded)
        kept.extend(group for _, group in sorted(zip(numbers, outcome.sampled, strict=True), key=lambda p: p[0]))
        return outcome

    made._sample = sample
    made.train()
    assert sorted(order) == [0, 1, 2, 3]
    expected = stock_gradients(tmp_path, processor, kept, rewards)
    close(grads.found, expected, 1e-6)


def test_shared_and_plain_paths_give_the_same_update(tmp_path: Path, processor: Any) -> None:
    """Accepted, anchored and dropped groups, two pictures a prompt, rehearsal, KL: gradients equal to 1e-5."""
    rewards = {0: [1.0, 1, -1, -1], 1: [-1.0] * 4, 2: [1.0, None, 1, -1], 3: [1.0] * 4}
    found = []
    for shared in (True, False):
        config = rl(shared_prefix=shared, rehearsal=3)
        made = trainer(
            tmp_path,
            build_model(processor),
            processor,
            config,
            by_state(rewards),
            states(images=2),
            rehearsal=states(5),
            callbacks=[grads := Gradients()],
        )
        made._sample_plain = made._sample_shared if shared else lambda n, e, m=made: m._sample_shared(e)
        made.train()
        found.append(grads.found)
    close(found[0], found[1], 1e-5)


def test_rejected_groups_give_exactly_zero_policy_gradient(tmp_path: Path, model: Any, processor: Any) -> None:
    """S58, S61: no contrast anywhere and no anchor: loss 0 with a gradient path, nothing moves, nothing is NaN."""
    config = rl(anchor={"weight": 0.0}, kl=0.0)
    found, logged, groups = first_update(
        tmp_path, model, processor, config, by_place([-1.0] * 4), states(reference=False)
    )
    assert {g.fate for g in groups} == {Fate.DROPPED} and "no verified reference" in groups[0].reason
    assert logged["loss"] == 0 and found and not any(g.any() for g in found.values())


def test_unrewarded_groups_are_refused(tmp_path: Path, model: Any, processor: Any) -> None:
    found, logged, groups = first_update(tmp_path, model, processor, rl(), by_place([None, None, None, 1.0]))
    assert {g.label for g in groups} == {"too_few"} and not any(g.any() for g in found.values())
    assert logged["gate/too_few"] == 1 and logged["reply/no_reward"] == 0.75


def test_fates_and_figures_are_logged(tmp_path: Path, model: Any, processor: Any) -> None:
    rewards = {0: [1.0, 1, -1, -1], 1: [-1.0] * 4, 2: [1.0, -1, -1, -1], 3: [1.0] * 4}
    _, logged, groups = first_update(
        tmp_path, model, processor, rl(rehearsal=2), by_state(rewards), rehearsal=states(3)
    )
    assert {g.state_id: g.fate.value for g in groups} == {
        "s0": "accepted",
        "s1": "anchored",
        "s2": "anchored",
        "s3": "dropped",
    }
    wanted = {
        "gate/accepted": 0.25,
        "gate/all_fail": 0.25,
        "gate/low": 0.25,
        "fate/dropped": 0.25,
        "reply/right": 7 / 16,
    }
    assert {k: logged[k] for k in wanted} == pytest.approx(wanted)
    assert logged["sampling/logp_difference"] < 1e-5 and logged["loss/rehearsal"] > 0
    accepted = next(g for g in groups if g.fate is Fate.ACCEPTED)
    assert [c.advantage for c in accepted.candidates] == [1, 1, -1, -1] and accepted.step == 1


@pytest.mark.parametrize("method", ["grpo", "dapo", "ce_references", "rehearsal_only"])
def test_methods_by_settings(tmp_path: Path, processor: Any, method: str) -> None:
    rewards = {0: [1.0, -1, -1, -1], 1: [-1.0] * 4, 2: [1.0, 1, -1, -1], 3: [1.0] * 4}
    config = rl(method=method, rehearsal=2)
    _, logged, groups = first_update(
        tmp_path, build_model(processor), processor, config, by_state(rewards), rehearsal=states(3)
    )
    assert logged["loss/rehearsal"] > 0
    fates = [g.fate for g in sorted(groups, key=lambda g: g.state_id)]
    if method == "grpo":
        assert set(fates) == {Fate.ACCEPTED}
    elif method == "dapo":
        assert [f is Fate.ACCEPTED for f in fates] == [True, False, True, False]
    else:
        assert not groups and (logged["loss/anchor"] > 0) is (method == "ce_references")


def test_dapo_divides_by_live_groups(tmp_path: Path, processor: Any) -> None:
    rewards = {0: [1.0, 1, -1, -1], 1: [-1.0] * 4, 2: [1.0, 1, -1, -1], 3: [1.0] * 4}
    grpo, dapo = (
        first_update(tmp_path, build_model(processor), processor, rl(method=m), by_state(rewards))[0]
        for m in ("grpo", "dapo")
    )
    close({n: g / 2 for n, g in dapo.items()}, grpo, 1e-6)


def test_ce_references_is_cross_entropy_on_every_reference(tmp_path: Path, processor: Any) -> None:
    config = rl(method="ce_references", anchor={"tokens": "reply"})
    expected = by_hand(build_model(processor), processor, config, 1.0)
    found, _, _ = first_update(tmp_path, build_model(processor), processor, rl(method="ce_references"), by_place([]))
    close(found, expected, 1e-6)


@pytest.mark.parametrize("length", ["constant", "token", "sequence"])
def test_permuting_groups_and_merging_replies_change_nothing(tmp_path: Path, processor: Any, length: str) -> None:
    values = {i: [1.0, 1, -1, -1] for i in range(4)}
    found = []
    for flip in (False, True):
        made = trainer(tmp_path, build_model(processor), processor, rl(length=length), by_state(values))
        made.add_callback(grads := Gradients())
        fixed = [Sampled(ids, None, True) for ids in ([5, 6, 7], [5, 6, 7], [8, 9], [9])]
        picked = [fixed[1], fixed[0], fixed[2], fixed[3]] if not flip else fixed
        made._sample_shared = lambda encoded, p=picked: [p for _ in encoded]
        made.train()
        found.append(grads.found)
    close(found[0], found[1], 1e-6)


def run_steps(
    folder: Path, processor: Any, steps: int, resume: bool, **more: Any
) -> tuple[Any, list[Group], list[float]]:
    groups: list[Group] = []
    config = rl(
        steps=4, states_per_step=2, save_steps=2, rehearsal=1, optimizer={"learning_rate": 1e-2, "warmup_steps": 1}
    )
    made = trainer(
        folder,
        build_model(processor),
        processor,
        config,
        lambda number, texts, cut: by_place([1.0, 1, -1, -1] if number % 2 else [-1.0] * 4)(number, texts, cut),
        rehearsal=states(3),
        on_groups=groups.extend,
        arguments={"save_strategy": "steps"},
        **more,
    )

    class Stop(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = state.global_step >= steps

    made.add_callback(Stop())
    made.train(resume_from_checkpoint=str(folder / "out" / "checkpoint-2") if resume else None)
    return made.model, groups, [h["loss"] for h in made.state.log_history if "loss" in h]


@pytest.mark.parametrize("lose_random_state", [False, True])
def test_resumed_training_equals_uninterrupted_s66_s70(tmp_path: Path, processor: Any, lose_random_state: bool) -> None:
    whole, groups, losses = run_steps(tmp_path / "a", processor, 4, resume=False)
    run_steps(tmp_path / "b", processor, 2, resume=False)
    if lose_random_state:  # sampling is seeded by the update's number and does not need it
        (tmp_path / "b" / "out" / "checkpoint-2" / "rng_state.pth").unlink()
    resumed, later, losses_resumed = run_steps(tmp_path / "b", processor, 4, resume=True)
    assert [g for g in groups if g.step > 2] == later and losses_resumed == losses
    for (name, a), (_, b) in zip(whole.named_parameters(), resumed.named_parameters(), strict=True):
        assert torch.equal(a, b), name


def test_a_loss_that_is_no_number_stops_before_a_checkpoint(tmp_path: Path, model: Any, processor: Any) -> None:
    with torch.no_grad():
        model.model.language_model.norm.weight[0] = math.inf
    with pytest.raises(RunError, match="update 1"):
        first_update(tmp_path, model, processor, rl(method="ce_references"), by_place([]))


def test_blind_trainer_is_refused_s62(tmp_path: Path, model: Any, processor: Any) -> None:
    made = trainer(tmp_path, model, processor, rl(method="ce_references"), by_place([]))
    for parameter in model.model.visual.parameters():
        torch.nn.init.zeros_(parameter)
    with pytest.raises(RunError, match="blind"):
        made.train()


def test_settings_that_do_not_fit(tmp_path: Path, model: Any, processor: Any) -> None:
    with pytest.raises(ConfigError, match="accumulation"):
        SalvageDSConfig.from_rl(rl(states_per_step=3, accumulation=2), str(tmp_path))
    with pytest.raises(ConfigError, match="no state"):
        trainer(tmp_path, model, processor, rl(), by_place([]), [])
    with pytest.raises(ConfigError, match="rehearsal"):
        trainer(tmp_path, model, processor, rl(rehearsal=2), by_place([]))
    with pytest.raises(ConfigError, match="muon"):
        SalvageDSConfig.from_rl(rl(optimizer={"muon": True}), str(tmp_path))


def test_sampled_ids_are_never_encoded_again_s65(tmp_path: Path, model: Any, processor: Any) -> None:
    """A reply sampled as two tokens that the tokenizer would write as one stays two in the update."""
    tokenizer = processor.tokenizer
    whole = tokenizer("Action", add_special_tokens=False)["input_ids"]
    pieces = [
        tokenizer("A", add_special_tokens=False)["input_ids"][0],
        *tokenizer("ction", add_special_tokens=False)["input_ids"],
    ]
    assert tokenizer.decode(whole) == tokenizer.decode(pieces) and whole != pieces
    made = trainer(tmp_path, model, processor, rl(), by_place([1.0, 1, -1, -1]))
    made._sample_shared = lambda encoded: [[Sampled(pieces, None, True)] * 2 + [Sampled(whole, None, True)] * 2] * 4
    seen = made._micro_batches([0, 1, 2, 3])[0]["completion_ids"].tolist()
    assert pieces in [row[: len(pieces)] for row in seen]


@pytest.mark.slow
@pytest.mark.parametrize("path", ["shared", "plain"])
def test_two_processes_make_the_update_of_one(tmp_path: Path, path: str) -> None:
    """DDP over gloo: groups, divisors, anchors and rehearsal are split, the gradient is not changed."""
    environment = {**os.environ, "PYTHONPATH": f"src{os.pathsep}.", "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parent.parent.parent
    module = ["-m", "tests.salvage.two_processes"]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    for name, start in (("one", []), ("two", launch)):
        command = [sys.executable, *start, *module, str(tmp_path / name), path]
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr[-3000:]
    one, two = (torch.load(tmp_path / name) for name in ("one", "two"))
    assert one.pop("groups") == two.pop("groups") == 4, "the main process gets every group"
    close(two, one, 1e-6)
