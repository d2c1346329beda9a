"""Types and statuses anywhere in the cause chain decide; what was merely being handled is weaker."""

from __future__ import annotations

import asyncio
import errno
import gzip
import http.client
import json
import socket
import ssl
import zlib
from collections.abc import Callable
from concurrent.futures import CancelledError as FutureCancelled
from typing import Any
from urllib.error import URLError
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.chain import BUGS, MOST_NODES
from tidegate.core.classify import classify
from tidegate.core.fault import Fault
from tidegate.errors import BreakerOpen, Held


class Answer:
    def __init__(self, status: int, **headers: str) -> None:
        self.status_code = status
        self.headers = headers


class StatusError(Exception):
    """What raise_for_status() of most clients raises."""

    def __init__(self, status: int, text: str = "bad answer", **headers: str) -> None:
        super().__init__(text)
        self.response = Answer(status, **headers)


class AppError(Exception):
    """An exception of the program around the client."""


def verdict(error: BaseException) -> Fault:
    fault = classify(error)
    assert fault is not None
    return fault


def raised(make: Callable[[], Any]) -> BaseException:
    try:
        make()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def chained(
    error: BaseException, *, cause: BaseException | None = None, context: BaseException | None = None
) -> BaseException:
    error.__context__ = context
    if cause is not None:
        error.__cause__ = cause
    return error


TYPED: dict[str, tuple[BaseException, str, str]] = {
    "refused": (ConnectionRefusedError(errno.ECONNREFUSED, "no"), "network", "kind:refused"),
    "reset": (ConnectionResetError(errno.ECONNRESET, "no"), "network", "kind:reset"),
    "aborted": (ConnectionAbortedError("no"), "network", "kind:reset"),
    "broken pipe": (BrokenPipeError(errno.EPIPE, "no"), "network", "kind:reset"),
    "some connection error": (ConnectionError("no"), "network", "kind:connect"),
    "errno alone": (OSError(errno.ENETUNREACH, "no"), "network", "kind:unreachable"),
    "errno of a host": (OSError(errno.EHOSTUNREACH, "no"), "network", "kind:unreachable"),
    "errno in a connection error": (ConnectionError(errno.EHOSTDOWN, "no"), "network", "kind:unreachable"),
    "timeout": (TimeoutError(), "timeout", "kind:timeout"),
    "timeout of a socket": (socket.timeout("timed out"), "timeout", "kind:timeout"),  # noqa: UP041
    "timeout by errno": (OSError(errno.ETIMEDOUT, "no"), "timeout", "kind:timeout"),
    "no such name": (socket.gaierror(-2, "no"), "network", "kind:dns"),
    "no such host": (socket.herror(1, "no"), "network", "kind:dns"),
    "TLS": (ssl.SSLError(1, "wrong version number"), "network", "kind:tls"),
    "TLS ended": (ssl.SSLEOFError(8, "no"), "network", "kind:reset"),
    "certificate": (ssl.SSLCertVerificationError(1, "no"), "certificate", "kind:certificate"),
    "cut body": (http.client.IncompleteRead(b"abc", 9), "cut_short", "kind:cut"),
    "cut stream": (asyncio.IncompleteReadError(b"abc", 9), "cut_short", "kind:cut"),
    "cut gzip": (raised(lambda: gzip.decompress(gzip.compress(b"abc")[:-9])), "cut_short", "kind:cut"),
    "bad gzip": (raised(lambda: gzip.decompress(b"no gzip at all")), "cut_short", "kind:cut"),
    "bad deflate": (raised(lambda: zlib.decompress(b"no")), "cut_short", "kind:cut"),
    "odd status line": (http.client.BadStatusLine("SSH-2.0"), "network", "kind:protocol"),
    "endless header": (http.client.LineTooLong("header line"), "network", "kind:protocol"),
    "bad address": (http.client.InvalidURL("nonnumeric port: 'x'"), "bad_address", "kind:bad_url"),
    "unknown scheme": (URLError("unknown url type: gopher"), "bad_address", "kind:bad_url"),
    "urllib of anything": (URLError("no"), "network", "kind:connect"),
    "urllib of a refusal": (URLError(ConnectionRefusedError(111, "no")), "network", "kind:refused"),
    "not JSON": (raised(lambda: json.loads("{oops}")), "bad_answer", "kind:not_json"),
    "an empty text": (raised(lambda: json.loads("")), "cut_short", "kind:cut"),
    "a page, not JSON": (raised(lambda: json.loads("\n <HTML><p>hello")), "html_answer", "kind:html"),
    "not XML": (raised(lambda: ET.fromstring("{}")), "bad_answer", "kind:not_xml"),
    "cut XML": (raised(lambda: ET.fromstring("<a><b>")), "cut_short", "kind:cut"),
    "cut tag": (raised(lambda: ET.fromstring("<a><b")), "cut_short", "kind:cut"),
    "full disk": (OSError(errno.ENOSPC, "no"), "own_disk", "kind:disk_full"),
    "no more files": (OSError(errno.EMFILE, "no"), "own_pool", "kind:pool"),
    "cancelled": (asyncio.CancelledError(), "cancelled", "kind:cancelled"),
    "cancelled future": (FutureCancelled(), "cancelled", "kind:cancelled"),
    "interrupted": (KeyboardInterrupt(), "cancelled", "kind:cancelled"),
    "exit": (SystemExit(1), "cancelled", "kind:cancelled"),
    "closed generator": (GeneratorExit(), "cancelled", "kind:cancelled"),
}  # fmt: skip


