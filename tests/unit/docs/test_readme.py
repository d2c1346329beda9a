"""The figures and the picture of the README are those that commands made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import outage_picture, why_not
from tools.figures import BLOCKS, blocks

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "docs/README.md")
NUMBER = re.compile(r"\d[\d,]*(?:m\d+s)?")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The README and the pages that its table is made from."""
    for path in ("README.md", *(BLOCKS[name].path for name in why_not.SOURCES)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text((ROOT / path).read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


def test_the_table_of_other_libraries_has_the_figures_of_the_pages() -> None:
    assert why_not.updated(README) == README, "run: .venv/bin/python -m tools.why_not"


def test_a_new_measurement_changes_the_table_and_its_stamp(copied: Path) -> None:
    page = copied / BLOCKS["queue-kills"].path
    text = page.read_text(encoding="utf-8")
    block = blocks(text)["queue-kills"]
    measured = re.sub(r"(\| Celery [^|]*\|(?:[^|]*\|){2}) \d+ ", r"\1 4711 ", text[block.start : block.end])
    measured = re.sub(r"at commit \S+", "at commit 0123abc", measured)
    page.write_text(text[: block.start] + measured + text[block.end :], encoding="utf-8")

    why_not.write(copied)

    changed = (copied / "README.md").read_text(encoding="utf-8")
    assert "4711 lost" in changed
    assert "4711 lost" not in README
    assert "at commit 0123abc" in changed
    assert changed.count("by `make peers` at commit") == 2


def test_a_library_that_was_not_measured_is_named(copied: Path) -> None:
    page = copied / BLOCKS["queue-kills"].path
    page.write_text(
        re.sub(r"^\| Celery .*\n", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE), encoding="utf-8"
    )

    with pytest.raises(LookupError, match=r"queue.* has no row 'Celery Redis'"):
        why_not.write(copied)


def test_the_picture_is_the_one_that_the_command_draws() -> None:
    drawn = (ROOT / outage_picture.PICTURE).read_text(encoding="utf-8")

    assert drawn == outage_picture.draw(), "run: .venv/bin/python -m tools.outage_picture"


@pytest.mark.parametrize("path", PAGES)
def test_the_text_for_the_picture_has_the_figures_of_the_picture(path: str) -> None:
    page = (ROOT / path).read_text(encoding="utf-8")
    described = re.search(r"<desc[^>]*>(.*)</desc>", (ROOT / outage_picture.PICTURE).read_text(encoding="utf-8"))
    alternative = re.search(r"!\[([^\]]+)\]\([^)]*outage\.svg\)", page)
    assert described is not None
    assert alternative is not None
    later = re.findall(r"here by (\S+)\.", page)

    stated = {*NUMBER.findall(alternative[1]), *later} - {"20"}
    assert len(stated) >= 3
    assert stated <= set(NUMBER.findall(described[1]))
