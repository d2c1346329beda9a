"""A bad answer about one entry keeps the enricher from that entry alone; one about all of Lidarr ends the look."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.apps.lidarr.building import Round
from tests.text import numbers
from tidegate.testing import Step
from tidegate_apps.lidarr.client import LidarrError
from tidegate_apps.lidarr.codes import PACK
from tidegate_apps.lidarr.library_scan import Answers, ask_each
from tidegate_apps.lidarr.service import submit_status
from tidegate_demo.simulators.lidarr import shown_artist

API = "/api/v1"


@pytest.mark.req("LID-03")
@pytest.mark.parametrize("bad",
    [
        Step(400, {"errors": {"mbId": ["not valid"]}}), Step(500), Step(200, ["odd"]),
        # None of these says that it is not there.
        Step(200, b""), Step(204, b""), Step(200, {}), Step(200, "null"),
    ],
)  # fmt: skip
def test_one_artist_that_lidarr_cannot_answer_for_keeps_no_other_from_the_queue(quick: Round, bad: Step) -> None:
    quick.artist("bad")
    quick.album("album-bad", "bad")
    quick.some(2, 1)

    def artists(asked: Any) -> Any:
        there = quick.sim.inside.artist_of(asked.query["mbId"])
        return bad if asked.query["mbId"] == "bad" else [] if there is None else [shown_artist(there)]

    quick.sim.on(f"GET {API}/artist", artists)
    for _ in range(2):
        assert quick.look_job() == "done"
        quick.clock.advance("61m")

    # The album waits until somebody knows whether its artist must be sent before it.
    assert [each.musicbrainz_id for each in quick.entries()] == ["artist-0", "artist-1", "album-0-0", "album-1-0"]
    scan = submit_status(quick.there).look
    assert scan is not None
    assert (scan.looked, scan.found, scan.queued) == (4, 0, 0)
    assert numbers(scan.message)[:1] == [1]
    assert quick.wake().submitted == 4


@pytest.mark.req("LID-03")
def test_an_id_that_is_too_long_is_none(quick: Round) -> None:
    quick.artist("x" * 256)
    quick.album("album-long", "x" * 256)
    quick.some(1, 1)
    quick.album("y" * 256, "artist-0")

    assert quick.look().queued == 2
    assert [each.musicbrainz_id for each in quick.entries()] == ["artist-0", "album-0-0"]


@pytest.mark.parametrize(("code", "asked"), [("unauthorized", 14), ("upstream_failure", 18)])
def test_asking_ends_with_what_all_of_lidarr_suffers_from(code: str, asked: int) -> None:
    answers, seen = _asked(code, bad=set(range(10, 50)))

    assert answers.good == list(range(10))
    assert isinstance(answers.ended, LidarrError)
    assert seen <= asked


def test_asking_goes_on_after_single_failures() -> None:
    answers, seen = _asked("upstream_failure", bad=set(range(0, 50, 3)))

    assert (answers.ended, len(answers.bad), seen) == (None, 17, 50)
    assert answers.good == [n for n in range(50) if n % 3]


def test_a_long_page_takes_no_more_room_than_what_is_asked_at_once() -> None:
    most = 0

    async def ask(n: int) -> int:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))
        await asyncio.sleep(0)
        return n

    assert asyncio.run(ask_each(range(1000), ask)).good == list(range(1000))
    assert most <= 5


def _asked(code: str, bad: set[int]) -> tuple[Answers[int, int], int]:
    seen = 0

    async def ask(n: int) -> int:
        nonlocal seen
        seen += 1
        await asyncio.sleep(0)
        if n in bad:
            raise LidarrError(PACK.code_book[code].fault("test"))
        return n

    return asyncio.run(ask_each(range(50), ask)), seen
