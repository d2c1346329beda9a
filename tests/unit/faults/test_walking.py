"""What is read of a stranger's exception, which exceptions led to it, and what each of them is by its type alone."""

from __future__ import annotations

import errno
import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.unit.faults.failing import AppError, chained, raised
from tidegate.faults import exceptions, introspection
from tidegate.faults.exceptions import CODE_OF_KIND, STRENGTH, ExceptionKind, kind_of
from tidegate.faults.introspection import (
    MAX_NODES,
    causes,
    contexts,
    ends,
    fields_of,
    is_a,
    read,
    status_in_field,
    type_name,
)

FIELDS = (
    "cause", "exceptions", "headers", "http_status", "original_error", "os_error", "reason", "response",
    "status", "status_code",
)  # fmt: skip


def fresh(base: type[BaseException] = Exception, name: str = "Own", module: str = "app", **fields: Any) -> Any:
    """A type that nobody has met yet: what is known of a type is kept."""
    return type(name, (base,), {"__module__": module, **fields})


class Looked(type):
    """The type of a type that tells what is asked of it."""

    asked: list[str] = []  # noqa: RUF012

    def __getattribute__(cls, name: str) -> Any:
        Looked.asked.append(name)
        return super().__getattribute__(name)


class Nameless(type):
    __name__ = property(lambda cls: 5)


def test_a_type_is_looked_at_once_and_then_remembered() -> None:
    kind = Looked("Own", (ConnectionError,), {"status": 503})
    for look in (fields_of, kind_of):
        first = look(kind("x"))
        Looked.asked.clear()
        assert look(kind("x")) == first
        assert not {"__mro__", "__getattribute__", "status"} & set(Looked.asked)


def test_no_more_types_are_remembered_than_fit_and_then_it_begins_anew() -> None:
    sizes = []
    for number in range(4096 + 50):
        error = fresh(ConnectionResetError, f"E{number}")()
        assert (kind_of(error), fields_of(error)) == (ExceptionKind.RESET, {})
        sizes.append((len(exceptions._by_type), len(introspection._on_class)))  # noqa: SLF001
    for each in zip(*sizes, strict=True):
        assert max(each) == 4096
        assert each[each.index(4096) + 1] == 1


def test_a_name_that_is_no_text_is_replaced() -> None:
    assert type_name(AppError()) == "AppError"
    assert type_name(Nameless("Own", (Exception,), {})()) == "BaseException"


def test_an_object_that_lies_about_its_class_is_what_it_is() -> None:
    class Liar:
        __class__ = property(lambda self: str)

    assert isinstance(Liar(), str)
    assert not is_a(Liar(), str)
    assert is_a("x", str)
    assert is_a(True, int)
    assert (read(None, "__class__"), read("x", "nothing"), read("x", "__class__")) == (None, None, str)


def test_a_number_that_compares_as_it_likes_is_a_status_by_its_value() -> None:
    class Odd(int):
        def __le__(self, other: object) -> bool:
            return True

        def __ge__(self, other: object) -> bool:
            return True

    assert [status_in_field(each) for each in (Odd(404), Odd(99), Odd(600), False, 404.0)] == [404, 0, 0, 0, 0]


