"""Looks whether this machine and a recipe's endpoints can do what rmsweb needs, and names the cure where not.

Owns the checks: browser, disk, the recipe's task file and judge, and for each endpoint of the recipe: does it answer,
how does it split thinking, can our reader read its reply, how many pictures does it take, what does a picture cost,
does it add a hidden system prompt. A judge is asked as a judge, and is read by its protocol.
Never changes anything; asks an endpoint for a handful of short replies.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import NamedTuple

from rmsweb.actions import Viewport
from rmsweb.bench.judges import build, trial
from rmsweb.bench.judges.asking import Pictures
from rmsweb.chat import EndpointModel, Message, Part, Reply
from rmsweb.config import Config, ModelConfig, ProfileConfig
from rmsweb.errors import EndpointError, RmswebError
from rmsweb.policy import picture_limit, read_decision, render_messages
from rmsweb.records import Observation, Task
from rmsweb.replies import resized_size

FREE_GB = 2.0
"""Free disk below which a run may stop halfway."""
REPLY_TOKENS = 1024


@dataclass(slots=True, frozen=True)
class Check:
    """One row. `ok` None: a remark, neither good nor bad."""

    name: str
    ok: bool | None
    detail: str
    cure: str = ""


def show(config: Config, probe: bool) -> int:
    """Writes the rows to standard output; 0 when nothing failed, else 1. `probe`: only the tiny model's reading."""
    rows = [reading_check(config)] if probe else asyncio.run(check_all(config))
    for row in rows:
        mark = "--" if row.ok is None else "ok" if row.ok else "NO"
        sys.stdout.write(f"{mark}  {row.name}: {row.detail}\n" + (f"    -> {row.cure}\n" if row.cure else ""))
    return int(any(row.ok is False for row in rows))


async def check_all(config: Config) -> list[Check]:
    """All checks of a recipe; endpoints only where the recipe names them."""
    rows = [browser_check(config), disk_check(Path.cwd())]
    if config.suite.name == "file" and config.suite.path:
        rows.append(tasks_check(config, date.today()))
    if (judge := judge_check(config)) is not None:
        rows.append(judge)
    judged = config.judge.protocol != "rules" and config.judge.model.kind == "endpoint"
    named = endpoints(config)
    if not named and not judged:
        rows.append(Check("endpoint", None, "the recipe names none (give -c, or --set policy.name=... to check one)"))
    for one in named:
        rows += await endpoint_checks(one.model, config.profile, acts=one.acts)
    if judged:
        rows += await judge_endpoint_checks(config)
    return rows


class Asked(NamedTuple):
    """An endpoint that is no judge."""

    model: ModelConfig
    acts: bool
    """It plays episodes; else it writes text (reflections)."""


def endpoints(config: Config) -> list[Asked]:
    """The endpoints that a recipe names and its stages would ask, the judge's apart; the default of an unset section is
    not one."""
    wanted: list[Asked] = []
    if "policy" in config.model_fields_set:
        wanted.append(Asked(config.policy, True))
    if "policy" in config.collect.model_fields_set:
        wanted.append(Asked(config.collect.policy, True))
    if config.collect.reflector == "chat":
        wanted.append(Asked(config.collect.reflector_model, False))
    found: dict[tuple[str, str], Asked] = {}
    for one in wanted:
        if one.model.kind == "endpoint":
            found.setdefault((one.model.base_url, one.model.name), one)
    return list(found.values())


def browser_check(config: Config) -> Check:
    """A Chromium is found and says its version."""
    from rmsweb.web.chromium import find_executable, sandbox_note

    try:
        path = find_executable(config.browser.executable)
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
    except RmswebError as error:
        return Check("browser", False, "no Chromium found", str(error))
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("browser", False, f"does not start: {error}", "name another one in browser.executable")
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        detail = f"{path} ends with {done.returncode}: {said[-1] if said else 'no message'}"
        return Check("browser", False, detail, "install the libraries it misses ('playwright install-deps chromium')")
    note = sandbox_note(config.browser.sandbox)
    return Check("browser", True, f"{done.stdout.strip()} at {path}" + (f" ({note})" if note else ""))


