"""Guidance that shows through in thoughts."""

import pytest

from rmsweb.reflect.leaks import find_leaks, judge_only_words, rewrite

ADVICE = "the search found nothing; search only for 'kite' and open the second page"


@pytest.mark.parametrize(
    "thought",
    [
        "As advised, I search for one word.",
        "Last time the search failed.",
        "In my previous attempt I clicked coral.",
        "According to the guidance I open the list.",
        "The lesson says to look below.",
        "I was told to use the list.",
        "This time, I will look at the row.",
        "The lessons learned matter here.",
    ],
)
def test_phrases(thought: str) -> None:
    assert [leak.kind for leak in find_leaks(thought, "")] == ["phrase"] * len(find_leaks(thought, "")) != []


@pytest.mark.parametrize(
    "thought",
    [
        "The list shows olive kite; I click it.",
        "The last page has five rows.",
        "I follow the link to the second page.",
        "The first result is not what the goal asks for.",
    ],
)
def test_plain_thoughts(thought: str) -> None:
    assert find_leaks(thought, ADVICE) == []


def test_overlap_counts_only_what_the_policy_did_not_see() -> None:
    thought = "I will open the second page to see more."
    assert [leak.text for leak in find_leaks(thought, ADVICE)] == ["open the second page"]
    assert find_leaks(thought, ADVICE, ["please open the second page"]) == []


def test_rewriting_keeps_the_clean_sentences() -> None:
    thought = "As advised, I search. The field is at the top."
    assert rewrite(thought, ADVICE) == "The field is at the top."
    assert rewrite("Last time it failed.", "") == ""
    assert find_leaks(rewrite(thought, ADVICE), ADVICE) == []


def test_words_that_only_the_judge_knows() -> None:
    reason = "the answer should be PLUM 12, not 31"
    assert judge_only_words("try plum or 12", reason, ["price of kite ?", "31"]) == {"plum", "12"}
    assert judge_only_words("the answer was 31", reason, ["31"]) == frozenset()
