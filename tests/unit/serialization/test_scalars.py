"""Types that contain no others: how each is written in JSON, read again, and refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

import pytest

from tests.unit.serialization.serial_types import Colour, Corner, Isbn, Level, Rights, Word
from tidegate.serialization import Serial
from tidegate.serialization.scalars import Wrong, named, refused
from tidegate.serialization.types import shape_of

DAY = date(2024, 2, 29)
NOON = datetime(2024, 2, 29, 12, 0, 0, 5, tzinfo=UTC)
SOME_UUID = UUID("12345678-1234-5678-1234-567812345678")


class Count(int):
    pass


class Ratio(float):
    __slots__ = ()


class Switch(Enum):
    ON = True
    OFF = False


class Half(Enum):
    LOW = 0.5


class Mixed(Enum):
    """One of its values is nothing that JSON knows, so all are written by name."""

    PLAIN = "p"
    ODD = (1,)


class Either(Enum):
    WORD = "w"
    NUMBER = 1


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (None, None, "null"),
        (bool, False, "false"),
        (int, -3, "-3"),
        (float, 1.5, "1.5"),
        (str, "é", '"\\u00e9"'),
        (bytes, b"\x00\xff", '"AP8="'),
        (timedelta, timedelta(minutes=1.5), "90.0"),
        (datetime, NOON, '"2024-02-29T12:00:00.000005+00:00"'),
        (date, DAY, '"2024-02-29"'),
        (time, time(1, 2), '"01:02:00"'),
        (UUID, SOME_UUID, f'"{SOME_UUID}"'),
        (Decimal, Decimal("1.10"), '"1.10"'),
        (PurePosixPath, PurePosixPath("a/b"), '"a/b"'),
        (Isbn, Isbn("978"), '"978"'),
        (Count, Count(7), "7"),
        (Ratio, Ratio(0.5), "0.5"),
        (Colour, Colour.RED, '"red"'),
        (Level, Level.HIGH, "2"),
        (Switch, Switch.OFF, "false"),
        (Switch, Switch.ON, "true"),
        (Half, Half.LOW, "0.5"),
        (Corner, Corner.TOP, '"TOP"'),
        (Mixed, Mixed.PLAIN, '"PLAIN"'),
        (Either, Either.NUMBER, "1"),
        (Rights, Rights.READ | Rights.WRITE, "3"),
    ],
)
def test_each_is_written_in_one_way_and_comes_back(kind: Any, value: Any, text: str) -> None:
    found = Serial(kind).decode(text)
    assert Serial(kind).encode(value) == text
    assert (found, type(found)) == (value, type(value))


def test_a_whole_number_is_a_float_where_one_is_wanted() -> None:
    found = Serial(float).decode(Serial(float).encode(3))
    assert (found, type(found)) == (3.0, float)
    assert Serial(timedelta).decode("90") == timedelta(seconds=90)


KEYS: list[tuple[Any, Any, str]] = [
    (str, "a", "a"), (int, -3, "-3"), (bytes, b"\xff", "/w=="), (datetime, NOON, NOON.isoformat()),
    (date, DAY, "2024-02-29"), (time, time(1, 2), "01:02:00"), (UUID, SOME_UUID, str(SOME_UUID)),
    (Decimal, Decimal("1.10"), "1.10"), (Path, Path("a"), "a"), (Isbn, Isbn("978"), "978"), (Count, Count(7), "7"),
    (Colour, Colour.RED, "red"), (Word, Word.YES, "yes"), (Corner, Corner.TOP, "TOP"), (Mixed, Mixed.ODD, "ODD"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "key", "text"), KEYS)
def test_what_is_written_as_a_word_may_be_a_key(kind: Any, key: Any, text: str) -> None:
    serial: Serial = Serial(dict[kind, int])
    (found,) = serial.decode(f'{{"{text}": 1}}')
    assert serial.encode({key: 1}) == f'{{"{text}":1}}'
    assert (found, type(found)) == (key, type(key))


@pytest.mark.parametrize("kind", [None, bool, float, timedelta, Ratio, Level, Half, Switch, Either, Rights])
def test_what_is_not_written_as_a_word_is_no_key(kind: Any) -> None:
    with pytest.raises(TypeError) as wrong:
        Serial(dict[kind, int])
    assert f" {named(kind)};" in str(wrong.value)


@pytest.mark.parametrize(
    ("kind", "key", "sentence"),
    [
        (int, "a", "'a' is not of type int"),
        (Count, "x", "'x' is not of type Count"),
        (date, "x", "'x' is not of type date"),
        (UUID, "x", "'x' is not of type UUID"),
        (Colour, "RED", "'RED' is not of type Colour"),
        (bytes, "a", "'a' is not valid base64"),
    ],
)
def test_a_key_that_does_not_fit_is_told(kind: Any, key: str, sentence: str) -> None:
    serial: Serial = Serial(dict[kind, int])
    with pytest.raises(ValueError) as wrong:  # noqa: PT011 - the words are compared below
        serial.decode(f'{{"{key}": 1}}')
    assert str(wrong.value) == f"{serial.name}: {sentence}"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (None, 1), (None, False), (bool, 0), (int, True), (int, 1.0), (float, "1"), (float, False), (str, 1),
        (bytes, "a"), (bytes, bytearray(b"a")), (timedelta, 3), (datetime, DAY), (date, NOON), (time, NOON),
        (UUID, "x"), (Decimal, 1), (Path, "a"), (Isbn, "978"), (Count, 7), (Ratio, 0.5), (Colour, "red"), (Level, 1),
        (Corner, (0, 0)), (Switch, True),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises(TypeError) as wrong:
        Serial(kind).encode(value)
    assert str(wrong.value).startswith(f"arguments: {value!r:.60} ")
    assert str(wrong.value).endswith(f" {named(kind)}")


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        (None, "1", "1"), (bool, "1", "1"), (int, "1.0", "1.0"), (float, '"1"', "'1'"), (float, "true", "True"),
        (str, "1", "1"), (bytes, "3", "3"), (timedelta, '"x"', "'x'"), (timedelta, "true", "True"),
        (timedelta, "NaN", "nan"), (timedelta, "1e300", "1e+300"), (datetime, "3", "3"), (datetime, '"x"', "'x'"),
        (date, '"2024-02-30"', "'2024-02-30'"), (time, '"25:00"', "'25:00'"), (time, "null", "None"),
        (UUID, "3", "3"), (UUID, '"x"', "'x'"), (Decimal, "1", "1"), (Decimal, '"x"', "'x'"), (Path, "1", "1"),
        (Isbn, "978", "978"), (Count, '"7"', "'7'"), (Count, "true", "True"), (Ratio, '"x"', "'x'"),
        (Colour, '"RED"', "'RED'"), (Colour, "[]", "[]"), (Level, "true", "True"), (Level, "3", "3"),
        (Corner, "[]", "[]"), (Corner, '"LEFT"', "'LEFT'"), (Switch, "2", "2"),
    ],
)  # fmt: skip
def test_a_text_of_another_type_is_refused(kind: Any, text: str, shown: str) -> None:
    with pytest.raises(ValueError) as wrong:  # noqa: PT011 - the words are compared below
        Serial(kind).decode(text)
    assert str(wrong.value).startswith(f"{named(kind)}: {shown} ")
    assert str(wrong.value).endswith(f" {named(kind)}")


@pytest.mark.parametrize("text", ['"a"', '"aG!k="', '"é"'])
def test_what_is_no_base64_is_no_bytes(text: str) -> None:
    with pytest.raises(ValueError, match=rf"^bytes: {text.replace(chr(34), chr(39))} "):
        Serial(bytes).decode(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_without_end_is_no_number_of_json(value: float) -> None:
    with pytest.raises(TypeError, match=rf"^arguments: {value} "):
        Serial(float).encode(value)


def test_a_whole_number_that_no_float_can_hold_is_no_float() -> None:
    with pytest.raises(TypeError, match=r"^arguments: 10000+ .*float"):
        Serial(float).encode(10**400)
    with pytest.raises(ValueError, match=r"^float: 10000+ "):
        Serial(float).decode("1" + 400 * "0")


@pytest.mark.parametrize(
    ("rank", "kinds"),
    [
        (0, [None]), (1, [bool]), (3, [Colour, Level, Corner]), (4, [Count, Ratio]), (5, [int]), (6, [float]),
        (7, [date, time, UUID, Decimal]), (8, [datetime, timedelta]), (10, [bytes]), (11, [Isbn]), (12, [str, Path]),
    ],
)  # fmt: skip
def test_what_refuses_more_is_tried_first(rank: int, kinds: list[Any]) -> None:
    assert {shape_of(kind).rank for kind in kinds} == {rank}


@pytest.mark.parametrize(
    ("annotation", "value", "back"),
    [
        (str | UUID, SOME_UUID, SOME_UUID),
        (str | Path, Path("a"), "str"),
        (str | bytes, b"\xff\xff\xff", b"\xff\xff\xff"),
        (bytes | datetime, NOON, NOON),
        (datetime | date, DAY, DAY),
        (float | timedelta, timedelta(1), "float"),
    ],
)
def test_a_union_gives_back_the_type_that_went_in_or_refuses_it(annotation: Any, value: Any, back: Any) -> None:
    serial = Serial(annotation)
    if isinstance(back, str):
        with pytest.raises(TypeError, match=rf"\bas {back}\b"):
            serial.encode(value)
    else:
        assert serial.decode(serial.encode(value)) == back


def test_what_is_wrong_is_told_from_the_outside_inwards() -> None:
    wrong = Wrong("x", "[1]")
    assert wrong.inside(".a") is wrong
    assert (wrong.text, wrong.path, wrong.args) == ("x", ".a[1]", ("x", "[1]"))
    assert Wrong("x").path == ""
    assert refused("y" * 100, "int").text.startswith(f"'{'y' * 59} ")


def test_the_cause_of_a_refusal_is_kept() -> None:
    with pytest.raises(ValueError, match="UUID") as wrong:
        Serial(UUID).decode('"x"')
    assert isinstance(wrong.value.__cause__, ValueError)
