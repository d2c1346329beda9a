"""The page of states has each of them with its word, in the order in which they are told."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.guard.publisher import own_link
from tidegate.jobs.listing import BUCKETS
from tidegate.labels import JOBS, TARGETS
from tidegate.notices.messages import no_worker

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "states.md"


def test_the_page_names_every_state_and_its_word_in_their_order() -> None:
    named = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)

    assert named == [(token, word.word) for table in (TARGETS, JOBS) for token, word in table.items()]


def test_the_page_about_trouble_uses_the_words_that_people_see() -> None:
    text = (PAGE.parents[1] / "how-to" / "troubleshooting.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    said = {word for row in rows for word in re.findall(r"\*([^*]+)\*", row)}
    states = {word.word for table in (TARGETS, JOBS) for word in table.values()}
    titles = {no_worker("", 1, 0.0).title.strip(), own_link("", 0.0).title}

    assert said <= states | titles | {word for word, *_ in BUCKETS.values()}
    assert len(said) > 6
