"""Answer comparison: every pair is checked both ways round, and every kind has both sides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmsweb.answers import canonical_url, is_address, number, same_answer


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The sum is $0.00.", "0"), ("0.", "0"), ("000170", "170"), ("5,310", "5310"), ("1 000", "1000"),
        ("1.234,56 €", "1234.56"), ("It costs $1,234.50 in total", "1234.5"), ("-3", "−3"), ("$ 45", "45"),
        ("812 g", "0.812 kg"), ("812 g", "812"), ("2 hours", "120 min"), ("45 dollars", "$45"), ("12 USD", "$12"),
        ("5%", "5 percent"), ("three", "3"), ("There are three of them.", "3"), ("Ann", "ann."), ("yes", "Yes!"),
        ("the red mug", "Red  Mug"), ("“rome”", "rome"), ("ﬁne", "fine"), ("10:30", "10:30"), ("9 lbs", "9 lb"),
        ("http://a.test/viewed", "https://A.test/viewed/"), ("a.test/x?b=1&a=2", "http://a.test:80/x?a=2&b=1#top"),
    ],
)  # fmt: skip
def test_the_same(one: str, other: str) -> None:
    assert same_answer(one, other) and same_answer(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("", ""), ("", "0"), ("ann bob", "ann"), ("unsuccessful", "successful"), ("no", "yes"), ("mug 5", "mug"),
        ("15", "5"), ("50", "5"), ("1.5", "15"), ("1,5", "15"), ("-5", "5"), ("4 of 12", "4"), ("not 5 but 6", "5"),
        ("812 g", "812 kg"), ("$12", "€12"), ("5%", "5 kg"), ("5 stars", "4 stars"), ("the answer is 5", "it is 5"),
        ("10:30", "10"), ("2024-01-05", "5"), ("5-10", "5"), ("1/2", "1"), ("12a", "12"), ("v1.2.3", "1.2"),
        ("http://a.test/viewedX", "http://a.test/viewed"), ("http://a.test/x", "http://a.test"),
        ("http://a.test/x?a=1", "http://a.test/x"), ("http://a.test/5", "5"), ("a.test", "b.test"),
    ],
)  # fmt: skip
def test_not_the_same(one: str, other: str) -> None:
    assert not same_answer(one, other) and not same_answer(other, one)


def test_numbers_that_could_mean_two_things_are_none() -> None:
    assert number("1,2,3") is None and number("1.2.3") is None
    assert number("1.234") == number("1.2340") and number("1,234") == 1234


def test_addresses() -> None:
    assert is_address("http://127.0.0.1:8000/a") and is_address("<www.a.test>") and not is_address("see a.test now")
    assert canonical_url("HTTP://A.test:80/b%20c/?y=2&x=1#z") == "a.test/b c?x=1&y=2"
    for broken in ("http://a.test:99999999/", "http://["):
        assert canonical_url(broken) == broken and same_answer(broken, broken)


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_compared_alike_both_ways(one: str, other: str) -> None:
    assert same_answer(one, other) == same_answer(other, one)
    assert same_answer(one, one) == bool(one.strip())
