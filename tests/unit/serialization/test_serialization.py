"""Arguments and results go into JSON and come back as they were, or are refused before anything is written."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.serialization.serial_types import (
    NOT_STORED,
    Box,
    Colour,
    Corner,
    FakeModel,
    Isbn,
    Item,
    Level,
    Model,
    Node,
    Options,
    Order,
    Place,
    Rights,
    Special,
    Square,
    StrictModel,
    SubItem,
    UserId,
    Word,
    says,
)
from tidegate.serialization import Serial, encode

NOON = datetime(2024, 2, 29, 12, 0, 0, 5)  # noqa: DTZ001 - a naive one is a value, too
SOME_UUID = UUID("12345678-1234-5678-1234-567812345678")

GOOD: list[tuple[Any, Any]] = [
    (None, None),
    (int, 7),
    (int, -(10**30)),
    (bool, True),
    (float, 0.1),
    (str, "naïve \x00 \ud800 😀\n"),
    (bytes, b"\x00\xff"),
    (datetime, NOON),
    (datetime, NOON.replace(tzinfo=UTC)),
    (datetime, NOON.replace(tzinfo=timezone(timedelta(hours=-3, minutes=-30)))),
    (date, date(2024, 2, 29)),
    (time, time(12, 30)),
    (timedelta, timedelta(days=2, microseconds=1)),
    (UUID, SOME_UUID),
    (Decimal, Decimal("1.10")),
    (Path, Path("/a/b")),
    (PurePosixPath, PurePosixPath("a")),
    (Colour, Colour.RED),
    (Level, Level.LOW),
    (Word, Word.YES),
    (Rights, Rights.READ | Rights.WRITE),
    (Corner, Corner.BOTTOM),
    (Isbn, Isbn("978")),
    (UserId, UserId(7)),
    (Annotated[int, "a number"], 7),
    (Literal["a", 1, True], 1),
    (Literal["a", 1, True], True),
    (Literal[Colour.RED], Colour.RED),
    (list[int], [1, 2]),
    (list, [1, "a", None]),
    (tuple[int, str], (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (tuple[()], ()),
    (tuple, (1, "a")),
    (set[int], {3, 1, 2}),
    (frozenset[str], frozenset({"a"})),
    (dict[str, int], {"a": 1}),
    (dict[int, str], {1: "a"}),
    (dict[UUID, int], {SOME_UUID: 1}),
    (dict[date, int], {date(2024, 2, 29): 1}),
    (dict[Colour, int], {Colour.RED: 1}),
    (dict, {"a": [1]}),
    (Sequence[int], [1]),
    (Mapping[str, int], {"a": 1}),
    (AbstractSet[int], frozenset({1})),
    (Iterable[date], [date(2024, 2, 29)]),
    (Place, Place("home", (1.0, 2.0))),
    (Options, {"name": "a"}),
    (Options, {"name": "a", "size": 1}),
    (Item, Item(1)),
    (Order, Order([Item(1), Item(2)], NOON, "n", Decimal("9.99"), {"a": Item(3)})),
    (Box[int], Box(1, [2])),
    (Box[Item], Box(Item(1), [Item(2)])),
    (Box[Box[date]], Box(Box(date(2024, 2, 29)))),
    (list[Box[date]], [Box(date(2024, 2, 29))]),
    (Node, Node(1, [Node(2)], Node(0))),
    (Square, Square(3)),
    (int | None, None),
    (int | None, 3),
    (int | str, "3"),
    (int | float, 3),
    (int | float, 3.0),
    (bool | int, 1),
    (int | bool, True),
    (date | datetime, date(2024, 2, 29)),
    (date | datetime, NOON),
    (str | datetime, NOON),
    (str | datetime, "hello"),
    (str | list[str], ["a"]),
    (int | Level, Level.LOW),
    (Level | int, 7),
    (float | Level, Level.LOW),
    (float | Level, 1.0),
    (str | Word, Word.YES),
    (str | Isbn, Isbn("978")),
    (Item | Order, Item(1)),
    (dict[str, Item | int], {"a": Item(1), "b": 2}),
    (Any, {"a": [1, None, "x", 2.5, True]}),
    (Model, Model(id=1, when=NOON, inner=[Model(id=2, when=NOON)])),
    (list[Model], [Model(id=1, when=NOON)]),
    (StrictModel, StrictModel(day=date(2024, 2, 29), data=b"x")),
    (list[StrictModel], [StrictModel(day=date(2024, 2, 29), data=b"x")]),
    (FakeModel, FakeModel(3)),
]


def named(each: object) -> str:
    """Its text without an address, which differs from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(each))


@pytest.mark.parametrize(("annotation", "value"), GOOD, ids=named)
def test_what_goes_in_comes_back_with_its_type(annotation: Any, value: Any) -> None:
    serial = Serial(annotation)
    text = serial.encode(value)
    back = serial.decode(text)

    assert back == value
    assert type(back) is type(value)
    assert text.isascii()
    assert serial.encode(back) == text


