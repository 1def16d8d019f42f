"""Finds guidance that shows through in a thought: a sample must read as if nobody had advised.

Owns the phrases and the overlap rule. Pure; says where, never decides what happens to it (`SamplesConfig.leaks`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rmsweb.reflect.reading import words

PHRASES = (
    r"as (?:was )?(?:advised|suggested|instructed|recommended|noted|reflected)",
    r"(?:last|previous|earlier|prior|first) (?:time|attempt|try|trial|run)s?",
    r"(?:my|the) (?:reflections?|lessons?|guidance|advice|hints?)",
    r"(?:according to|based on|following|per|given) (?:the |my )?(?:reflection|lesson|guidance|advice|hint|feedback)s?",
    r"lessons? learn(?:ed|t)",
    r"(?:i|we) (?:was|were) (?:told|advised|warned)",
    r"(?:avoid|not repeat|repeat(?:ing)?) (?:the|my|that|this) (?:same )?mistakes?",
    r"this time,? (?:i|we)\b",
    r"(?:failed|went wrong|did not work|didn't work) (?:before|earlier|last time)",
)
"""What only somebody says who has tried before or was told."""

NGRAM = 4
"""Words in a row that a thought may not share with the guidance, unless goal or page say them too."""

_PHRASE = re.compile(r"\b(?:" + "|".join(PHRASES) + r")", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")


@dataclass(frozen=True, slots=True)
class Leak:
    """A trace of guidance in a text."""

    kind: str
    """phrase, or overlap."""
    text: str


def ngrams(text: str, size: int = NGRAM) -> frozenset[tuple[str, ...]]:
    """All runs of `size` words."""
    said = words(text)
    return frozenset(said[i : i + size] for i in range(len(said) - size + 1))


def find_leaks(thought: str, advice: str, public: Iterable[str] = ()) -> list[Leak]:
    """Traces of `advice` in `thought`. `public`: texts that the policy saw anyway (goal, page, earlier actions)."""
    leaks = [Leak("phrase", match.group()) for match in _PHRASE.finditer(thought)]
    if advice:
        known = frozenset[tuple[str, ...]]().union(*(ngrams(text) for text in public))
        shared = (ngrams(thought) & ngrams(advice)) - known
        leaks += [Leak("overlap", " ".join(gram)) for gram in sorted(shared)]
    return leaks


def rewrite(thought: str, advice: str, public: Iterable[str] = ()) -> str:
    """The thought without the sentences that give guidance away; may be empty."""
    texts = tuple(public)
    kept = [s for s in _SENTENCE.split(thought) if s.strip() and not find_leaks(s, advice, texts)]
    rest = " ".join(kept)
    # What is split over two sentences survives the cut: then nothing of the thought is safe.
    return "" if find_leaks(rest, advice, texts) else rest


def judge_only_words(text: str, reason: str, public: Iterable[str]) -> frozenset[str]:
    """Words of `text` that stand in the verdict's `reason` and nowhere in what the policy saw: a reference, probably.

    Words of three letters or fewer count only when they are numbers.
    """
    seen = frozenset(word for item in public for word in words(item))
    told = {word for word in words(reason) if len(word) > 3 or any(sign.isdigit() for sign in word)}
    return frozenset(told & set(words(text))) - seen - COMMON


COMMON = frozenset(
    words(
        "about action actions after again also answer answered answers attempt because before being check clicked "
        "correct could done each episode error expected failed failure found from goal have into item items judge last "
        "missing more must nothing only other page pages reached right said says seen shown should state step steps "
        "success task than that their them then there they this value very wanted were what when where which while "
        "with without wrong your"
    )
)
"""Words of any report; they give nothing away."""
