"""Every link from one page of ours to another leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def links() -> Iterator[tuple[str, str]]:
    for page in (*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))):
        for found in LINK.finditer(page.read_text()):
            if "://" not in found[1]:
                yield str(page.relative_to(ROOT)), found[1]


@pytest.mark.parametrize(("page", "link"), list(links()))
def test_a_link_of_a_page_leads_to_a_file(page: str, link: str) -> None:
    assert ((ROOT / page).parent / link).resolve().exists()
