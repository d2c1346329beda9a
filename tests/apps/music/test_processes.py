"""A real server that is killed in the middle of a sync; and credentials that are revoked, and entered anew."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tidegate_apps.music.simulator import MusicSimulator, settings_of

COMMAND = str(Path(sys.executable).with_name("tidegate"))
PATIENCE = 120.0


def wait(what: Callable[[], Any], why: str) -> Any:
    """What *what* finds, once it finds something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            found = what()
        except (httpx2.TransportError, OSError):
            found = None
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"in vain: {why}")


def toml(values: Mapping[str, Any]) -> str:
    """Values as TOML; tables in line."""

    def written(value: Any) -> str:
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{json.dumps(k)} = {written(v)}" for k, v in value.items()) + "}"
        return json.dumps(value)

    return "\n".join(f"{name} = {written(value)}" for name, value in values.items())


class Server:
    """A folder with settings, and the server that runs there."""

    def __init__(self, folder: Path, sim: MusicSimulator) -> None:
        self.folder, self.sim = folder, sim
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        values = {**settings_of(sim, sim.url), "look_every": "200ms", "backoff_base": "1s", "backoff_cap": "2s"}
        values.pop("connect")
        for name in ("navidrome", "spotify", "lastfm", "musicbrainz", "fanart", "openai"):
            values[name] = {**values[name], "every": "10s"}  # type: ignore[dict-item]
        for name in ("musicbrainz", "fanart", "openai"):
            values[name] = {**values[name], "enabled": False}  # type: ignore[dict-item]
        head = f'url = "sqlite:///{folder / "t.db"}"\napps = ["music"]\n[server]\nport = {self.port}\n'
        (folder / "tidegate.toml").write_text(f"{head}[music]\n{toml(values)}\n")
        self._running: subprocess.Popen[str] | None = None

    def start(self) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        with (self.folder / "serve.log").open("a") as log:
            self._running = subprocess.Popen(
                [COMMAND, "serve"], cwd=self.folder, env=kept, stderr=log, stdout=log, text=True
            )
        wait(lambda: httpx2.get(f"{self.url}/health/live").status_code == 200, "the server starts")

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        assert self._running is not None
        self._running.send_signal(how)
        code = self._running.wait(60)
        self._running = None
        return code

    def close(self) -> None:
        if self._running is not None:
            self.kill()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

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


def test_a_server_killed_in_the_middle_of_a_sync_misses_nothing_and_doubles_nothing(server: Server) -> None:
    sim, now = server.sim, int(time.time())
    listening = sim.lastfm.listening
    for n in range(450):  # three pages
        listening.hear("local", n, at=now - 20_000 + 40 * n)
    heard = sorted((round(at), track.title) for at, track in listening.heard("local"))
    server.start()
    sim.lastfm.next("well", "well", "hangs")  # the third page is asked for and does not come
    server.connect("lastfm", user="local")
    wait(lambda: 0 < len(server.plays()) < len(heard), "some of it is kept")
    server.kill()

    sim.lastfm.now("well")
    server.start()
    wait(lambda: len(server.plays()) >= len(heard), "all of it is kept")
    assert server.plays() == heard
    artists = server.get("music/artists?limit=500")["items"]
    assert sum(each["plays"] for each in artists) == len(heard)
    assert server.kill(signal.SIGTERM) == 0


@pytest.mark.req("SYNC-06", "SYNC-09", "SYNC-10", "SYNC-11", "SYNC-14", "SYNC-15")
def test_revoked_and_restarted_is_one_notice_reconnected_is_its_end_and_a_recovery_after_a_restart_is_told(
    server: Server,
) -> None:
    lastfm = server.sim.lastfm

    def is_now(state: str) -> None:
        wait(lambda: server.state("lastfm")["state"] == state, f"it is {state}")

    def told(*notices: tuple[str, bool]) -> None:
        wait(lambda: server.notices() == list(notices), f"people were told {notices}, not {server.notices()}")

    server.start()
    server.connect("lastfm", user="local")
    is_now("ok")
    lastfm.now("error_9")
    is_now("action")
    told(("fatal", True))
    refused = server.state("lastfm")
    assert (refused["next_try_at"], refused["operations"][0]["code"]) == (None, "session_revoked")
    assert "Last.fm no longer accepts our access to this account." in refused["reason"]

    assert server.kill(signal.SIGTERM) == 0
    asked = server.sim.count()
    server.start()
    wait(lambda: server.sim.count() > asked, "after a restart it is called at once")
    is_now("action")
    told(("fatal", True))  # nobody is told twice

    lastfm.now("well")
    server.connect("lastfm", user="local")
    is_now("ok")
    told(("fatal", False))

    lastfm.now("error_9")
    is_now("action")
    told(("fatal", False), ("fatal", True))  # a new episode
    server.kill()
    lastfm.now("well")
    server.start()
    is_now("ok")
    told(("fatal", False), ("fatal", False), ("recovered", False))
