"""The page of events says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.events import Event, EventKind, Notice, NoticeKind
from tidegate.faults.fault import Level
from tidegate.guard.hold import HoldReason
from tidegate.guard.sinks import level_of

DOCS = Path(__file__).parents[3] / "docs"


def rows(page: str, columns: int) -> dict[str, list[str]]:
    """The rows of tables that are so wide, by the name in their first cell."""
    found = {}
    for line in (DOCS / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == columns:
            found[cells[0].strip("`")] = cells[1:]
    return found


def test_every_event_is_on_the_page_with_its_level() -> None:
    page = rows("reference/events.md", 5)

    assert set(page) == set(EventKind)
    for kind in EventKind:
        if kind is not EventKind.CALL_FAILED:
            assert Level[page[kind][-1]].number == level_of(Event(kind=kind, at=0.0, target="t")), kind


def test_every_notice_is_on_the_page_with_its_icon() -> None:
    page = rows("reference/events.md", 3)

    icons = {kind: Notice(kind=kind, target="t", episode=0, title="x", message="y").icon for kind in NoticeKind}
    assert {kind: cells[0] for kind, cells in page.items()} == icons


def test_every_gate_is_on_its_page_in_order() -> None:
    assert list(rows("explanation/why-is-it-not-running.md", 4))[: len(HoldReason)] == list(HoldReason)


def test_the_fields_on_the_page_are_those_that_events_carry() -> None:
    named = set(re.findall(r"`(\w+)`", " ".join(cells[2] for cells in rows("reference/events.md", 5).values())))

    of_breakers, of_rests = {"name", "from", "to", "opened"}, {"reason", "by", "run_length", "consecutive_errors"}
    assert named == {"own_link", "held"} | of_breakers | of_rests
