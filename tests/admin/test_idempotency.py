"""A request with a key is carried out once: its twin gets the same answer, or is told why not."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.databases import Database
from tests.store.jobs import Jobs
from tidegate import idempotency
from tidegate.idempotency import AnswerNotKept, InFlight, OtherBody, RequestReservation, StoredResponse

SCOPE = "ada POST /api/v1/jobs"


def begin(jobs: Jobs, key: str = "k1", digest: str = "d", scope: str = SCOPE) -> StoredResponse | RequestReservation:
    return jobs.store.write(lambda tx: idempotency.begin(tx, key, scope, digest))


def begun(jobs: Jobs, key: str = "k1", digest: str = "d", scope: str = SCOPE) -> RequestReservation:
    found = begin(jobs, key, digest, scope)
    assert isinstance(found, RequestReservation)
    return found


def finish(jobs: Jobs, ticket: RequestReservation, body: bytes = b'{"id": 7}', status: int = 201) -> bool:
    headers = {"location": "/api/v1/jobs/7"}
    return jobs.store.write(lambda tx: idempotency.finish(tx, ticket, status, headers, body))


def abandon(jobs: Jobs, ticket: RequestReservation) -> bool:
    return jobs.store.write(lambda tx: idempotency.abandon(tx, ticket))


@pytest.mark.parametrize("body", [b"", b"\x00\xff{", b"x" * 65_536])
def test_the_twin_of_a_finished_request_gets_its_answer_to_the_byte(jobs: Jobs, body: bytes) -> None:
    assert finish(jobs, begun(jobs), body)

    for _ in range(2):
        assert begin(jobs) == StoredResponse(201, {"location": "/api/v1/jobs/7"}, body)


def test_a_key_belongs_to_who_asks_for_what(jobs: Jobs) -> None:
    finish(jobs, begun(jobs))

    begun(jobs, scope="bob POST /api/v1/jobs")
    begun(jobs, scope="ada POST /api/v1/jobs/7/retry")
    begun(jobs, key="k2")


def test_a_key_that_was_used_for_another_body_is_refused(jobs: Jobs) -> None:
    ticket = begun(jobs)
    for wait in (0, 61):  # also after a crash: nobody knows what became of the first one
        jobs.clock.advance(wait)
        with pytest.raises(OtherBody):
            begin(jobs, digest="other")
    finish(jobs, ticket)
    with pytest.raises(OtherBody):
        begin(jobs, digest="other")


def test_while_one_is_under_way_its_twin_is_told_so_and_for_how_long(jobs: Jobs) -> None:
    begun(jobs)
    jobs.clock.advance(20)

    with pytest.raises(InFlight, match="is under way") as refused:
        begin(jobs)
    assert refused.value.retry_after == 40


def test_of_many_at_the_same_moment_one_is_carried_out(db: Database, jobs: Jobs) -> None:
    n = 8
    stores = [Jobs(db.open(jobs.clock), jobs.clock) for _ in range(n)]
    together = threading.Barrier(n)

    def ask(mine: Jobs) -> str:
        together.wait()
        try:
            return type(begin(mine)).__name__
        except InFlight:
            return "InFlight"

    with ThreadPoolExecutor(n) as pool:
        answers = list(pool.map(ask, stores))
    for each in stores:
        each.store.close()

    assert sorted(answers) == [*["InFlight"] * (n - 1), "RequestReservation"]


def test_a_crash_in_the_middle_blocks_the_key_for_a_minute_only(jobs: Jobs) -> None:
    lost = begun(jobs)
    jobs.clock.advance(59.9)
    with pytest.raises(InFlight):
        begin(jobs)
    jobs.clock.advance(0.1)

    ticket = begun(jobs)

    assert not finish(jobs, lost, b"late")
    assert not abandon(jobs, lost)
    with pytest.raises(InFlight):
        begin(jobs)
    assert finish(jobs, ticket, b"mine")
    assert begin(jobs) == StoredResponse(201, {"location": "/api/v1/jobs/7"}, b"mine")


def test_one_that_was_given_up_may_be_tried_again_at_once_even_with_another_body(jobs: Jobs) -> None:
    assert abandon(jobs, begun(jobs))

    ticket = begun(jobs, digest="other")
    assert finish(jobs, ticket)
    assert not abandon(jobs, ticket)  # an answer that was given stays
    assert isinstance(begin(jobs, digest="other"), StoredResponse)


def test_an_answer_that_is_too_long_is_not_kept_and_the_request_not_repeated(jobs: Jobs) -> None:
    assert finish(jobs, begun(jobs), b"x" * 65_537)

    with pytest.raises(AnswerNotKept):
        begin(jobs)


def test_after_a_day_the_key_is_free(jobs: Jobs) -> None:
    finish(jobs, begun(jobs))
    jobs.clock.advance(86_399)
    assert isinstance(begin(jobs), StoredResponse)
    jobs.clock.advance(1)

    finish(jobs, begun(jobs, digest="other"), b"new")
    assert begin(jobs, digest="other") == StoredResponse(201, {"location": "/api/v1/jobs/7"}, b"new")


def test_old_requests_go_in_slices(jobs: Jobs) -> None:
    for n in range(5):
        begun(jobs, key=f"k{n}")
    jobs.clock.advance(10)
    begun(jobs, key="young")

    assert [jobs.store.write(lambda tx: idempotency.prune(tx, jobs.clock.now - 5, 3)) for _ in range(3)] == [3, 2, 0]
    assert jobs.sql("select name from tg_request") == [("young",)]


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "ä", "a\0"])
def test_a_key_that_is_no_plain_text_is_refused(jobs: Jobs, key: str) -> None:
    with pytest.raises(ValueError, match=r"Idempotency-Key: .*1 .*255"):
        begin(jobs, key)
