"""Half characters, in texts and in names."""

from rmsweb.halves import clean, cleaned


def test_only_halves_are_replaced() -> None:
    assert clean("a\ud83d b\U0001f600 \udfff") == "a? b\U0001f600 ?"
    whole = {"a": [1, None, True, 2.5, {"b": "caf\u00e9"}]}
    assert cleaned(whole) == whole
    assert cleaned({"\ud800": [{"x": "\udc00"}]}) == {"?": [{"x": "?"}]}
