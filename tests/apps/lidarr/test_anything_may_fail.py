"""Whatever fails, is lost, restarted or cancelled: never above the cap, nothing twice, nothing forgotten."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.apps.lidarr.building import USER, Round
from tests.databases import Database
from tidegate.clock import VirtualClock
from tidegate.testing import RecordedRequest, Step
from tidegate_apps.lidarr import service
from tidegate_demo.simulators.lidarr import LidarrSimulator

API = "/api/v1"
ROUTES = (
    "GET /queue", "GET /artist", "GET /album", "POST /artist", "PUT /artist/editor", "POST /album",
    "PUT /album/monitor", "POST /command",
)  # fmt: skip
WEATHERS = ("well", "well", "well", "starting", "broken", "metadata down")
INTERVAL = 180


@dataclass
class Trouble:
    """A Lidarr whose answers fail or are lost by chance, before or after it has done what was asked."""

    sim: LidarrSimulator
    dice: random.Random
    on: bool = True

    def __post_init__(self) -> None:
        for route in ROUTES:
            method, path = route.split()
            self.sim.on(f"{method} {API}{path}", self._failing(self.sim.answers(route)))

    def _failing(self, answer: Callable[[RecordedRequest], object]) -> Callable[[RecordedRequest], object]:
        def answered(asked: RecordedRequest) -> object:
            roll = self.dice.random() if self.on else 1.0
            if roll < 0.04:
                answer(asked)
            if roll < 0.07:
                return Step(reset=True)
            if roll < 0.1:
                return Step(self.dice.choice([500, 502, 401]))
            return answer(asked)

        return answered


@pytest.mark.req("LID-07")
@pytest.mark.req("LID-08")
@pytest.mark.req("LID-18")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 60))])
def test_the_cap_holds_and_in_the_end_everything_is_there_once(quick_db: Database, seed: int) -> None:
    dice, clock = random.Random(seed), VirtualClock()
    sim = LidarrSimulator(clock=clock)
    trouble = Trouble(sim, dice)
    cap = dice.choice([3, 8])
    library: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for last in (False, False, True):  # each but the first is a restart
        with Round.opened(quick_db, clock=clock, sim=sim, queue_max=cap) as at:
            if library[0]:
                at.artists, at.albums = library
            else:
                _fill(at, dice)
                library = (at.artists, at.albums)
            if last:
                trouble.on, sim.weather = False, "well"
            for n in range(200 if last else 40):
                if not last:
                    sim.weather = dice.choice(WEATHERS) if dice.random() < 0.2 else sim.weather
                    _meddle(at, dice)
                elif n % 20 == 0:
                    service.retry_all(at.there, USER)
                if n % 4 == 0:
                    at.look_job(force=dice.random() < 0.3)
                at.wake()
                clock.advance(INTERVAL)
                assert sim.inside.peak() <= cap
                if last and n > 20 and not any(each.open or each.gave_up for each in at.entries()):
                    break
            if last:
                _there_once(at)


def _fill(at: Round, dice: random.Random) -> None:
    at.some(4, 6)
    for name, albums in at.sim.inside.catalogue.values():
        assert name
        del albums[dice.randrange(3, 7) :]  # the others do not come with the artist, and must be posted


def _meddle(at: Round, dice: random.Random) -> None:
    """A person cancels something, or undoes that, or retries."""
    what, entries = dice.random(), at.entries()
    waiting = [each for each in entries if each.open and each.stage != "running" and each.entity_type == "album"]
    cancelled = [each for each in entries if each.cancelled]
    if what < 0.05 and waiting:
        service.cancel(at.there, dice.choice(waiting).id, USER)
    elif what < 0.1 and cancelled:
        service.retry(at.there, dice.choice(cancelled).id, USER)
    elif what < 0.2:
        service.retry_all(at.there, USER)


def _there_once(at: Round) -> None:
    inside, entries = at.sim.inside, at.entries()
    assert [each for each in entries if each.status != "submitted" and not each.cancelled] == []
    for rows in (inside.artists, inside.albums):
        assert set(Counter(row["mbid"] for row in rows.values()).values()) == {1}
    fetched = Counter(each.album for each in inside.downloads)
    assert set(fetched.values()) == {1}
    stopped = {each.musicbrainz_id for each in entries if each.cancelled}
    assert {mbid for mbid in at.artists if inside.artist_of(mbid) is None} == set()
    for mbid in set(at.albums) - stopped:
        row = inside.album_of(mbid)
        assert row is not None
        assert row["monitored"]
        assert fetched[row["id"]] == 1
