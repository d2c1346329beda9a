"""The verification table of the decision, line by line: numbers, metrics, log, and the whole client behind it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.apps.tautulli.building import Desk, samples
from tidegate import BreakerOpen, BreakerOptions, Queue, Target
from tidegate.apps import install
from tidegate_apps.tautulli.app import app
from tidegate_apps.tautulli.client import PACK, TARGET, HistoryQuery, TautulliError
from tidegate_apps.tautulli.settings import TautulliSettings
from tidegate_demo.simulators.tautulli import TautulliSimulator

SEED: BreakerOptions = {"max_requests": 3, "interval": 60.0, "timeout": 120.0, "min_requests": 10, "failure_ratio": 0.6}


@pytest.mark.req("BRK-01", "BRK-11")
def test_the_numbers_are_those_of_the_decision() -> None:
    numbers = TautulliSettings().breaker
    assert numbers == {**SEED, "consecutive": 5}
    assert TautulliSettings(breaker_consecutive=0).breaker["consecutive"] is None


@pytest.mark.req("BRK-11")
@pytest.mark.parametrize(
    "wrong",
    [
        {"breaker_failure_ratio": 0},
        {"breaker_failure_ratio": 1.1},
        {"breaker_max_requests": 0},
        {"breaker_min_requests": 0},
        {"breaker_timeout": "0s"},
        {"breaker_interval": "0s"},
        {"breaker_consecutive": -1},
        {"page": 100},
        {"page": 501},
        {"url": "tautulli:8181"},
        {"url": "http://key@tautulli"},
        {"times": "every five minutes"},
    ],
)
def test_a_setting_that_cannot_be_is_refused_at_the_start(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TautulliSettings.model_validate(wrong)


@pytest.mark.req("BRK-01")
@pytest.mark.parametrize(("good", "bad", "state"), [(4, 6, "open"), (5, 5, "closed"), (3, 6, "closed")])
def test_it_opens_at_60_percent_of_at_least_ten_calls_within_a_minute(
    quick: Desk, good: int, bad: int, state: str
) -> None:
    quick.there.settings = quick.there.settings.model_copy(update={"breaker_consecutive": 0})
    for what in ["well"] * good + ["internal"] * bad:
        quick.sim.next(what)
        with contextlib.suppress(TautulliError):
            quick.api.client.status()
    assert quick.breaker.state == state


@pytest.mark.req("BRK-02", "BRK-09")
def test_it_stays_open_for_two_minutes_and_rejects_every_command_at_once(quick: Desk) -> None:
    quick.sim.now("internal")
    for _ in range(5):
        with pytest.raises(TautulliError):
            quick.api.client.arnold()
    asked = quick.sim.calls()
    client = quick.api.client
    for call in (
        client.status, client.server_status, client.arnold, client.get_activity,
        lambda: client.get_history(HistoryQuery()), lambda: client.get_geoip_lookup("192.0.2.1"),
    ):  # fmt: skip
        with pytest.raises(BreakerOpen) as caught:
            call()
        assert (caught.value.target, caught.value.retry_after) == (TARGET, 120)
    assert quick.sim.calls() == asked
    quick.sim.now("well")
    quick.clock.advance(119.9)
    with pytest.raises(BreakerOpen):
        client.status()
    quick.clock.advance(0.1)
    assert client.status().message == "Ok"


@pytest.mark.req("BRK-08")
def test_all_numbers_are_there_from_the_start(quick: Desk) -> None:
    assert quick.api.breaker.state == "closed"
    assert set(samples()) == {
        "state", "consecutive_failures", "requests_total success", "requests_total failure", "requests_total rejected",
        "state_transitions_total closed open", "state_transitions_total open half-open",
        "state_transitions_total half-open closed", "state_transitions_total half-open open",
        "state_transitions_total open closed",
    }  # fmt: skip


@pytest.mark.req("BRK-06")
def test_every_transition_is_logged_with_its_name(quick: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tidegate.breaker")
    quick.sim.now("internal")
    for _ in range(5):
        with pytest.raises(TautulliError):
            quick.api.client.status()
    lines = [each.getMessage() for each in caplog.records if each.name == "tidegate.breaker"]
    assert lines == [f"breaker_state_changed name={TARGET} from=closed to=open"]


@pytest.mark.req("BRK-09")
def test_any_other_client_is_wrapped_in_one_line_sync_or_async() -> None:
    class Asynchronous:
        def __init__(self, url: str) -> None:
            self._http = httpx2.AsyncClient(base_url=url, timeout=60)

        async def ask(self, command: str) -> int:
            answer = await self._http.get("/api/v2", params={"cmd": command, "apikey": "wrong"})
            return answer.raise_for_status().status_code

        async def aclose(self) -> None:
            await self._http.aclose()

    async def tried(sim: TautulliSimulator) -> list[str]:
        target = Target("tautulli-async", rules=PACK, backoff=None, breaker={**SEED, "consecutive": 2})
        client = target.wrap(Asynchronous(sim.url))
        found = []
        sim.now("internal")
        for _ in range(4):
            try:
                await client.ask("status")
            except (httpx2.HTTPStatusError, BreakerOpen) as error:
                found.append(type(error).__name__)
        await client.aclose()
        return found

    with TautulliSimulator(rows=1) as sim:
        assert asyncio.run(tried(sim)) == ["HTTPStatusError"] * 2 + ["BreakerOpen"] * 2


@pytest.mark.req("BRK-07")
def test_a_call_that_was_cancelled_counts_for_nothing() -> None:
    class Slow:
        async def ask(self) -> None:
            await asyncio.sleep(60)

    async def cancelled() -> tuple[str, int]:
        target = Target("tautulli-cancelled", rules=PACK, backoff=None, breaker={**SEED, "consecutive": 1})
        client = target.wrap(Slow())
        for _ in range(3):
            task = asyncio.create_task(client.ask())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert target.breaker is not None
        return target.breaker.state, target.breaker.counts.requests

    assert asyncio.run(cancelled()) == ("closed", 0)


def test_without_an_address_nothing_is_put_in_and_a_run_says_what_to_set(tmp_path: Path) -> None:
    with Queue(f"sqlite:///{tmp_path / 'plays.db'}", inline=True) as queue:
        there = install(app, queue, TautulliSettings())
        assert not queue._schedules  # noqa: SLF001 - there is no other way to see them
        made = there.jobs.sync.enqueue("history")
        queue.drain()
        assert (queue.get(made.id).state, queue.get(made.id).error_code) == ("failed", "misconfigured")
        assert "tautulli.url" in (queue.get(made.id).error_message or "")
