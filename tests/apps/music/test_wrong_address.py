"""An address at which there is no music server is told, and nothing is called in vain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from tests.apps.music.building import HOUR, MINUTE, Studio, World
from tidegate import Queue
from tidegate_apps.music.library_writer import SyncOperation
from tidegate_apps.music.provider import Batch, Operation, Play, Song
from tidegate_apps.music.registry import kinds

LOGIN = {"user": "ada", "password": "low tide"}
MBID = "11111111-0000-4000-8000-000000000001"
EMPTY = {"subsonic-response": {"status": "ok", "playlists": {}}}


class Servers(httpx2.AsyncBaseTransport):
    """One that works, until it is down behind its proxy; at every other address there is nothing."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.down = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        self.calls.append(f"{request.url.host}{path}")
        if self.down or request.url.host != "good.test":
            return httpx2.Response(404, text="404 page not found", request=request)
        if path == "/auth/login":
            return httpx2.Response(200, json={"token": "t"}, request=request)
        return httpx2.Response(200, json=EMPTY if path.startswith("/rest") else [], request=request)


@pytest.mark.req("SYNC-09")
def test_a_wrong_address_is_told_once_to_who_entered_it_and_a_server_that_is_down_is_not_one(quick: Queue) -> None:
    servers, navidrome = Servers(), kinds()["navidrome"]
    with Studio.opened(quick, navidrome, world=World(quick.clock)) as s:  # type: ignore[arg-type]

        def codes(user: str) -> set[str | None]:
            return {s.state(each, user, "navidrome").code for each in ("plays", "playlists")}

        s.shop.connections.put("ada", navidrome, {"url": "https://good.test", **LOGIN})
        s.shop.connections.put("bob", navidrome, {"url": "https://wrong.test", **LOGIN})
        s.run(10 * MINUTE, servers)
        assert codes("ada") == {None}
        assert "bad_address" in codes("bob")
        assert (len(s.notices("bob")), s.notices("ada")) == (1, [])
        assert sum(each.startswith("wrong.test") for each in servers.calls) <= 2

        servers.down = True
        s.run(10 * MINUTE, servers)
        assert codes("ada") == {None, "no_server"}  # the whole server waits, whatever was asked
        assert s.notices("ada") == []
        servers.down = False
        s.run(HOUR, servers)
        assert (codes("ada"), s.notices("ada")) == ({None}, [])

        servers.down = True
        s.run(4 * HOUR, servers)
        assert "bad_address" in codes("ada")
        assert s.notices("ada") == ["cap", "fatal"]


ENTERED = {
    "navidrome": {"url": "https://wrong.test", **LOGIN},
    "spotify": {"client_id": "c", "access_token": "a", "refresh_token": "r", "expires_at": "1"},
    "lastfm": {"user": "ada", "api_key": "k"},
    "musicbrainz": {},
    "fanart": {"api_key": "k"},
    "openai": {"api_key": "k"},
}


class Always(httpx2.AsyncBaseTransport):
    """The same answer to everything."""

    def __init__(self, status: int, **said: Any) -> None:
        self.status, self.said, self.calls = status, said, 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.calls += 1
        return httpx2.Response(self.status, request=request, **self.said)


@contextmanager
def listening(queue: Queue, *names: str) -> Iterator[Studio]:
    """Somebody whose library wants ids, pictures and tags."""
    known = [kinds()[name] for name in names]
    songs = [Song(title="One", artist="Known", artist_mbid=MBID), Song(title="Two", artist="Unknown")]
    with Studio.opened(queue, *known, world=World(queue.clock.host), look_every=60) as s:  # type: ignore[arg-type]
        for each in known:
            s.shop.connections.put("ada", each, ENTERED[each.name])
        batch = Batch(items=tuple(Play(ref=song.title, at=9.0, song=song) for song in songs))
        s.shop.keeping.plays(SyncOperation("ada", "elsewhere", Operation.PLAYS), batch)
        yield s


@pytest.mark.req("SYNC-09", "SYNC-14")
@pytest.mark.parametrize(
    "said", [{"text": "404 page not found"}, {"json": {"detail": "Not Found"}}, {"content": b""}, {"html": "<html>"}],
    ids=lambda said: next(iter(said)),
)  # fmt: skip
def test_an_address_at_which_nothing_is_found_is_told_whatever_it_answers(quick: Queue, said: dict[str, Any]) -> None:
    with listening(quick, *ENTERED) as s:
        s.run(2 * HOUR, Always(404, **said))
        for name, kind in s.kinds.items():
            held = [s.state(str(each), provider=name) for each in kind.operations]
            assert any(each.code and each.message and each.held for each in held), name
        assert {event.target for event, _ in s.heard} == set(ENTERED)


@pytest.mark.req("SYNC-04")
def test_an_artist_without_pictures_is_no_wrong_address(quick: Queue) -> None:
    there = Always(404, json={"status": "error", "error message": "Not found"})
    with listening(quick, "fanart") as s:
        s.run(2 * HOUR, there)
        state = s.state("art", provider="fanart")
        assert (state.code, state.held, s.notices(), there.calls) == (None, None, [], 1)
        assert state.success_at is not None
