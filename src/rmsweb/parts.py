"""Builds the parts that a recipe names: suite, browser, judge, policies. The one place that knows all implementations.

A model is named by a checkpoint folder, a run directory that holds one, `tiny` (the shipped base) or `explorer`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rmsweb.config import Config, ModelConfig, SuiteConfig
from rmsweb.errors import ConfigError
from rmsweb.judge import ChatJudge, Judge, RuleJudge
from rmsweb.policy import ChatPolicy, Policy
from rmsweb.store import Run

if TYPE_CHECKING:
    from rmsweb.chat import ChatModel
    from rmsweb.reflect.reflector import Reflector
    from rmsweb.web.browser import ChromiumPool
    from rmsweb.web.suite import Suite


def build_suite(suite: SuiteConfig, config: Config) -> "Suite":
    """The task suite; raises ConfigError for a file suite without a path."""
    if suite.name == "sites":
        from rmsweb.web.sites.suite import SiteSuite

        return SiteSuite(config.profile.theme)
    if suite.name == "miniwob":
        from rmsweb.web.miniwob import MiniWobSuite

        return MiniWobSuite()
    from rmsweb.web.suite import FileSuite

    return FileSuite()


def build_browser(config: Config, run: Run) -> "ChromiumPool":
    """The pool that stores its pictures in the run; open it with `async with`."""
    from rmsweb.web.browser import ChromiumPool

    profile = config.profile
    return ChromiumPool(
        config.browser, run.images, profile.viewport, profile.device_scale_factor, run.path / "downloads"
    )


def build_judge(suite: "Suite", config: Config, images: Mapping[str, bytes]) -> Judge:
    """The suite's own rules, or a chat model."""
    if config.judge.protocol == "rules":
        return RuleJudge(suite)
    return ChatJudge(build_model(config.judge.model, images), images, config.judge)


def build_model(model: ModelConfig, images: Mapping[str, bytes]) -> "ChatModel":
    """A chat model: endpoint, in-process checkpoint or scripted replies."""
    from rmsweb import chat

    return chat.build_model(model, images)


def build_policy(model: ModelConfig, config: Config, images: Mapping[str, bytes]) -> Policy:
    """The explorer, or a chat model behind the one prompt layout."""
    if model.kind == "explorer":
        from rmsweb.reflect.explorer import Explorer

        return Explorer(config.profile, model.temperature)
    return ChatPolicy(build_model(model, images), config.profile, temperature=model.temperature, top_p=model.top_p)


def build_reflector(config: Config, images: Mapping[str, bytes]) -> "Reflector":
    """Rules for the embedded explorer, or a chat model with our prompt."""
    from rmsweb.reflect import reflector

    if config.collect.reflector == "rules":
        return reflector.RuleReflector(config.collect.step_budget, config.collect.reflection_chars)
    model = build_model(config.collect.reflector_model, images)
    return reflector.ChatReflector(model, images, config.collect)


def named_model(where: Path, config: Config, temperature: float) -> ModelConfig:
    """The model behind a `--from` value. Raises ConfigError when there is no checkpoint."""
    kept = ("top_p", "concurrency", "batch")
    update = {"temperature": temperature, **{name: getattr(config.policy, name) for name in kept}}
    if str(where) in ("tiny", "explorer"):
        return ModelConfig.model_validate({"kind": str(where), **update})
    return ModelConfig.model_validate({"kind": "local", "path": str(checkpoint_of(where)), **update})


def student(config: Config) -> Path:
    """Where the policy that is to be trained starts. Raises ConfigError when it is no local checkpoint."""
    if config.policy.path:
        return Path(config.policy.path)
    if config.policy.kind == "tiny":
        return Path("tiny")
    raise ConfigError("policy.path is empty; give the checkpoint folder to train (or policy.kind = 'tiny')")


def checkpoint_of(where: Path) -> Path:
    """Checkpoint folder of a run directory, a checkpoint folder itself, or `tiny`."""
    if str(where) == "tiny":
        from rmsweb.train.tiny import BASE

        return BASE
    for folder in (where / "checkpoint", where):
        if (folder / "config.json").exists():
            return folder
    raise ConfigError(f"{where} holds no checkpoint: neither checkpoint/config.json nor config.json is there")
