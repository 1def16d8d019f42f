"""Synthetic samples as tensors: token ids, positions, labels with weights, pixels, and the dense labels of every cell.

Owns the arithmetic between `queries.Sample` and the model's inputs. What it builds equals what the processor and
`get_rope_index` build for the same conversation (tested); it is only faster, because all pictures have one known grid.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from rmsweb.train.canvas import Page
from rmsweb.train.draw import Glyphs, draw
from rmsweb.train.processor import IMAGE_MEAN, IMAGE_STD, PATCH
from rmsweb.train.queries import Sample, place_text
from rmsweb.train.tiny import GRID, VISUAL_TOKENS
from rmsweb.train.tokenizer import OPENERS, token_id
from rmsweb.web.compact import COLUMNS, HEIGHT, ROWS, WIDTH, Cell

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

KINDS = {"link": 1, "text": 2, "button": 3, "input": 4, "select": 5}
FORMAT_WEIGHT = 0.3
"""Loss weight of tokens that follow from the ones before; names, calls' kinds, places and values weigh 1."""


class Batch(NamedTuple):
    """B samples, L tokens (left-padded), R the longest reply."""

    inputs: dict[str, torch.Tensor]
    """Keyword arguments of the model's forward."""
    labels: torch.Tensor
    """(B, R): reply tokens, right-aligned, -100 elsewhere."""
    weights: torch.Tensor
    """(B, R)."""
    match: torch.Tensor
    """(B, 70): 1 the goal names the element that starts here, 0 it does not, -1 nothing starts here."""
    values: torch.Tensor
    """(B, 70): token of the value at or beside the element, 0: none."""


class CellTruth(NamedTuple):
    """Per cell (70): tokens of the first three words that start here, the element's kind, the token beside it."""

    words: NDArray[np.int64]
    """(70, 3); 0: nothing starts here, 2 (end of turn): no such word."""
    kinds: NDArray[np.int64]
    beside: NDArray[np.int64]
    """(70,); 0: nothing starts here, 2: nothing beside."""
    readable: NDArray[np.int64]
    """(70,); the value at or beside the element, for a value its label's first word; 0: none."""


class Axis(NamedTuple):
    """The places of the grid along one axis, as tokens of the reply."""

    tokens: torch.Tensor
    """Coordinate tokens that occur."""
    target: torch.Tensor
    """(70,): index into `tokens` of each cell's own."""


