"""What music has merged into something else is forgotten here, and nothing that was to be sent is lost by that."""

from __future__ import annotations

import pytest

from tests.apps.lidarr.building import USER, Round
from tidegate.testing import Step
from tidegate_apps.lidarr.records import LibraryShelf, clear
from tidegate_apps.music.library import tables
from tidegate_apps.music.merge import identify_album, identify_artist


def merge_artists(at: Round, old: str, new: str) -> None:
    """As music does when MusicBrainz says that the two are one."""
    tables(at.queue).write(lambda tx: identify_artist(tx, at.artists[old], new))


def entries(at: Round) -> list[tuple[str, str, str]]:
    return sorted((each.entity_type, each.musicbrainz_id, each.stage) for each in at.entries())


@pytest.mark.req("LID-02")
def test_an_artist_that_was_merged_while_queued_is_not_sent_and_his_albums_wait_for_the_other(both: Round) -> None:
    for mbid in ("old", "new"):
        both.artist(mbid)
    song = both.track(both.album("album-1", "old"), both.artists["old"])
    both.look()
    assert entries(both) == [("album", "album-1", "blocked"), ("artist", "new", "ready"), ("artist", "old", "ready")]

    merge_artists(both, "old", "new")
    both.look()

    assert entries(both) == [("album", "album-1", "blocked"), ("artist", "new", "ready")]
    assert both.status("artist", both.artists["old"]) is None
    assert both.badge("artist", both.artists["old"]) is None
    assert both.status("track", song) == "queued"
    both.wake()
    assert (both.sent("POST /artist"), both.sent("POST /command")) == (1, 1)
    assert both.sim.inside.artist_of("new") is not None
    assert both.there.queue.get(both.entry("album", "album-1").id).args["submission"]["artist_mbid"] == "new"


def test_albums_that_were_given_up_with_an_artist_come_back_with_the_one_that_he_became(quick: Round) -> None:
    quick.artist("old")
    quick.artist("new")
    quick.album("album-1", "old")
    quick.sim.inside.unknown.add("old")
    quick.look()
    quick.wake()
    assert quick.entry("album", "album-1").terminal_reason == "artist"

    merge_artists(quick, "old", "new")
    quick.look()
    quick.wake()

    assert entries(quick) == [("album", "album-1", "done"), ("artist", "new", "done")]


def test_a_merged_album_is_forgotten_whether_it_was_sent_or_not(quick: Round) -> None:
    quick.some(1, 4)
    quick.look()
    quick.wake()
    quick.album("late", "artist-0")
    quick.look()

    def merged(old: str, new: str) -> None:
        tables(quick.queue).write(lambda tx: identify_album(tx, quick.albums[old], new))

    merged("album-0-0", "album-0-1")
    merged("late", "album-0-3")
    quick.look()

    left = {each.id for each in quick.jobs.library.albums(USER)}
    assert {each.entity_id for each in quick.entries() if each.entity_type == "album"} == left
    assert [quick.status("album", quick.albums[each]) for each in ("album-0-0", "late")] == [None, None]
    assert quick.wake().outcome == "nothing"


@pytest.mark.req("LID-11")
def test_an_artist_whose_albums_are_about_to_be_sent_is_kept_until_they_are(quick: Round) -> None:
    quick.artist("old")
    quick.artist("new")
    quick.album("album-1", "old")
    quick.look()
    quick.sim.then("POST /api/v1/command", Step(500))
    quick.wake()
    assert quick.entry("album", "album-1").stage == "waiting"
    merge_artists(quick, "old", "new")

    quick.look()

    assert quick.entry("artist", "old").stage == "done"
    quick.wakes(2)
    assert quick.entry("album", "album-1").stage == "done"
    quick.look()
    assert entries(quick) == [("album", "album-1", "done"), ("artist", "new", "done")]


def test_what_comes_into_the_library_while_a_page_is_read_is_not_taken_for_gone(quick: Round) -> None:
    quick.some(3, 0)
    quick.look()
    stale = quick.jobs.library.artists(USER)[:1]
    shelf = LibraryShelf("artist", USER, quick.jobs.library.artists)

    assert clear(quick.there, quick.jobs.library, shelf, [], stale[0].id) == 0
    assert len(quick.entries()) == 3
