"""Which names are one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_apps.music.library import clean, key_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Björk", "BJORK"),
        ("Sigur Rós", "sigur ros"),
        ("The Beatles", "Beatles"),
        ("AC/DC", "ac dc"),
        ("Simon & Garfunkel", "Simon and Garfunkel"),
        ("Guns N' Roses", "Guns N’ Roses"),  # noqa: RUF001
        ("Umbrella (feat. Jay-Z)", "Umbrella"),
        ("Rihanna ft. Jay-Z", "Rihanna"),
        ("Rihanna featuring Jay-Z", "rihanna"),
        ("Ⅳ", "iv"),
        ("  Low \t Roar ", "low roar"),
    ],
)
def test_what_is_written_differently_is_one_name(one: str, other: str) -> None:
    assert key_of(one) == key_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Low", "Low Roar"),
        ("The The", "The"),
        ("!!!", "+/-"),
        ("Ft. Worth Blues", "Worth Blues"),
        ("Hey Jude", "Hey Jude (Live)"),
        ("Feather", "Feather feather"),
        ("Track 1", "Track 2"),
    ],
)
def test_what_differs_stays_two(one: str, other: str) -> None:
    assert key_of(one) != key_of(other)


@given(st.text(max_size=400))
def test_a_key_is_stable_and_empty_only_for_an_empty_name(name: str) -> None:
    shown = clean(name)
    key = key_of(shown)
    assert bool(key) == bool(shown)
    assert "\0" not in shown
    shown.encode()
