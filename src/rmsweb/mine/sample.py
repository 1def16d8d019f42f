"""Which of the verified states are trained on. Pure; the draw depends on the seed and on the states' ids only.

Hard states are drawn mode by mode: weight ~ count^alpha (1 - success)^beta, with a floor for rare modes. They fill at
most `1 - routine_share` of the draw: when routine states are short, the draw gets smaller, not harder (measured: 75 %
hard states flipped a policy's default action and cost 14 points). Caps keep one template, site or task from filling it.
"""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence

from rmsweb.config import MineConfig
from rmsweb.mine.taxonomy import ROUTINE
from rmsweb.records import CriticalState, FailureMode
from rmsweb.rollout import derive_seed


def mode_weights(modes: Mapping[str, FailureMode], config: MineConfig) -> dict[str, float]:
    """Shares of the hard states by mode, summing to 1; modes that are not trained on get none."""
    trained = {code: mode for code, mode in modes.items() if mode.trained and mode.count > 0}
    raw = {c: m.count**config.alpha * (1 - (m.success or 0.0)) ** config.beta for c, m in trained.items()}
    total = sum(raw.values())
    if not trained:
        return {}
    shares = {code: weight / total if total > 0 else 1 / len(raw) for code, weight in raw.items()}
    lifted = {code: max(share, config.floor) for code, share in shares.items()}
    return {code: share / sum(lifted.values()) for code, share in lifted.items()}


def draw(
    states: Sequence[CriticalState], modes: Mapping[str, FailureMode], config: MineConfig, seed: int
) -> list[CriticalState]:
    """The mined draw: at most `config.states` of the given verified states, hard and routine."""
    caps = _Caps(states, config)
    order = _shuffled(states, seed)
    hard = [s for s in order if s.mode != ROUTINE and s.mode in modes and modes[s.mode].trained]
    easy = [s for s in order if s.mode == ROUTINE]
    wanted = config.states - round(config.states * config.routine_share)
    if config.routine_share > 0:
        wanted = min(wanted, math.floor(len(easy) * (1 - config.routine_share) / config.routine_share + 1e-9))
    chosen = _by_mode(hard, mode_weights(modes, config), wanted, caps)
    rest = config.states - len(chosen)
    chosen += caps.take(easy, rest)
    return sorted(chosen, key=lambda s: s.id)


def draw_uniform(states: Sequence[CriticalState], count: int, config: MineConfig, seed: int) -> list[CriticalState]:
    """The control: `count` of the given verified states, each as likely as the other; no caps, no modes."""
    return sorted(_shuffled(states, seed)[:count], key=lambda s: s.id)


def _shuffled(states: Sequence[CriticalState], seed: int) -> list[CriticalState]:
    return sorted(states, key=lambda s: (derive_seed(seed, "draw", s.id), s.id))


def _by_mode(
    hard: Sequence[CriticalState], shares: Mapping[str, float], wanted: int, caps: "_Caps"
) -> list[CriticalState]:
    """Mode after mode by its share; what one mode cannot fill goes to the others."""
    left = {code: [s for s in hard if s.mode == code] for code in shares}
    rng = random.Random(derive_seed(wanted, *sorted(shares)))
    chosen: list[CriticalState] = []
    while len(chosen) < wanted and any(left.values()):
        open_modes = {code: share for code, share in shares.items() if left[code]}
        total = sum(open_modes.values())
        quota = {code: (wanted - len(chosen)) * share / total for code, share in open_modes.items()}
        before = len(chosen)
        for code in sorted(open_modes, key=lambda c: -quota[c]):
            part = int(quota[code]) + (rng.random() < quota[code] % 1)
            chosen += caps.take(left[code], min(part, wanted - len(chosen)))
        if len(chosen) == before:
            # Every quota rounded to nothing or met a cap: one state of the largest open mode, or an end.
            chosen += caps.take(left[max(open_modes, key=lambda c: quota[c])], 1)
    return chosen


class _Caps:
    """Counts what was taken; a list that `take` has looked through loses what it may not take."""

    def __init__(self, states: Sequence[CriticalState], config: MineConfig) -> None:
        self.limits: dict[str, int] = {}
        for name in ("template", "site"):
            kinds = {self._kind(s, name) for s in states}
            # A cap below an even share would make the draw impossible.
            share = max(config.cap, 1 / max(1, len(kinds)))
            self.limits[name] = math.ceil(config.states * share)
        self.limits["task"] = config.task_cap
        self.taken: Counter[tuple[str, str]] = Counter()

    def take(self, pool: list[CriticalState], count: int) -> list[CriticalState]:
        """Up to `count` from the front of the pool, which shrinks by all that was looked at."""
        chosen: list[CriticalState] = []
        while pool and len(chosen) < count:
            state = pool.pop(0)
            kinds = [(name, self._kind(state, name)) for name in self.limits]
            if all(self.taken[kind] < self.limits[kind[0]] for kind in kinds):
                self.taken.update(kinds)
                chosen.append(state)
        return chosen

    @staticmethod
    def _kind(state: CriticalState, name: str) -> str:
        task = state.task
        return {"template": f"{task.site}/{task.template}", "site": task.site, "task": task.id}[name]
