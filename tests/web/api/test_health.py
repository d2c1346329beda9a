"""Whether it is alive, whether it is ready, and whether somebody will do the work."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from weakref import WeakValueDictionary

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from tests.web.api.building import Shop, client_of, served, shop
from tidegate import Breaker
from tidegate.admin.metrics import MAX_TARGETS
from tidegate.guard import breaker_registry
from tidegate.store.base import Tx, now_of
from tidegate.targets.reporter import this_program


@pytest.fixture
def nobody_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What breakers of other tests have counted is forgotten: so many are shown, and no more."""
    monkeypatch.setattr(breaker_registry, "_ledgers", WeakValueDictionary())


def test_the_process_is_alive_and_ready(still: TestClient) -> None:
    assert still.get("/health/live").json() == {"status": "ok", "version": "0.1.0"}
    assert still.get("/health/ready").json() == {"status": "ok"}


def test_a_target_that_is_down_makes_nothing_red(there: Shop, api: TestClient) -> None:
    there.queue.target("mailer").force("open", "1h")
    assert api.get("/health/ready").status_code == 200
    assert api.get("/health/live").status_code == 200


def test_a_schema_that_lacks_a_step_is_not_ready(there: Shop, api: TestClient) -> None:
    there.queue.store.write(lambda tx: tx.execute("delete from tg_migration where number = 1"))
    answer = api.get("/health/ready")
    assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
    assert len(answer.json()["missing"]) == 1


def test_jobs_that_nobody_takes_are_told(there: Shop, api: TestClient) -> None:
    answer = api.get("/health/workers")
    assert (answer.status_code, answer.json()["code"]) == (503, "no_workers")
    assert answer.json()["reasons"] == [
        {"queue": "files", "waiting": 1, "workers": 0}, {"queue": "mail", "waiting": 3, "workers": 0},
    ]  # fmt: skip
    there.queue.pause("files", "1h")
    there.queue.pause("mail", "1h")
    assert api.get("/health/workers").status_code == 200


def test_without_work_nobody_must_be_there(tmp_path: Path) -> None:
    with shop(tmp_path) as empty, client_of(served(empty)) as api:
        assert api.get("/health/workers").json() == {"status": "ok", "workers": 0}


async def test_with_a_worker_somebody_does_the_work(there: Shop, api: TestClient) -> None:
    stop = asyncio.Event()
    working = asyncio.create_task(there.queue.arun_worker(stop=stop))
    try:
        while (answer := await asyncio.to_thread(api.get, "/health/workers")).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # the store alone knows
        assert answer.json() == {"status": "ok", "workers": 1}
        (worker,) = (await asyncio.to_thread(api.get, "/api/v1/workers")).json()["items"]
        assert sorted(worker["queues"]) == ["files", "mail"]
        assert worker["there"] is True
    finally:
        stop.set()
        await working


async def test_a_worker_is_shown_with_the_jobs_that_it_holds(there: Shop, api: TestClient) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @there.queue.job(queue="slow", name="slow")
    async def slow(what: str) -> None:
        begun.set()
        await go.wait()

    job = slow.enqueue("x")
    stop = asyncio.Event()
    working = asyncio.create_task(there.queue.arun_worker(stop=stop, queues={"slow"}))
    await asyncio.wait_for(begun.wait(), 60)
    (worker,) = (await asyncio.to_thread(api.get, "/api/v1/workers")).json()["items"]
    assert [(lease["job"], lease["kind"], lease["attempt"]) for lease in worker["leases"]] == [(job.id, "slow", 1)]
    assert 'jobs_active{queue="slow"} 1.0' in (await asyncio.to_thread(api.get, "/metrics")).text
    shown = (await asyncio.to_thread(api.get, f"/api/v1/jobs/{job.id}")).json()
    assert shown["lease"]["worker"] == worker["id"]
    refused = await asyncio.to_thread(api.post, f"/api/v1/jobs/{job.id}/forget")
    assert 1 <= int(refused.headers["retry-after"]) <= 31
    go.set()
    stop.set()
    await working


# -- metrics ---------------------------------------------------------------------------------------------------------

NAMES = {
    "jobs_failed_total", "job_processing_duration_seconds_bucket", "job_processing_duration_seconds_sum",
    "job_processing_duration_seconds_count", "queue_depth", "jobs_active", "manual_retry_total",
    "circuit_breaker_state", "circuit_breaker_requests_total", "circuit_breaker_consecutive_failures",
    "circuit_breaker_state_transitions_total", "tidegate_queue_oldest_age_seconds", "tidegate_lease_expired_total",
    "tidegate_target_state", "tidegate_targets", "tidegate_workers", "tidegate_build_info", "tidegate_store_up",
    "tidegate_notices_unread",
}  # fmt: skip


