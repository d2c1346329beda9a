"""Types and statuses anywhere in the cause chain decide; what was merely being handled is weaker."""

from __future__ import annotations

import asyncio
import errno
import http.client
import json
import socket
import ssl

import pytest

from tests.unit.faults.failing import AppError, StatusError, chained, raised, verdict
from tidegate.errors import BreakerOpen, Held
from tidegate.faults.classification import classify
from tidegate.faults.introspection import BUGS, MAX_NODES
from tidegate.faults.rule import Pack, Rule


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


def test_no_rule_of_a_service_explains_a_bug_of_the_program() -> None:
    missing = Pack("art", [Rule(name="none", code=None, status=404), Rule(name="user", code="gone", text="user")])

    assert classify(RuntimeError("status 404"), missing) is None
    for bug in (KeyError("status 404"), KeyError("user")):
        assert (fault := classify(bug, missing)) is not None
        assert fault.rule == "unknown"


def test_a_bug_that_was_raised_from_a_failure_on_purpose_is_that_failure() -> None:
    assert verdict(chained(KeyError("user"), cause=StatusError(404))).code == "not_found"


def test_the_status_on_an_exception_of_a_client_is_read() -> None:
    class SpotifyError(Exception):
        http_status = 429
        code = -1
        headers = {"Retry-After": "3"}  # noqa: RUF012

    fault = verdict(SpotifyError())

    assert (fault.code, fault.status, fault.retry_after) == ("rate_limited", 429, 3.0)


def test_a_status_that_came_with_a_body_nobody_could_read_still_decides() -> None:
    class ApiError(Exception):
        status_code = 502

    assert verdict(chained(ApiError("no"), cause=raised(lambda: json.loads("<html>")))).code == "upstream_failure"


def test_a_code_without_headers_is_no_status() -> None:
    class Exit(Exception):
        code = 404

    assert verdict(Exit("done")).code == "unexpected"


def test_a_good_answer_inside_an_exception_is_a_success_of_the_target() -> None:
    assert classify(StatusError(200, "the playlist has no name")) is None


def test_a_good_answer_whose_body_broke_off_is_no_success() -> None:
    class BrokenBody(ConnectionResetError):
        response = StatusError(200).response

    assert verdict(BrokenBody("reset")).code == "network"


def test_an_unchanged_answer_in_an_exception_is_a_success() -> None:
    assert classify(StatusError(304)) is None


def test_the_headers_of_the_deciding_exception_are_read_through_a_wrapper() -> None:
    class HeadersError(Exception):
        status = 503
        headers = {"retry-after": "9"}  # noqa: RUF012

    assert verdict(chained(AppError("failed"), cause=HeadersError())).retry_after == 9.0


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
        near, far = _deep(MAX_NODES - 1), _deep(100_000)

        assert verdict(near).code == "rate_limited"
        assert verdict(far).rule == "unknown"

    def test_a_group_of_thousands_is_looked_at_in_part(self) -> None:
        assert verdict(ExceptionGroup("many", [AppError("x")] * 5000)).rule == "unknown"


def _deep(length: int) -> BaseException:
    error: BaseException = StatusError(429)
    for _ in range(length):
        error = chained(AppError("wrapped"), cause=error)
    return error