class Encoder:
    """Turns samples into batches with one tokenizer and one set of glyphs."""

    def __init__(self, tokenizer: Any, glyphs: Glyphs, shift: int = 0) -> None:
        self.tokenizer, self.glyphs, self.shift = tokenizer, glyphs, shift
        self._words: dict[str, list[int]] = {}
        self.end = int(tokenizer.eos_token_id)

    def ids(self, text: str) -> list[int]:
        """Token ids of a piece of text; kept, because labels repeat."""
        found = self._words.get(text)
        if found is None:
            found = self._words[text] = list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        return found

    @cached_property
    def head(self) -> list[int]:
        return self.ids("<|im_start|>user\n")

    @cached_property
    def tail(self) -> list[int]:
        image = token_id(self.tokenizer, "<|image_pad|>")
        start, end = token_id(self.tokenizer, "<|vision_start|>"), token_id(self.tokenizer, "<|vision_end|>")
        return [start, *[image] * VISUAL_TOKENS, end, *self.ids("<|im_end|>\n<|im_start|>assistant\n")]

    @cached_property
    def axes(self) -> tuple[Axis, Axis]:
        """Coordinate tokens of every cell's middle, in reading order: columns, rows."""
        import torch

        cells = (Cell("link", "", place % COLUMNS, place // COLUMNS, 2) for place in range(VISUAL_TOKENS))
        columns, rows = zip(*(self.ids(place_text(cell)) for cell in cells), strict=True)
        return (
            Axis(*torch.unique(torch.tensor(columns), return_inverse=True)),
            Axis(*torch.unique(torch.tensor(rows), return_inverse=True)),
        )

    @cached_property
    def _free_tokens(self) -> frozenset[int]:
        """Tokens that decide something: everything but closers and the naming line's opener."""
        fixed = {token_id(self.tokenizer, piece) for piece in ("Action: ",)}
        openers = {token_id(self.tokenizer, piece) for piece in OPENERS.values()}
        return frozenset(set(range(len(self.tokenizer))) - fixed - {self.end} | openers)

    def pixels(self, page: Page, dx: int = 0, dy: int = 0) -> NDArray[np.float32]:
        """Patches of the drawn page, (70, 3072), as the processor makes them."""
        import numpy as np

        picture = draw(page.drawn(), self.glyphs, page.background, page.accent)
        if dx or dy:
            moved = np.empty_like(picture)
            moved[:] = picture[HEIGHT - 1, WIDTH - 1]
            moved[dy:, dx:] = picture[: HEIGHT - dy, : WIDTH - dx]
            picture = moved
        return patches(picture)

    def truth(self, page: Page) -> CellTruth:
        """What stands in every cell."""
        import numpy as np

        words = np.zeros((VISUAL_TOKENS, 3), np.int64)
        kinds, beside, readable = (np.zeros(VISUAL_TOKENS, np.int64) for _ in range(3))
        for item in page.items:
            place = item.place
            shown = self.ids(item.drawn.typed or item.label)[:3]
            words[place] = [*shown, *[self.end] * (3 - len(shown))]
            kinds[place] = KINDS[item.kind]
            beside[place] = self.end
            if item.partner >= 0:
                other = self.ids(page.items[item.partner].label)
                is_label = bool(item.value) or page.items[item.partner].kind == "select"
                beside[place] = other[-1] if is_label else other[0]
                readable[place] = beside[place]
            elif item.value:
                readable[place] = shown[-1]
        return CellTruth(words, kinds, beside, readable)

    def batch(self, samples: list[Sample], rng: Any, *, replies: bool = True) -> Batch:
        """Inputs and labels of one update; without `replies` the prompts alone (labels are then empty marks)."""
        import numpy as np
        import torch

        answers = [[*self._free(s.move.text()), self.end] if replies else [] for s in samples]
        prompts = [[*self.head, *self._free(s.prompt()), *self.tail] for s in samples]
        longest = max(len(p) + len(r) for p, r in zip(prompts, answers, strict=True))
        width = max(map(len, answers))
        ids = np.zeros((len(samples), longest), np.int64)
        attention = np.zeros_like(ids)
        positions = np.ones((3, len(samples), longest), np.int64)
        labels = np.full((len(samples), width), -100, np.int64)
        weights = np.zeros((len(samples), width), np.float32)
        match = np.full((len(samples), VISUAL_TOKENS), -1, np.int64)
        values = np.zeros((len(samples), VISUAL_TOKENS), np.int64)
        pixels = []
        for row, (sample, prompt, reply) in enumerate(zip(samples, prompts, answers, strict=True)):
            tokens = prompt + reply
            ids[row, longest - len(tokens) :] = tokens
            attention[row, longest - len(tokens) :] = 1
            positions[:, row, longest - len(tokens) :] = mrope(len(prompt) - len(self.tail) + 1, len(tokens))
            labels[row, width - len(reply) :] = reply
            if sample.goal.literal != "match":
                weights[row, width - len(reply) :] = [1.0 if t in self._free_tokens else FORMAT_WEIGHT for t in reply]
            dx, dy = (rng.randint(0, self.shift), rng.randint(0, self.shift)) if self.shift else (0, 0)
            pixels.append(self.pixels(sample.page, dx, dy))
            values[row] = self.truth(sample.page).readable
            for item in sample.page.items:
                match[row, item.place] = int(sample.goal.covers(item.key))
        token_ids = torch.from_numpy(ids)
        inputs = {
            "input_ids": token_ids,
            "attention_mask": torch.from_numpy(attention),
            "position_ids": torch.from_numpy(positions),
            "pixel_values": torch.from_numpy(np.concatenate(pixels)),
            "image_grid_thw": torch.tensor([GRID] * len(samples)),
        }
        numbers = (torch.from_numpy(array) for array in (labels, weights, match, values))
        return Batch(inputs, *numbers)

    def _free(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def patches(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(224, 320, 3) bytes -> (70, 3072): normalised patches in reading order, channel first within a patch."""
    import numpy as np

    scaled = (picture.astype(np.float32) / 255.0 - IMAGE_MEAN) / IMAGE_STD
    cut = scaled.reshape(ROWS, PATCH, COLUMNS, PATCH, 3).transpose(0, 2, 4, 1, 3)
    return np.ascontiguousarray(cut.reshape(VISUAL_TOKENS, 3 * PATCH * PATCH))


def mrope(before: int, total: int) -> NDArray[np.int64]:
    """M-RoPE positions (3, total) of one sequence: `before` text tokens, one picture of GRID, text again."""
    import numpy as np

    positions = np.empty((3, total), np.int64)
    positions[:, :before] = np.arange(before)
    cells = np.arange(VISUAL_TOKENS)
    positions[:, before : before + VISUAL_TOKENS] = before + np.stack([0 * cells, cells // COLUMNS, cells % COLUMNS])
    after = total - before - VISUAL_TOKENS
    positions[:, before + VISUAL_TOKENS :] = before + max(ROWS, COLUMNS) + np.arange(after)
    return positions
