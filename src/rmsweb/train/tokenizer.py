"""The tiny model's tokenizer: one token for each word of the closed vocabulary and for each fixed piece of its prompt.

Owns the vocabulary and its order. A Unigram model with byte fallback holds the words (`rmsweb.web.lexicon`), the
printable characters and the bytes, so that any text can be written; the fixed text of the compact profile (call
openers, coordinates, closers, role lines) is added as whole tokens, so that a click is eight tokens. The special tokens
carry Qwen3-VL's own names. Decoding inverts encoding for everything the compact profile writes; a blank directly behind
a quotation mark, a line break or `>` is the one thing that is lost in free text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmsweb.web.lexicon import words

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
"""Qwen3-VL's names; ids 0..7. The first pads, the third ends a turn."""

STEP = 50
"""Coordinates of the compact profile are multiples of this on 0..1000."""

CALL = '\n<tool_call>\n{"name": "computer_use", "arguments": {"action": "'
END = "}}\n</tool_call>"
MARK = "▁"

OPENERS = {
    "left_click": CALL + 'left_click", "coordinate": ',
    "type": CALL + 'type", "coordinate": ',
    "select_option": CALL + 'select_option", "coordinate": ',
    "answer": CALL + 'answer", "text": "',
    "scroll": CALL + 'scroll", "pixels": ',
    "wait": CALL + 'wait", "time": ',
    "terminate": CALL + 'terminate", "status": "',
    "key": CALL + 'key", "keys": ["',
    "go_back": CALL + 'go_back"',
}
"""What stands between the naming line and a call's first free argument, by action kind."""

LAYOUT = ("Task: ", "\nDone: ", "\nDone:", "; ", " *", "Action: ", "\n", "user\n", "assistant\n", "system\n")
CLOSERS = (
    END,
    '"' + END,
    ', "text": "',
    '", "press_enter": true' + END,
    '"]' + END,
    "200" + END,
    "-200" + END,
    "1" + END,
    "Enter" + '"]' + END,
    "failure" + '"' + END,
    "success" + '"' + END,
)
"""Tails; numbers and names that only stand in a tail belong to it, so that they match nowhere else."""


def fragments() -> tuple[str, ...]:
    """Fixed pieces of prompt and reply that are one token each."""
    columns = tuple(f"[{n}, " for n in range(0, 1001, STEP))
    rows = tuple(f"{n}]" for n in range(0, 1001, STEP))
    return (*LAYOUT, *OPENERS.values(), CALL, *CLOSERS, *columns, *rows)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A new tokenizer with the stock Qwen3-VL chat template; pure function of the vocabulary and of this module."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
    from tokenizers.models import Unigram
    from transformers import PreTrainedTokenizerFast

    pieces: list[tuple[str, float]] = [(token, 0.0) for token in (*SPECIAL, "<unk>")]
    pieces += [(MARK + word, -1.0) for word in words() if len(word) > 1 or word.isalnum()]
    pieces += [(MARK + word, -1.0) for word in words() if len(word) == 1 and not word.isalnum()]
    pieces += [(MARK, -10.0)] + [(chr(code), -10.0) for code in range(33, 127)]
    pieces += [(f"<0x{byte:02X}>", -30.0) for byte in range(256)]
    core = Tokenizer(Unigram(pieces, unk_id=len(SPECIAL), byte_fallback=True))
    # "$45" is two words, as the page's reader has to see a price: the sign and the number.
    core.normalizer = normalizers.Replace(Regex(r"\$(?=[0-9])"), "$ ")
    core.pre_tokenizer = pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always")
    core.decoder = decoders.Sequence(
        [
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Replace(Regex(f'(?<=[" \n>]){MARK}|^{MARK}'), ""),
            decoders.Replace(MARK, " "),
            decoders.Replace(Regex(r"(?<=\$) (?=[0-9])"), ""),
        ]
    )
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    core.add_tokens([AddedToken(piece, special=False, normalized=False) for piece in fragments()])
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=SPECIAL[0],
        eos_token=SPECIAL[2],
        unk_token="<unk>",
        padding_side="left",
        model_max_length=4096,
        clean_up_tokenization_spaces=False,
        chat_template=chat_template(),
        extra_special_tokens={},
    )


def chat_template() -> str:
    """Qwen3-VL's stock chat template, byte for byte as trl ships it (Apache-2.0), so that trl knows it again."""
    from pathlib import Path

    import trl

    return (Path(trl.__file__).parent / "chat_templates" / "qwen3_vl.jinja").read_text(encoding="utf-8")


def token_id(tokenizer: Any, piece: str) -> int:
    """Id of a piece that is one token. Raises KeyError when it is not."""
    found = tokenizer.convert_tokens_to_ids(piece)
    if found is None or (found == tokenizer.unk_token_id and piece != tokenizer.unk_token):
        raise KeyError(f"{piece!r} is not one token of this tokenizer")
    return int(found)
