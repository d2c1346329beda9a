"""The simulated services: their state, their faults, and a day of clients against them in virtual time."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from tests.apps.music.providers.building import Desk
from tidegate import Rate
from tidegate.testing import VirtualClock
from tidegate_apps.music.client import Limiters
from tidegate_apps.music.registry import kinds
from tidegate_demo.simulators.music import NOWHERE, MusicSimulator, simulated

HOUR, DAY = 3600.0, 86400.0


async def test_each_fault_of_each_service_can_be_switched_on_and_off_for_one_route(desk: Desk) -> None:
    async with httpx2.AsyncClient(base_url=desk.base, timeout=60) as client:
        for name, service in desk.sim.services.items():
            for fault in service.known():
                told = await client.post(f"/state/{name}", content=fault)
                assert told.json() == {"service": name, "state": {} if fault == "well" else {"": fault}}
            await client.post(f"/state/{name}", content="well")
            where = next(iter(service.routes))
            told = await client.post(f"/state/{name}/{where}", content="broken")
            assert told.json()["state"] == {where: "broken"}
        front = await client.get("/")
        assert "navidrome: {&#x27;ping&#x27;: &#x27;broken&#x27;}" in front.text
        refusals = {"/state/navidrome": 400, "/state/navidrome/nowhere": 400, "/state/winamp": 404}
        for path, status in refusals.items():
            assert (await client.post(path, content="sings")).status_code == status


async def test_the_weather_of_every_simulator_is_there_for_one_service_too(desk: Desk) -> None:
    provider, other = desk.provider("spotify"), desk.provider("navidrome")
    desk.sim.outage("1h 503", "/spotify/{rest:path}")
    with pytest.raises(Exception, match="spotify answered 503"):
        await provider.check()
    await other.check()
    desk.clock.advance(HOUR)
    await provider.check()


async def test_a_reset_forgets_accounts_and_faults(desk: Desk) -> None:
    provider = desk.provider("navidrome")
    desk.sim.navidrome.now("broken")
    desk.sim.reset()
    with pytest.raises(Exception, match="Wrong username"):
        await provider.check()


def test_in_a_demonstration_faults_come_and_go_by_themselves() -> None:
    clock = VirtualClock(start=0)
    sim = MusicSimulator(clock=clock, every=180, restless=True)
    desk = Desk(sim, clock, sim.transport(), NOWHERE)
    providers = {name: desk.provider(name) for name in kinds()}

    async def hour() -> dict[str, list[bool]]:
        well: dict[str, list[bool]] = {name: [] for name in providers}
        for minute in range(60):
            for name, provider in providers.items():
                try:
                    await provider.check()
                except Exception:  # that is the weather
                    well[name].append(False)
                else:
                    well[name].append(True)
            await clock.asleep((minute + 1) * 60 - clock.monotonic())
        return well

    well = clock.run(hour())
    ill = {name for name, each in well.items() if not all(each)}
    assert ill == {"navidrome", "spotify", "lastfm", "musicbrainz", "fanart"}
    assert all(sum(each) > 45 for each in well.values())
    assert len(sim.lastfm.listening.heard("ann")) == 20


def test_the_settings_of_the_demonstration_lead_to_the_simulator() -> None:
    found = simulated()
    settings = found.settings("http://127.0.0.1:1")
    assert settings["spotify"]["accounts_url"] == settings["spotify"]["url"] == "http://127.0.0.1:1/spotify"
    assert settings["lastfm"]["api_key"]
    assert sorted(settings["connect"]["local"]) == ["lastfm", "navidrome", "spotify"]
    assert settings["connect"]["local"]["navidrome"]["url"] == "http://127.0.0.1:1/navidrome"


@pytest.mark.req("SYNC-12")
def test_a_day_of_three_users_misses_no_play_and_doubles_none_through_an_outage() -> None:
    clock = VirtualClock()
    sim = MusicSimulator(clock=clock, every=170.0)
    desk = Desk(sim, clock, sim.transport(), NOWHERE)
    seen: dict[tuple[str, str], dict[str, float]] = {}
    lost: list[str] = []

    async def loop(name: str, user: str) -> None:
        provider, mark = desk.provider(name, user=user), None
        kept = seen.setdefault((name, user), {})
        while clock.monotonic() < DAY:
            try:
                async for batch in provider.plays(mark):
                    kept.update({play.ref: play.at for play in batch.items})
                    mark = batch.mark or mark
            except Exception as error:  # the outage; what it means is the matter of other tests
                lost.append(f"{name}: {error}")
            await clock.asleep(600)

    async def day() -> None:
        async def weather() -> None:
            await clock.asleep(8 * HOUR)
            sim.outage("2h 503", "/spotify/{rest:path}")
            sim.lastfm.now("error_8")
            await clock.asleep(2 * HOUR)
            sim.lastfm.now("well")

        names = [(name, f"user{n}") for n in range(3) for name in ("navidrome", "spotify", "lastfm")]
        await asyncio.gather(weather(), *(loop(*each) for each in names))

    clock.run(day())
    assert {each.partition(":")[0] for each in lost} == {"spotify", "lastfm"}
    assert 60 <= len(lost) <= 80
    for (name, user), kept in seen.items():
        heard = [at for at, _ in sim.services[name].listening.heard(user) if at < clock.now() - 900]  # type: ignore[attr-defined]
        late = [at for at in kept.values() if at >= clock.now() - 900]
        assert len(kept) - len(late) == len(heard), (name, user)


def test_a_limiter_lets_bursts_through_and_then_keeps_the_pace_for_all_of_a_key() -> None:
    clock = VirtualClock()
    limiters = Limiters(clock)
    went: list[tuple[str, float]] = []

    async def ask(key: str) -> None:
        await limiters.turn(key, Rate(2, "1s", burst=3))
        went.append((key, clock.monotonic()))

    async def all_at_once() -> None:
        await asyncio.gather(*(ask(key) for key in "aaaaabb"))

    clock.run(all_at_once())
    assert [at for key, at in went if key == "a"] == [0, 0, 0, 0.5, 1.0]
    assert [at for key, at in went if key == "b"] == [0, 0]


def test_complaints_about_one_burst_count_once_and_are_forgiven_step_by_step() -> None:
    clock = VirtualClock()
    limiters = Limiters(clock)
    rate = Rate(1, "1s")

    def spacing() -> float:
        async def two() -> float:
            await limiters.turn("a", rate)
            began = clock.monotonic()
            await limiters.turn("a", rate)
            return clock.monotonic() - began

        return clock.run(two())

    assert spacing() == 1
    for _ in range(5):
        limiters.slower("a")
    assert spacing() == 2
    clock.advance(11)
    limiters.slower("a")
    assert spacing() == 4
    clock.advance(61)
    assert spacing() == 2
    clock.advance(61)
    assert spacing() == 1
