"""Judge protocols of the exams, by name. Each has its own layout, image choice and parser; none is shared by accident.

A name without `rmsweb/` promises upstream's exact wording and so needs `judge.pack`; the same protocol in our wording
is `rmsweb/<name with dashes>` and is never to be compared with published numbers (docs/exams.md).
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rmsweb.bench.judges.asking import Asker, Call, Pictures
from rmsweb.bench.judges.packs import Pack, Wording, load
from rmsweb.config import JudgeConfig
from rmsweb.errors import ConfigError
from rmsweb.policy import prompt_text

if TYPE_CHECKING:
    from rmsweb.chat import ChatModel
    from rmsweb.judge import Judge

PROTOCOLS: Mapping[str, str] = {
    "webvoyager/original": "webvoyager:Original",
    "webvoyager/fara": "webvoyager:Fara",
    "webvoyager/molmoweb": "webvoyager:MolmoWeb",
    "webvoyager/osu": "webvoyager:OSU",
    "webjudge/om2w": "webjudge:OM2W",
    "webjudge/general": "webjudge:General",
    "agenttrek": "agenttrek:AgentTrek",
    "autonomous": "agenttrek:Autonomous",
    "rubric/process": "rubric:Process",
    "rubric/outcome": "rubric:Outcome",
    "rubric/both": "rubric:Both",
}
"""Protocol -> `module:Class` of this package. The class has `PACK` (a Pack), `OWN` (our text names -> files of
prompts/exams/), and is called with (asker, wording, config)."""
OWN = "rmsweb/"
CHAT = "rmsweb/chat"
"""Our own judge, which is no version of anybody else's."""


def names() -> list[str]:
    """Every name that `judge.protocol` may have, besides `rules` and `rmsweb/chat`."""
    return [*PROTOCOLS, *(OWN + name.replace("/", "-") for name in PROTOCOLS)]


def build(
    config: JudgeConfig,
    model: "ChatModel | None",
    images: Mapping[str, bytes],
    *,
    store: Callable[[Call], None] = lambda call: None,
    replies: Iterable[Call] = (),
    model_name: str = "",
    rounds: Mapping[tuple[str, str], int] | None = None,
) -> "Judge":
    """The judge that a config names. Raises ConfigError for an unknown name or a pack that does not fit.

    `images`: the `Pictures` that `model` looks its pictures up in, else it does not know the re-encoded ones.
    """
    name = config.protocol
    pictures = images if isinstance(images, Pictures) else Pictures(images)
    asker = Asker(
        model, pictures, store=store, replies=replies, attempts=config.attempts, name=model_name, rounds=rounds,
        concurrency=config.model.concurrency,
    )  # fmt: skip
    if name == CHAT:
        from rmsweb.bench.judges.chat import ChatJudge

        return ChatJudge(asker, config)
    module, _, class_name = PROTOCOLS[plain_name(name)].partition(":")
    protocol = getattr(importlib.import_module(f"rmsweb.bench.judges.{module}"), class_name)
    return protocol(asker, wording(protocol.PACK, protocol.OWN, config), config)  # type: ignore[no-any-return]


def plain_name(protocol: str) -> str:
    """The protocol behind a name, whoever words it (`rmsweb/agenttrek`: `agenttrek`). Raises ConfigError."""
    if protocol == CHAT:
        return CHAT
    plain = next((p for p in PROTOCOLS if protocol in (p, OWN + p.replace("/", "-"))), None)
    if plain is None:
        raise ConfigError(f"judge.protocol {protocol!r} is unknown; choose rules, {CHAT}, {', '.join(names())}")
    return plain


def wording(pack: Pack, own: Mapping[str, str], config: JudgeConfig) -> Wording:
    """Upstream's texts from `judge.pack`, or ours. Raises ConfigError."""
    if config.protocol.startswith(OWN):
        if config.pack:
            raise ConfigError(f"judge.pack is for upstream wording; {config.protocol} is worded by us: leave one out")
        return Wording({key: prompt_text(f"exams/{file}") for key, file in own.items()}, OWN, "rmsweb prompts/exams")
    if not config.pack:
        raise ConfigError(
            f"judge.protocol {config.protocol} means upstream's exact wording, which this project does not contain: "
            f"set judge.pack to a checkout of {pack.source} (it holds {pack.file}), or choose "
            f"{OWN}{config.protocol.replace('/', '-')}"
        )
    return load(pack, Path(config.pack), changed=config.changed_pack)
