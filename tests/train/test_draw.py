"""Drawn pages against a real Chromium, and the truth that goes with them."""

import random

import numpy as np
import pytest

from rmsweb.train.batches import Encoder, patches
from rmsweb.train.canvas import Canvas, fill, key_of, label_pool, navigation
from rmsweb.train.draw import Drawn, Glyphs, draw, drawn_html, screenshots, style_of
from rmsweb.train.tokenizer import build_tokenizer
from rmsweb.web import lexicon
from rmsweb.web.compact import ACCENTS, BACKGROUNDS, Cell

ELEMENTS = [
    Drawn(Cell("link", "red mug", 0, 0, 3)),
    Drawn(Cell("text", "$45", 3, 0, 2)),
    Drawn(Cell("button", "add", 6, 0, 2)),
    Drawn(Cell("input", "search", 0, 1, 4)),
    Drawn(Cell("input", "comment", 5, 1, 4), "red mug"),
    Drawn(Cell("select", "priority", 0, 2, 3)),
    Drawn(Cell("link", "cancelled bookings", 0, 3, 4)),
    Drawn(Cell("text", "code 45", 5, 4, 3)),
    Drawn(Cell("link", "refund *", 3, 6, 3)),
]


@pytest.mark.browser
def test_drawn_pages_equal_chromiums() -> None:
    glyphs = Glyphs.render(style_of(element) for element in ELEMENTS)
    looks = [(background, accent) for background in BACKGROUNDS for accent in ACCENTS]
    shots = screenshots([drawn_html(ELEMENTS, *look) for look in looks])
    for look, shot in zip(looks, shots, strict=True):
        apart = np.abs(draw(ELEMENTS, glyphs, *look).astype(int) - shot.astype(int))
        assert apart.max() <= 6, look


def test_unknown_labels_are_drawn_empty() -> None:
    empty = draw([Drawn(Cell("link", "xyzzy", 0, 0, 3))], Glyphs({}))
    assert (empty == 255).all()


def test_pool_stays_in_the_lexicon_and_leaves_goal_words_out() -> None:
    known = set(lexicon.words())
    words = {word.lstrip("$") for _, label in label_pool() for word in label.split()}
    assert words - known == set()
    shown_anyway = {
        *lexicon.THINGS[0],
        *lexicon.CONTROLS,
        *lexicon.NOTES,
        *(w for group in lexicon.THINGS for w in group),
    }
    fields_and_values = {"title", "name", "price", "order", "guests", "cases", "bookings"}
    assert (words & set(lexicon.GOAL_WORDS)) - shown_anyway - fields_and_values == set()


def test_keys_leave_marks_and_values_out() -> None:
    assert key_of("refund *") == ("refund",)
    assert key_of("code 45") == ("code",)
    assert key_of("by ann") == ("ann",)
    assert key_of("price $45") == ("price",)
    assert key_of("red mug") == ("red", "mug")


def test_pages_are_reproducible_and_places_are_taken_once() -> None:
    glyphs = Glyphs.blank(label_pool())

    def pages() -> list[tuple[object, ...]]:
        rng, made = random.Random(3), []
        for _ in range(50):
            canvas = Canvas(rng, glyphs)
            navigation(canvas, ("home", "next", "prev"), 2)
            fill(canvas, 9)
            made.append(tuple(item.drawn for item in canvas.items))
            taken = [
                (cell.row, column)
                for cell in (item.drawn.cell for item in canvas.items)
                for column in range(cell.column, cell.column + cell.width)
            ]
            assert len(taken) == len(set(taken))
            assert all(column < 10 and row < 7 for row, column in taken)
        return made

    assert pages() == pages()


def test_truth_of_a_row() -> None:
    tokenizer, glyphs = build_tokenizer(), Glyphs.blank(label_pool())
    encoder = Encoder(tokenizer, glyphs)
    canvas = Canvas(random.Random(0), glyphs)
    label = canvas.add_row("link", "red mug", "$45", row=2)
    page = canvas.page()
    value = page.items[label].partner
    truth = encoder.truth(page)
    at, beside = page.items[label].place, page.items[value].place
    assert tokenizer.convert_ids_to_tokens(truth.words[at].tolist()) == ["▁red", "▁mug", "<|im_end|>"]
    assert tokenizer.convert_ids_to_tokens([truth.readable[at], truth.readable[beside]]) == ["▁45", "▁red"]
    assert (truth.words[:, 0] > 0).sum() == 2
    assert page.items[label].value == "$45"


def test_patches_are_in_reading_order() -> None:
    picture = np.zeros((224, 320, 3), np.uint8)
    picture[32:64, 64:96] = 255
    bright = patches(picture).reshape(70, -1).mean(1)
    assert bright.argmax() == 12
