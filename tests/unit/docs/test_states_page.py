"""The page of states has each of them with its word, in the order in which they are told."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.ops.words import JOBS, TARGETS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "states.md"


def test_the_page_names_every_state_and_its_word_in_their_order() -> None:
    named = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)

    assert named == [(token, word.word) for table in (TARGETS, JOBS) for token, word in table.items()]
