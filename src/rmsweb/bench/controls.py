"""Control conditions: the same policy, but the picture is not the one of the page.

If a policy does as well on a blank or a swapped screenshot, it does not look. Owns the two replacements and a
Policy that makes them; everything else (goal, history text, browser, checks) stays as it is.
"""

import hashlib
import zlib
from collections.abc import Sequence
from struct import pack
from typing import TYPE_CHECKING, Literal

from rmsweb.records import Decision, Observation, Reflection, Step, Task, Trajectory
from rmsweb.store import PNG_MAGIC, Images

if TYPE_CHECKING:
    from rmsweb.policy import Policy

Kind = Literal["blank", "swapped"]
KINDS: tuple[Kind, ...] = ("blank", "swapped")


def blank_png(width: int, height: int) -> bytes:
    """A white picture, 8-bit grey; the same bytes everywhere."""
    rows = (b"\x00" + b"\xff" * width) * height

    def chunk(name: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + name + data + pack(">I", zlib.crc32(name + data))

    header = pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return PNG_MAGIC + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


class Donors:
    """Pictures of other tasks, by site: what a swapped screenshot is taken from."""

    def __init__(self, trajectories: Sequence[Trajectory]) -> None:
        self._by_site: dict[str, list[tuple[str, list[str]]]] = {}
        for t in sorted(trajectories, key=lambda t: t.id):
            if t.steps:
                seen = [step.before.image for step in t.steps]
                self._by_site.setdefault(t.task.site, []).append((t.task.id, seen))

    def pick(self, task: Task, index: int, avoid: str) -> str | None:
        """The picture another task of the same site showed at that step (its last when it was shorter).

        One donor for a whole episode where it can be; never the picture that is there (`avoid`). None: no donor.
        """
        others = [seen for ident, seen in self._by_site.get(task.site, []) if ident != task.id]
        start = int.from_bytes(hashlib.sha256(task.id.encode()).digest()[:4])
        for offset in range(len(others)):
            seen = others[(start + offset) % len(others)]
            image = seen[min(index, len(seen) - 1)]
            if image != avoid:
                return image
        return None


class PictureControl:
    """A policy that gets to see another picture (`blank`: white; `swapped`: another task's) at every step.

    Earlier screenshots in the history are replaced as well. A swap without a donor is blank, which `swapped_blank`
    counts.
    """

    def __init__(
        self, policy: "Policy", kind: Kind, images: Images, viewport: tuple[int, int], donors: Donors | None = None
    ) -> None:
        self.name = f"{policy.name}+{kind}"
        self.policy, self.kind, self.donors = policy, kind, donors
        self._blank = images.put(blank_png(*viewport))
        self.swapped_blank = 0

    async def decide(
        self,
        task: Task,
        history: Sequence[Step],
        now: Observation,
        *,
        reflections: Sequence[Reflection] = (),
        n: int = 1,
        seed: int = 0,
    ) -> list[Decision]:
        """What the policy says when it sees the replaced pictures."""
        seen: dict[int, Observation] = {}

        def shown(index: int, observation: Observation) -> Observation:
            if index not in seen:
                seen[index] = observation.model_copy(update={"image": self._image(task, index, observation)})
            return seen[index]

        replaced = [
            step.model_copy(update={"before": shown(i, step.before), "after": shown(i + 1, step.after)})
            for i, step in enumerate(history)
        ]
        current = shown(len(history), now)
        return await self.policy.decide(task, replaced, current, reflections=reflections, n=n, seed=seed)

    def _image(self, task: Task, index: int, observation: Observation) -> str:
        if self.kind == "blank" or self.donors is None:
            return self._blank
        image = self.donors.pick(task, index, observation.image)
        if image is None:
            self.swapped_blank += 1
        return image or self._blank
