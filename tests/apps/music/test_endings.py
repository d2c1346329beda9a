"""Loops that cannot begin, that end by themselves, or that need a while to end: nobody else notices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.apps.music.building import MINUTE, Scripted, Studio, World, kind_of
from tidegate import Queue
from tidegate_apps.music.provider import ProviderConnection, ProviderContext
from tidegate_apps.music.service import status_label


class Slow(Scripted):
    """Needs a while to close."""

    closing: Callable[[], Any]

    async def aclose(self) -> None:
        await self.closing()


@pytest.fixture
def world(quick: Queue) -> World:
    return World(quick.clock)  # type: ignore[arg-type]


@pytest.mark.req("SYNC-12")
def test_a_connection_that_cannot_be_set_up_stops_nobody_else_and_is_tried_again(
    quick: Queue, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    broken = True

    def make(connection: ProviderConnection, there: ProviderContext) -> Scripted:
        if broken and connection.user == "ada":
            raise ValueError("no such address")
        return Scripted(world, connection, there)

    with Studio.opened(quick, kind_of(world, make=make), kind_of(world, "other"), world=world) as s:
        for user in ("ada", "bob"):
            s.connect(user)
            s.connect(user, "other")
        with caplog.at_level(logging.ERROR, "tidegate.music"):
            s.run(6 * MINUTE)
        assert world.times() == []
        assert [len(world.times(*place)) for place in (("bob", "svc"), ("bob", "other"), ("ada", "other"))] == [2, 2, 2]
        assert (s.state().code, status_label(s.state()).word) == ("MUSIC_UNUSABLE", "Backing off")
        assert "music_not_begun user=ada provider=svc" in caplog.text
        broken = False
        s.run(MINUTE)
        assert len(world.times()) == 1
        assert s.state().code is None


@pytest.mark.req("SYNC-12")
def test_a_connection_to_a_provider_that_is_no_longer_installed_stops_nobody_else(quick: Queue, world: World) -> None:
    with Studio.opened(quick, kind_of(world), kind_of(world, "jukebox"), world=world) as s:
        for user in ("ada", "bob"):
            s.connect(user)
            s.connect(user, "jukebox")
        s.shop.connections.remove("ada", "jukebox")
        del s.kinds["jukebox"]
        s.restart()
        s.run(MINUTE)
        assert [len(world.times(user)) for user in ("ada", "bob")] == [1, 1]


@pytest.mark.req("SYNC-12")
def test_a_loop_that_ends_by_itself_is_begun_again(quick: Queue, world: World) -> None:
    async def ends() -> None:
        world.ill.clear()
        raise asyncio.CancelledError

    with Studio.opened(quick, kind_of(world), world=world) as s:
        world.ill["svc"] = ends
        s.connect()
        s.run(2 * MINUTE)
        assert world.times() == pytest.approx([0, 30], abs=10)
        assert s.state().failures == 0


@pytest.mark.req("SYNC-16")
def test_a_loop_that_is_begun_again_has_the_credentials_that_the_one_before_it_saved(
    quick: Queue, world: World
) -> None:
    surroundings: list[ProviderContext] = []

    def make(connection: ProviderConnection, there: ProviderContext) -> Scripted:
        surroundings.append(there)
        return Scripted(world, connection, there)

    async def rotates_and_ends() -> None:
        world.ill.clear()
        await surroundings[0].save({"password": "rotated"})
        raise asyncio.CancelledError

    with Studio.opened(quick, kind_of(world, make=make), world=world) as s:
        world.ill["svc"] = rotates_and_ends
        s.connect()
        s.run(2 * MINUTE)
        assert world.tokens == ["rotated"]


@pytest.mark.req("SYNC-12", "SYNC-15")
def test_one_that_needs_long_to_end_holds_up_neither_others_nor_a_stop(quick: Queue, world: World) -> None:
    async def renewing() -> None:
        await asyncio.sleep(closes_in)

    closes_in = 0.0

    def make(connection: ProviderConnection, there: ProviderContext) -> Scripted:
        made = Slow(world, connection, there)
        made.closing = renewing
        return made

    with Studio.opened(quick, kind_of(world, make=make), kind_of(world, "other"), world=world) as s:
        s.connect("bob", "other")
        s.connect()

        async def acts() -> None:
            """While it runs: one connects anew, and another for the first time."""
            nonlocal closes_in
            if not world.times("carol"):
                closes_in = 100.0
                s.connect(password="new")
                s.connect("carol", "other")

        world.ill["bob/other"] = acts
        s.run(3 * MINUTE)
        assert world.times("carol", "other") == pytest.approx([5], abs=6)
        assert world.times() == pytest.approx([0, 105], abs=12)  # never two of one user at once
        assert world.tokens[-1] == "new"

        began = s.clock.monotonic()
        s.run(1)
        assert s.clock.monotonic() - began < 20
