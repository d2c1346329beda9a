"""The client and the simulated Lidarr, over real HTTP: what each answer means, and how things take their time."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from tidegate import net
from tidegate.testing import Simulator, Step, VirtualClock
from tidegate_apps.lidarr.client import AlreadyThere, Lidarr, LidarrAlbum, LidarrArtist, LidarrError, Setup, fault_of
from tidegate_demo.simulators.lidarr import KEY, WEATHERS, LidarrSimulator, SimulatedTiming

SETUP = Setup(root_folder="/music", quality_profile=1, metadata_profile=1)
NINA = LidarrArtist(id=0, name="Nina", mbid="artist-1", monitored=True)


@pytest.fixture(scope="module")
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(scope="module")
def running(clock: VirtualClock) -> Iterator[LidarrSimulator]:
    with LidarrSimulator(clock=clock, pace=SimulatedTiming(refresh=5, found=120, lasts=600), known=False) as sim:
        yield sim


@pytest.fixture
def sim(running: LidarrSimulator) -> LidarrSimulator:
    running.reset()
    running.inside.catalogue["artist-1"] = ("Nina", ["album-1", "album-2"])
    return running


def ask(sim: LidarrSimulator, call: Callable[[Lidarr], Awaitable[Any]], key: str = KEY, timeout: float = 20.0) -> Any:
    async def main() -> Any:
        async with Lidarr(sim.url, key, timeout) as lidarr:
            return await call(lidarr)

    return asyncio.run(main())


def test_it_says_who_asks(sim: LidarrSimulator) -> None:
    ask(sim, lambda lidarr: lidarr.downloads())
    assert sim.asked()[-1].headers["user-agent"] == net.user_agent()


def meant(sim: LidarrSimulator, call: Callable[[Lidarr], Awaitable[Any]], **more: Any) -> tuple[str, int]:
    """The code and the status of what went wrong."""
    with pytest.raises((LidarrError, httpx2.HTTPError, ValueError)) as caught:
        ask(sim, call, **more)
    fault = fault_of(caught.value)
    return fault.code, fault.status


def test_an_artist_is_added_and_his_albums_come_into_being_unwatched_but_for_the_wanted(
    sim: LidarrSimulator, clock: VirtualClock
) -> None:
    assert ask(sim, lambda lidarr: lidarr.artist("artist-1")) is None
    found = ask(sim, lambda lidarr: lidarr.lookup_artist("artist-1"))
    assert (found.name, found.id) == ("Nina", 0)
    made = ask(sim, lambda lidarr: lidarr.add_artist(found, SETUP, ["album-1"]))
    assert (made.id > 0, made.monitored) == (True, True)
    assert ask(sim, lambda lidarr: lidarr.album("album-1")) is None
    clock.advance("6s")

    first = ask(sim, lambda lidarr: lidarr.album("album-1"))
    second = ask(sim, lambda lidarr: lidarr.album("album-2"))

    assert (first.monitored, second.monitored, first.artist_id) == (True, False, made.id)
    with pytest.raises(AlreadyThere):
        ask(sim, lambda lidarr: lidarr.add_artist(found, SETUP, []))
    with pytest.raises(AlreadyThere):
        ask(sim, lambda lidarr: lidarr.add_album("album-2", NINA, SETUP))
    assert not ask(sim, lambda lidarr: lidarr.album("album-2")).monitored


def test_a_search_shows_in_the_queue_minutes_later_and_ends_in_files(sim: LidarrSimulator, clock: VirtualClock) -> None:
    ask(sim, lambda lidarr: lidarr.add_artist(NINA, SETUP, []))
    clock.advance("6s")
    album = ask(sim, lambda lidarr: lidarr.album("album-1"))
    assert ask(sim, lambda lidarr: lidarr.watch_albums([album.id]))[0].monitored
    assert not ask(sim, lambda lidarr: lidarr.searched(album.id))
    ask(sim, lambda lidarr: lidarr.search(album.id))
    assert ask(sim, lambda lidarr: lidarr.searched(album.id))
    assert ask(sim, lambda lidarr: lidarr.downloads()).total == 0
    clock.advance("6m")

    seen = ask(sim, lambda lidarr: lidarr.downloads())

    assert (seen.total, seen.albums) == (1, {album.id})
    clock.advance("11m")
    assert ask(sim, lambda lidarr: lidarr.downloads()).total == 0
    found: LidarrAlbum = ask(sim, lambda lidarr: lidarr.album("album-1"))
    assert found.files == found.tracks > 0


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda lidarr: lidarr.lookup_artist("nobody"), "unknown_music"),
        (lambda lidarr: lidarr.add_artist(replace(NINA, mbid="nobody"), SETUP, []), "unknown_music"),
        (lambda lidarr: lidarr.add_album("nothing", NINA, SETUP), "unknown_music"),
        (lambda lidarr: lidarr.add_artist(NINA, replace(SETUP, root_folder="/x"), []), "profile_missing"),
        (lambda lidarr: lidarr.add_artist(NINA, replace(SETUP, quality_profile=9), []), "profile_missing"),
    ],
)  # fmt: skip
def test_what_lidarr_refuses_is_told_apart(sim: LidarrSimulator, call: Any, code: str) -> None:
    found, status = meant(sim, call)

    assert (found, status in (200, 400)) == (code, True)


def test_an_album_without_its_artist_as_a_whole_is_refused_as_the_real_one_does(sim: LidarrSimulator) -> None:
    sent = {"foreignAlbumId": "album-1", "artistId": 1}
    answer = httpx2.post(f"{sim.url}/api/v1/album", json=sent, headers={"X-Api-Key": KEY}, timeout=60)

    assert (answer.status_code, answer.json()[0]["errorMessage"]) == (400, "'Artist' must not be empty.")


@pytest.mark.req("LID-10")
@pytest.mark.parametrize(
    ("weather", "depth", "lookup"),
    [
        ("starting", ("starting", 503), ("starting", 503)),
        ("metadata down", None, ("metadata_down", 503)),
        ("broken", ("upstream_failure", 500), ("upstream_failure", 500)),
        ("page", ("html_answer", 200), ("html_answer", 200)),
        ("hangs", ("timeout", 0), ("timeout", 0)),
    ],
)
def test_both_kinds_of_503_and_all_other_weather_are_told_apart(
    sim: LidarrSimulator, weather: str, depth: tuple[str, int] | None, lookup: tuple[str, int]
) -> None:
    sim.weather = weather
    patience = 0.3 if weather == "hangs" else 20.0

    if depth is None:
        assert ask(sim, lambda lidarr: lidarr.downloads()).total == 0
    else:
        assert meant(sim, lambda lidarr: lidarr.downloads(), timeout=patience) == depth
    assert meant(sim, lambda lidarr: lidarr.lookup_artist("artist-1"), timeout=patience) == lookup


def test_a_wrong_key_and_one_that_is_not_there_are_said(sim: LidarrSimulator) -> None:
    assert meant(sim, lambda lidarr: lidarr.downloads(), key="wrong") == ("unauthorized", 401)
    sim.outage("5m down")
    assert meant(sim, lambda lidarr: lidarr.downloads()) == ("network", 0)
    sim.outage(None)


def test_an_id_that_lidarr_does_not_know_any_more_is_no_error(sim: LidarrSimulator) -> None:
    made = sim.inside.put_artist("artist-1", "Nina")

    assert ask(sim, lambda lidarr: lidarr.knows("artist", made["id"]))
    assert not ask(sim, lambda lidarr: lidarr.knows("artist", 999))
    sim.weather = "broken"
    assert meant(sim, lambda lidarr: lidarr.knows("artist", 999)) == ("upstream_failure", 500)


def test_the_weather_is_made_by_a_person_while_it_runs(sim: LidarrSimulator) -> None:
    assert httpx2.post(f"{sim.url}/weather", content="starting", timeout=60).text == "starting\n"
    assert sim.weather == "starting"
    refused = httpx2.post(f"{sim.url}/weather", content="rain", timeout=60)
    assert (refused.status_code, refused.text) == (400, f"give one of: {', '.join(WEATHERS)}\n")
    assert httpx2.post(f"{sim.url}/fill", content="7", timeout=60).text == "7 in the queue\n"


def test_an_artist_without_a_name_is_refused_here() -> None:
    with Simulator() as bare:
        bare.on("GET /api/v1/artist/lookup", Step(200, [{"artistName": "", "foreignArtistId": "a"}]))

        async def main() -> Any:
            async with Lidarr(bare.url, KEY, 20) as lidarr:
                return await lidarr.lookup_artist("a")

        with pytest.raises(LidarrError) as caught:
            asyncio.run(main())
        assert caught.value.fault.code == "nameless"


def test_all_clients_know_the_same_authorities_which_are_megabytes_and_slow_to_read() -> None:
    def known() -> int:
        return sum(isinstance(each, ssl.SSLContext) for each in gc.get_objects())

    async def main() -> int:
        async with Lidarr("https://lidarr.example", KEY, 20):
            before = known()
            async with Lidarr("https://lidarr.example", KEY, 20):
                return known() - before

    assert asyncio.run(main()) == 0