@pytest.mark.req("SYNC-01", "SYNC-02")
@pytest.mark.parametrize(("error", "code", "rule"), TYPED.values(), ids=TYPED)
def test_a_type_says_what_happened(error: BaseException, code: str, rule: str) -> None:
    assert (verdict(error).code, verdict(error).rule) == (code, rule)


@pytest.mark.req("SYNC-02")
@pytest.mark.parametrize(("error", "code", "rule"), TYPED.values(), ids=TYPED)
def test_a_wrapper_that_was_raised_from_it_says_the_same(error: BaseException, code: str, rule: str) -> None:
    wrapped = chained(AppError("sync failed"), cause=chained(ValueError("no luck"), cause=error))

    assert (verdict(wrapped).code, verdict(wrapped).rule) == (code, rule)


@pytest.mark.req("SYNC-02")
def test_typed_evidence_beats_any_message() -> None:
    outer = chained(AppError("status 401: invalid api key"), cause=ConnectionRefusedError(111, "no"))

    assert verdict(outer).code == "network"


@pytest.mark.req("SYNC-02")
def test_a_status_below_beats_a_type_above() -> None:
    outer = chained(TimeoutError("gave up after three tries"), cause=StatusError(403))

    assert (verdict(outer).code, verdict(outer).status) == ("forbidden", 403)


def test_a_certificate_below_beats_the_tls_error_above() -> None:
    outer = chained(ssl.SSLError(1, "handshake failed"), cause=ssl.SSLCertVerificationError(1, "self-signed"))

    assert verdict(outer).fatal


def test_an_exception_in_the_arguments_of_another_is_its_cause() -> None:
    assert verdict(AppError("Connection aborted.", ConnectionResetError(104, "no"))).rule == "kind:reset"


@pytest.mark.parametrize("name", ["reason", "os_error", "original_error", "cause"])
def test_an_exception_in_an_attribute_of_another_is_its_cause(name: str) -> None:
    error = AppError("failed")
    setattr(error, name, StatusError(429))

    assert verdict(error).code == "rate_limited"


@pytest.mark.req("SYNC-02")
def test_what_was_being_handled_counts_when_nothing_else_is_known() -> None:
    assert verdict(chained(AppError("sync failed"), context=StatusError(503))).code == "overloaded"


@pytest.mark.req("SYNC-02")
def test_what_it_was_raised_from_beats_what_was_being_handled() -> None:
    error = chained(AppError("failed"), cause=ConnectionRefusedError(111, "no"), context=StatusError(401))

    assert verdict(error).code == "network"


def test_an_own_type_beats_the_answer_that_was_being_handled() -> None:
    # A refused token is refreshed, and the refresh times out or gets garbage: that is no refusal.
    assert verdict(chained(TimeoutError(), context=StatusError(401))).code == "timeout"
    assert verdict(chained(http.client.BadStatusLine("x"), context=StatusError(401))).code == "network"


def test_a_vague_type_is_told_apart_by_what_was_being_handled() -> None:
    error = chained(ConnectionError("cannot connect"), context=socket.gaierror(-2, "no"))

    assert verdict(error).rule == "kind:dns"


def test_raise_from_none_hides_what_was_being_handled() -> None:
    def fail() -> None:
        try:
            raise StatusError(401)
        except StatusError:
            raise AppError("failed") from None

    assert verdict(raised(fail)).rule == "unknown"


@pytest.mark.req("SYNC-01")
@pytest.mark.parametrize("bug", sorted(BUGS, key=str), ids=str)
def test_a_bug_of_the_program_is_unknown_whatever_its_words_and_its_context(bug: type[Exception]) -> None:
    fault = verdict(chained(bug("'timeout': status 401 unauthorized"), context=StatusError(403)))

    assert (fault.code, fault.rule, fault.level, fault.status) == ("unexpected", "unknown", "ERROR", 0)
    assert fault.retriable
    assert fault.unclassified


def test_a_bug_that_was_raised_from_a_failure_on_purpose_is_that_failure() -> None:
    assert verdict(chained(KeyError("user"), cause=StatusError(404))).code == "not_found"


def test_the_status_on_an_exception_of_a_client_is_read() -> None:
    class SpotifyError(Exception):
        http_status = 429
        code = -1
        headers = {"Retry-After": "3"}  # noqa: RUF012

    fault = verdict(SpotifyError())

    assert (fault.code, fault.status, fault.retry_after) == ("rate_limited", 429, 3.0)


