"""A real server that is killed in the middle of a sync; and credentials that are revoked, and entered anew."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.processes import Place, wait
from tidegate_demo.simulators.music import MusicSimulator, settings_of

NAMES = ("navidrome", "spotify", "lastfm")


class Server(Place):
    """A server with music alone, at the simulated services."""

    def __init__(self, folder: Path, sim: MusicSimulator) -> None:
        self.sim = sim
        values: dict[str, Any] = {
            **settings_of(sim, sim.url), "look_every": "200ms", "backoff_base": "1s", "backoff_cap": "2s",
        }  # fmt: skip
        del values["connect"]
        for name in sim.services:
            values[name] |= {"every": "10s"} if name in NAMES else {"enabled": False}
        super().__init__(folder, "music", values)

    def begin(self) -> None:
        self.start()
        wait(self.up, "the server starts")

    def get(self, path: str) -> Any:
        return httpx2.get(f"{self.url}/api/v1/{path}", timeout=30).raise_for_status().json()

    def connect(self, provider: str, **values: str) -> None:
        answer = httpx2.put(f"{self.url}/api/v1/music/connections/{provider}", json={"values": values}, timeout=30)
        answer.raise_for_status()

    def state(self, provider: str) -> dict[str, Any]:
        items: list[dict[str, Any]] = self.get("music/connections")["items"]
        return next(each for each in items if each["provider"] == provider)

    def plays(self) -> list[tuple[int, str]]:
        items = self.get("music/plays?limit=500")["items"]
        return sorted((round(each["at"]), each["title"]) for each in items)

    def notices(self) -> list[tuple[str, bool]]:
        items = self.get("notices")["items"]
        return [(each["kind"], each["open"]) for each in reversed(items) if each["name"] == "lastfm"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with MusicSimulator() as sim, closing(Server(tmp_path, sim)) as found:
        sim.connect("local")
        yield found


@pytest.mark.full
def test_a_server_killed_in_the_middle_of_a_sync_misses_nothing_and_doubles_nothing(server: Server) -> None:
    sim, now = server.sim, int(time.time())
    listening = sim.lastfm.listening
    for n in range(450):  # three pages
        listening.hear("local", n, at=now - 20_000 + 40 * n)
    heard = sorted((round(at), track.title) for at, track in listening.heard("local"))
    server.begin()
    sim.lastfm.next("well", "well", "hangs")  # the third page is asked for and does not come
    server.connect("lastfm", user="local")
    wait(lambda: 0 < len(server.plays()) < len(heard), "some of it is kept")
    server.kill()

    sim.lastfm.now("well")
    server.begin()
    wait(lambda: len(server.plays()) >= len(heard), "all of it is kept")
    assert server.plays() == heard
    artists = server.get("music/artists?limit=500")["items"]
    assert sum(each["plays"] for each in artists) == len(heard)
    assert server.kill(signal.SIGTERM) == 0


@pytest.mark.full
@pytest.mark.req("SYNC-06", "SYNC-09", "SYNC-10", "SYNC-11", "SYNC-14", "SYNC-15")
def test_revoked_and_restarted_is_one_notice_and_a_recovery_by_a_reconnect_or_a_restart_is_told_once(
    server: Server,
) -> None:
    lastfm = server.sim.lastfm

    def is_now(state: str) -> None:
        wait(lambda: server.state("lastfm")["state"] == state, f"it is {state}")

    def told(*notices: tuple[str, bool]) -> None:
        wait(lambda: server.notices() == list(notices), f"people were told {notices}, not {server.notices()}")

    server.begin()
    server.connect("lastfm", user="local")
    is_now("ok")
    lastfm.now("error_9")
    is_now("action")
    told(("fatal", True))
    refused = server.state("lastfm")
    assert (refused["next_try_at"], refused["operations"][0]["code"]) == (None, "session_revoked")
    assert refused["reason"]

    assert server.kill(signal.SIGTERM) == 0
    asked = server.sim.count()
    server.begin()
    wait(lambda: server.sim.count() > asked, "after a restart it is called at once")
    is_now("action")
    told(("fatal", True))  # nobody is told twice

    lastfm.now("well")
    server.connect("lastfm", user="local")
    is_now("ok")
    first = (("fatal", False), ("recovered", False))
    told(*first)

    lastfm.now("error_9")
    is_now("action")
    told(*first, ("fatal", True))  # a new episode
    server.kill()
    lastfm.now("well")
    server.begin()
    is_now("ok")
    told(*first, ("fatal", False), ("recovered", False))
