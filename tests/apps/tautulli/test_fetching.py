"""The next page is on its way while one is read, and a stop waits for none of them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path

import httpx2
import pytest

from tests.apps.tautulli.building import Desk, sqlite, starts
from tidegate import Queue, Target
from tidegate.apps import install
from tidegate_apps.tautulli.app import app
from tidegate_apps.tautulli.client import PACK, ClientTiming, HistoryQuery, Tautulli, TautulliError
from tidegate_apps.tautulli.guarded_client import BackgroundCall, HistoryPages, SyncStopped, stoppable
from tidegate_apps.tautulli.jobs import BY_CLOCK
from tidegate_apps.tautulli.settings import TautulliSettings
from tidegate_demo.simulators.tautulli import TautulliSimulator

PATIENCE = 60.0  # seconds; much less than a hanging call takes


def wanted(start: int) -> HistoryQuery:
    return HistoryQuery(start=start, length=200, oldest_first=True)


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_the_next_page_is_asked_for_before_it_is_wanted_and_once(quick: Desk) -> None:
    with HistoryPages(quick.client, lambda: False) as pages:
        first = pages.get(wanted(0), wanted(200))
        until(lambda: quick.sim.calls() == 2)
        second = pages.get(wanted(200))
        assert (first.said[0]["row_id"], second.said[-1]["row_id"]) == (2, 600 - 200)
    assert [asked["start"] for asked in starts(quick)] == ["0", "200"]


def test_a_page_that_was_not_wanted_after_all_is_dropped(quick: Desk) -> None:
    with HistoryPages(quick.client, lambda: False) as pages:
        pages.get(wanted(0), wanted(200))
        assert pages.get(wanted(100)).said[0]["row_id"] == quick.sim.history.row_id(100)
        assert pages.get(wanted(200)).said[0]["row_id"] == quick.sim.history.row_id(200)


def test_nothing_is_asked_for_after_an_answer_that_is_no_page(quick: Desk) -> None:
    quick.sim.next("internal")
    with HistoryPages(quick.client, lambda: False) as pages, pytest.raises(TautulliError):
        pages.get(wanted(0), wanted(200))
    assert quick.sim.calls() == 1


def test_a_sync_with_threads_asks_for_the_same_pages_in_the_same_order_and_once(tmp_path: Path) -> None:
    with Desk.opened(sqlite(tmp_path), {"rows": 1500}) as desk:
        assert desk.syncing(threads=True, lot=300).run().new == 1500
        assert [int(asked["start"]) for asked in starts(desk)] == list(range(0, 1500, 200))
        assert set(desk.counted().values()) == {1500}


@pytest.mark.req("BRK-10")
def test_the_page_after_one_that_failed_is_not_stored(tmp_path: Path) -> None:
    with Desk.opened(sqlite(tmp_path), {"rows": 1500}) as desk:
        desk.sim.next("well", "well", "well", "cut")  # its answer begins, and so the one after it is asked for
        with pytest.raises(Exception, match="peer closed connection"):
            desk.syncing(threads=True).run()
        assert (desk.state.row_id, set(desk.counted().values())) == (600, {600})
        assert desk.syncing(threads=True).run().new == 900


def test_rows_that_are_deleted_while_a_page_is_ahead_hide_no_others(tmp_path: Path) -> None:
    with Desk.opened(sqlite(tmp_path), {"rows": 1500}) as desk:
        told = list[int]()

        def deletes(seen: int, _: int) -> None:
            told.append(seen)
            if len(told) in (2, 4):
                desk.sim.remove(*range(len(told) * 10))

        desk.syncing(threads=True, told=deletes).run()
        assert {row[0] for row in desk.rows()} == set(range(1, 1501))
        assert set(desk.counted().values()) == {1500}


def test_a_stop_cuts_a_call_that_hangs_and_the_breaker_hears_nothing_of_it(quick: Desk) -> None:
    target = Target("cut-tautulli", rules=PACK, backoff=None, breaker={"consecutive": 1})
    client = target.wrap(quick.client)
    quick.sim.next("hangs", "hangs")
    with pytest.raises(SyncStopped):
        stoppable(client, lambda: quick.sim.calls() == 1, client.arnold)
    waits = BackgroundCall(client.arnold).come
    until(lambda: quick.sim.calls() == 2)
    client.connections.abort()
    with pytest.raises(CancelledError):
        waits.result(20)  # the simulator would end it after 30
    assert target.breaker is not None
    assert (target.breaker.state, target.breaker.counts.failures) == ("closed", 0)
    assert client.arnold()  # by a new line


def test_a_stop_does_not_wait_for_a_call_that_cannot_connect() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.socket() as waits:
        waits.setblocking(False)
        waits.connect_ex(full.getsockname())  # nobody takes it, and there is room for no other
        with Tautulli(f"http://127.0.0.1:{full.getsockname()[1]}", "key", ClientTiming(begin=PATIENCE)) as client:
            began = time.monotonic()
            with pytest.raises(SyncStopped):
                stoppable(client, lambda: time.monotonic() > began, client.arnold)
            assert time.monotonic() - began < PATIENCE / 2


def test_what_breaks_off_by_itself_is_a_failure_and_no_cut(quick: Desk) -> None:
    quick.sim.next("resets")
    quick.client.connections.abort()
    with pytest.raises(httpx2.TransportError):
        quick.client.arnold()


@pytest.mark.req("BRK-10")
def test_a_worker_that_is_to_stop_gives_a_sync_back_although_tautulli_hangs(tmp_path: Path) -> None:
    """A call may take ten minutes here: whoever waits for it waits in vain."""
    with TautulliSimulator(rows=1500) as sim, Queue(sqlite(tmp_path).url) as queue:
        said = {"url": sim.url, "api_key": sim.key, "timeout": "300s", "total": "600s", "page": 200}
        there = install(app, queue, TautulliSettings.model_validate(said))
        with there.closing:
            made = there.jobs.sync.enqueue(BY_CLOCK)
            sim.next("well", "well", "hangs")
            asyncio.run(_worked(queue, lambda: sim.calls() >= 3))
            job = queue.get(made.id)
            assert (job.state, job.attempt) == ("queued", 0)
            assert there.db.all("total")[0][0] == 400
            assert there.jobs.api.breaker.counts.failures == 0
            asyncio.run(_worked(queue, lambda: queue.get(made.id).state == "done"))
            assert there.db.all("total")[0][0] == 1500


async def _worked(queue: Queue, enough: Callable[[], object]) -> None:
    stop = asyncio.Event()
    working = asyncio.create_task(queue.arun_worker(stop=stop, grace=PATIENCE))
    await asyncio.to_thread(until, enough)
    stop.set()
    await asyncio.wait_for(working, PATIENCE / 2)
