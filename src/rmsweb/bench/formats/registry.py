"""Format names and what each can do; finding the attempts of a folder."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from rmsweb.bench.formats import agentlab, browser_use, bu_bench, fara, magnitude, molmoweb, om2w, om2w_v2, webvoyager
from rmsweb.bench.formats.attempts import Attempt
from rmsweb.bench.formats.files import walk
from rmsweb.bench.formats.pictures import Pictures
from rmsweb.errors import ConfigError, DataError
from rmsweb.records import Trajectory
from rmsweb.store import Images


class Format(NamedTuple):
    """A format of trajectories."""

    units: Callable[[Path, list[str]], list[Path]]
    """(folder, its file names) -> the attempts that lie in it: the folder, or files of it."""
    read: Callable[[Path, Pictures], Attempt]
    place: Callable[[Trajectory], tuple[str, ...]] | None = None
    """Folder of a trajectory below the root; None: the format is only read."""
    write: Callable[[Trajectory, Images, Path], list[str]] | None = None
    """(trajectory, pictures, its folder) -> notes on what could not be written as it is."""
    says_broken: bool = False
    """It can say of an attempt that the machine broke it; where it cannot, such an attempt would count as a failure."""


FORMATS: Mapping[str, Format] = {
    "om2w": Format(om2w.units, om2w.read, om2w.place, om2w.write),
    "om2w_v2": Format(om2w_v2.units, om2w_v2.read, om2w_v2.place, om2w_v2.write),
    "webvoyager": Format(webvoyager.units, webvoyager.read, webvoyager.place, webvoyager.write),
    "fara": Format(fara.units, fara.read, fara.place, fara.write, says_broken=True),
    "molmoweb": Format(molmoweb.units, molmoweb.read),
    "browser_use": Format(browser_use.units, browser_use.read),
    "agentlab": Format(agentlab.units, agentlab.read),
    "magnitude": Format(magnitude.units, magnitude.read),
    "bu_bench": Format(bu_bench.units, bu_bench.read),
}
"""Formats of trajectories. `chat` (training data) has its own module and is only written."""


def names(*, writable: bool = False) -> list[str]:
    """Format names; those that can be written, `chat` among them."""
    return [*(name for name, f in FORMATS.items() if f.write), "chat"] if writable else list(FORMATS)


def reader(name: str) -> Format:
    """A format that can be read. Raises ConfigError."""
    if name not in FORMATS:
        raise ConfigError(f"format {name!r} cannot be read; choose auto, {', '.join(names())}")
    return FORMATS[name]


def find(name: str, folder: Path) -> tuple[str, list[Path]]:
    """(format, its attempts below `folder`, in the order of their paths); `auto` takes the one format that is there.

    Raises ConfigError: an unknown format, no folder, several formats; DataError: no attempt.
    """
    wanted = FORMATS if name == "auto" else {name: reader(name)}
    found: dict[str, list[Path]] = {key: [] for key in wanted}
    for place, files in walk(folder):
        for key, kind in wanted.items():
            found[key] += kind.units(place, files)
    there = [key for key, units in found.items() if units]
    if len(there) > 1:
        raise ConfigError(f"{folder} holds {' and '.join(there)}; name the format, or import one folder at a time")
    if not there:
        known = "any known format" if name == "auto" else f"the format {name}"
        raise DataError(f"no attempt of {known} below this folder", folder)
    return there[0], found[there[0]]
