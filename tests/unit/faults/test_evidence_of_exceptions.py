"""Which exception of a chain tells most, and what is kept of it: the exception, its answer, its kind and its status."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.faults.failing import AppError, StatusError, chained, raised
from tidegate.errors import Held
from tidegate.faults.evidence import Evidence, collect_evidence
from tidegate.faults.exceptions import ExceptionKind

LASTFM = '<lfm status="failed"><error code="29">no</error></lfm>'


def told(seen: Evidence) -> tuple[object, ...]:
    return seen.error, seen.response, seen.kind, seen.status, seen.outer


def with_fields(error: BaseException, **fields: Any) -> Any:
    error.__dict__.update(fields)
    return error


class Timeout(TimeoutError):
    """A timeout of a client."""


class Refused(Timeout):
    status = 503


class Connect(ConnectionError):
    """A client that could not connect."""


def test_evidence_of_nothing_is_empty() -> None:
    seen = Evidence()

    assert told(seen) == (None, None, None, 0, None)
    assert (seen.body, seen.text, seen.json, seen.html, seen.url, seen.host) == (b"", "", None, False, "", "")


@pytest.mark.parametrize(
    "error",
    [TimeoutError("slow"), ConnectionResetError(104, "no"), asyncio.CancelledError(), Held("a", None, "rate", 0, 1, 1)],
    ids=repr,
)
def test_what_nothing_led_to_speaks_for_itself(error: BaseException) -> None:
    seen = collect_evidence(error)

    assert seen.kind is not None
    assert told(seen) == (error, None, seen.kind, 0, None)


@pytest.mark.parametrize("status", [300, 302, 404, 599])
def test_an_exception_with_its_answer_speaks_for_itself(status: int) -> None:
    error = StatusError(status)

    assert told(collect_evidence(error)) == (error, error.response, None, status, None)


def test_what_a_plain_exception_of_python_was_given_is_seen() -> None:
    below = socket.gaierror(-2, "no")
    answer = SimpleNamespace(status_code=503)
    for error, kind, status in (
        (ConnectionError("aborted", below), ExceptionKind.DNS, 0),
        (chained(ConnectionError("aborted"), cause=below), ExceptionKind.DNS, 0),
        (chained(ConnectionError("aborted"), context=below), ExceptionKind.DNS, 0),
        (with_fields(TimeoutError("slow"), response=answer), ExceptionKind.TIMEOUT, 503),
        (with_fields(TimeoutError("slow"), status=503), ExceptionKind.TIMEOUT, 503),
        (Refused("slow"), ExceptionKind.TIMEOUT, 503),
        (OSError("no number"), None, 0),
    ):
        seen = collect_evidence(error)
        assert (seen.kind, seen.status) == (kind, status)


@pytest.mark.parametrize("field", ["status_code", "status", "http_status"])
def test_a_status_on_an_exception_is_kept_with_the_one_that_was_caught(field: str) -> None:
    below = with_fields(AppError("below"), **{field: 403})
    outer = chained(AppError("above"), cause=below)

    assert told(collect_evidence(outer)) == (below, None, None, 403, outer)


def test_the_first_field_with_a_status_counts_and_a_code_only_beside_headers() -> None:
    for fields, status in (
        ({"status_code": 401, "status": 402, "http_status": 403}, 401),
        ({"status": 402, "http_status": 403, "code": 404, "headers": {}}, 402),
        ({"status_code": "x", "http_status": 403}, 403),
        ({"code": 404, "headers": {}}, 404),
        ({"code": 404}, 0),
        ({"code": 404, "headers": None}, 0),
        ({"http_status": 600, "headers": {}}, 0),
        ({"status": 402, "response": SimpleNamespace(status=500)}, 500),
    ):
        assert collect_evidence(chained(AppError("above"), cause=with_fields(AppError("x"), **fields))).status == status


def test_an_answer_below_is_kept_whole_and_the_first_bad_one_counts() -> None:
    below = with_fields(Timeout("slow"), response=SimpleNamespace(status=503))
    outer = chained(AppError("above"), cause=chained(below, cause=StatusError(401)))

    assert told(collect_evidence(outer)) == (below, below.response, ExceptionKind.TIMEOUT, 503, outer)
    exactly = StatusError(300)
    outer = chained(AppError("above"), cause=chained(exactly, cause=ConnectionResetError("reset")))
    assert told(collect_evidence(outer)) == (exactly, exactly.response, None, 300, outer)


def test_a_good_answer_counts_when_no_kind_says_more_than_that_it_failed() -> None:
    good = StatusError(299)
    outer = chained(AppError("above"), cause=chained(good, cause=StatusError(204)))
    assert told(collect_evidence(outer)) == (good, good.response, None, 299, outer)

    vague = chained(with_fields(Connect("no"), response=SimpleNamespace(status=200)), cause=ConnectionError("no"))
    seen = collect_evidence(vague)
    assert told(seen) == (vague, seen.response, ExceptionKind.CONNECT, 200, vague)

    reset = ConnectionResetError("reset")
    outer = chained(StatusError(200), cause=reset)
    assert told(collect_evidence(outer)) == (reset, None, ExceptionKind.RESET, 0, outer)


@pytest.mark.parametrize(
    ("above", "below", "kind"),
    [
        (Connect("no"), http.client.BadStatusLine("x"), ExceptionKind.PROTOCOL),
        (http.client.BadStatusLine("x"), Connect("no"), ExceptionKind.PROTOCOL),
        (http.client.BadStatusLine("x"), Timeout("slow"), ExceptionKind.TIMEOUT),
        (Timeout("slow"), ssl.SSLError(1, "no"), ExceptionKind.TIMEOUT),
        (ssl.SSLError(1, "no"), Timeout("slow"), ExceptionKind.TLS),
        (Timeout("slow"), ConnectionResetError("no"), ExceptionKind.RESET),
        (ConnectionRefusedError("no"), ConnectionResetError("no"), ExceptionKind.REFUSED),
    ],
    ids=repr,
)
def test_the_stronger_kind_counts_and_of_equals_the_outer(above: Any, below: Any, kind: ExceptionKind) -> None:
    outer = chained(above, cause=below)
    seen = collect_evidence(outer)

    assert seen.error is (above if type(seen.error) is type(above) else below)
    assert told(seen) == (seen.error, None, kind, 0, outer)
    outer.__cause__ = None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (raised(lambda: json.loads("{oops}")), ExceptionKind.NOT_JSON),
        (raised(lambda: json.loads("<html>")), ExceptionKind.HTML),
        (raised(lambda: json.loads("{")), ExceptionKind.CUT),
        (type("TooManyRedirects", (Exception,), {"__module__": "requests"})(), ExceptionKind.REDIRECTS),
        (http.client.BadStatusLine("x"), ExceptionKind.PROTOCOL),
    ],
)
def test_the_status_beside_an_unreadable_answer_is_not_the_point(error: Any, kind: ExceptionKind) -> None:
    seen = collect_evidence(with_fields(error, response=SimpleNamespace(status=403), status=403))

    assert (seen.kind, seen.status) == (kind, 0)


def test_a_status_that_was_made_up_for_what_was_no_http_does_not_count() -> None:
    no_http = http.client.BadStatusLine("x")
    seen = collect_evidence(chained(with_fields(AppError("400"), status=400), cause=no_http))

    assert (seen.error, seen.kind, seen.status) == (no_http, ExceptionKind.PROTOCOL, 0)
    seen = collect_evidence(chained(with_fields(AppError("400"), status=400), cause=Timeout("slow")))
    assert seen.status == 400


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Connect("too many 503 error responses"), 503),
        (Connect("Max retries exceeded (too many 100 error responses)"), 100),
        (Connect("too many 600 error responses"), 0),
        (Timeout("too many 503 error responses"), 0),
        (with_fields(Connect("too many 503 error responses"), status=429), 429),
    ],
)
def test_a_client_that_gave_up_names_the_status_it_met(error: Any, status: int) -> None:
    assert collect_evidence(error).status == status


def test_an_answer_that_was_being_handled_counts_only_when_nothing_else_is_known() -> None:
    handled = StatusError(401)
    outer = chained(AppError("above"), context=handled)
    assert told(collect_evidence(outer)) == (handled, handled.response, None, 401, outer)

    vague = chained(Connect("no"), context=handled)
    assert told(collect_evidence(vague)) == (vague, None, ExceptionKind.CONNECT, 0, vague)
    answered = chained(with_fields(Connect("no"), status=204), context=socket.gaierror(-2, "no"))
    assert (collect_evidence(answered).kind, collect_evidence(answered).status) == (ExceptionKind.CONNECT, 204)


def test_what_we_stopped_ourselves_is_the_first_end_and_only_if_all_are() -> None:
    first, second = asyncio.CancelledError("first"), Held("a", None, "rate", 0, 1, 1)
    group = BaseExceptionGroup("both", [first, second])
    assert told(collect_evidence(group)) == (first, None, ExceptionKind.CANCELLED, 0, group)

    wrapped = chained(AppError("above"), cause=second)
    assert told(collect_evidence(wrapped)) == (second, None, ExceptionKind.HELD, 0, wrapped)
    mixed = BaseExceptionGroup("both", [first, AppError("boom")])
    assert told(collect_evidence(mixed)) == (mixed, None, None, 0, None)
    failed = BaseExceptionGroup("both", [first, Timeout("slow")])
    assert collect_evidence(failed).kind is ExceptionKind.TIMEOUT
    # What was being handled when it was cancelled is not what ended it.
    context = BaseExceptionGroup("one", [chained(asyncio.CancelledError("x"), context=AppError("boom"))])
    assert collect_evidence(context).kind is ExceptionKind.CANCELLED


@pytest.mark.parametrize(
    ("above", "below", "telling"),
    [
        ("boom", "status 403", "below"), ("status 404", "status 403", "above"), ("timeout", "status 403", "below"),
        ("status 404", LASTFM, "below"), ("timeout", LASTFM, "below"), ("boom", "timeout", "below"),
        ("timeout", "forbidden", "above"), ("boom", "", "neither"), ("", "boom", "neither"),
    ],
)  # fmt: skip
def test_of_messages_a_number_of_a_service_counts_before_a_status_and_that_before_words(
    above: str, below: str, telling: str
) -> None:
    inner = AppError(below)
    for outer in (chained(AppError(above), cause=inner), chained(AppError(above), context=inner)):
        expected = {"below": (inner, outer), "above": (outer, outer), "neither": (outer, None)}[telling]
        seen = collect_evidence(outer)
        assert (seen.error, seen.outer) == expected
        assert told(seen)[1:4] == (None, None, 0)


@pytest.mark.parametrize("mute", [KeyError("status 403"), asyncio.CancelledError("status 403")], ids=repr)
def test_neither_a_bug_nor_a_cancellation_is_read_for_its_words(mute: BaseException) -> None:
    outer = chained(AppError("boom"), context=mute)

    assert told(collect_evidence(outer)) == (outer, None, None, 0, None)


def test_an_attribute_that_is_out_of_date_is_not_asked_where_another_tells() -> None:
    asked: list[str] = []

    class ResponseError(Exception):
        status, headers = 429, {"Retry-After": "7"}

        @property
        def code(self) -> int:
            asked.append("code")  # that of aiohttp warns whoever asks
            return self.status

    assert (collect_evidence(ResponseError()).status, asked) == (429, [])
