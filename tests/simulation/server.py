"""The web application, asked in process: the world stands still while it answers, so no thread is ever in a race."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx2

from tests.simulation.store_weather import OnWeather
from tests.web.local import opened_by
from tidegate.accounts.access import Issuer
from tidegate.apps import Installed
from tidegate.web.app import build
from tidegate.web.auth import Authenticator
from tidegate.web.site import Site

if TYPE_CHECKING:
    from tests.simulation.world import World

HERE = "http://127.0.0.1:8321"


class Server:
    """Page and API without workers: a process of its own, with weather of its own before its database."""

    def __init__(self, world: World) -> None:
        from tests.simulation.parts.part import KEY

        dice = random.Random(f"{world.seed} server")
        self._world = world
        self.queue = OnWeather(world.url, dice, world.planted.changed, clock=world.clock)
        self.there: dict[str, Installed[Any]] = {each.name: each.install(self.queue) for each in world.parts}
        site = Site(
            queue=self.queue,
            telling=world.mailbox.telling(self.queue),
            apps=tuple(self.there.values()),
            version="0",
            config=list,
            hosts=("127.0.0.1",),
            access=Authenticator([Issuer.own(KEY.derived("jwt"))], KEY),
            visitor="ada",
        )
        _ = self.queue.store  # opened here: in the thread of requests there is no loop
        self._app = opened_by(True, build(site))
        self._thread = ThreadPoolExecutor(1, "simulated-server")
        self._runner = asyncio.Runner()
        self.dead = False

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """One answer; whatever it says, it is said at this moment. Of a dead one, what a proxy before it would say."""
        if self.dead:
            return httpx2.Response(503)
        found = self._thread.submit(self._runner.run, self._asked(method, path, more)).result()
        if found.status_code >= 500 and found.status_code not in (503, 507):
            self._world.wrong.append(f"{method} {path} was answered with {found.status_code}: {found.text[:200]}")
        return found

    async def _asked(self, method: str, path: str, more: Any) -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(self._app), base_url=HERE) as client:
            return await client.request(method, path, **more)

    def close(self) -> None:
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()
        for each in self.there.values():
            each.closing.close()
        self.queue.close()
