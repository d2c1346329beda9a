"""What is read of an answer and of an exception, and how much of it."""

from __future__ import annotations

import json
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.faults.evidence import MAX_BODY, Evidence, collect_evidence, status_of
from tidegate.faults.introspection import MAX_TEXT, fields_of, message_of, read, status_in_field


class Failed(Exception):
    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.__dict__.update(fields)


class Broken:
    @property
    def headers(self) -> object:
        raise RuntimeError("not now")

    def __str__(self) -> str:
        raise RuntimeError("never")


def answer(**fields: Any) -> Any:
    return SimpleNamespace(**fields)


@pytest.mark.parametrize("field", ["status_code", "status", "code"])
@pytest.mark.parametrize(
    ("value", "status"),
    [(404, 404), (100, 100), (599, 599), (99, 0), (600, 0), (HTTPStatus.GONE, 410), (True, 0), ("404", 0), (None, 0)],
)
def test_a_status_is_found_where_clients_keep_it(field: str, value: object, status: int) -> None:
    assert status_of(answer(**{field: value})) == status
    assert status_in_field(value) == status


def test_the_first_field_with_a_status_counts_and_nothing_has_none() -> None:
    assert status_of(answer(status_code=404, status=500, code=503)) == 404
    assert status_of(answer(status_code="x", status=500, code=503)) == 500
    assert (status_of(None), status_of(answer()), status_of(5)) == (0, 0, 0)


@pytest.mark.parametrize(
    "source",
    [
        answer(url="https://a.test/x"),
        answer(request=answer(url="https://a.test/x")),
        answer(request_info=answer(url="https://a.test/x")),
    ],
    ids=["its own", "of its request", "of what is told of its request"],
)
def test_an_address_is_found_where_clients_keep_it_on_the_answer_and_then_on_the_exception(source: Any) -> None:
    other = Failed(url="https://b.test/y")
    assert Evidence(response=source, error=other).url == "https://a.test/x"
    assert Evidence(response=answer(), error=Failed(**vars(source))).url == "https://a.test/x"
    assert Evidence(response=source, url="https://c.test/").url == "https://c.test/"


def test_an_address_has_a_host_and_a_path_and_a_broken_one_has_neither() -> None:
    seen = Evidence(url="https://u:p@a.test:8443/x/y?z=1")
    assert (seen.host, seen.path) == ("a.test", "/x/y")
    for wrong in (Evidence(url="https://[broken"), Evidence(), Evidence(response=answer(url=Broken()))):
        assert (wrong.host, wrong.path) == ("", "")
    assert Evidence().url == ""
    assert len(Evidence(response=answer(url="https://a.test/" + "x" * 100_000)).url) == 2048


@pytest.mark.parametrize(
    "headers",
    [{"retry-after": "5"}, {"Retry-After": "5"}, {"RETRY-AFTER": b"5"}, {1: "x", "Retry-After": "5"}],
)
def test_a_header_is_found_whatever_its_case(headers: Any) -> None:
    for seen in (Evidence(response=answer(headers=headers)), Evidence(error=Failed(headers=headers))):
        assert seen.header("Retry-After") == "5"
        assert seen.headers("retry-after", "date") == ["5", None]
        assert seen.header("date") is None


def test_headers_of_the_answer_come_before_those_of_the_exception() -> None:
    seen = Evidence(response=answer(headers={"a": "1"}), error=Failed(headers={"a": "2", "b": "3"}))
    assert (seen.header("a"), seen.header("b")) == ("1", "3")
    assert seen.headers("a", "b") == ["1", None]
    assert Evidence(response=answer(headers={"a": 5})).header("a") is None
    assert Evidence(response=answer(headers={"a": "x" * 9999})).header("a") == "x" * 1024
    assert Evidence(response=answer(headers={"a": b"\xe4" * 9999})).header("a") == "ä" * 1024
    many = {f"X-{number}": "v" for number in range(256)}
    assert Evidence(response=answer(headers=many)).header("x-255") == "v"
    assert Evidence(response=answer(headers={**many, "A": "v"})).header("a") is None
    assert Evidence(response=Broken()).header("a") is None
    assert Evidence(response=answer(headers=5)).header("a") is None


def test_headers_of_a_client_ignore_case_by_themselves() -> None:
    import httpx2

    seen = Evidence(response=answer(headers=httpx2.Headers({"Retry-After": "5"})))
    assert (seen.header("retry-after"), seen.header("date")) == ("5", None)


