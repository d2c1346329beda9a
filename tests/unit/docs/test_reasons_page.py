"""The page of reasons has each of them, in their order."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.targets.explain import REASONS

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "why-is-it-not-running.md"


def test_the_page_names_every_reason_in_its_order() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)

    assert named == [str(reason) for reason in REASONS]
