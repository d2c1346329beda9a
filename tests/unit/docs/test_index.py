"""The lists of pages, docs/llms.txt and the end of docs/README.md, follow the navigation and the pages."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tools import docs_index

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)]+)\)")

NAVIGATION = """
[project]
site_name = "Example"
site_description = "Does something."
nav = ["README.md", { "Start" = ["one.md"] }, { "How to" = [{ "Deep" = ["two.md"] }] }, { "Decisions" = ["adr/1.md"] }]
"""


@pytest.fixture(scope="module", autouse=True)
def written() -> None:
    if os.environ.get("UPDATE_DOCS"):
        docs_index.write()


@pytest.fixture
def example(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "adr").mkdir(parents=True)
    (tmp_path / "zensical.toml").write_text(NAVIGATION)
    (tmp_path / "docs" / "one.md").write_text("# First `page`\n\nIt shows everything that you need on the first day.\n")
    (tmp_path / "docs" / "two.md").write_text("# Second page\n\n## Begin\n\nText.\n")
    (tmp_path / "docs" / "adr" / "1.md").write_text("# Reason\n\nBecause of that.\n")
    return tmp_path


def test_llms_txt_is_current() -> None:
    assert (DOCS / "llms.txt").read_text() == docs_index.llms_txt(), "run this file with UPDATE_DOCS=1"


def test_the_index_of_the_first_page_is_current() -> None:
    first = (DOCS / "README.md").read_text()

    assert first == docs_index.with_index(first), "run this file with UPDATE_DOCS=1"


def test_llms_txt_links_every_page_but_the_first_once() -> None:
    linked = LINK.findall((DOCS / "llms.txt").read_text())

    assert sorted(linked) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.parent != DOCS)


def test_llms_txt_has_sections_of_the_navigation_and_decisions_are_optional(example: Path) -> None:
    lines = docs_index.llms_txt(example).splitlines()

    assert lines[0] == "# Example"
    assert lines[2] == "> Does something."
    assert lines[lines.index("## Start") :] == [
        "## Start",
        "",
        "- [First `page`](one.md): It shows everything that you need on the first day.",
        "",
        "## How to / Deep",
        "",
        "- [Second page](two.md)",
        "",
        "## Optional",
        "",
        "- [Reason](adr/1.md)",
    ]


def test_only_the_marked_part_of_the_first_page_changes(example: Path) -> None:
    begin, end = docs_index.BEGIN, docs_index.END
    page = docs_index.with_index(f"# Home\n\n{begin}\nold\n{end}\n\nEnd.\n", example)

    assert page.startswith(f"# Home\n\n{begin}\n")
    assert page.endswith(f"{end}\n\nEnd.\n")
    assert LINK.findall(page) == ["one.md", "two.md"]


@pytest.mark.parametrize("marks", [0, 2])
def test_a_first_page_without_one_place_for_the_index_is_refused(example: Path, marks: int) -> None:
    with pytest.raises(ValueError, match=f"has {marks} blocks"):
        docs_index.with_index(f"{docs_index.BEGIN}\n{docs_index.END}\n" * marks, example)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("\n\nA sentence that is long enough for the summary of a page, really. More.\n", "long enough"),
        ("\n\nToo short. It takes the second sentence to say what the page is for. Third.\n", "is for."),
        (
            "\n\nIt shows `a.b. C` of [a page that you know](x.md) and of many other pages that you do not. More.\n",
            "not.",
        ),
        ("\n\nUse one of these:\n\n- one\n", "Use one of these"),
        ("\n\n## A section\n\nText.\n", ""),
        ("\n\n| a | b |\n", ""),
        ("\n\n```python\nx = 1\n```\n", ""),
    ],
)
def test_the_summary_is_made_of_the_first_sentences(body: str, expected: str) -> None:
    summary = docs_index.summary(body)

    assert (expected in summary) if expected else (summary == "")
    assert "More" not in summary
    assert "Third" not in summary
    assert "](" not in summary


def test_a_page_without_a_title_is_refused(example: Path) -> None:
    (example / "docs" / "one.md").write_text("Text.\n")

    with pytest.raises(ValueError, match=r"one\.md has no title"):
        docs_index.pages(example)


def test_the_markdown_of_each_page_is_published(example: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"

    docs_index.publish(site, example)

    assert (site / "adr" / "1.md").read_text() == (example / "docs" / "adr" / "1.md").read_text()
