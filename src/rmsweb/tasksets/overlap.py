"""Which exam tasks were trained on: by normalised text and host.

Texts are compared after Unicode NFKC, case folding, dropping marks such as apostrophes within words, and reading any
other punctuation and any run of blanks as one blank; hosts without `www.`, in lower case, without port. A task that
starts at a search page has no host of its own. Equal text is the finding; the host says how close it is.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from rmsweb.records import Task

APOSTROPHES = re.compile("['’ʼ`´]")


class TextHostOverlap(NamedTuple):
    """Exam tasks found in the training tasks, on two levels that share no task."""

    same: tuple[str, ...]
    """Ids of exam tasks whose text and host both occur together in training."""
    elsewhere: tuple[str, ...]
    """Ids of exam tasks whose text occurs in training on other hosts only."""
    exam: int
    """Exam tasks compared."""
    training: int
    """Training tasks compared with."""

    @property
    def share(self) -> float:
        """Part of the exam, 0 to 1, whose text was trained on, on any host."""
        return (len(self.same) + len(self.elsewhere)) / self.exam if self.exam else 0.0


def text_host_overlap(exam: Iterable[Task], training: Iterable[Task]) -> TextHostOverlap:
    """Compare every exam task with every training task."""
    hosts: dict[str, set[str]] = {}
    trained = 0
    for task in training:
        hosts.setdefault(normal_text(task.goal), set()).add(host_of(task))
        trained += 1
    same: list[str] = []
    elsewhere: list[str] = []
    asked = 0
    for task in exam:
        asked += 1
        found = hosts.get(normal_text(task.goal))
        if found is not None:
            (same if host_of(task) in found else elsewhere).append(task.id)
    return TextHostOverlap(tuple(same), tuple(elsewhere), asked, trained)


def normal_text(text: str) -> str:
    """The form in which two wordings of one task are the same; see the module's docstring."""
    folded = APOSTROPHES.sub("", unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()))
    kept = []
    for letter in folded:
        kind = unicodedata.category(letter)
        if kind != "Cf":  # zero-width characters and direction marks
            kept.append(" " if kind[0] in "PZC" else letter)
    return " ".join("".join(kept).split())


def host_of(task: Task) -> str:
    """Host of the start address without `www.`; empty when there is none or it is an assumed search page.

    A site that serves its own tasks (no address) is told apart by suite and site.
    """
    if task.meta.get("start") == "search page":
        return ""
    if not task.start_url:
        return f"{task.suite}/{task.site}"
    try:
        return (urlsplit(task.start_url).hostname or "").removeprefix("www.").rstrip(".")
    except ValueError:
        return ""