@pytest.mark.parametrize(
    ("source", "body"),
    [
        (answer(content=b"bytes"), b"bytes"),
        (answer(content=bytearray(b"bytes")), b"bytes"),
        (answer(body="tüxt"), "tüxt".encode()),
        (answer(text="tüxt"), "tüxt".encode()),
        (answer(body={"a": [1]}), b'{"a": [1]}'),
        (answer(body=[1]), b"[1]"),
        (answer(content=5, body=b"second"), b"second"),
        (answer(content="lone \ud800"), b"lone ?"),
    ],
)
def test_a_body_is_read_where_clients_keep_it(source: Any, body: bytes) -> None:
    assert Evidence(response=source, error=Failed("said")).body == body


def test_without_an_answer_the_body_is_what_the_exception_kept_or_said() -> None:
    assert Evidence(error=Failed("said", body={"error": "x"})).body == b'{"error": "x"}'
    assert Evidence(error=Failed("said", body="text")).body == b"said"
    assert Evidence(error=Failed("lone \ud800")).body == b"lone ?"
    assert Evidence(body=b"given", response=answer(content=b"other")).body == b"given"
    assert Evidence().body == b""


def test_never_more_is_read_than_fits() -> None:
    long = "x" * 3 * MAX_BODY
    assert len(Evidence(response=answer(content=long)).body) == MAX_BODY
    assert len(Evidence(response=answer(content=long.encode())).body) == MAX_BODY
    assert len(Evidence(response=answer(body=[long, long])).body) == MAX_BODY
    assert len(Evidence(error=Failed(long)).text) == MAX_TEXT
    assert len(Evidence(body=long.encode()).body) == MAX_BODY
    endless: list[object] = []
    endless.append(endless)
    assert Evidence(response=answer(body=endless)).body == b""


def test_a_body_is_json_when_it_is_and_what_the_exception_has_parsed_counts() -> None:
    assert Evidence(body=b'{"a": 1}').json == {"a": 1}
    assert Evidence(body=b"no").json is None
    assert Evidence(body=b"[" * 4000).json is None
    kept = {"error": {"code": 5}}
    assert Evidence(error=Failed("no", body=kept)).json is kept
    assert Evidence(error=Failed("no", body=[1])).json == [1]
    assert Evidence(error=Failed("[2]", body="x")).json == [2]
    assert Evidence(error=Failed("no", body=kept), response=answer(content=b"[3]")).json == [3]
    assert Evidence(error=Failed("no", body=kept), body=b"[4]").json == [4]
    seen = Evidence(body=json.dumps([5]).encode())
    assert seen.json is seen.json


@pytest.mark.parametrize(
    ("seen", "html"),
    [
        (Evidence(response=answer(headers={"Content-Type": "Text/HTML; charset=utf-8"})), True),
        (Evidence(response=answer(headers={"Content-Type": "text/plain"})), False),
        (Evidence(body=b"  <!DOCTYPE html><p>"), True),
        (Evidence(body=b"\n<HTML>"), True),
        (Evidence(body=b'{"a": "<html>"}'), False),
        (Evidence(body=b" " * 300 + b"<html>"), False),
        (Evidence(), False),
    ],
)
def test_a_web_page_is_known_by_its_type_or_by_how_it_begins(seen: Evidence, html: bool) -> None:
    assert seen.html is html


def test_whatever_raises_when_it_is_read_is_not_there() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("never")

    class Own(str):
        __slots__ = ()

    class Odd(Exception):
        def __str__(self) -> str:
            return Own("odd")

    assert read(Broken(), "headers") is None
    assert (message_of(Mute()), message_of(None), message_of(Failed("abc"), 2)) == ("", "", "ab")
    assert type(message_of(Odd())) is str
    assert message_of(Odd()) == "odd"


def test_of_an_exception_those_attributes_are_taken_that_matter() -> None:
    class Asks(Exception):
        status = 503

    class Answers(Exception):
        def __getattr__(self, name: str) -> object:
            return 418 if name == "status" else None

    assert fields_of(Failed("x")) == {}
    assert fields_of(Failed("x", status=500, other=1)) == {"status": 500}
    assert fields_of(Asks())["status"] == 503
    assert fields_of(Answers())["status"] == 418


def test_the_exception_that_tells_most_is_kept_beside_the_one_that_was_caught() -> None:
    try:
        try:
            raise ConnectionResetError("reset")
        except ConnectionResetError as inner:
            raise Failed("wrapped") from inner
    except Failed as caught:
        seen, outer = collect_evidence(caught), caught
    assert type(seen.error) is ConnectionResetError
    assert seen.outer is outer
    assert seen.kind is not None


def test_a_bare_message_is_evidence_and_evidence_is_itself() -> None:
    said = collect_evidence("x" * 3 * MAX_TEXT)
    assert (type(said.error), len(said.text)) == (RuntimeError, MAX_TEXT)
    assert collect_evidence(said) is said
    found = collect_evidence(answer(status_code=503))
    assert (found.status, found.error) == (503, None)