BAD: list[tuple[Any, Any, str]] = [
    (int, True, "arguments: True…"),
    (int, 1.0, "arguments: 1.0…"),
    (int, "1", "arguments: '1'…"),
    (int, None, "arguments: None…"),
    (bool, 1, "arguments: 1…"),
    (float, True, "arguments: True…"),
    (float, math.nan, "arguments: nan…"),
    (float, -math.inf, "arguments: -inf…"),
    (str, b"a", "arguments:…"),
    (bytes, "a", "arguments: 'a'…"),
    (date, NOON, "arguments:…"),
    (datetime, date(2024, 1, 1), "arguments:…"),
    (timedelta, 3, "arguments: 3…"),
    (UUID, str(SOME_UUID), "arguments: '12345678-1234-5678-1234-567812345678'…"),
    (Path, "/a", "arguments: '/a'…"),
    (Colour, "red", "arguments: 'red'…"),
    (Isbn, "978", "arguments: '978'…"),
    (Literal[1], True, "arguments: True…"),
    (list[int], (1,), "arguments: (1,)…"),
    (list[int], [1, "2"], "arguments[1]: '2'…"),
    (set[int], frozenset({1}), "arguments:…"),
    (tuple[int, str], (1,), "arguments: (1,)…"),
    (tuple[int, str], [1, "a"], "arguments: [1, 'a']…"),
    (dict[str, int], {"a": "b"}, "arguments['a']: 'b'…"),
    (dict[str, int], {1: 1}, "arguments[1]: 1…"),
    (Options, {"size": 1}, "arguments:…"),
    (Options, {"name": "a", "colour": 1}, "arguments:…"),
    (Place, ("home", (1.0, 2.0)), "arguments: ('home', (1.0, 2.0)…"),
    (Item, {"id": 1}, "arguments:…"),
    (Item, SubItem(1), "arguments: SubItem(id=1, name='x', more=0)…"),
    (Item, Item("1"), "arguments.id: '1'…"),  # type: ignore[arg-type]
    (Order, Order([Item(None)], NOON), "arguments.items[0].id: None…"),  # type: ignore[arg-type]
    (Box[int], Box("a"), "arguments.content: 'a'…"),
    (int | str, 1.5, "arguments: 1.5…"),
    (str | datetime, "2024-02-29", "arguments: '2024-02-29'…"),
    (int | Level, 1, "arguments: 1…"),
    (str | Isbn, "978", "arguments: '978'…"),
    (
        Item | Special,
        Special(1),
        "arguments: Special(id=1, name='x')…",
    ),
    (Model, {"id": 1}, "arguments:…"),
    (Any, object(), "arguments: <object object at …"),
    (
        Any,
        {"a": {1j}},
        "arguments: 1j…",
    ),
    (Any, {(1, 2): 3}, "arguments: keys …"),
]


@pytest.mark.parametrize(("annotation", "value", "message"), BAD, ids=named)
def test_what_does_not_fit_is_a_type_error_that_says_where(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(TypeError) as refused:
        Serial(annotation).encode(value)
    assert says(refused.value, message)


@pytest.mark.parametrize(
    ("annotation", "text", "message"),
    [
        (int, "true", "int: True…"),
        (int, '"1"', "int: '1'…"),
        (datetime, '"soon"', "datetime: 'soon'…"),
        (date, "3", "date: 3…"),
        (timedelta, "1e300", "timedelta: 1e+300…"),
        (UUID, '"x"', "UUID: 'x'…"),
        (Decimal, '"x"', "Decimal: 'x'…"),
        (bytes, '"a"', "bytes: 'a'…"),
        (Colour, '"green"', "Colour: 'green'…"),
        (Level, "true", "Level: True…"),
        (Corner, '"LEFT"', "Corner: 'LEFT'…"),
        (list[int], "{}", "list[int]:…"),
        (dict[int, int], '{"a": 1}', "dict[int, int]: 'a'…"),
        (tuple[int, str], "[1]", "tuple[int, str]: [1]…"),
        (set[Any], "[[]]", "set[Any]: set[Any]: …"),
        (Item, "[]", "Item: []…"),
        (Item, "{}", "Item:…"),
        (Item, '{"id": 1, "old": 2}', "Item:…"),
        (Order, '{"items": [{"id": "x"}], "when": "2024-01-01"}', "items[0].id: 'x'…"),
        (Square, '{"side": -1}', "Square:…"),
        (Model, '{"id": "x"}', "Model: Model: 2 validation errors for Model…"),
        (int | str, "[]", "int | str: []…"),
        (int, "{", "Expecting property name enclosed in double quotes…"),
        (Node, '{"value":1,"children":[' * 2000 + "]}" * 2000, "Node:…"),
    ],
)
def test_a_text_that_does_not_fit_is_a_value_error(annotation: Any, text: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the words are compared below
        Serial(annotation).decode(text)
    assert says(refused.value, message)


class Unknown:
    pass


@dataclass
class WithInitVar:
    n: int
    seed: dataclasses.InitVar[int]


@dataclass
class Lost:
    it: Nowhere  # type: ignore[name-defined] # noqa: F821


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Unknown, f"Unknown {NOT_STORED}"),
        (list[Unknown], f"Unknown {NOT_STORED}"),
        (Box[Unknown], f"Unknown {NOT_STORED}"),
        (complex, f"complex {NOT_STORED}"),
        (type[int], f"type[int] {NOT_STORED}"),
        (dict[float, int], "dict[float, int]: …"),
        (
            dict[Item, int],
            "dict[tests.unit.serialization.serial_types.Item, int]: …",
        ),
        (WithInitVar, "WithInitVar.seed …"),
        (Lost, "Lost: name 'Nowhere' …"),
    ],
)
def test_a_type_that_json_cannot_hold_is_refused_before_any_value(annotation: Any, message: str) -> None:
    with pytest.raises(TypeError) as refused:
        Serial(annotation)
    assert says(refused.value, message)