def values(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            place = (sample.name, tuple(sorted(sample.labels.items())))
            assert place not in found
            found[place] = sample.value
    return found


@pytest.mark.req("CNV-15")
def test_the_metrics_are_those_that_were_promised(there: Shop, api: TestClient) -> None:
    there.queue.retry(2)
    found = values(api.get("/metrics").text)
    assert {name for name, _ in found} >= NAMES
    assert found["queue_depth", (("queue", "mail"),)] == 4
    assert found["jobs_failed_total", (("error_code", "bad_request"), ("queue", "mail"))] == 3
    assert found["jobs_active", (("queue", "mail"),)] == 0
    assert found["manual_retry_total", (("queue", "mail"),)] == 1
    assert found["job_processing_duration_seconds_count", (("queue", "mail"),)] == 6
    assert found["circuit_breaker_requests_total", (("name", "mailer"), ("result", "success"))] == 3
    states = {
        dict(labels)["state"]: value for (name, labels), value in found.items() if name == "tidegate_target_state"
    }
    assert sum(states.values()) == states["ok"] == 1


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_of_a_target_and_a_breaker_of_one_name_the_row_is_told_and_only_once(
    nobody_counted: None, there: Shop, api: TestClient, accept: str
) -> None:
    here = [Breaker("mailer", consecutive=1), Breaker("only-here")]
    for breaker in here:
        with pytest.raises(OSError, match="x"), breaker.permit():
            raise OSError("x")
    assert here[0].state == "open"

    text = api.get("/metrics", headers={"Accept": accept}).text
    parse = openmetrics if accept else text_string_to_metric_families
    found = [(sample.name, tuple(sorted(sample.labels.items()))) for family in parse(text) for sample in family.samples]
    assert len(found) == len(set(found))
    told = values(api.get("/metrics").text)
    assert told["circuit_breaker_state", (("name", "mailer"),)] == 0
    assert told["circuit_breaker_requests_total", (("name", "mailer"), ("result", "success"))] == 3
    assert told["circuit_breaker_requests_total", (("name", "mailer"), ("result", "failure"))] == 0
    assert told["circuit_breaker_requests_total", (("name", "only-here"), ("result", "failure"))] >= 1
    there.queue.away = True
    away = values(api.get("/metrics").text)
    assert away["circuit_breaker_state", (("name", "mailer"),)] == 2


@pytest.mark.req("BRK-08")
def test_of_a_breaker_that_a_worker_has_as_well_the_worst_state_shows(
    nobody_counted: None, there: Shop, api: TestClient
) -> None:
    here = Breaker("plex")

    def said(state: str, run: int, *, program: str = "worker-77", ago: float = 0.0) -> tuple[float, float]:
        breaker = {"state": state, "calls": 9, "consecutive_failures": run}

        def tell(tx: Tx) -> None:
            summary = {program: {"at": now_of(tx) - ago, "breakers": {"plex": breaker, "theirs alone": breaker}}}
            tx.query("target_report", {"name": "plex", "summary": json.dumps(summary)})

        there.queue.store.write(tell)
        found = values(api.get("/metrics").text)
        assert not any(("name", "theirs alone") in labels for _, labels in found)
        assert found["circuit_breaker_requests_total", (("name", "plex"), ("result", "success"))] == 0
        place = (("name", "plex"),)
        return found["circuit_breaker_state", place], found["circuit_breaker_consecutive_failures", place]

    assert said("open", 5) == (2, 5)
    assert said("half-open", 5) == (1, 5)
    assert said("closed", 1) == (0, 1)
    assert said("open", 5, ago=61) == (0, 0)  # it is gone
    assert said("open", 5, program=this_program()) == (0, 0)  # of itself this process knows better
    here.force("open", "1h")
    assert said("closed", 0) == (2, 0)


def test_breakers_of_this_process_are_bounded(nobody_counted: None, api: TestClient) -> None:
    kept = [Breaker(f"many-{n:03}") for n in range(MAX_TARGETS + 5)]
    found = values(api.get("/metrics").text)
    # One that is gone has no state any more, but what it counted.
    names = {dict(labels)["name"] for series, labels in found if series.startswith("circuit_breaker_")}
    assert len(names) == MAX_TARGETS
    assert found["circuit_breaker_state", (("name", "mailer"),)] == 0
    del kept


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text; version=1.0.0"),
        ("text/html,*/*", "text/plain; version=0.0.4; charset=utf-8"),
    ],
)
def test_metrics_come_in_the_format_that_is_asked_for(still: TestClient, accept: str, kind: str) -> None:
    answer = still.get("/metrics", headers={"Accept": accept})
    assert answer.headers["content-type"].startswith(kind)
    assert answer.text.rstrip().endswith("# EOF") is kind.startswith("application")
