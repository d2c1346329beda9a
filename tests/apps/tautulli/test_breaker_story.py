"""An outage from its first failure to the recovery, in virtual time: state, numbers and log at each step."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.apps.tautulli.building import Desk, Metrics
from tests.databases import Database
from tidegate import TooManyRequests
from tidegate_apps.tautulli.api import sync_now
from tidegate_apps.tautulli.client import PACK, TARGET
from tidegate_apps.tautulli.jobs import BY_PERSON


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[str, str]]]:
    """The words of the log since the last look, each with its level."""
    caplog.set_level(logging.INFO, "tidegate")

    def since() -> list[tuple[str, str]]:
        found = [(each.levelname, _first(each.getMessage())) for each in caplog.records if _ours(each)]
        caplog.clear()
        return found

    return since


def _ours(record: logging.LogRecord) -> bool:
    """Threads of other tests may still end, and say so."""
    return record.name == "tidegate.tautulli" or f"name={TARGET} " in record.getMessage()


def _first(line: str) -> str:
    """The words before the fields, and of a transition where it went."""
    name = line.split(" target=", maxsplit=1)[0].split(" code=", maxsplit=1)[0].split(" new=", maxsplit=1)[0]
    return line.replace(f"name={TARGET} ", "") if line.startswith("breaker_state_changed") else name


def moved(old: str, new: str) -> tuple[str, str]:
    return "INFO", f"breaker_state_changed from={old} to={new}"


FAILED, SKIPPED, THROTTLED = ("WARNING", "sync failed"), ("WARNING", "sync skipped"), ("WARNING", "sync throttled")


@pytest.mark.req("BRK-01", "BRK-02", "BRK-03", "BRK-06", "BRK-08", "BRK-10")
def test_an_outage_from_the_first_failure_to_the_recovery(desk: Desk, said: Any) -> None:
    metrics = Metrics()
    job, _ = desk.run()
    assert (job.state, desk.breaker.state, desk.fresh.stale_since) == ("done", "closed", None)
    calls = desk.breaker.counts.requests
    assert metrics.now() == {"state": 0, "consecutive_failures": 0, "requests_total success": calls}
    assert said() == [("INFO", "history synced")]
    synced_at = desk.clock.now()

    # Four failures of a quiet loop: each is told, and what is stored is stale at once.
    desk.sim.outage("1h down")
    for failures in (1, 2, 3, 4):
        desk.clock.advance(20)
        job, _ = desk.run()
        assert (job.state, desk.breaker.state, desk.breaker.run) == ("queued", "closed", failures)
        assert (desk.state.outcome, desk.state.code, desk.fresh.stale_since) == ("failed", "network", synced_at)
        assert said() == [FAILED]

    # The fifth opens it. The number of failures is told as it was before the counts were cleared.
    desk.clock.advance(20)
    desk.run()
    opened_at = desk.clock.now()
    assert said() == [moved("closed", "open"), FAILED]
    assert metrics.now() == {
        "state": 2, "consecutive_failures": 5, "requests_total success": calls, "requests_total failure": 5,
        "state_transitions_total closed open": 1,
    }  # fmt: skip

    # The next run is skipped. It neither fails nor costs an attempt, and waits for the end of the open state.
    desk.clock.advance(2)
    job, drained = desk.run()
    assert (drained.again, drained.failed, job.state) == (1, 0, "queued")
    assert job.due_at == pytest.approx(opened_at + 120)
    assert said() == [SKIPPED]
    assert metrics.now()["requests_total rejected"] == 1
    assert (desk.fresh.breaker, desk.fresh.next_trial, desk.fresh.stale_since) == ("open", job.due_at, synced_at)
    asked = desk.sim.calls()
    for _ in range(5):
        desk.clock.advance(20)
        assert desk.run()[1].again == 0  # ticks of the clock change nothing
    assert (said(), desk.sim.calls(), metrics.now()["requests_total rejected"]) == ([], asked, 1)

    # Nobody calls it, and yet its state is told as it is: its time is over.
    desk.clock.advance(opened_at + 120 - desk.clock.now())
    assert desk.fresh.breaker == "half-open"
    assert (metrics.now()["state"], metrics.now()["state_transitions_total open half-open"]) == (1, 1)
    said()

    # A trial that fails opens it again, and the page goes on with what is stored.
    desk.run()
    assert said() == [moved("half-open", "open"), FAILED]
    assert len(desk.rows()) == 600
    desk.clock.advance(2)
    desk.run()
    assert said() == [SKIPPED]

    # Tautulli is back: at the end of the open state three small calls close it, and the sync catches up.
    desk.sim.outage(None)
    desk.sim.play(4)
    desk.clock.advance(118)
    job, _ = desk.run()
    assert (job.state, desk.breaker.state, desk.fresh.stale_since) == ("done", "closed", None)
    assert said() == [moved("open", "half-open"), moved("half-open", "closed"), ("INFO", "history synced")]
    assert len(desk.rows()) == 604
    assert metrics.now() == {
        "state": 0, "consecutive_failures": 0, "requests_total success": calls + 4, "requests_total failure": 6,
        "requests_total rejected": 2, "state_transitions_total closed open": 1,
        "state_transitions_total open half-open": 2, "state_transitions_total half-open open": 1,
        "state_transitions_total half-open closed": 1,
    }  # fmt: skip


@pytest.mark.req("BRK-10")
def test_a_long_outage_is_one_job_that_waits_and_never_fails(quick: Desk) -> None:
    quick.run()
    quick.sim.outage("2h down")
    job, _ = quick.run()
    for _ in range(80):
        quick.clock.advance(30)
        again, _ = quick.run()
        assert (again.id, again.state) == (job.id, "queued")
    quick.sim.outage(None)
    quick.clock.advance(121)
    again, _ = quick.run()
    assert (again.id, again.state) == (job.id, "done")


@pytest.mark.req("BRK-10")
def test_a_half_open_breaker_that_is_full_throttles_the_run(quick: Desk, said: Any) -> None:
    quick.run()
    quick.breaker.force("open", "1s")
    quick.clock.advance(1)
    places = [quick.breaker.allow() for _ in range(3)]
    assert all(places)
    said()
    job, drained = quick.run()
    assert said() == [THROTTLED]
    assert (drained.again, drained.failed, job.state, quick.state.outcome) == (1, 0, "queued", "throttled")
    assert (job.due_at or 0) >= quick.clock.now() + 1
    with pytest.raises(TooManyRequests):
        quick.api.client.status()


@pytest.mark.req("BRK-07", "BRK-10")
@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("bad_key", "unauthorized"),
        ("api_off", "api_off"),
    ],
)
def test_a_refused_key_fails_the_run_and_never_counts_against_the_breaker(
    quick: Desk, said: Any, state: str, code: str
) -> None:
    quick.sim.now(state)
    for _ in range(6):
        quick.clock.advance(300)
        job, _ = quick.run()
        assert (job.state, job.error_code, quick.state.code) == ("failed", code, code)
        assert (job.error_message or "").startswith(PACK.code_book[code].message)
    assert (quick.breaker.state, quick.breaker.counts.failures) == ("closed", 0)
    assert {line for line in said() if line[0] == "ERROR"} == {("ERROR", "sync failed")}
    assert quick.sim.calls() == 1  # it is not asked over and over

    # A person has set it right, and says so.
    quick.sim.now("well")
    assert quick.run()[0].state == "failed"
    assert quick.run(BY_PERSON)[0].state == "done"
    assert quick.run()[0].state == "done"


@pytest.mark.req("BRK-10")
@pytest.mark.parametrize(
    ("state", "code"), [("internal", "upstream_failure"), ("cut", "cut_short"), ("login", "html_answer")]
)
def test_any_other_error_fails_the_run_with_its_cause(quick: Desk, state: str, code: str) -> None:
    quick.run()
    quick.there.jobs.api.target.breaker.force("closed", "1h")  # so that all attempts are made
    quick.sim.now(state)
    job, _ = quick.run()
    for _ in range(4):
        quick.clock.advance(60)
        job, _ = quick.run()
    assert (job.state, job.error_code, job.attempt) == ("failed", code, 5)
    assert (quick.state.outcome, quick.state.code) == ("failed", code)
    quick.sim.now("well")
    assert quick.run()[0].state == "done"


@pytest.mark.parametrize(("state", "wait"), [("throttled", 30), ("throttled_for_days", 3600)])
def test_who_asks_us_to_wait_is_heard_for_an_hour_at_most(quick: Desk, state: str, wait: float) -> None:
    quick.sim.now(state)
    job, _ = quick.run()
    assert (job.state, job.due_at) == ("queued", quick.clock.now() + wait)
    quick.sim.now("well")
    quick.clock.advance(wait)
    assert quick.run()[0].state == "done"


@pytest.mark.req("BRK-10")
def test_an_empty_history_is_asked_for_again_after_30_seconds(quick: Desk) -> None:
    quick.run()
    quick.sim.remove_all()
    job, _ = quick.run()
    assert (job.state, quick.state.outcome, quick.state.code) == ("queued", "failed", "empty_history")
    assert job.due_at == quick.clock.now() + 30
    quick.clock.advance(30)
    assert quick.run()[0].state == "done"
    assert (quick.state.outcome, len(quick.rows())) == ("synced", 600)


@pytest.mark.req("BRK-10")
def test_days_without_rows_are_an_empty_history_also_where_older_rows_are_left(quick: Desk, said: Any) -> None:
    quick.run()
    quick.sim.remove(*range(300, 600))
    quick.run()
    quick.clock.advance(30)
    said()
    quick.sim.next("well", "nothing")  # the history; then it cannot tell whether its database is sound
    quick.run()
    assert (quick.state.outcome, quick.state.code) == ("failed", "empty_history")
    assert ("WARNING", "sync failed") in said()
    quick.clock.advance(30)
    assert quick.run()[0].state == "done"


@pytest.mark.req("BRK-10")
def test_a_hang_ends_after_its_time_and_counts(tmp_path: Path) -> None:
    db = Database("sqlite-apsw", f"sqlite:///{tmp_path / 'plays.db'}", "apsw")
    with Desk.opened(db, timeout="200ms") as desk:
        desk.sim.now("hangs")
        desk.run()
        assert (desk.state.outcome, desk.state.code, desk.breaker.run) == ("failed", "timeout", 1)


def test_a_person_may_try_it_while_it_is_open(quick: Desk) -> None:
    quick.sim.outage("1h down")
    waiting, _ = quick.run()
    for _ in range(5):
        quick.clock.advance(20)
        waiting, _ = quick.run()
    assert (waiting.state, quick.breaker.state) == ("queued", "open")
    quick.sim.outage(None)

    made = sync_now(quick.there, "ada")
    quick.queue.drain()
    assert (quick.queue.get(made.id).state, quick.breaker.state) == ("done", "closed")
    assert quick.queue.get(waiting.id).state == "cancelled"


def test_a_person_who_retries_a_failed_sync_makes_a_trial_again(quick: Desk) -> None:
    quick.sim.now("bad_key")
    job, _ = quick.run(BY_PERSON)
    assert job.state == "failed"
    quick.sim.now("well")
    assert quick.queue.retry(job.id)
    quick.queue.drain()
    assert quick.queue.get(job.id).state == "done"


@pytest.mark.req("BRK-02", "BRK-10")
def test_a_person_who_tries_it_while_tautulli_is_still_down_makes_one_trial_and_no_more(quick: Desk, said: Any) -> None:
    quick.sim.outage("1h down")
    for _ in range(6):
        quick.clock.advance(20)
        quick.run()
    said()

    made = sync_now(quick.there, "ada")
    for _ in range(60):  # a minute, second by second
        quick.queue.drain()
        quick.clock.advance(1)
    assert said() == [moved("open", "half-open"), moved("half-open", "open"), FAILED, SKIPPED]
    assert quick.breaker.state == "open"
    job = quick.queue.get(made.id)
    assert job.state == "queued"
    assert job.due_at == pytest.approx(quick.fresh.next_trial)
    assert (job.due_at or 0) > quick.clock.now()

    # The next press is a trial again, and it does not wait.
    quick.sim.outage(None)
    again = sync_now(quick.there, "ada")
    quick.queue.drain()
    assert (quick.queue.get(again.id).state, quick.breaker.state) == ("done", "closed")
