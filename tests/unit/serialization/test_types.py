"""Types that contain others: what goes in, what comes back, and the whole sentence of what is refused."""

from __future__ import annotations

import ast
from collections import namedtuple
from collections.abc import Collection, Iterable, Mapping, MutableMapping, MutableSequence, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date, datetime
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, NotRequired, Optional, Required, TypedDict, TypeVar, Union

import pytest
from typing_extensions import TypeAliasType

from tests.unit.serialization.serial_types import (
    Box,
    Colour,
    FakeModel,
    Item,
    Level,
    Model,
    Node,
    Options,
    Order,
    Place,
    Square,
    UserId,
)
from tidegate.serialization import Serial
from tidegate.serialization.types import shape_of

KNOWN = "must be known when the program runs, not to type checkers only"
BOX = "tests.unit.serialization.serial_types.Box"
NOON = datetime(2024, 2, 29, 12)  # noqa: DTZ001 - a naive one is a value, too
T = TypeVar("T")
Pair = namedtuple("Pair", "left right")  # noqa: PYI024 - one without types
Number = TypeAliasType("Number", int)


class Partial(TypedDict, total=False):
    name: Required[str]
    zone: Required[str]
    size: int


class MyList(list[int]):
    pass


class MyTuple(tuple[int, ...]):
    __slots__ = ()


class WithFields:
    _fields = ("a",)


@dataclass
class Empty:
    pass


@dataclass
class Picky:
    n: int

    def __post_init__(self) -> None:
        if self.n > 1:
            raise TypeError("it is picky")


@dataclass
class Marked:
    n: Annotated[int, "a number"]
    kept: ClassVar[int] = 5
    fixed: Final[int] = 7
    made: int = field(default=3, init=False)


@dataclass
class OddKeys:
    it: dict[Annotated[float, "a number"], int]


@dataclass
class Axis:
    X: int


@dataclass
class HasBox:
    box: Box  # type: ignore[type-arg] # a generic class without what it is of


# annotation, value, JSON, what comes back
WRITTEN: list[tuple[Any, Any, str, Any]] = [
    (object, [1, "a"], '[1,"a"]', [1, "a"]),
    (T, {"a": None}, '{"a":null}', {"a": None}),
    (list[T], [1, "a"], '[1,"a"]', [1, "a"]),  # type: ignore[valid-type]
    (Number, 5, "5", 5),
    (list[Number], [5], "[5]", [5]),
    (Annotated[int, []], 5, "5", 5),
    (Final[int], 5, "5", 5),
    (Required[int], 5, "5", 5),
    (NotRequired[int], 5, "5", 5),
    (Optional[int], None, "null", None),  # noqa: UP045 - the older way of writing it
    (Union[int, str], "a", '"a"', "a"),  # noqa: UP007
    (Literal["a", "b"], "b", '"b"', "b"),
    (Literal[1, 2], 2, "2", 2),
    (Literal[Colour.BLUE, 1], Colour.BLUE, '"blue"', Colour.BLUE),
    (list, [1, None], "[1,null]", [1, None]),
    (list[int], MyList([1]), "[1]", [1]),
    (Sequence, (1, "a"), '[1,"a"]', [1, "a"]),
    (Sequence[int], (1, 2), "[1,2]", [1, 2]),
    (MutableSequence[int], [1, 2], "[1,2]", [1, 2]),
    (Iterable[date], (date(2024, 2, 29),), '["2024-02-29"]', [date(2024, 2, 29)]),
    (Collection[int], (1,), "[1]", [1]),
    (tuple, (1, "a"), '[1,"a"]', (1, "a")),
    (tuple[int], (1,), "[1]", (1,)),
    (tuple[int, ...], MyTuple((1, 2)), "[1,2]", (1, 2)),
    (tuple[int, date], (1, date(2024, 2, 29)), '[1,"2024-02-29"]', (1, date(2024, 2, 29))),
    (set, {10, 9}, "[10,9]", {9, 10}),
    (set[int | str], {1, "a"}, '["a",1]', {1, "a"}),
    (frozenset, frozenset({1}), "[1]", frozenset({1})),
    (AbstractSet[int], {10, 9}, "[10,9]", frozenset({9, 10})),
    (AbstractSet[int], frozenset({1}), "[1]", frozenset({1})),
    (MutableSet[int], {10, 9}, "[10,9]", {9, 10}),
    (MutableSet[int], frozenset({1}), "[1]", {1}),
    (dict, {"a": [1]}, '{"a":[1]}', {"a": [1]}),
    (dict[Any, int], {"a": 1}, '{"a":1}', {"a": 1}),
    (Mapping, MappingProxyType({"a": 1}), '{"a":1}', {"a": 1}),
    (MutableMapping[int, int], {1: 2}, '{"1":2}', {1: 2}),
    (dict[UserId, int], {UserId(7): 1}, '{"7":1}', {7: 1}),
    (dict[Number, int], {7: 1}, '{"7":1}', {7: 1}),
    (dict[date, int], {date(2024, 2, 29): 1}, '{"2024-02-29":1}', {date(2024, 2, 29): 1}),
    (Pair, Pair(1, "a"), '[1,"a"]', Pair(1, "a")),
    (Place, Place("x", (1.0, 2.0)), '["x",[1.0,2.0]]', Place("x", (1.0, 2.0))),
    (Partial, {"name": "a", "zone": "b"}, '{"name":"a","zone":"b"}', {"name": "a", "zone": "b"}),
    (Empty, Empty(), "{}", Empty()),
    (Square, Square(3), '{"side":3}', Square(3)),
    (Marked, Marked(1), '{"n":1,"fixed":7}', Marked(1)),
    (Box, Box([1], ["a"]), '{"content":[1],"more":["a"]}', Box([1], ["a"])),
    (HasBox, HasBox(Box(1, ["a"])), '{"box":{"content":1,"more":["a"]}}', HasBox(Box(1, ["a"]))),
    (Item | int | None, None, "null", None),
    (Literal["on"] | int, "on", '"on"', "on"),
]


