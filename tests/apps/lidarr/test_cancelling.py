"""What a person has cancelled stays so, whatever a look finds, until somebody undoes it."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from tests.apps.lidarr.building import USER, Round
from tests.web.local import LocalClient
from tidegate.errors import Rejected
from tidegate.web.app import build
from tidegate.web.site import Site
from tidegate_apps.lidarr import service


@pytest.fixture
def web(quick: Round) -> TestClient:
    return LocalClient(
        build(Site(queue=quick.queue, apps=(quick.there,))), client=("127.0.0.1", 50000), base_url="http://localhost"
    )


@pytest.mark.req("LID-02")
def test_a_cancelled_entry_is_not_queued_again_by_a_look_however_long_ago_that_was(both: Round) -> None:
    both.some(1, 2)
    both.look()
    entry = both.entry("album", "album-0-0")
    track = both.track(both.albums["album-0-0"], both.artists["artist-0"])
    both.look()

    service.cancel(both.there, entry.id, USER)

    # None of ours; then Lidarr lists it with the other albums of its artist.
    for shown, pause in ((None, "10m"), ("pending", "40d"), ("pending", "10m"), ("pending", "10m")):
        assert both.look().queued == 0
        found = both.entry("album", "album-0-0")
        assert (found.id, found.status, found.terminal_reason) == (entry.id, "failed", "cancelled")
        assert (both.status("album", found.entity_id), both.status("track", track)) == (shown, shown)
        both.wake()
        both.clock.advance(pause)
    assert both.sent("POST /command") == 1  # the other one
    assert both.sim.inside.album_of("album-0-0")["monitored"] is False  # type: ignore[index]


@pytest.mark.req("LID-02")
def test_undoing_a_cancel_puts_the_entry_back(quick: Round) -> None:
    quick.some(1, 1)
    quick.look()
    entry = quick.entry("album", "album-0-0")
    service.cancel(quick.there, entry.id, USER)

    back = service.retry(quick.there, entry.id, USER)

    assert (back.status, back.stage, quick.status("album", entry.entity_id)) == ("queued", "blocked", "queued")
    assert quick.wake().submitted == 2


@pytest.mark.req("LID-11")
def test_the_albums_of_a_cancelled_artist_fail_with_him_and_an_undo_of_either_brings_both_back(quick: Round) -> None:
    quick.some(1, 1)
    quick.look()
    artist, album = quick.entry("artist", "artist-0"), quick.entry("album", "album-0-0")

    service.cancel(quick.there, artist.id, USER)

    assert quick.entry("album", "album-0-0").terminal_reason == "artist"
    assert quick.wake().outcome == "nothing"
    assert service.retry_all(quick.there, USER) == 0  # that is for what was given up
    service.retry(quick.there, album.id, USER)
    assert quick.wake().submitted == 2


def test_only_what_waits_to_be_sent_can_be_cancelled(quick: Round) -> None:
    quick.some(1, 0)
    quick.look()
    entry = quick.entry("artist", "artist-0")
    quick.wake()

    with pytest.raises(Rejected, match=" is submitted"):
        service.cancel(quick.there, entry.id, USER)
    with pytest.raises(Rejected, match="retry"):
        service.retry(quick.there, entry.id, USER)


def test_the_page_and_the_api_cancel_show_and_undo(quick: Round, web: TestClient) -> None:
    quick.some(1, 0)
    quick.look()
    id_ = quick.entry("artist", "artist-0").id
    assert "Cancelled" not in web.get("/lidarr").text

    answer = web.post(f"/lidarr/{id_}/cancel", headers={"Origin": "http://localhost"})

    assert re.search(r'class="said good">.*Name artist-0', answer.text, re.DOTALL)
    assert 'Cancelled <span class="count">1</span>' in answer.text
    (shown,) = web.get("/api/v1/lidarr/queue", params={"state": "cancelled"}).json()["items"]
    assert (shown["id"], shown["terminal_reason"]) == (id_, "cancelled")
    page = web.get("/lidarr?state=cancelled").text
    assert f'action="/lidarr/{id_}/retry"' in page
    assert web.post(f"/api/v1/lidarr/queue/{id_}/cancel").status_code == 409
    assert web.post(f"/api/v1/lidarr/queue/{id_}/retry").json()["status"] == "queued"
    assert web.post(f"/api/v1/lidarr/queue/{id_}/cancel").json()["terminal_reason"] == "cancelled"
