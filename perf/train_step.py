"""How long one update of Part 3 takes: 32 states x 8 replies on the tiny architecture, one thread.

    PYTHONPATH=src python perf/train_step.py [--plain] [--updates 6] [--checkpoint DIRECTORY] [--profile]

Prints CPU seconds an update, all in: sampling, scoring, loss, optimizer (other work on the machine hardly shows).
Fates are fixed (12 accepted, 7 anchored, 13 dropped, as at a start of .65 right replies). With random weights (the
default) every reply is cut at 12 tokens and no two are equal: the worst case.
"""

import argparse
import cProfile
import io
import itertools
import pstats
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from typing import Any

GROUPS, SIZE, TOKENS = 32, 8, 12
RIGHT = [4] * 12 + [0] * 7 + [8] * 13


def picture(seed: int) -> bytes:
    """A 320x224 page of coloured boxes."""
    from PIL import Image, ImageDraw

    dice, buffer = random.Random(seed), io.BytesIO()
    image = Image.new("RGB", (320, 224), "white")
    draw = ImageDraw.Draw(image)
    for _ in range(10):
        x, y = dice.randrange(10) * 32, dice.randrange(7) * 32
        draw.rectangle([x, y + 2, x + 90, y + 30], fill=tuple(dice.randrange(256) for _ in range(3)))
    image.save(buffer, "png")
    return buffer.getvalue()


def states(count: int) -> list[Any]:
    """Prompts as long as the compact profile's."""
    from rmsweb.salvage.groups import State

    call = '{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [250, 200]}}'
    reply = f"Action: red mug\n<tool_call>\n{call}\n</tool_call>"
    text = "Task: add red mug to cart\nDone: click mug; type mug search *"
    message = {"role": "user", "content": [{"type": "text", "text": text}, {"type": "image", "text": None}]}
    return [State(f"s{i}", [message], (picture(i),), reply) for i in range(count)]


def scored(number: int, texts: Sequence[str], cut: Sequence[bool]) -> list[Any]:
    """Fixed fates."""
    from rmsweb.records import Candidate
    from rmsweb.salvage.groups import Scored

    right = RIGHT[number % GROUPS]
    return [Scored(1.0 if i < right else -1.0, int(i < right), Candidate(raw=t)) for i, t in enumerate(texts)]


def build(plain: bool, updates: int, checkpoint: str, folder: str) -> Any:
    """The trainer, and a list that gets the time of every update."""
    from transformers import PrinterCallback, TrainerCallback

    from rmsweb.config import OptimizerConfig, RLConfig
    from rmsweb.salvage.trainer import SalvageDSConfig, SalvageDSTrainer
    from rmsweb.train.tiny import build_model, fast_vision, load_model

    if checkpoint:
        model, processor = load_model(checkpoint)
    else:
        from rmsweb.train.processor import build_processor
        from rmsweb.train.tokenizer import build_tokenizer

        processor = build_processor(build_tokenizer())
        model = build_model(processor.tokenizer)
        fast_vision(model)
    rl = RLConfig(steps=updates, group=SIZE, states_per_step=GROUPS, rehearsal=16, shared_prefix=not plain)
    rl = rl.model_copy(update={"optimizer": OptimizerConfig(learning_rate=1e-6)})
    options = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "save_strategy": "no"}
    arguments = SalvageDSConfig.from_rl(rl, folder, max_new_tokens=TOKENS, **options)
    times: list[float] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(time.process_time())

    pool = states(2 * GROUPS)
    trainer = SalvageDSTrainer(model.train(), arguments, processor, pool, scored, rehearsal=pool, callbacks=[Clock()])
    trainer.remove_callback(PrinterCallback)
    return trainer, times


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--plain", action="store_true", help="repeat the prompt for every reply, as TRL does")
    options.add_argument("--updates", type=int, default=6)
    options.add_argument("--checkpoint", default="")
    options.add_argument("--profile", action="store_true")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trainer, times = build(chosen.plain, chosen.updates, chosen.checkpoint, folder)
        profile = cProfile.Profile()
        if chosen.profile:
            profile.enable()
        trainer.train()
        profile.disable()
    each = [b - a for a, b in itertools.pairwise(times[1:])]  # the first two fill the prompt cache
    mean = sum(each) / len(each)
    sys.stdout.write(f"{mean:.2f} CPU s an update (min {min(each):.2f}, max {max(each):.2f}); {len(each)} updates\n")
    if chosen.profile:
        pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    main()
