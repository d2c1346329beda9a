"""What a test may ask of a sentence without knowing its words."""

from __future__ import annotations

import re


def numbers(text: str) -> list[int]:
    """Every whole number in it, in order."""
    return [int(found) for found in re.findall(r"\d+", text)]


def message(page: str) -> tuple[str, str]:
    """The message at the head of a page: its tone, which is good, warn or bad, and its text."""
    found = re.search(r'<div class="said (\w+)">.*?<p>(.*?)</p>', page, re.DOTALL)
    assert found is not None, page
    return found[1], found[2]


def names(text: str, *tokens: object) -> bool:
    """Whether it contains each of these values, names and options."""
    return all(str(token) in text for token in tokens)
