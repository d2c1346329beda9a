"""What is read of the stored history is found in an index, also where nobody has what is sought."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw

from tests.apps.tautulli.building import Desk
from tidegate.store.sql import Dialect, statements

ALL = {"started": 2**53, "row_id": 0, "since": 0, "person": "", "show": "", "platform": "", "media_type": "", "n": 100}


def found(desk: Desk, asked: Mapping[str, Any]) -> list[Any]:
    return desk.there.db.all("plays", **{**ALL, **asked})


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


def test_plays_are_sought_in_the_index_alone_and_nothing_but_those_shown_is_sorted(quick: Desk, tmp_path: Path) -> None:
    text = (files("tidegate_apps.tautulli") / "statements.sql").read_text(encoding="utf-8")
    book = {each.name: each.sql for each in statements(text, Dialect.SQLITE)}
    quick.syncing().run()
    connection = apsw.Connection(str(tmp_path / "plays.db"), apsw.SQLITE_OPEN_READONLY)
    nobody = {"kind": "show", "grain": "week", "whole": 0, "rim": 0, "rim_ends": 9, "sign": 1, "n": 10}
    try:
        plays = [row[3] for row in connection.execute(f"explain query plan {book['plays']}", {**ALL, "show": "x"})]
        top = [row[3] for row in connection.execute(f"explain query plan {book['top']}", nobody)]
    finally:
        connection.close()
    alone = "SEARCH tautulli_play USING COVERING INDEX tautulli_play_sought (started>? AND "
    assert plays[0].startswith("MATERIALIZE")
    assert plays[1].startswith(alone)
    assert "TEMP B-TREE" not in plays[1] + plays[2]
    assert any(line.startswith(alone) for line in top)
