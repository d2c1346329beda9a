"""An address at which there is no music server is told, and nothing is called in vain."""

from __future__ import annotations

import httpx2
import pytest

from tests.apps.music.building import HOUR, MINUTE, Studio, World
from tidegate import Queue
from tidegate_apps.music.factory import kinds

LOGIN = {"user": "ada", "password": "low tide"}
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
