"""Builds the parts that a recipe names: suite, browser, judge, policies. The one place that knows all implementations.

A model is named by a checkpoint folder, a run directory that holds one, `tiny` (the shipped base) or `explorer`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rmsweb.bench import judges
from rmsweb.bench.judges.asking import Pictures
from rmsweb.config import Config, ModelConfig, SuiteConfig
from rmsweb.errors import ConfigError
from rmsweb.judge import Judge, RuleJudge
from rmsweb.policy import ChatPolicy, Policy
from rmsweb.records import Trajectory
from rmsweb.store import Run

if TYPE_CHECKING:
    from rmsweb.bench.judges.asking import Call
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

    return FileSuite(config.browser.search_url)


def build_browser(config: Config, run: Run) -> "ChromiumPool":
    """The pool that stores its pictures in the run; open it with `async with`."""
    from rmsweb.web.browser import ChromiumPool

    profile = config.profile
    return ChromiumPool(
        config.browser, run.images, profile.viewport, profile.device_scale_factor, run.path / "downloads"
    )


def build_judge(suite: "Suite", config: Config, run: Run) -> Judge:
    """The suite's own rules, or a protocol over a chat model; its questions and replies are stored in the run."""
    if config.judge.protocol == "rules":
        if suite.name == "file":
            raise ConfigError("tasks from a file have no rules: set judge.protocol (docs/exams.md lists the protocols)")
        return RuleJudge(suite)
    pictures = Pictures(run.images)
    model = build_model(config.judge.model, pictures)
    return judges.build(config.judge, model, pictures, store=lambda call: run.append("call", call))


class Judges:
    """Trajectory -> the judge that a config names for it, each built once (rules are the suite's own)."""

    def __init__(
        self,
        config: Config,
        run: Run,
        replies: Sequence["Call"],
        *,
        offline: bool,
        rounds: Mapping[tuple[str, str], int],
    ) -> None:
        """`offline`: only `replies` answer. `rounds`: see `Asker`."""
        self.config, self.run, self.rounds = config, run, rounds
        self._replies, self._offline = list(replies), offline
        self._made: dict[str, Judge] = {}
        self._model: ChatModel | None = None

    async def close(self) -> None:
        """Let go of the model's connections."""
        if self._model is not None:
            await self._model.close()

    def __call__(self, trajectory: Trajectory) -> Judge:
        """Raises ConfigError for rules on tasks that have none."""
        rules = self.config.judge.protocol == "rules"
        kind = trajectory.task.suite if rules else ""
        if kind not in self._made:
            self._made[kind] = self._rules(kind) if rules else self._protocol()
        return self._made[kind]

    def _rules(self, name: str) -> Judge:
        if name not in ("sites", "miniwob"):
            raise ConfigError(
                f"tasks of {name} have no rules; choose a protocol: --set judge.protocol=NAME (see docs/exams.md)"
            )
        return RuleJudge(build_suite(SuiteConfig.model_validate({"name": name}), self.config))

    def _protocol(self) -> Judge:
        settings, images = self.config.judge, Pictures(self.run.images)
        self._model = None if self._offline else build_model(settings.model, images)
        return judges.build(
            settings,
            self._model,
            images,
            store=lambda call: self.run.append("call", call),
            replies=self._replies,
            model_name=settings.model.name if settings.model.kind == "endpoint" else "",
            rounds=self.rounds,
        )


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


ENDPOINT = "endpoint"
"""`--from NAME=endpoint`: the served model that the recipe's `policy` names, instead of a checkpoint."""


def named_model(where: Path, config: Config, temperature: float) -> ModelConfig:
    """The model behind a `--from` value. Raises ConfigError when there is no checkpoint."""
    kept = ("top_p", "concurrency", "batch")
    update = {"temperature": temperature, **{name: getattr(config.policy, name) for name in kept}}
    if str(where) == ENDPOINT:
        if config.policy.kind != "endpoint":
            raise ConfigError(f"--from NAME={ENDPOINT} examines policy, which is of kind {config.policy.kind!r}")
        return config.policy
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
