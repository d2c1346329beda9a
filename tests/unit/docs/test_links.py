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


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in an address."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }


def test_a_link_into_a_page_leads_to_a_heading_of_it() -> None:
    lost = [
        (str(page.relative_to(ROOT)), found[0])
        for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
        for found in re.finditer(r"\]\(([^)#\s:]*)#([^)]*)\)", page.read_text())
        if found[2] not in anchors((page.parent / found[1]) if found[1] else page)
    ]

    assert lost == []


def test_a_page_of_the_documentation_leads_to_pages_of_it_alone() -> None:
    home = ROOT / "docs"
    beyond = [
        (page, link)
        for page, link in links()
        if page.startswith("docs/")
        and (not (there := ((ROOT / page).parent / link).resolve()).is_relative_to(home) or there.is_dir())
    ]

    assert beyond == [], "the site has no page for them"


def test_the_first_page_leads_to_every_other_but_decisions() -> None:
    first = {link for page, link in links() if page == "docs/README.md"}
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}

    assert {page for page in there - first if not page.startswith("adr/0")} == {"README.md"}


@pytest.mark.parametrize(("page", "link"), list(links()))
def test_a_link_of_a_page_leads_to_a_file(page: str, link: str) -> None:
    assert ((ROOT / page).parent / link).resolve().exists()
