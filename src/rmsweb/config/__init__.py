"""Every knob of a run: one frozen pydantic tree. TOML in, resolved JSON out; an unknown key is an error.

A default carries its reason: [A] the paper's abstract, otherwise our reading with its precedent (docs/method.md).
A new knob is a field here, never a flag.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from rmsweb.config.exam import EvalConfig
from rmsweb.config.recipe import (
    AnchorConfig,
    CollectConfig,
    GateConfig,
    MatchConfig,
    MineConfig,
    OptimizerConfig,
    PretrainConfig,
    RLConfig,
    SamplesConfig,
    SFTConfig,
)
from rmsweb.config.world import (
    BrowserConfig,
    EpisodeConfig,
    JudgeConfig,
    ModelConfig,
    ProfileConfig,
    Section,
    SuiteConfig,
    secret_key,
)
from rmsweb.errors import ConfigError

__all__ = [
    "AnchorConfig",
    "BrowserConfig",
    "CollectConfig",
    "Config",
    "EpisodeConfig",
    "EvalConfig",
    "GateConfig",
    "JudgeConfig",
    "MatchConfig",
    "MineConfig",
    "ModelConfig",
    "OptimizerConfig",
    "PretrainConfig",
    "ProfileConfig",
    "RLConfig",
    "SFTConfig",
    "SamplesConfig",
    "Section",
    "SuiteConfig",
    "load",
]


class Config(Section):
    """A whole recipe."""

    seed: int = Field(default=0, ge=0, lt=2**31)
    profile: ProfileConfig = ProfileConfig()
    browser: BrowserConfig = BrowserConfig()
    episode: EpisodeConfig = EpisodeConfig()
    suite: SuiteConfig = SuiteConfig()
    judge: JudgeConfig = JudgeConfig()
    policy: ModelConfig = ModelConfig()
    """The student: what sft, mine, rl and eval start from."""
    collect: CollectConfig = CollectConfig()
    samples: SamplesConfig = SamplesConfig()
    sft: SFTConfig = SFTConfig()
    pretrain: PretrainConfig = PretrainConfig()
    mine: MineConfig = MineConfig()
    rl: RLConfig = RLConfig()
    eval: EvalConfig = EvalConfig()


def load(path: Path | None, overrides: list[str] | None = None) -> Config:
    """A recipe file plus `a.b=value` overrides (TOML values; bare words are strings). Raises ConfigError."""
    data: dict[str, Any] = {}
    if path is not None:
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"recipe {path} does not exist; give -c a TOML file (see recipes/)") from None
        except OSError as error:
            raise ConfigError(f"recipe {path}: {error.strerror}; give -c a TOML file (see recipes/)") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"recipe {path} is not TOML: {error}") from error
    for item in overrides or []:
        _override(data, item)
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc']))}: {e['msg']}{_given(e)}{_meant(e)}" for e in error.errors()]
        raise ConfigError(f"{path or 'settings'}: {len(lines)} wrong setting(s):\n" + "\n".join(lines)) from None


def _override(data: dict[str, Any], item: str) -> None:
    key, equals, text = item.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {item!r}: write key.path=value, for instance --set rl.group=16")
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        value = text
    *parents, last = key.strip().split(".")
    for parent in parents:
        child = data.setdefault(parent, {})
        if not isinstance(child, dict):
            raise ConfigError(f"--set {item!r}: {parent} is a value, not a section")
        data = child
    data[last] = value


def _given(error: Any) -> str:
    """The wrong value, unless it may be a secret that was put in place of its name or into an address."""
    names = set(map(str, error["loc"]))
    hidden = names & {"api_key_env", "base_url", "extra_body"} or any(map(secret_key, names))
    return "" if hidden else f" (got {error['input']!r})"


def _meant(error: Any) -> str:
    """For an unknown key: what it resembles in its section, and where a key of this very name stands."""
    *parents, last = map(str, error["loc"])
    if error["type"] != "extra_forbidden":
        return ""
    section = Config
    for name in parents:
        section = section.model_fields[name].annotation  # type: ignore[assignment]
    near = [(*parents, key) for key in difflib.get_close_matches(last, section.model_fields, n=1, cutoff=0.7)]
    meant = [f"`{'.'.join(key)}`" for key in (*near, *(key for key in _keys(Config) if key[-1] == last))]
    return f"; did you mean {' or '.join(meant[:3])}?" if meant else ""


def _keys(section: type[BaseModel], parents: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of all settings of a section."""
    for name, field in section.model_fields.items():
        yield (*parents, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _keys(field.annotation, (*parents, name))