@pytest.mark.parametrize(("annotation", "value", "text", "back"), WRITTEN)
def test_a_value_has_one_text_and_comes_back_as_what_its_type_gives(
    annotation: Any, value: Any, text: str, back: Any
) -> None:
    serial = Serial(annotation)
    found = serial.decode(text)
    assert serial.encode(value) == text
    assert (found, type(found)) == (back, type(back))


@pytest.mark.parametrize(
    ("annotation", "text", "back"),
    [
        (Item, '{"id": 1}', Item(1)),
        (Order, '{"items": [], "when": "2024-02-29T12:00:00"}', Order([], NOON)),
        (Box[int], '{"content": 1}', Box(1)),
        (Node, '{"value": 1, "parent": {"value": 2}}', Node(1, [], Node(2))),
    ],
)
def test_what_has_a_default_need_not_be_in_the_text(annotation: Any, text: str, back: Any) -> None:
    assert Serial(annotation).decode(text) == back


REFUSED_VALUES: list[tuple[Any, Any, str]] = [
    (int | None, "x", ": 'x'"),
    (int | str, None, ": None"),
    (int | Level, 1, ": 1"),
    (str | date, "2024-02-29", ": '2024-02-29'"),
    (Literal["a", "b"], "c", ": 'c'"),
    (Sequence[int], "ab", ": 'ab'"),
    (AbstractSet[int], [1], ": [1]"),
    (frozenset[int], {1}, ":"),
    (set[int], {"a"}, "[0]: 'a'"),
    (tuple[int, ...], [1], ": [1]"),
    (tuple[int, ...], (1, "a"), "[1]: 'a'"),
    (tuple[int, str], (1, 2), "[1]: 2"),
    (dict, {1: 2}, "[1]: 1"),
    (dict[str, int], [("a", 1)], ": [('a', 1)]"),
    (dict[str, list[int]], {"a": [1, None]}, "['a'][1]: None"),
    (Place, Place("x", (1.0, "y")), ".at[1]: 'y'"),  # type: ignore[arg-type]
    (Pair, (1, 2), ": (1, 2)"),
    (Options, [1], ": [1]"),
    (Options, {"name": 1}, ".name: 1"),
    (Partial, {"size": 1}, ":"),
    (Partial, {"name": "a"}, ":"),
    (Partial, {"name": "a", "zone": "b", "x": 1, "y": 2}, ":"),
    (Box[int], Box(1, ["a"]), ".more[0]: 'a'"),
    (Box[int], 5, ": 5"),
    (Number, "5", ": '5'"),
    (Annotated[int, []], "5", ": '5'"),
    (int, "x" * 100, f": '{'x' * 59} is not of type int"),
]


@pytest.mark.parametrize(("annotation", "value", "sentence"), REFUSED_VALUES)
def test_a_value_that_does_not_fit_is_told_with_its_place(annotation: Any, value: Any, sentence: str) -> None:
    with pytest.raises(TypeError) as refused:
        Serial(annotation).encode(value, what="result")
    assert str(refused.value).startswith(f"result{sentence}")


def test_what_would_not_come_back_equal_is_refused_where_it_could_be_something_else() -> None:
    square = Square(3)
    square.area = 5
    with pytest.raises(TypeError) as refused:
        Serial(Square | int).encode(square)
    assert str(refused.value).startswith("arguments: Square(side=3, area=5) ")