def test_types_of_a_function_are_found_in_the_scope_that_is_given() -> None:
    @dataclass
    class Inner:
        n: int

    @dataclass
    class Outer:
        inner: Inner

    assert Serial(Outer, locals()).decode('{"inner":{"n":1}}') == Outer(Inner(1))


def test_what_is_too_large_is_refused_with_its_size() -> None:
    assert len(Serial(str).encode("x" * 98, limit=100)) == 100
    with pytest.raises(ValueError, match=r"result: 101 .* 100 "):
        Serial(str).encode("x" * 99, what="result", limit=100)


def test_the_size_is_that_of_the_bytes_written() -> None:
    assert len(Serial(str).encode("😀", limit=14).encode()) == 14
    with pytest.raises(ValueError, match="14 bytes"):
        Serial(str).encode("😀", limit=13)


def test_what_contains_itself_is_a_value_error() -> None:
    loop: list[Any] = []
    loop.append(loop)
    node = Node(1)
    node.children.append(node)

    for annotation, value in ((Any, loop), (list[Any], loop), (Node, node)):
        with pytest.raises(ValueError, match=r"Circular|contains itself"):
            Serial(annotation).encode(value)


def test_what_has_no_annotation_stays_as_json_gives_it() -> None:
    values = [
        Item(1),
        NOON,
        SOME_UUID,
        Decimal("1.5"),
        Path("a"),
        {2, 1},
        b"x",
        Colour.RED,
        timedelta(1),
        (1,),
        Word.YES,
    ]

    assert json.loads(encode(values)) == [
        {"id": 1, "name": "x"}, NOON.isoformat(), str(SOME_UUID), "1.5", "a", [1, 2], "eA==", "red", 86400.0, [1],
        "yes",
    ]  # fmt: skip
    assert Serial().decode(encode(Item(1))) == {"id": 1, "name": "x"}


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": -math.inf}])
def test_numbers_that_json_does_not_know_are_refused_anywhere(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(value)


@pytest.mark.parametrize("value", [0, -7, 2**70, True, False, Level.LOW, {"n": 1}])
def test_a_number_alone_is_written_as_json_writes_it(value: object) -> None:
    assert encode(value) == json.dumps(value, separators=(",", ":"))


def test_a_number_that_is_too_long_to_be_read_again_is_refused() -> None:
    with pytest.raises(ValueError, match=r"arguments: .*digits"):
        encode(10**5000)


def test_the_same_set_is_always_the_same_text() -> None:
    there = {f"word-{n}" for n in range(50)}
    back = {f"word-{n}" for n in reversed(range(50))}

    assert Serial(set[str]).encode(there) == Serial(set[str]).encode(back)
    assert encode(there) == encode(back)


numbers = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
plain = st.none() | numbers | st.text()
trees = st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
items = st.builds(Item, id=st.integers(), name=st.text())
ANNOTATED: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (Any, trees),
    (datetime, st.datetimes(timezones=st.none() | st.just(UTC))),
    (date, st.dates()),
    (timedelta, st.timedeltas(min_value=timedelta(days=-90_000), max_value=timedelta(days=90_000))),
    (Decimal, st.decimals(allow_nan=False)),
    (bytes, st.binary()),
    (dict[int, list[Item]], st.dictionaries(st.integers(), st.lists(items))),
    (set[tuple[int, str]], st.sets(st.tuples(st.integers(), st.text()))),
    (Box[dict[str, Item | None]], st.builds(Box, content=st.dictionaries(st.text(), st.none() | items))),
    (Order, st.builds(Order, items=st.lists(items), when=st.datetimes(), note=st.none() | st.text())),
    (int | float | bool | None, st.none() | numbers),
]  # fmt: skip


@given(st.data())
@pytest.mark.parametrize(("annotation", "strategy"), ANNOTATED)
def test_every_value_of_a_type_comes_back(
    annotation: Any, strategy: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(strategy)
    back = Serial(annotation).decode(Serial(annotation).encode(value))

    assert back == value
    assert type(back) is type(value)


@given(trees)
def test_whatever_the_text_says_decoding_gives_the_type_or_a_value_error(tree: Any) -> None:
    for annotation in (Item, Order, Node, Options, list[Item], dict[int, date], int | Item | None, tuple[int, str]):
        try:
            found = Serial(annotation).decode(json.dumps(tree))
        except ValueError:
            continue
        assert Serial(annotation).decode(Serial(annotation).encode(found)) == found
