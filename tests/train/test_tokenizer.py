"""Exact text in, exact text out; fixed pieces are single tokens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmsweb import actions as act
from rmsweb.actions import PROFILES, Point, Viewport
from rmsweb.replies import format_call
from rmsweb.train.tokenizer import build_tokenizer, chat_template, fragments, token_id
from rmsweb.web.lexicon import words

TOKENIZER = build_tokenizer()
COMPACT, VIEW = PROFILES["compact"], Viewport(320, 224)
POINT = Point(x=80, y=48)
ACTIONS = (
    (act.LeftClick(point=POINT), 7),
    (act.Type(point=POINT, text="red mug"), 10),
    (act.Type(point=POINT, text="red mug", press_enter=True), 10),
    (act.SelectOption(point=POINT, text="urgent"), 9),
    (act.Answer(text="$45"), 7),
    (act.Scroll(dy=200), 5),
    (act.Scroll(dy=-200), 5),
    (act.Wait(), 5),
    (act.Key(keys=("Enter",)), 5),
    (act.GoBack(), 5),
    (act.Terminate(status="failure"), 5),
)


def encode(text: str) -> list[int]:
    return list(TOKENIZER(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize(("action", "length"), ACTIONS)
def test_replies_are_short_and_exact(action: act.Action, length: int) -> None:
    text = f"Action: red mug\n{format_call(action, VIEW, COMPACT)}"
    assert len(encode(text)) == length
    assert TOKENIZER.decode(encode(text)) == text


def test_every_point_of_the_grid_is_two_tokens() -> None:
    for x in range(0, 1001, 50):
        for y in range(0, 1001, 50):
            assert TOKENIZER.convert_ids_to_tokens(encode(f"[{x}, {y}]")) == [f"[{x}, ", f"{y}]"]


def test_prompt_is_short_and_exact() -> None:
    text = "Task: add red mug to cart\nDone: click mug; type search red mug *"
    assert len(encode(text)) == 15
    assert TOKENIZER.decode(encode(text)) == text


def test_every_word_is_one_token() -> None:
    assert [word for word in words() if len(encode(word)) != 1] == []
    assert TOKENIZER.convert_ids_to_tokens(encode("$45")) == ["▁$", "▁45"]


def test_every_fragment_is_one_token() -> None:
    assert [piece for piece in fragments() if encode(piece) != [token_id(TOKENIZER, piece)]] == []


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="▁\r"), min_size=1, max_size=30))
def test_any_text_encodes(text: str) -> None:
    plain = " ".join(text.replace('"', "").replace(">", "").split())
    assert TOKENIZER.unk_token_id not in encode(plain)
    if not any(piece in plain for piece in (*fragments(), "$", "<|")):
        assert TOKENIZER.decode(encode(plain)) == plain


def test_special_tokens_have_their_real_names_and_the_template_is_trls() -> None:
    for name in ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"):
        assert token_id(TOKENIZER, name) < 8
    assert TOKENIZER.chat_template == chat_template()
    assert TOKENIZER.eos_token == "<|im_end|>"
    with pytest.raises(KeyError):
        token_id(TOKENIZER, "no such piece")
