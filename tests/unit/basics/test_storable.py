from __future__ import annotations

from collections.abc import Hashable

import pytest

from tidegate.validation import key_text, storable


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        ("", None, ""), ("plain", None, "plain"), ("a\0b\0", None, "ab"), ("half \ud800 of one", None, "half ? of one"),
        ("ümläut 🎵", None, "ümläut 🎵"), ("abcdef", 3, "abc"), ("abc", 3, "abc"), ("a\0b\0c", 3, "ab"),
    ],
)  # fmt: skip
def test_a_text_is_kept_without_what_no_database_takes(text: str, most: int | None, kept: str) -> None:
    assert storable(text, most) == kept


@pytest.mark.parametrize(
    ("key", "kept"),
    [
        (None, ""), ("", ""), (7, "7"), ("ann", "ann"), ("a\0b", "ab"), (("a", 1), "('a', 1)"), ("x" * 200, "x" * 200),
        ("ü" * 201, "sha256:55fbe01b02984c6811f9e54db8e96d9f801b4767a4b02b98e0024b1f2f2a0fb4"),
    ],
)  # fmt: skip
def test_a_key_is_kept_as_its_text_and_a_long_one_by_its_digest(key: Hashable, kept: str) -> None:
    assert key_text(key) == kept


class Mute:
    def __str__(self) -> str:
        raise ValueError("I say nothing")


def test_a_key_that_has_no_text_is_kept_by_the_name_of_its_type() -> None:
    assert key_text(Mute()) == "Mute"
