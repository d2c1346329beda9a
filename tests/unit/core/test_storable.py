from __future__ import annotations

import pytest

from tidegate.core.storable import storable


@pytest.mark.parametrize(
    ("text", "most", "kept"),
    [
        ("", None, ""), ("plain", None, "plain"), ("a\0b\0", None, "ab"), ("half \ud800 of one", None, "half ? of one"),
        ("ümläut 🎵", None, "ümläut 🎵"), ("abcdef", 3, "abc"), ("abc", 3, "abc"), ("a\0b\0c", 3, "ab"),
    ],
)  # fmt: skip
def test_a_text_is_kept_without_what_no_database_takes(text: str, most: int | None, kept: str) -> None:
    assert storable(text, most) == kept
