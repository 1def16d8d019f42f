"""Synthetic but whole runs for exam, report and viewer tests: real PNG pictures, real records, real run directories."""

import io
import random
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from rmsweb.actions import Answer, Drag, LeftClick, Point, Scroll, SelectOption, Terminate, Type
from rmsweb.config import Config
from rmsweb.records import (
    Box,
    Candidate,
    Decision,
    Effect,
    Element,
    Fate,
    Group,
    Observation,
    Outcome,
    Reflection,
    Step,
    Stop,
    Task,
    Trajectory,
    Verdict,
)
from rmsweb.store import Images, Run

VIEWPORT = (320, 224)
TEMPLATES = ("add", "price", "comment", "book")
SITES = {"add": "shop", "price": "shop", "comment": "forum", "book": "booking"}


@lru_cache(maxsize=4096)
def picture(text: str, shade: int = 255) -> bytes:
    """A small page-like PNG with a label on it."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", VIEWPORT, (shade, shade, 255))
    draw = ImageDraw.Draw(image)
    for row in range(1, 6):
        draw.rectangle((8, 32 * row, 130, 32 * row + 26), fill=(34, 51, 68) if row % 2 else (220, 226, 240))
    draw.text((10, 8), text, fill=(20, 20, 20))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def task(i: int, split: str = "heldout", template: str = "") -> Task:
    name = template or TEMPLATES[i % len(TEMPLATES)]
    site = SITES.get(name, "shop")
    return Task.model_validate(
        {
            "id": f"sites/{site}/{name}/{i}",
            "suite": "sites",
            "site": site,
            "template": name,
            "split": split,
            "goal": f"{name} the red mug number {i}",
            "seed": i,
            "max_steps": 8,
        }
    )


def trajectory(
    images: Images,
    task: Task,
    steps: int,
    *,
    model: str = "sft",
    success: bool = True,
    attempt: int = 0,
    stop: Stop | None = None,
    arm: str | None = None,
    advice: str = "",
) -> Trajectory:
    """A whole episode with pictures; ends with an answer unless `stop` says otherwise."""
    seen = [
        Observation(
            image=images.put(picture(f"{task.id} page {k}", 255 - 3 * k)), url=f"http://127.0.0.1/{k}", title="T"
        )
        for k in range(steps + 1)
    ]
    mug = Element(role="link", name="red <mug>", box=Box(x=8, y=64, width=122, height=26), selector="a:nth(1)")
    kinds = (
        LeftClick(point=Point(x=24, y=77)),
        Type(text="mug", point=Point(x=60, y=110), press_enter=True),
        Scroll(dy=120, point=Point(x=160, y=112)),
        SelectOption(point=Point(x=60, y=140), text="twin"),
        Drag(start=Point(x=30, y=40), point=Point(x=200, y=180)),
    )
    done = []
    for k in range(steps):
        last = k == steps - 1
        action = kinds[k % len(kinds)]
        if last and stop in (None, Stop.ANSWERED):
            action = Answer(text="12" if success else "99")
        if last and stop is Stop.GAVE_UP:
            action = Terminate(status="failure")
        decision = Decision(
            thought=f"I see page {k} <script>alert(1)</script>",
            intent="red mug",
            action=action,
            raw="raw",
            prompt_tokens=100,
            completion_tokens=20,
        )
        effect = Effect(
            hit=mug if k == 0 else None, changed=k % 3 != 2, moved=0 if isinstance(action, Scroll) else None
        )
        done.append(Step(index=k, before=seen[k], decision=decision, effect=effect, after=seen[k + 1]))
    prefix = f"{arm if arm is not None else model}/" if (arm is not None or model) else ""
    return Trajectory(
        id=f"{prefix}{task.id}#{attempt}",
        task=task,
        attempt=attempt,
        policy=model,
        steps=tuple(done),
        answer="12" if success else "99",
        stop=stop or Stop.ANSWERED,
        advice=advice,
        viewport=VIEWPORT,
        coordinates="compact",
        wall_s=0.5 * steps,
    )


def verdict(t: Trajectory, success: bool | None, reason: str = "") -> Verdict:
    return Verdict(
        success=success,
        judge="rules/sites",
        reason=reason or ("cart has it" if success else "cart empty"),
        trajectory_id=t.id,
        first_error=None if success else 1,
        unjudged="" if success is not None else "no_verdict",
    )


def collect_run(path: Path, arm: str, rates: Sequence[float], count: int = 24, seed: int = 0) -> Path:
    """A collection run: `rates[k]` is the chance that attempt k solves a task that is still open."""
    config = Config.model_validate({"seed": seed, "collect": {"arm": arm, "retries": len(rates) - 1}})
    with Run.open(path, "collect", config) as run:
        for i in range(count):
            one = task(i, split="train")
            for attempt, rate in enumerate(rates):
                draw = random.Random(f"{arm}{seed}{i}{attempt}")
                won = draw.random() < rate
                t = trajectory(
                    run.images,
                    one,
                    draw.randint(2, 5 if arm == "reflect" else 6),
                    model="explorer",
                    arm=arm,
                    success=won,
                    attempt=attempt,
                    stop=None if won else Stop.STEP_LIMIT,
                    advice="open search first" if attempt and arm == "reflect" else "",
                )
                run.append("trajectory", t)
                run.append("verdict", verdict(t, won))
                if won:
                    break
                if arm == "reflect" and attempt + 1 < len(rates):
                    run.append(
                        "reflection",
                        Reflection(
                            trajectory_id=t.id,
                            outcome=Outcome.FAILURE,
                            first_bad_step=1,
                            code="navigation",
                            evidence=(0, 1),
                            cause="the <b>wrong</b> link was opened",
                            lesson="look at the second page",
                            plan="open search, type mug",
                            author="rules",
                        ),
                    )
        run.finish(trajectories=len(run.read("trajectory", Trajectory)))
    return path


def sft_run(path: Path) -> Path:
    with Run.open(path, "sft", Config()) as run:
        for step in range(0, 200, 5):
            run.log(
                {"step": step, "loss": 2.5 * 0.98**step + 0.05 * random.Random(step).random(), "learning_rate": 1e-3}
            )
        run.finish(steps=200)
    return path


def rl_run(path: Path, steps: int = 24, groups: int = 16) -> Path:
    with Run.open(path, "rl", Config()) as run:
        for step in range(steps):
            right = 0.45 + 0.35 * step / steps
            for g in range(groups):
                draw = random.Random(f"{step}-{g}")
                won = sum(draw.random() < right for _ in range(8)) if draw.random() > 0.2 else draw.choice([0, 1, 8])
                label = "all_fail" if won == 0 else "low" if won == 1 else "all_pass" if won == 8 else "accepted"
                fate = {"accepted": Fate.ACCEPTED, "all_pass": Fate.DROPPED}.get(label, Fate.ANCHORED)
                candidates = tuple(Candidate(raw="", reward=1.0 if k < won else -1.0) for k in range(8))
                run.append(
                    "group",
                    Group.model_validate(
                        {"state_id": f"s{g}", "step": step, "candidates": candidates, "label": label, "fate": fate}
                    ),
                )
            run.log({"step": step, "loss": 0.1, "reward": 2 * right - 1})
        run.finish(steps=steps)
    return path


def eval_run(path: Path, rates: dict[str, float], count: int = 60, controls: str = "", seed: int = 0) -> Path:
    """An exam: each model solves an easy task before a hard one; `controls` is tried blank and swapped."""
    with Run.open(path, "eval", Config(seed=seed)) as run:
        played = [(name, rate, count) for name, rate in rates.items()]
        if controls:
            played += [(f"{controls}+{kind}", 0.02, count // 4) for kind in ("blank", "swapped")]
        for name, rate, n in played:
            for i in range(n):
                draw = random.Random(f"{seed}-{i}")
                hard = 0.75 * draw.random() + 0.25 * random.Random(f"{seed}-{i}-{name}").random()
                won: bool | None = hard < rate
                steps = draw.randint(2, 5) + (0 if won else 1)
                stop = (
                    None
                    if won
                    else draw.choice([Stop.STEP_LIMIT, Stop.ANSWERED, Stop.NO_PROGRESS, Stop.INVALID_OUTPUT])
                )
                if draw.random() < 0.02:
                    won, stop = None, Stop.ANSWERED
                t = trajectory(run.images, task(i), steps, model=name, success=bool(won), stop=stop)
                run.append("trajectory", t)
                run.append("verdict", verdict(t, won))
        run.finish(trajectories=sum(n for _, _, n in played))
    return path


def demo_folder(path: Path, count: int = 12) -> Path:
    """Every stage of a demo; `count` tasks each."""
    collect_run(path / "collect", "reflect", (0.5, 0.45, 0.3), count)
    collect_run(path / "collect-plain", "plain", (0.5, 0.3, 0.2), count)
    sft_run(path / "sft")
    rl_run(path / "rl")
    eval_run(path / "eval-sft", {"base": 0.05, "sft": 0.6}, count)
    eval_run(path / "eval-rl", {"sft_continued": 0.62, "rl": 0.72}, count, controls="rl")
    return path