def test_fields_lie_on_the_instance_on_the_class_in_slots_and_in_properties() -> None:
    with_slots = fresh(Exception, __slots__=("status",))("x")
    with_slots.status = 404
    both = fresh(Exception, status=503, other=1, code=None)("x")
    both.__dict__.update(status=404, headers={"a": "b"}, unasked=1)

    assert fields_of(with_slots) == {"status": 404}
    assert fields_of(both) == {"status": 404, "headers": {"a": "b"}}
    assert fields_of(fresh(Exception, status=property(lambda self: 410))()) == {"status": 410}
    assert fields_of(fresh(Exception, status=property(lambda self: 1 // 0))()) == {"status": None}
    assert fields_of(fresh()()) == {}


@pytest.mark.parametrize("way", ["__getattr__", "__getattribute__"])
def test_a_class_that_answers_for_attributes_itself_is_asked_for_each(way: str) -> None:
    def found(self: object, name: str) -> Any:
        return 418 if name == "status" else None

    assert fields_of(type("Own", (Exception,), {way: found})()) == {**dict.fromkeys(FIELDS), "status": 418}


def whole() -> tuple[AppError, list[AppError]]:
    """An exception with everything that may lie below it, and that in its order."""
    names = ("__cause__", "reason", "os_error", "original_error", "cause")
    below = [AppError(name) for name in (*names, "member 1", "member 2", "argument 1", "argument 2")]
    error = AppError("said", below[7], 5, below[8])
    error.__cause__ = below[0]
    error.__dict__.update(zip(names[1:], below[1:5], strict=True))
    error.__dict__["exceptions"] = [below[5], "no exception", below[6]]
    return error, below


def test_what_led_to_an_exception_comes_in_a_fixed_order() -> None:
    error, below = whole()
    assert list(causes(error)) == [error, *below]
    below[0].reason = deeper = AppError("deeper")  # type: ignore[attr-defined]
    assert list(causes(error)) == [error, below[0], deeper, *below[1:]]
    assert list(ends(error)) == [deeper, *below[1:]]
    error.__dict__["exceptions"] = tuple(error.__dict__["exceptions"])
    assert list(contexts(error)) == [error, below[0], deeper, *below[1:]]
    error.__dict__["exceptions"] = {below[5]}
    assert below[5] not in list(causes(error))


def test_what_was_being_handled_comes_last_and_only_when_it_is_asked_for() -> None:
    context, argument = AppError("context"), AppError("argument")
    error = chained(AppError("outer", argument), context=context)

    assert list(contexts(error)) == [error, argument, context]
    assert list(causes(error)) == [error, argument]
    assert [each.args for each in ends(chained(AppError("outer"), context=context))] == [("outer",)]
    for hidden in (
        chained(AppError("outer"), cause=argument, context=context),
        chained(KeyError("a bug"), context=context),
    ):
        assert context not in list(contexts(hidden))
    error.__suppress_context__ = True
    assert list(contexts(error)) == [error, argument]
    own_meaning = chained(fresh(KeyError)("x"), context=context)
    assert list(contexts(own_meaning)) == [own_meaning, context]


def test_an_exception_that_is_met_twice_comes_once_and_the_rest_follows() -> None:
    one, other = AppError("one"), AppError("other")
    group = ExceptionGroup("both", [one, one, other])

    assert list(causes(group)) == [group, one, other]


def test_so_many_exceptions_are_looked_at_and_no_more() -> None:
    deep: BaseException = AppError("last")
    for _ in range(MAX_NODES):
        deep = chained(AppError("wrapped"), cause=deep)
    for error in (deep, ExceptionGroup("wide", [AppError(str(number)) for number in range(99)])):
        assert len(list(causes(error))) == len(list(contexts(error))) == MAX_NODES == 64


@pytest.mark.parametrize(
    ("made", "given", "found"),
    [
        ({"base": OSError}, (errno.ECONNREFUSED, "no"), ExceptionKind.REFUSED),
        ({"base": OSError}, (errno.EPERM, "no"), None),
        ({"base": OSError}, ("no",), None),
        ({"base": ConnectionError}, ("no",), ExceptionKind.CONNECT),
        ({"base": ConnectionError}, (errno.EPERM, "no"), ExceptionKind.CONNECT),
        ({"base": ConnectionError}, (errno.ENOSPC, "unknown url type"), ExceptionKind.DISK_FULL),
        ({"base": ConnectionError}, ("UNKNOWN URL TYPE",), ExceptionKind.BAD_URL),
        ({"base": ConnectionError}, ("x" * 185 + "unknown url type",), ExceptionKind.CONNECT),
        ({"base": ConnectionError}, ("x" * 184 + "unknown url type",), ExceptionKind.BAD_URL),
        ({"base": ConnectionError}, ("server disconnected",), ExceptionKind.CONNECT),
        ({"base": Exception, "errno": errno.ECONNREFUSED}, ("no",), None),
        ({"base": OSError, "errno": "111"}, ("no",), None),
        ({"base": OSError, "errno": True}, ("no",), None),
        ({"base": OSError, "errno": float(errno.ECONNREFUSED)}, ("no",), None),
        ({"name": "ReadTimeout", "module": "httpx._exceptions"}, ("no",), ExceptionKind.TIMEOUT),
        ({"name": "ReadTimeout", "module": "httpx"}, ("no",), ExceptionKind.TIMEOUT),
        ({"name": "ReadTimeout", "module": "a.b.c"}, ("no",), None),
        ({"name": "Unknown", "module": "httpx"}, ("no",), None),
        ({"base": TimeoutError, "name": "HTTPError", "module": "urllib.error"}, ("no",), None),
        ({"base": TimeoutError, "module": 5}, ("no",), ExceptionKind.TIMEOUT),
        ({"name": "RemoteProtocolError", "module": "h11._util"}, ("Server disconnected",), ExceptionKind.RESET),
        ({"name": "RemoteProtocolError", "module": "h11._util"}, ("<ConnectionTerminated>",), ExceptionKind.RESET),
        ({"name": "RemoteProtocolError", "module": "h11._util"}, ("<StreamReset>",), ExceptionKind.RESET),
        ({"name": "RemoteProtocolError", "module": "h11._util"}, ("no host given",), ExceptionKind.PROTOCOL),
        ({"name": "ResponseError", "module": "urllib3"}, ("too many redirects",), ExceptionKind.REDIRECTS),
        ({"name": "URLError", "module": "urllib.error"}, ("no host given",), ExceptionKind.BAD_URL),
        (
            {"name": "RemoteProtocolError", "module": "httpcore"},
            ("peer closed connection without sending complete message body (received 3 bytes)",),
            ExceptionKind.CUT,
        ),
    ],
)  # fmt: skip
def test_a_new_type_is_what_it_is_called_then_what_its_bases_are_and_then_what_it_says(
    made: dict[str, Any], given: tuple[object, ...], found: ExceptionKind | None
) -> None:
    assert kind_of(fresh(**made)(*given)) is found


@pytest.mark.parametrize(
    ("doc", "at", "kind"),
    [
        ('{"a": tr', 6, ExceptionKind.CUT),
        ('{"a": trx', 6, ExceptionKind.NOT_JSON),
        (b'{"a": tr', 6, ExceptionKind.CUT),
        (b'{"a": \xff\xfe', 6, ExceptionKind.NOT_JSON),
        ("", 0, ExceptionKind.CUT),
        ("[1, \n ", 4, ExceptionKind.CUT),
        ('"\\u12', 2, ExceptionKind.CUT),
        ('"\\u12xy', 2, ExceptionKind.NOT_JSON),
        ("[-", 1, ExceptionKind.CUT),
        ("1e+", 1, ExceptionKind.CUT),
        ("1.", 1, ExceptionKind.CUT),
        ("  <!DOCTYPE html>", 0, ExceptionKind.HTML),
        (b"\n<HTML>", 0, ExceptionKind.HTML),
        (" " * 195 + "<html", 0, ExceptionKind.HTML),
        (" " * 196 + "<html", 0, ExceptionKind.NOT_JSON),
        (None, 0, ExceptionKind.NOT_JSON),
        ("", None, ExceptionKind.NOT_JSON),
        (b" " * 4096 + b"{", 4096, ExceptionKind.CUT),
        ("x" * 5000, 0, ExceptionKind.NOT_JSON),
    ],
)
def test_a_text_that_is_no_json_broke_off_or_is_a_page_or_is_wrong(doc: Any, at: Any, kind: ExceptionKind) -> None:
    error = json.JSONDecodeError("Expecting value", "", 0)
    error.doc, error.pos = doc, at

    assert kind_of(error) is kind


def test_a_text_that_ends_inside_quotes_broke_off_and_an_unread_page_is_known_by_its_type() -> None:
    assert kind_of(raised(lambda: json.loads('{"a": "open'))) is ExceptionKind.CUT
    unread = fresh(name="ContentTypeError", module="aiohttp")
    assert kind_of(unread("500, unexpected mimetype: text/html; charset=utf-8")) is ExceptionKind.HTML
    assert kind_of(unread("500, unexpected mimetype: text/plain")) is ExceptionKind.NOT_JSON
    assert kind_of(unread("x" * 481 + "mimetype: text/html")) is ExceptionKind.HTML
    assert kind_of(unread("x" * 482 + "mimetype: text/html")) is ExceptionKind.NOT_JSON


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (3, ExceptionKind.CUT),
        (5, ExceptionKind.CUT),
        (4, ExceptionKind.NOT_XML),
        (True, ExceptionKind.NOT_XML),
        ("3", ExceptionKind.NOT_XML),
        (None, ExceptionKind.NOT_XML),
    ],
)
def test_xml_that_ends_too_early_broke_off_by_its_number(code: Any, kind: ExceptionKind) -> None:
    error = ET.ParseError("no")
    error.code = code

    assert kind_of(error) is kind


def test_every_kind_has_a_code_and_a_strength() -> None:
    assert set(CODE_OF_KIND) == set(STRENGTH) == set(ExceptionKind)
