"""JSON of what has no annotation, and the whole sentence of what cannot be written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from tests.unit.serialization.serial_types import Colour, Corner, FakeModel, Item, Model, Node, Square
from tidegate.serialization import Serial, encode

SOME_UUID = UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Item(1), '{"id":1,"name":"x"}'),
        (Square(3), '{"side":3}'),
        (FakeModel(3), '{"n":3}'),
        (Model(id=1, when=datetime(2024, 1, 1, tzinfo=UTC)), '{"id":1,"when":"2024-01-01T00:00:00Z","inner":[]}'),
        (Colour.RED, '"red"'),
        (Corner.TOP, "[0,0]"),
        (date(2024, 2, 29), '"2024-02-29"'),
        (datetime(2024, 2, 29, tzinfo=UTC).timetz(), '"00:00:00+00:00"'),
        (datetime(2024, 2, 29, tzinfo=UTC), '"2024-02-29T00:00:00+00:00"'),
        (timedelta(minutes=1.5), "90.0"),
        (SOME_UUID, f'"{SOME_UUID}"'),
        (Decimal("1.10"), '"1.10"'),
        (PurePosixPath("a"), '"a"'),
        ({10, 9}, "[10,9]"),
        (frozenset({1, "a"}), '["a",1]'),
        (b"\xff", '"/w=="'),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        ([1, "é", None], '[1,"\\u00e9",null]'),
    ],
)
def test_what_has_no_annotation_is_written_like_this(value: object, text: str) -> None:
    assert encode(value) == text
    assert encode([value]) == f"[{text}]"


def looping() -> Node:
    node = Node(1)
    node.children.append(node)
    return node


NOT_WRITTEN: list[tuple[Callable[[], Any], str]] = [
    (lambda: encode(1j, what="result"), "result: 1j"),
    (lambda: encode(1j), "arguments: 1j"),
    (
        lambda: encode(Item),
        "arguments: <class 'tests.unit.serialization.serial_types.Item'>",
    ),
    (
        lambda: encode("abc", limit=4),
        "arguments: 5",
    ),
    (lambda: Serial(Node).encode(looping()), "arguments:"),
    (lambda: Serial(Node).encode(looping(), what="result"), "result:"),
    (lambda: Serial(int).encode("1", what="result"), "result: '1'"),
    (
        lambda: Serial(int).encode(10**6, what="result", limit=6),
        "result: 7",
    ),
]


@pytest.mark.parametrize(("wrong", "sentence"), NOT_WRITTEN, ids=range(len(NOT_WRITTEN)))
def test_what_cannot_be_written_names_what_was_given(wrong: Callable[[], Any], sentence: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        wrong()
    assert str(refused.value).startswith(sentence)


def test_what_contains_itself_and_has_no_annotation_is_told_by_its_name() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match=r"^result: "):
        encode(loop, what="result")
