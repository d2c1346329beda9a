"""The page, the API and the command, as a program asks them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from tests.apps.lidarr.building import USER, Round
from tests.databases import Database
from tests.text import numbers
from tests.web.local import LocalClient
from tidegate.apps import Installed, install
from tidegate.commands import AtServer
from tidegate.testing import Step
from tidegate.web.app import build
from tidegate.web.site import Site
from tidegate_apps.lidarr import service
from tidegate_apps.lidarr.cli import lidarr
from tidegate_apps.lidarr.models import TABS, SubmissionEntry
from tidegate_apps.lidarr.service import format_duration, held_words, status_label

API = "/api/v1"


@pytest.fixture
def web(quick: Round) -> Iterator[TestClient]:
    with LocalClient(
        build(Site(queue=quick.queue, apps=(quick.there,))), client=("127.0.0.1", 50000), base_url="http://localhost"
    ) as found:
        found.headers["Origin"] = "http://localhost"
        yield found


def text(answer: Any) -> str:
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.text))


def part(page: str, id_: str) -> str:
    """The text of the fact with this id."""
    (found,) = re.findall(rf'<dd id="{id_}"[^>]*>(.*?)</dd>', page, re.DOTALL)
    return re.sub(r"<[^>]+>", " ", found)


def mixed(at: Round) -> None:
    """One of each: submitted, queued, waiting for an artist, retrying, given up."""
    for n in range(4):
        at.artist(f"artist-{n}", f"Artist {n}")
    at.album("album-0", "artist-0")
    at.album("album-2", "artist-2")
    at.album("album-3", "artist-3")
    at.look()
    at.sim.then(
        f"POST {API}/artist", Step(201, {"id": 900, "artistName": "Artist 0", "monitored": True}), Step(500),
        Step(400, [{"errorCode": "ArtistPathValidator"}]), Step(503, {"message": "LidarrAPI"}),
    )  # fmt: skip
    at.sim.then(f"POST {API}/album", Step(500))
    at.wake()


def entry(**changes: Any) -> SubmissionEntry:
    fields: dict[str, Any] = {
        "id": 1, "entity_type": "album", "entity_id": 1, "user": "ada", "musicbrainz_id": "a", "name": "A",
        "artist": "B", "status": "queued", "attempts": 0, "most_attempts": 10, "last_error": None, "retry_at": None,
        "terminal_reason": None, "created_at": 0.0, "updated_at": 0.0, "lidarr_id": None, "stage": "ready",
        "due_at": 0.0, "lidarr_status": "queued",
    }  # fmt: skip
    return SubmissionEntry(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "token", "says"),
    [
        ({}, "queued", ""),
        ({"stage": "blocked"}, "blocked", ""),
        ({"stage": "running"}, "running", ""),
        ({"stage": "done", "status": "submitted"}, "done", ""),
        ({"stage": "waiting", "attempts": 3, "retry_at": 240.0, "last_error": "Down."}, "retrying", "4 min (3/10)"),
        ({"stage": "waiting", "attempts": 3, "retry_at": -1.0}, "retrying", "(3/10)"),
        ({"stage": "failed", "attempts": 10, "terminal_reason": "exhausted", "last_error": "Down."}, "failed", "10"),
        ({"stage": "failed", "terminal_reason": "permanent", "last_error": "Taken."}, "failed", "Taken."),
        ({"stage": "cancelled", "terminal_reason": "cancelled"}, "cancelled", ""),
    ],
)  # fmt: skip
def test_an_entry_says_its_state_in_words(changes: dict[str, Any], token: str, says: str) -> None:
    look = status_label(entry(**changes), 0.0)

    assert look.token == token
    assert says in f"{look.word} {look.reason}"
    assert look.reason.startswith(entry(**changes).last_error or "")


def test_an_entry_that_is_ready_says_what_keeps_all_of_them() -> None:
    ready = entry(stage="ready")
    held = [status_label(ready, 0.0, held_words(None, full=full)) for full in (True, False)]
    assert [each.token for each in held] == ["queued", "queued"]
    assert held[0].reason != held[1].reason
    assert status_label(entry(stage="blocked"), 0.0, "Held.").reason != "Held."


def test_an_album_that_failed_with_its_artist_says_why_he_was_not_accepted(both: Round) -> None:
    web = LocalClient(
        build(Site(queue=both.queue, apps=(both.there,))), client=("127.0.0.1", 50000), base_url="http://localhost"
    )
    both.some(2, 1)
    both.look()
    both.sim.inside.paths_taken.add("artist-0")
    service.cancel(both.there, both.entry("artist", "artist-1").id, USER)
    both.wake()

    page = text(web.get("/lidarr?state=gave_up"))

    assert "(HTTP 400)" in page


def test_how_long_is_said_as_people_do() -> None:
    assert [format_duration(each) for each in (0.2, 59, 60, 61, 239, 5399, 7200)] == [
        "1 s", "59 s", "1 min", "2 min", "4 min", "90 min", "2 h",
    ]  # fmt: skip


@pytest.mark.req("LID-15")
def test_the_page_says_how_full_lidarr_is_when_it_wakes_and_how_each_entry_stands(
    quick: Round, web: TestClient
) -> None:
    assert "Nothing to send" in text(web.get("/lidarr"))
    mixed(quick)
    shown = text(web.get("/lidarr"))

    assert "0/50" in shown
    page = web.get("/lidarr").text
    assert {1, 7, 4} <= set(numbers(part(page, "last-wake")))  # sent, of all, failed
    assert re.search(r"\b[23] min", part(page, "next-wake"))
    assert {"done", "blocked", "failed", "retrying"} <= set(re.findall(r'data-state="(\w+)"', page))
    assert re.search(r"\d+ min \(1/10\)", shown)
    assert web.get("/lidarr?state=gave_up").text.count('data-state="failed"') == 2
    assert text(web.get("/lidarr?state=retrying&after=nonsense")).count("(1/10)") == 3
    assert 'id="cannot"' not in page


@pytest.mark.req("LID-15")
def test_a_queued_badge_has_its_icon_its_colour_and_its_tooltip_and_no_link(quick: Round, web: TestClient) -> None:
    quick.some(1, 1)
    track = quick.track(quick.albums["album-0-0"], 1)
    quick.look()
    page = web.get("/lidarr/tracks").text

    (row,) = re.findall(rf'<tr id="track-{track}">.*?</tr>', page, re.DOTALL)
    assert 'class="state warn badge badge-warning"' in row
    assert 'title="Queued for Lidarr"' in row
    assert 'class="icon-[heroicons--queue-list]"' in row
    assert "<a " not in row
    assert web.get(f"/lidarr/to/track/{track}", follow_redirects=False).status_code == 404
    quick.wake()
    quick.look()

    (row,) = re.findall(rf'<tr id="track-{track}">.*?</tr>', web.get("/lidarr/tracks").text, re.DOTALL)
    assert f'href="/lidarr/to/track/{track}"' in row
    led = web.get(f"/lidarr/to/track/{track}", follow_redirects=False)
    assert (led.status_code, led.headers["Location"]) == (302, "http://lidarr/album/album-0-0")


@pytest.mark.req("LID-13")
def test_an_entry_that_was_given_up_is_retried_from_page_api_and_command(quick: Round, web: TestClient) -> None:
    mixed(quick)
    gone = quick.entry("artist", "artist-2")
    album = quick.entry("album", "album-2")

    answer = web.post(f"/lidarr/{album.id}/retry", follow_redirects=True)
    assert re.search(r"Title album-2 .*artist", text(answer))
    assert (quick.entry("artist", "artist-2").stage, quick.entry("album", "album-2").stage) == ("ready", "blocked")
    assert quick.queue.events(gone.id)[-1].kind == "retried"
    assert "nothing to retry" in text(web.post(f"/lidarr/{album.id}/retry", follow_redirects=True))
    told = web.post(f"/api/v1/lidarr/queue/{album.id}/retry")
    assert (told.status_code, told.json()["code"]) == (409, "refused")
    assert web.post("/api/v1/lidarr/queue/99999/retry").status_code == 404
    quick.sim.then(f"POST {API}/artist", Step(400, [{"errorCode": "ArtistPathValidator"}]))
    quick.wake()
    assert web.post(f"/api/v1/lidarr/queue/{gone.id}/retry").json()["status"] == "queued"
    quick.sim.then(f"POST {API}/artist", Step(400, [{"errorCode": "ArtistPathValidator"}]))
    quick.wake()
    assert web.post("/api/v1/lidarr/retry").json() == {"retried": 1}
    assert web.post("/lidarr/retry", follow_redirects=True).status_code == 200


def test_the_api_tells_what_the_page_shows(both: Round) -> None:
    web = LocalClient(
        build(Site(queue=both.queue, apps=(both.there,))), client=("127.0.0.1", 50000), base_url="http://localhost"
    )
    mixed(both)
    for state in TABS:
        assert web.get("/lidarr", params={"state": state}).status_code == 200, state
    assert web.get("/lidarr/tracks?kind=album&status=queued").status_code == 200

    found = web.get("/api/v1/lidarr").json()

    assert found["counts"] == {
        "all": 7, "queued": 0, "artist": 1, "retrying": 3, "gave_up": 2, "submitted": 1, "cancelled": 0,
    }  # fmt: skip
    assert (found["queue_depth"], found["queue_max"], found["last_wake"]["submitted"]) == (0, 50, 1)
    assert found["next_wake_at"] == found["last_wake"]["at"] + 180
    pages, cursor = [], ""
    while True:
        answer = web.get("/api/v1/lidarr/queue", params={"limit": 3, "cursor": cursor}).json()
        pages += [each["id"] for each in answer["items"]]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    assert pages == sorted(pages, reverse=True)
    assert len(pages) == 7
    retrying = web.get("/api/v1/lidarr/queue", params={"state": "retrying", "limit": 2}).json()
    rest = web.get("/api/v1/lidarr/queue", params={"state": "retrying", "cursor": retrying["next_cursor"]}).json()
    due = [each["retry_at"] for each in retrying["items"] + rest["items"]]
    assert due == sorted(due)
    assert len(due) == 3
    assert [each["kind"] for each in web.get("/api/v1/lidarr/events").json()["items"]] == ["lidarr_artist_submitted"]
    assert web.get("/api/v1/lidarr/queue/1").json()["entity_type"] == "artist"
    assert web.get("/api/v1/lidarr/queue/99999").status_code == 404
    assert web.get("/api/v1/lidarr/queue", params={"state": "odd"}).status_code in (400, 422)
    assert web.get("/api/v1/lidarr/queue", params={"cursor": "odd"}).status_code in (400, 422)


def test_a_list_that_ends_here_offers_no_more_of_it(quick: Round, web: TestClient) -> None:
    assert all('rel="next"' not in web.get(path).text for path in ("/lidarr", "/lidarr/tracks"))


def test_a_lidarr_that_takes_nothing_is_said_beside_what_waits_for_it(quick: Round, web: TestClient) -> None:
    quick.some(1, 0)
    quick.look()
    quick.sim.weather = "starting"
    quick.wake()

    last = web.get("/api/v1/lidarr").json()["last_wake"]
    page = web.get("/lidarr").text
    assert last["outcome"] == "held"
    assert page.count(last["message"]) >= 3  # at the head, beside the entry and as the last wake
    assert 'id="held"' in page
    quick.sim.weather = "well"
    quick.sim.inside.fill(50, lasts=60)
    quick.wake()
    page = web.get("/lidarr").text
    assert 'id="held"' not in page
    assert held_words(None, full=True) in page


def test_what_holds_it_is_still_said_when_a_wake_had_nothing_that_it_could_send(quick: Round, web: TestClient) -> None:
    quick.some(12, 0)
    quick.look()
    quick.sim.weather = "metadata down"
    quick.wake()
    quick.wake()

    shown = web.get("/lidarr").text
    assert 'id="last-wake" data-outcome="nothing"' in shown
    assert 'id="held-since" data-code="metadata_down"' in shown


def test_a_person_may_wake_it_now_and_have_it_look_again(quick: Round, web: TestClient) -> None:
    assert web.post("/api/v1/lidarr/wake").status_code == 202
    assert web.post("/api/v1/lidarr/wake").json()["created"] is False
    assert "is woken now" not in text(web.post("/lidarr/wake", follow_redirects=True))
    assert web.post("/api/v1/lidarr/look").status_code == 202
    assert "looking already" in text(web.post("/lidarr/look", follow_redirects=True))


def test_without_a_lidarr_the_page_says_what_to_set(quick_db: Database) -> None:
    with Round.opened(quick_db, base_url="") as at:
        web = LocalClient(
            build(Site(queue=at.queue, apps=(at.there,))), client=("127.0.0.1", 50000), base_url="http://localhost"
        )
        web.headers["Origin"] = "http://localhost"
        assert 'id="unset"' in web.get("/lidarr").text
        assert web.post("/api/v1/lidarr/wake").status_code == 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened(AtServer):
    """A command line at the application of this test."""

    there: Installed[Any]

    @contextmanager
    def installed(self) -> Iterator[Installed[Any]]:
        yield self.there


def test_the_command_shows_lists_wakes_and_retries(both: Round) -> None:
    mixed(both)

    def run(*args: str) -> tuple[int, str]:
        done = CliRunner().invoke(lidarr, list(args), obj=Opened(app="lidarr", there=both.there))
        return done.exit_code, done.output

    code, said = run("status")
    assert code == 0
    entries = next(line for line in said.splitlines() if line.startswith("entries:"))
    assert numbers(entries) == [1, 3, 2, 1]  # they wait for an artist, are retried, gave up, are submitted
    assert "0/50" in said
    assert json.loads(run("status", "--json")[1])["queue_max"] == 50
    code, said = run("list", "--state", "gave_up")
    assert (code, said.count("Gave up")) == (0, 2)
    assert len(json.loads(run("list", "--json")[1])) == 7
    gone = both.entry("artist", "artist-2")
    assert run("retry", str(gone.id)) == (0, "retried: 1\n")
    code, said = run("retry", str(gone.id))
    assert code == 1
    assert "nothing to retry" in said
    assert run("retry")[0] == 2
    assert run("retry", "--all") == (0, "retried: 0\n")
    assert run("cancel", str(gone.id)) == (0, "cancelled: 1\n")
    code, said = run("cancel", str(gone.id), "999")
    assert (code, said.startswith("cancelled: 0\n"), "999" in said) == (1, True, True)
    assert "Cancelled" in run("list", "--state", "cancelled")[1]
    assert json.loads(run("retry", str(gone.id), "--json")[1]) == {"retried": 1, "refused": []}


@pytest.mark.req("LID-15")
def test_the_library_of_music_shows_the_same_badge_beside_a_track(quick: Round) -> None:
    from tidegate_apps.music.app import app as music

    quick.some(1, 1)
    quick.track(quick.albums["album-0-0"], 1)
    quick.look()
    beside = install(music, quick.queue)
    web = LocalClient(
        build(Site(queue=quick.queue, apps=(beside, quick.there))),
        client=("127.0.0.1", 50000),
        base_url="http://localhost",
    )

    page = web.get("/music/library", params={"user": USER, "shelf": "tracks"}).text

    assert '<span class="state warn badge badge-warning" title="Queued for Lidarr">' in page
    assert "#queue" in page.partition("badge badge-warning")[2].partition("</span>")[0]
    beside.closing.close()
