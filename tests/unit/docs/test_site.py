"""`make docs`: every page is in the navigation, no link is dead, and a reader's browser asks nobody else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.web.browsing import browser
from tools import docs_index

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
FETCHED = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=\"?(https?:[^\s\">]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, place / "docs")
    shutil.copy(ROOT / "zensical.toml", place)
    build(place)
    docs_index.publish(place / "build" / "docs", place)
    return place / "build" / "docs"


def build(place: Path) -> None:
    found = subprocess.run(
        [str(Path(sys.executable).with_name("zensical")), "build", "--strict"],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def pages(listed: list[Any]) -> Iterator[str]:
    for each in listed:
        if isinstance(each, str):
            yield each
        else:
            for below in each.values():
                yield from pages(below)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = sorted(pages(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    assert listed == sorted(str(each.relative_to(DOCS)) for each in DOCS.rglob("*.md"))


@pytest.mark.full
def test_the_site_has_a_page_for_each_of_the_documents(site: Path) -> None:
    made = {str(each.relative_to(site)) for each in site.rglob("*.html")}
    for page in DOCS.rglob("*.md"):
        name = str(page.relative_to(DOCS).with_suffix(".html")).replace("README.html", "index.html")
        assert name in made


def test_the_site_publishes_llms_txt_and_the_markdown_that_it_links_to(site: Path) -> None:
    linked = re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text())

    assert len(linked) > 50
    assert [link for link in linked if not (site / link).is_file()] == []


def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    found = {address for page in site.rglob("*.html") for address in FETCHED.findall(page.read_text())}
    assert found == set()


def test_the_site_can_be_searched(site: Path) -> None:
    found = [
        each for each in json.loads((site / "search.json").read_text())["items"] if "half-open" in json.dumps(each)
    ]
    assert any("explanation/" in each["location"] for each in found)


@pytest.mark.full
def test_the_site_can_be_searched_in_a_browser_that_opened_it_from_a_folder(site: Path) -> None:
    with browser() as opened, closing(opened.new_page()) as page:
        page.goto((site / "how-to" / "run-tautulli.html").as_uri())
        page.get_by_role("button", name="Search").click()
        page.get_by_placeholder("Search").fill("permit_timeout")
        page.locator("a[href*='breaker']", has_text="permit_timeout").first.wait_for()
        assert page.get_by_placeholder("Search").input_value() == "permit_timeout", "it stays there to be changed"


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text("# Here\n\n[there](there.md)\n")
    (tmp_path / "zensical.toml").write_text('[project]\nsite_name = "x"\nsite_dir = "build/docs"\n')
    with pytest.raises(AssertionError, match="does not exist"):
        build(tmp_path)
