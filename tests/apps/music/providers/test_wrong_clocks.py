"""Our own clock is wrong, and the services are right: no play is lost."""

from __future__ import annotations

import pytest

from tests.apps.music.providers.building import Desk, Jumping

DAY = 86400.0


def with_clock(desk: Desk, ahead: float) -> Desk:
    """The same services for a host whose clock is wrong."""
    return Desk(desk.sim, Jumping(desk.clock.now() + ahead), desk.transport, desk.base)


@pytest.mark.parametrize("wrong_by", [-100 * DAY, 100 * DAY])
@pytest.mark.parametrize("name", ["lastfm", "spotify", "navidrome"])
async def test_a_clock_that_is_wrong_at_the_first_looks_loses_no_play(desk: Desk, name: str, wrong_by: float) -> None:
    listening = desk.sim.services[name].listening  # type: ignore[attr-defined]  # these three have one
    host, mark, found, played = with_clock(desk, wrong_by), None, set[int](), set[int]()
    provider = host.provider(name)
    for step in (0.0, 0.0, -wrong_by):
        desk.clock.advance(3600)
        host.clock.advance(3600)
        host.clock.step_wall(step)
        listening.hear("ann", 1)
        played.add(int(desk.clock.now()))
        async for batch in provider.plays(mark):
            found.update(int(play.at) for play in batch.items)
            mark = batch.mark or mark

    assert found == played


@pytest.mark.parametrize("name", ["lastfm", "spotify", "navidrome"])
async def test_a_clock_that_was_set_back_hides_no_play(desk: Desk, name: str) -> None:
    listening = desk.sim.services[name].listening  # type: ignore[attr-defined]  # these three have one
    provider, reached = with_clock(desk, -100 * DAY).provider(name), desk.clock.now()
    mark = str(int(reached * (1000 if name == "spotify" else 1)))
    desk.clock.advance(3600)
    listening.hear("ann", 1)
    batches = [batch async for batch in provider.plays(mark)]

    assert [int(play.at) for batch in batches for play in batch.items] == [int(desk.clock.now())]
    assert batches[-1].mark == mark  # one that is ahead of our clock may be dated wrongly
