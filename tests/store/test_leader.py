from __future__ import annotations

import pytest

from tests.databases import APSW, POSTGRES, STDLIB
from tests.store.jobs import Jobs

pytestmark = pytest.mark.parametrize("db", [APSW, STDLIB, POSTGRES], indirect=True)


def lead(jobs: Jobs, holder: str, name: str = "sweeper") -> int | None:
    rows = jobs.store.write(lambda tx: tx.query("lead", {"name": name, "holder": holder, "lease": 10.0}))
    return rows[0][0] if rows else None


def test_one_leads_until_it_is_heard_of_no_more(jobs: Jobs) -> None:
    assert lead(jobs, "a") == 1
    assert lead(jobs, "b") is None
    jobs.clock.advance(10)
    assert lead(jobs, "b") is None
    jobs.clock.advance(0.1)
    assert lead(jobs, "b") == 2
    assert lead(jobs, "a") is None


def test_who_leads_may_go_on_in_the_same_term(jobs: Jobs) -> None:
    for _ in range(5):
        assert lead(jobs, "a") == 1
        jobs.clock.advance(9)
    assert lead(jobs, "b") is None


def test_a_leader_that_comes_back_late_and_alone_keeps_its_term(jobs: Jobs) -> None:
    lead(jobs, "a")
    jobs.clock.advance(1000)

    assert lead(jobs, "a") == 1


def test_each_lead_is_held_apart(jobs: Jobs) -> None:
    assert (lead(jobs, "a", "sweeper"), lead(jobs, "b", "schedules")) == (1, 1)


def test_a_lead_that_nobody_holds_any_more_is_forgotten_and_may_be_had_anew(jobs: Jobs) -> None:
    def forget(most: int = 10) -> list[str]:
        return [name for (name,) in jobs.store.write(lambda tx: tx.query("leads_forget", {"n": most}))]

    for name in ("probe:a", "probe:b", "probe:c"):
        lead(jobs, "a", name)
    jobs.clock.advance(10)
    assert forget() == []
    lead(jobs, "a", "probe:b")
    jobs.clock.advance(0.1)
    assert [forget(1), forget(), forget()] == [["probe:a"], ["probe:c"], []]
    assert [lead(jobs, "z", f"probe:{name}") for name in "abc"] == [1, None, 1]


def test_a_tick_of_a_schedule_is_had_once_and_time_does_not_go_back(jobs: Jobs) -> None:
    def tick(at: float, name: str = "nightly") -> bool:
        return bool(jobs.store.write(lambda tx: tx.query("schedule_tick", {"name": name, "at": at})))

    assert [tick(100), tick(100), tick(200), tick(150), tick(200), tick(200.5)] == [
        True,
        False,
        True,
        False,
        False,
        True,
    ]
    assert tick(100, "hourly")
    assert jobs.store.read(lambda tx: tx.query("schedule_last", {"name": "nightly"})) == [(200.5,)]


def test_workers_are_seen_until_they_say_goodbye_or_are_gone_for_a_day(jobs: Jobs) -> None:
    def seen(name: str, stopping: int = 0) -> None:
        row = {"id": name, "host": "h", "pid": 1, "queues": "[]", "stopping": stopping, "outdated": 0, "beat": 1}
        jobs.store.write(lambda tx: tx.query("worker_seen", row))

    def workers() -> list[tuple[str, float, int]]:
        return [(row[0], row[4], row[6]) for row in jobs.store.read(lambda tx: tx.query("workers"))]

    start = jobs.clock.now
    seen("a")
    jobs.clock.advance(10)
    seen("b")
    seen("a", 1)
    assert workers() == [("a", start + 10, 1), ("b", start + 10, 0)]
    jobs.store.write(lambda tx: tx.query("worker_gone", {"id": "b"}))
    assert [name for name, _, _ in workers()] == ["a"]
    jobs.clock.advance(86_401)
    jobs.store.write(lambda tx: tx.query("worker_gone", {"id": "c"}))
    assert [name for name, _, _ in workers()] == ["a"]
    jobs.store.write(lambda tx: tx.query("workers_forget", {"before": jobs.clock.now - 86_400, "n": 10}))
    assert workers() == []
