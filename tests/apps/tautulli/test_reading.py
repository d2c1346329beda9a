"""What is read of the stored history is found by an index, also where nobody has what is sought."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.apps.tautulli.building import Desk
from tidegate.store.dialect import Dialect, statements
from tidegate_apps.tautulli import reading

ALL = {"started": 2**53, "row_id": 0, "since": 0, "person": "", "show": "", "platform": "", "media_type": "", "n": 100}


def found(desk: Desk, asked: Mapping[str, Any]) -> list[Any]:
    return desk.there.db.read(lambda tx: reading.history(tx, {**ALL, **asked}))


def test_every_pair_of_filters_keeps_what_both_keep(desk: Desk) -> None:
    desk.syncing().run()
    rows = desk.rows()[::-1]
    person, platform, media_type, show = rows[0][5], rows[0][7], rows[0][10], rows[0][12]
    filters = {"person": (5, person), "platform": (7, platform), "media_type": (10, media_type), "show": (12, show)}
    for one, (at, value) in filters.items():
        for other, (place, wanted) in filters.items():
            expected = [row for row in rows if row[at] == value and row[place] == wanted][:100]
            assert found(desk, {one: value, other: wanted}) == expected
            assert rows[0] in expected
            if one != other:
                assert found(desk, {one: value, other: "nobody has this"}) == []
        assert found(desk, {one: "nobody has this"}) == []


@pytest.mark.parametrize("column", ["person", "show", "platform", "media_type"])
def test_a_filter_is_looked_up_and_not_sought_in_all_plays(quick: Desk, tmp_path: Path, column: str) -> None:
    text = (files("tidegate_apps.tautulli") / "statements.sql").read_text(encoding="utf-8")
    book = {each.name: each.sql for each in statements(text, Dialect.SQLITE)}
    quick.syncing().run()
    connection = apsw.Connection(str(tmp_path / "plays.db"), apsw.SQLITE_OPEN_READONLY)
    try:
        plan = list(connection.execute(f"explain query plan {book[f'plays_of_{column}']}", {**ALL, "sought": "x"}))
    finally:
        connection.close()
    assert len(plan) == 1  # and nothing is sorted
    assert plan[0][3].startswith(f"SEARCH tautulli_play USING INDEX tautulli_play_{column} ({column}=?")