@pytest.mark.parametrize(
    ("annotation", "text", "sentence"),
    [
        (int | None, '"x"', "Optional[int]: 'x' is not of type int"),
        (int | str, "null", "int | str: None is not of type int | str"),
        (Literal[1], "2", "Literal[1]: 2 is not of type Literal[1]"),
        (Literal[1], "true", "Literal[1]: True is not of type Literal[1]"),
        (list[int], '[1, "a"]', "[1]: 'a' is not of type int"),
        (set[int], "3", "set[int]: 3 is not of type set[int]"),
        (tuple[int, str], '{"a": 1, "b": 2}', "tuple[int, str]: {'a': 1, 'b': 2} is not of type tuple[int, str]"),
        (tuple[int, str], "[1, 2]", "[1]: 2 is not of type str"),
        (dict[str, int], "[]", "dict[str, int]: [] is not of type dict[str, int]"),
        (dict[str, int], '{"a": "b"}', "['a']: 'b' is not of type int"),
        (Place, "[]", "Place: [] is not of type Place"),
        (Place, '["x", [1, "y"]]', "[1][1]: 'y' is not of type float"),
        (Options, "[]", "Options: [] is not of type Options"),
        (Options, "{}", "Options: Options needs the field 'name'"),
        (Options, '{"name": 1}', "name: 1 is not of type str"),
        (Empty, '{"a": 1}', "Empty: Empty has no field 'a'; it has none"),
        (Axis, '{"X": "a"}', "X: 'a' is not of type int"),
        (Picky, '{"n": 2}', "Picky: Picky: it is picky"),
        (Box[int], '{"content": 1, "more": ["x"]}', "more[0]: 'x' is not of type int"),
        (Box[int], '{"content": "x"}', "content: 'x' is not of type int"),
        (Square, '{"side": 3, "area": 9}', "Square: Square has no field 'area'; it has side"),
    ],
)
def test_a_text_that_does_not_fit_is_told_with_its_place(annotation: Any, text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the words are compared below
        Serial(annotation).decode(text)
    assert str(refused.value).replace("int | None", "Optional[int]") == sentence


@dataclass
class Lost:
    it: Nowhere  # type: ignore[name-defined] # noqa: F821


@pytest.mark.parametrize(
    ("annotation", "sentence"),
    [
        (5, "5 "),
        (Item(1), "Item(id=1, name='x') "),
        (WithFields, "WithFields "),
        (MyTuple, "MyTuple "),
        (ast.Name, "Name "),
        (type[int], "type[int] "),
        (ClassVar[int], "ClassVar[int] "),
        (dict[list[int], int], "dict[list[int], int]: "),
        (OddKeys, "dict[float, int]: "),
        (
            Lost,
            "Lost: name 'Nowhere' ",
        ),
    ],
)
def test_a_type_that_cannot_be_stored_is_told_by_its_name(annotation: Any, sentence: str) -> None:
    with pytest.raises(TypeError) as refused:
        Serial(annotation)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("annotation", "rank"),
    [
        (Any, 20), (T, 20), (Literal[1], 2), (Item, 6), (Options, 6), (Place, 6), (Model, 6),
        (FakeModel, 6), (list[int], 9), (set[int], 9),
        (tuple[int, str], 9), (tuple[int, ...], 9), (dict[str, int], 9), (UserId, 5), (Number, 5), (int | None, 5),
        (int | str | bool, 12), (list[int] | Item, 9),
    ],
)  # fmt: skip
def test_what_refuses_more_is_tried_first_in_a_union(annotation: Any, rank: int) -> None:
    assert shape_of(annotation).rank == rank


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (Annotated[int, []], "Annotated[int, []]"), (Sequence[int], "Sequence[int]"), (Box[int], f"{BOX}[int]"),
        (UserId, "UserId"), (Number, "Number"), (None, "None"), (type(None), "None"), (Any, "Any"), (Item, "Item"),
        (list[int], "list[int]"), (Iterable[Sequence[int]], "Iterable[Sequence[int]]"),
    ],
)  # fmt: skip
def test_a_type_has_the_name_that_people_give_it(annotation: Any, name: str) -> None:
    assert Serial(annotation).name == name


def test_a_class_inside_functions_has_its_own_name_alone() -> None:
    def outer() -> type:
        def inner() -> type:
            @dataclass
            class Deep:
                n: int

            return Deep

        return inner()

    assert Serial(outer()).name == "Deep"


def test_without_a_type_anything_goes_as_it_is() -> None:
    assert Serial().name == "Any"
    assert Serial().decode(Serial().encode([1, {"a": None}])) == [1, {"a": None}]