def disk_check(folder: Path) -> Check:
    """Room for a run's pictures."""
    free = shutil.disk_usage(folder).free / 1e9
    cure = "" if free >= FREE_GB else f"a run of a few hundred episodes needs about {FREE_GB:g} GB"
    return Check("disk", free >= FREE_GB, f"{free:.1f} GB free at {folder}", cure)


def tasks_check(config: Config, today: date) -> Check:
    """What the recipe's task file is, how many of its tasks have dates that have passed, and whose reference answer,
    where upstream's file of them lies beside it, is to another text."""
    from rmsweb import tasksets
    from rmsweb.tasksets import references
    from rmsweb.tasksets.dates import dated
    from rmsweb.tasksets.taskset import named

    name = "task file"
    try:
        found = tasksets.load(config.suite.path, search_url=config.browser.search_url)
        answers = references.beside(Path(config.suite.path)) if found.name == "webvoyager" else None
        beside = f"; {references.described(found, answers)}" if answers is not None else ""
    except RmswebError as error:
        path = Path(config.suite.path)
        cure = "'rmsweb tasks list' names the files that rmsweb reads" if path.exists() else tasksets.how_to_get(path)
        return Check(name, False, str(error), cure)
    passed = dated(found.tasks, today)
    if not passed:
        return Check(name, True, f"{found.label}; no task has a date before {today}{beside}")
    detail = f"{found.label}; {len(passed)} have dates before {today}: {named(one.id for one in passed)}{beside}"
    return Check(name, None, detail, "they cannot be done as they are worded: patch them, or leave them out and say so")


def judge_check(config: Config) -> Check | None:
    """Whether the recipe's judge can be built: a known protocol, with its wording. None: rules of a suite with rules.

    Asks nothing; whether the judge's endpoint answers is another check.
    """
    name, settings = "judge", config.judge
    if settings.protocol == "rules":
        if config.suite.name != "file":
            return None
        cure = "set judge.protocol (docs/exams.md lists the protocols)"
        return Check(name, False, "tasks from a file have no rules that could judge them", cure)
    try:
        built = build(settings, None, {}, model_name=settings.model.name)
    except RmswebError as error:
        return Check(name, False, str(error), "see docs/exams.md")
    return Check(name, True, built.name)


def reading_check(config: Config) -> Check:
    """Whether this machine's Chromium renders what the shipped tiny model can read."""
    try:
        from rmsweb.train.probe import reading_probe
        from rmsweb.train.tiny import load_model

        model, processor = load_model("tiny")
        found = reading_probe(model, processor, executable=config.browser.executable)
    except (RmswebError, ImportError) as error:
        return Check("reading probe", False, "the tiny model cannot be asked", str(error))
    detail = f"{found['browser']:.0%} right in Chromium, {found['drawn']:.0%} as drawn, of {found['pages']} pages"
    cure = "" if found["ok"] else "fonts render differently here: make a base of your own with 'rmsweb pretrain'"
    return Check("reading probe", bool(found["ok"]), detail, cure)


async def endpoint_checks(config: ModelConfig, profile: ProfileConfig, *, acts: bool = True) -> list[Check]:
    """What one endpoint does with our requests. `acts`: it plays episodes, so its reply has to be an action."""
    images = dict(trial.page_picture(profile.viewport, k) for k in range(picture_limit(profile) or 1))
    model = EndpointModel(config.model_copy(update={"attempts": 1}), images)
    where = f"{config.name} at {config.base_url}"
    try:
        try:
            plain = (await model.complete([_ask(["Say yes."])], max_tokens=16))[0]
        except EndpointError as error:
            return [Check("endpoint", False, str(error), "start the server, or correct base_url, name and api_key_env")]
        rows = [Check("endpoint", True, f"{where} answers")]
        rows.append(await _hidden_prompt(model, plain))
        if picture_limit(profile):
            rows += await _pictures(model, list(images), profile, plain)
        if acts:
            rows += await _own_prompt(model, next(iter(images)), profile)
        return rows
    finally:
        await model.close()