def test_a_code_without_headers_is_no_status() -> None:
    class Exit(Exception):
        code = 404

    assert verdict(Exit("done")).code == "unexpected"


def test_an_exception_raised_in_spite_of_a_good_answer_is_no_success() -> None:
    fault = verdict(StatusError(200, "the playlist has no name"))

    assert (fault.code, fault.status, fault.rule) == ("unexpected", 200, "unknown")


def test_an_unchanged_answer_in_an_exception_is_a_success() -> None:
    assert classify(StatusError(304)) is None


def test_the_headers_of_the_deciding_exception_are_read_through_a_wrapper() -> None:
    class HeadersError(Exception):
        status = 503
        headers = {"retry-after": "9"}  # noqa: RUF012

    assert verdict(chained(AppError("failed"), cause=HeadersError())).retry_after == 9.0


class TestGroups:
    def test_the_failing_member_decides_and_cancelled_siblings_do_not(self) -> None:
        group = BaseExceptionGroup("tasks", [asyncio.CancelledError(), StatusError(404), asyncio.CancelledError()])

        assert verdict(group).code == "not_found"

    def test_a_real_task_group_says_what_its_task_said(self) -> None:
        async def fail() -> None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "no")

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(60))
                group.create_task(fail())

        assert verdict(raised(lambda: asyncio.run(run()))).rule == "kind:refused"

    def test_nothing_but_cancelled_members_is_cancelled(self) -> None:
        inner = BaseExceptionGroup("inner", [asyncio.CancelledError()])

        assert verdict(BaseExceptionGroup("outer", [inner, asyncio.CancelledError()])).code == "cancelled"

    def test_a_cancelled_sibling_does_not_hide_an_unknown_failure(self) -> None:
        group = BaseExceptionGroup("tasks", [asyncio.CancelledError(), AppError("boom")])

        assert verdict(group).code == "unexpected"

    def test_a_status_in_one_member_beats_a_type_in_another(self) -> None:
        assert verdict(ExceptionGroup("both", [TimeoutError(), StatusError(401)])).code == "unauthorized"

    def test_the_message_of_a_member_is_read_when_no_type_says_anything(self) -> None:
        group = ExceptionGroup("tasks", [AppError("boom"), AppError("spotify API returned status 403")])

        assert (verdict(group).code, verdict(group).status) == ("forbidden", 403)


def test_a_deadline_of_asyncio_is_a_timeout_and_not_a_cancellation() -> None:
    async def slow() -> None:
        async with asyncio.timeout(0):
            await asyncio.sleep(60)

    assert verdict(raised(lambda: asyncio.run(slow()))).code == "timeout"


def test_a_failed_cleanup_after_a_cancellation_is_unknown() -> None:
    assert verdict(chained(AppError("cleanup failed"), context=asyncio.CancelledError())).rule == "unknown"


def test_a_shut_gate_further_in_is_no_failure_of_the_outer_target() -> None:
    held = BreakerOpen("inner", None, "breaker", 0.0, 60.0, 60.0)

    for error in (held, chained(AppError("failed"), cause=held)):
        fault = verdict(error)
        assert (fault.code, fault.rule, fault.retry_after) == ("cancelled", "kind:held", 60.0)
        assert fault.counts_as_failure is None


def test_a_gate_that_only_a_person_opens_asks_for_no_wait() -> None:
    assert verdict(Held("inner", None, "fatal", 0.0, None, None)).retry_after is None


class TestShapesThatNobodyWantsToMeet:
    def test_a_chain_that_bites_its_tail_ends(self) -> None:
        first, second = AppError("one"), AppError("two")
        first.__cause__, second.__cause__ = second, first
        first.reason = first  # type: ignore[attr-defined]

        assert verdict(first).rule == "unknown"

    def test_a_group_that_was_caused_by_its_member_ends(self) -> None:
        member = StatusError(500)
        group = ExceptionGroup("loop", [member])
        member.__cause__ = group

        assert verdict(group).code == "upstream_failure"

    def test_an_endless_chain_is_followed_for_a_while(self) -> None:
        near, far = _deep(MOST_NODES - 1), _deep(100_000)

        assert verdict(near).code == "rate_limited"
        assert verdict(far).rule == "unknown"

    def test_a_group_of_thousands_is_looked_at_in_part(self) -> None:
        assert verdict(ExceptionGroup("many", [AppError("x")] * 5000)).rule == "unknown"


def _deep(length: int) -> BaseException:
    error: BaseException = StatusError(429)
    for _ in range(length):
        error = chained(AppError("wrapped"), cause=error)
    return error


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).filter(lambda found: isinstance(found, (dict, list))),
    st.data(),
)
def test_a_json_text_that_was_cut_anywhere_was_cut_short(document: Any, data: st.DataObject) -> None:
    text = json.dumps(document)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]

    assert verdict(raised(lambda: json.loads(cut))).code == "cut_short"
