"""Arrays come back as they were given, whatever stands in them."""

from __future__ import annotations

import enum
import math
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.databases import POSTGRES, database
from tidegate.store.sql import array

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
TEXT |= st.sampled_from(["", "NULL", "null", '"', "\\", '\\"', "{", "}", ",", " ", "\n", '{"a": "\\u0000"}', "%s"])
WHOLE = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(allow_nan=False)
VALUES: list[tuple[str, st.SearchStrategy[Any]]] = [("text", TEXT), ("bigint", WHOLE), ("double precision", FLOAT)]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=["texts", "integers", "floats"])
def test_what_was_written_is_read(tmp_path: Path, kind: str, values: st.SearchStrategy[Any]) -> None:
    with database(POSTGRES, tmp_path) as db, psycopg.connect(db.url, autocommit=True) as server:

        @settings(max_examples=150, deadline=None)
        @given(st.lists(values, min_size=1, max_size=8) | st.lists(st.none() | values, min_size=1, max_size=8))
        def check(given: list[Any]) -> None:
            written = array(given)
            assert isinstance(written, str)
            found = server.execute(f"select %s::{kind}[]", (written,)).fetchone()
            assert found == (given,)

        check()


@pytest.mark.parametrize("given", [[math.inf, -math.inf, 0.1 + 0.2], [1, 2.5], [1, 2.5, None], [1e22, 5e-324]])
def test_numbers_of_both_kinds_stand_in_one_array(tmp_path: Path, given: list[Any]) -> None:
    with database(POSTGRES, tmp_path) as db, psycopg.connect(db.url, autocommit=True) as server:
        assert server.execute("select %s::double precision[]", (array(given),)).fetchone() == (given,)


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize("given", [[Colour.RED], [1, "a"], [True], [b"x"], ["a\0b"], ["\0", "\0"]])
def test_what_it_does_not_know_is_left_to_the_driver(given: list[Any]) -> None:
    assert array(given) is given