async def judge_endpoint_checks(config: Config) -> list[Check]:
    """What the judge's endpoint does with a judge's questions: as many pictures as the protocol sends at most, and one
    small attempt, read as the protocol reads it. A judge that cannot be built is only asked whether it answers."""
    settings = config.judge
    try:
        most = await trial.most_pictures(settings, config.eval.max_steps or config.episode.max_steps)
    except RmswebError:
        most = -1  # why stands in the row of `judge_check`
    viewport = config.profile.viewport
    images = Pictures(dict(trial.page_picture(viewport, k) for k in range(max(most, 2))))
    model = trial.Overheard(EndpointModel(settings.model.model_copy(update={"attempts": 1}), images))
    try:
        try:
            said = (await model.complete([_ask(["Say yes."])], max_tokens=REPLY_TOKENS))[0]
        except EndpointError as error:
            cure = "correct judge.model: base_url, name, api_key_env, parameters (reasoning: o-series, gpt-5)"
            return [Check("judge endpoint", False, str(error), cure)]
        if said.finish in ("empty", "refused"):
            detail = f"{settings.model.name} at {settings.model.base_url} answers with nothing in it ({said.finish})"
            return [Check("judge endpoint", False, detail, "look at the server's log; is the name a chat model's?")]
        rows = [Check("judge endpoint", True, f"{settings.model.name} at {settings.model.base_url} answers")]
        if most < 0:
            return rows
        if most:
            try:
                said = (await model.complete([_ask(["Say yes.", *list(images)[:most]])], max_tokens=REPLY_TOKENS))[0]
            except EndpointError as error:
                cure = f"vLLM: --limit-mm-per-prompt '{{\"image\": {most}}}'; or fewer by judge.images, named in scores"
                detail = f"a question with {most} picture(s), as {settings.protocol} asks, is refused: {error}"
                return [*rows, Check("judge pictures", False, detail, cure)]
            if said.finish in ("empty", "refused"):
                detail = f"a question with {most} picture(s) is answered with nothing in it ({said.finish})"
                cure = "is it a model that sees? fewer pictures by judge.images, named in scores"
                return [*rows, Check("judge pictures", False, detail, cure)]
            rows.append(Check("judge pictures", True, f"takes {most} in one question, the most that it is sent"))
        return [*rows, await _judge_reply(config, model, images)]
    finally:
        await model.close()


async def _judge_reply(config: Config, model: trial.Overheard, images: Pictures) -> Check:
    """One small attempt that did its task: where the reply stands, and what the protocol reads in it."""
    name = "judge reply"
    if not trial.asks_for_one_verdict(config.judge):
        return Check(name, None, "not tried: the rubric verifier asks about a dozen questions an attempt")
    verdict = await trial.one_verdict(config.judge, model, images, config.profile.viewport)
    stands = _stands(model.replies[-1])
    if verdict.success:
        return Check(name, True, f"{stands}; it is read as success, as it should be")
    if verdict.success is False:
        detail = f"{stands}; it is read as failure, of a small attempt that did its task"
        return Check(name, None, detail, "one attempt says little: measure the judge with 'rmsweb judge-eval'")
    cure = "take another judge.model or protocol: such replies give no verdict"
    if verdict.unjudged in ("infra", "overflow"):
        return Check(name, False, f"a question is refused: {verdict.reason}", "correct judge.model")
    if config.judge.protocol.endswith("molmoweb"):
        cure = "put its reply schema into judge.model.extra_body (docs/exams.md)"
    return Check(name, False, f"{stands}; no verdict ({verdict.unjudged}): {verdict.reason[:160]!r}", cure)


