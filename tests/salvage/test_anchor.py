"""The anchor's boundary, context and mask."""

import pytest

from rmsweb.config import AnchorConfig
from rmsweb.errors import DataError
from rmsweb.salvage.anchor import anchor_coefficient, anchor_mask, anchor_text, boundary

CALL = '<tool_call>\n{"name": "computer_use", "arguments": {"action": "go_back"}}\n</tool_call>'
REFERENCE = f"Thought: the page is wrong.\nAction: go back\n{CALL}"
SAMPLED = f"Thought: hm, I press Action: now.\nAction: click home\n{CALL}"


def spans(text: str, width: int = 5) -> list[tuple[int, int]]:
    return [(i, min(i + width, len(text))) for i in range(0, len(text), width)] + [(len(text), len(text))]


def marked(text: str, which: str) -> str:
    """Characters that are anchored, at one character a token."""
    offsets = [(i, i + 1) for i in range(len(text))]
    return "".join(c for c, m in zip(text, anchor_mask(offsets, text, which), strict=True) if m)  # type: ignore[arg-type]


def test_masks_of_the_three_token_sets() -> None:
    assert marked(REFERENCE, "call") == CALL
    assert marked(REFERENCE, "call+target") == f"Action: go back\n{CALL}"
    assert marked(REFERENCE, "reply") == REFERENCE


def test_the_end_mark_counts_and_a_straddling_token_counts() -> None:
    mask = anchor_mask(spans(REFERENCE), REFERENCE, "call")
    first = REFERENCE.index("<tool_call>") // 5
    assert mask[-1] == 1 and mask[first] == 1 and not any(mask[:first]) and all(mask[first:])


def test_naming_line_is_the_last_before_the_call() -> None:
    assert SAMPLED[boundary(SAMPLED, "call+target") or 0 :].startswith("Action: click home")


def test_contexts() -> None:
    ref = anchor_text(REFERENCE, [SAMPLED], AnchorConfig(context="ref"))
    own = anchor_text(REFERENCE, ["rubbish", SAMPLED], AnchorConfig(context="self"))
    none = anchor_text(REFERENCE, [SAMPLED], AnchorConfig(context="none"))
    action = f"Action: go back\n{CALL}"
    assert ref.text == REFERENCE and ref.text[ref.start :] == action
    assert own.text == f"Thought: hm, I press Action: now.\n{action}" and own.text[own.start :] == action
    assert none.text == action and none.start == 0
    assert anchor_text(REFERENCE, ["rubbish"], AnchorConfig(context="self")).context == "ref"
    call = anchor_text(REFERENCE, [SAMPLED], AnchorConfig(context="self", tokens="call"))
    assert call.text == SAMPLED[: SAMPLED.index("<tool")] + CALL, "the own naming line is context there"


def test_a_reply_without_a_naming_line_anchors_the_call() -> None:
    assert anchor_text(CALL, [], AnchorConfig()).start == 0
    with pytest.raises(DataError, match="without <tool_call>"):
        anchor_text("nothing", [], AnchorConfig())
    with pytest.raises(DataError, match="naming line"):
        anchor_mask([(0, 4)], CALL, "call+target")


def test_decay() -> None:
    assert anchor_coefficient(AnchorConfig(), 0.9) == 0.3
    assert anchor_coefficient(AnchorConfig(decay="linear"), 0.5) == pytest.approx(0.15)
