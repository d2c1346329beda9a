"""Where a body lies once it has been read, that nothing else is ever asked for it, and what is no failure at all."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.faults.evidence import Evidence, collect_evidence
from tidegate.faults.introspection import message_of


def answer_of(module: str, *bases: type, **fields: Any) -> Any:
    """An answer of a client whose class lives in *module*; to ask it for its content would read from the network."""
    asked: list[str] = []

    def never(self: object) -> Any:
        asked.append("content")
        return b"from the network"

    made = type("Response", bases or (object,), {"__module__": module, "content": property(never)})()
    made.__dict__.update(fields, asked=asked)
    return made


@pytest.mark.parametrize(
    ("module", "field"),
    [
        ("requests", "_content"),
        ("requests.models", "_content"),
        ("requests.a.b", "_content"),
        ("aiohttp.client_reqrep", "_body"),
        ("urllib3.response", "_body"),
        ("urllib3", "_body"),
    ],
)
def test_what_a_client_has_read_is_taken_and_it_is_not_asked_to_read(module: str, field: str) -> None:
    for answer in (
        answer_of(module, **{field: b"read"}),
        answer_of("app", type(answer_of(module)), **{field: b"read"}),
    ):
        assert Evidence(response=answer).body == b"read"
        assert answer.asked == []
    unread = answer_of(module)
    assert Evidence(response=unread).body == b""
    assert unread.asked == []


@pytest.mark.parametrize("module", ["http.client", "http", "urllib.response", "urllib"])
def test_the_answers_of_python_itself_are_never_asked_for_a_body(module: str) -> None:
    answer = answer_of(module, _body=b"no", _content=b"no", body=b"no", text="no")

    assert Evidence(response=answer).body == b""
    assert answer.asked == []


@pytest.mark.parametrize("module", ["app", "app.requests", "requestsx", "a.b.c"])
def test_any_other_answer_is_asked_for_its_content_first(module: str) -> None:
    answer = answer_of(module, body=b"second", text="third", _body=b"no", _content=b"no")

    assert Evidence(response=answer).body == b"from the network"
    assert answer.asked == ["content"]


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ({"content": None, "body": b"second", "text": "third"}, b"second"),
        ({"body": 5, "text": "third"}, b"third"),
        ({"content": b"", "body": b"second"}, b""),
        ({"content": {"a": "\u00e4"}}, b'{"a": "\\u00e4"}'),
        ({"content": {1: {2, 3}}}, b""),
        ({"_content": b"no", "_body": b"no"}, b""),
    ],
)
def test_the_first_field_that_has_a_body_counts(fields: dict[str, Any], body: bytes) -> None:
    assert Evidence(response=SimpleNamespace(**fields)).body == body


def test_of_a_long_document_only_the_beginning_is_written() -> None:
    taken: list[int] = []

    class Long(list[int]):
        def __iter__(self) -> Iterator[int]:
            for number in range(100_000):
                taken.append(number)
                yield 1

    body = Evidence(response=SimpleNamespace(body=Long([1]))).body
    assert len(body) == 4096
    assert body.startswith(b"[1, 1, 1, ")
    assert 1000 < len(taken) < 2000


def test_a_header_of_many_is_found_by_its_exact_name_and_a_stranger_among_them_does_no_harm() -> None:
    many = {**{f"x-{number}": "v" for number in range(300)}, "date": "now", "Server": "s"}
    seen = Evidence(response=SimpleNamespace(headers=many))

    assert (seen.header("Date"), seen.header("x-299"), seen.header("server")) == ("now", "v", None)
    assert seen.headers("date", "none", "x-0") == ["now", None, "v"]
    assert Evidence().headers("date") == [None]
    for wrong in ({None: "a", "date": None}, {"date": ["now"]}, ["date"], "date"):
        assert Evidence(response=SimpleNamespace(headers=wrong)).header("date") is None


@pytest.mark.parametrize(("spaces", "html"), [(251, True), (252, False)])
def test_a_page_begins_within_the_first_bytes(spaces: int, html: bool) -> None:
    assert Evidence(body=b" " * spaces + b"<html").html is html


def test_a_label_tells_a_page_even_of_an_exception_and_what_it_has_parsed_is_its_body() -> None:
    class Failed(Exception):
        headers = {"content-type": "text/HTML"}  # noqa: RUF012

    kept = [1]
    failed = Failed("x")
    failed.body = kept  # type: ignore[attr-defined]
    assert Evidence(error=failed).json is kept
    assert Evidence(error=failed).body == b"[1]"
    assert Evidence(error=Failed("x")).html
    assert Evidence(error=Failed("x"), response=SimpleNamespace(headers={"content-type": "text/plain"})).html is False


def told(seen: Evidence) -> tuple[object, ...]:
    assert (seen.kind, seen.outer) == (None, None)
    return seen.error, seen.response, seen.status


def test_what_cannot_even_be_looked_at_is_evidence_of_itself_or_of_nothing() -> None:
    class Hidden(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError("do not look")

    class Uncut(str):
        __slots__ = ()

        def __getitem__(self, key: object) -> str:
            raise RuntimeError("do not cut")

    own: Any = Hidden("Own", (Exception,), {})
    hidden: BaseException = BaseException.__new__(own)
    assert told(collect_evidence(hidden)) == (hidden, None, 0)
    assert told(collect_evidence(Uncut("x"))) == (None, None, 0)


def test_a_text_of_a_stranger_is_cut_as_any_text_is() -> None:
    class Own(str):
        __slots__ = ()

        def __getitem__(self, key: object) -> str:
            return "something else"

    class Odd(Exception):
        def __str__(self) -> str:
            return Own("no luck")

    assert (message_of(Odd()), message_of(Odd(), 2)) == ("no luck", "no")


def test_a_message_and_an_answer_are_evidence_as_they_are() -> None:
    said = collect_evidence("no luck")
    assert (type(said.error), said.text, said.status, said.outer) == (RuntimeError, "no luck", 0, None)
    answer = SimpleNamespace(status=404)
    assert told(collect_evidence(answer)) == (None, answer, 404)
    assert told(collect_evidence(5)) == (None, 5, 0)