def _stands(reply: Reply) -> str:
    """Where the text of a reply stands."""
    thinking = "a think block stands in the text" if "</think>" in reply.text else "no think block in the text"
    return f"the text comes in {reply.source!r}; {thinking}"


async def _hidden_prompt(model: EndpointModel, plain: Reply) -> Check:
    """A server that adds a system prompt of its own when there is none makes other prompts than training."""
    name = "template"
    with_system: list[Message] = [{"role": "system", "content": [{"type": "text", "text": "x"}]}, _ask(["Say yes."])]
    try:
        more = (await model.complete(with_system, max_tokens=16))[0].prompt_tokens - plain.prompt_tokens
    except EndpointError as error:
        return Check(name, False, f"a system message is refused: {error}", "use a chat template that has a system role")
    if not plain.prompt_tokens:
        return Check(name, None, "the server does not report prompt tokens: templates cannot be compared")
    if more < 3:
        cure = "start it with the model's own chat template"
        return Check(name, False, f"a system message changes the prompt by {more} tokens: a hidden one is added", cure)
    return Check(name, True, f"no hidden system prompt (a system message of one letter costs {more} tokens)")


async def _pictures(model: EndpointModel, images: list[str], profile: ProfileConfig, plain: Reply) -> list[Check]:
    """As many pictures as the profile sends, and what one costs: compared with Qwen3-VL's count where the model's name
    says that it is a Qwen."""
    count = len(images)
    try:
        one = (await model.complete([_ask(["Say yes.", images[0]])], max_tokens=16))[0]
        await model.complete([_ask(["Say yes.", *images])], max_tokens=16)
    except EndpointError as error:
        cure = f"vLLM: --limit-mm-per-prompt '{{\"image\": {count}}}'; or set profile.images={max(0, count - 2)}"
        return [Check("pictures", False, f"a request with up to {count} picture(s) is refused: {error}", cure)]
    rows = [Check("pictures", True, f"takes {count} in one request")]
    cost = one.prompt_tokens - plain.prompt_tokens
    if plain.prompt_tokens and cost > 0:
        width, height = resized_size(Viewport(*profile.viewport), 32)
        due = width * height // 32**2 + 2
        right = abs(cost - due) <= 2
        remark = ", as Qwen3-VL counts them" if right else f", Qwen3-VL would need {due}: it may be resized"
        remark = remark if "qwen" in model.name.lower() else ""
        rows.append(Check("picture tokens", True if right and remark else None, f"{cost} each{remark}"))
    return rows


async def _own_prompt(model: EndpointModel, image: str, profile: ProfileConfig) -> list[Check]:
    """A real prompt: where the text stands, and whether it can be read."""
    task = Task(
        id="doctor", suite="doctor", site="doctor", template="doctor", split="dev", goal="Click the button named OK."
    )
    now = Observation(image=image, url="http://doctor.test/", title="Doctor")
    try:
        reply = (await model.complete(render_messages(profile, task, [], now), max_tokens=REPLY_TOKENS))[0]
    except EndpointError as error:
        return [Check("reply", False, str(error))]
    rows = [Check("thinking", True, _stands(reply))]
    decision = read_decision(profile, reply)
    if decision.action is None:
        kind = decision.fault.kind if decision.fault else "none"
        said = " ".join(reply.text.split())[:120]
        cure = (
            "a cut reply needs a larger profile.max_new_tokens" if decision.truncated else "try 'rmsweb parse' with it"
        )
        return [*rows, Check("reply", False, f"cannot be read ({kind}): {said!r}", cure)]
    repaired = f" after repairs: {', '.join(decision.repairs)}" if decision.repairs else ""
    return [*rows, Check("reply", True, f"is read as {decision.action.action}{repaired}")]


def _ask(parts: Sequence[str]) -> Message:
    """A user turn: the first part is text, the others are pictures."""
    pictures: list[Part] = [{"type": "image", "image": image} for image in parts[1:]]
    return {"role": "user", "content": [*pictures, {"type": "text", "text": parts[0]}]}
