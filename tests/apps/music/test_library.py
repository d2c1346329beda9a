"""What songs become in the library, and what other applications see of it."""

from __future__ import annotations

import json

import pytest

from tidegate import Queue
from tidegate.apps import DbTx
from tidegate_apps.music.library import Badge, EntryRow, Library, tables
from tidegate_apps.music.library_writer import LibraryWriter, SyncOperation
from tidegate_apps.music.merge import Merging, identify_album, identify_artist, identify_track
from tidegate_apps.music.provider import Batch, Enrichment, Operation, Play, Playlist, Song

M1, M2 = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"


def song(title: str, artist: str = "Low", **more: str) -> Song:
    return Song(title=title, artist=artist, **more)  # type: ignore[arg-type]


def kept(queue: Queue, *songs: Song, user: str = "ada") -> list[int]:
    def write(tx: DbTx) -> list[int]:
        merging = Merging(tx, user, 1.0)
        return [merging.track(each) for each in songs]

    return tables(queue).write(write)


def test_a_song_brings_its_artist_its_album_and_itself_once(queue: Queue) -> None:
    first = kept(
        queue,
        song("Words", album="I Could Live in Hope"),
        song("Words", "LOW"),
        song("Sea", album="i could live in hope!"),
    )
    again = kept(queue, song("words", album="I could live in hope"))

    library = Library(queue)
    assert first[0] == first[1] == again[0] != first[2]
    assert [each.name for each in library.artists("ada")] == ["Low"]
    assert [(each.title, each.artist) for each in library.albums("ada")] == [("I Could Live in Hope", "Low")]
    assert [(each.title, each.album) for each in library.tracks("ada")] == [
        ("Words", "I Could Live in Hope"), ("Sea", "I Could Live in Hope"),
    ]  # fmt: skip
    assert (library.users(), library.artists("bob")) == (["ada"], [])


def test_an_id_joins_what_a_name_cannot_and_parts_what_a_name_would_join(queue: Queue) -> None:
    kept(queue, song("Words"), song("Words", "Low (band)", artist_mbid=M1), song("Lullaby", "Low", artist_mbid=M2))
    kept(queue, song("Cut", "LOW", artist_mbid=M2), song("Rope", "Low"))

    found = {(each.name, each.mbid) for each in Library(queue).artists("ada")}
    assert found == {("Low", M2), ("Low (band)", M1)}

    kept(queue, song("Sea", "Low", artist_mbid="33333333-0000-4000-8000-000000000003"))
    assert len(Library(queue).artists("ada")) == 3  # another band of that name


def test_an_album_of_a_later_song_is_added_to_a_track_that_had_none(queue: Queue) -> None:
    kept(queue, song("Words"), song("Words", album="I Could Live in Hope"))
    kept(queue, song("Sea"))
    kept(queue, song("Sea", album="Secret Name"))

    assert [each.album for each in Library(queue).tracks("ada")] == ["I Could Live in Hope", "Secret Name"]


def test_two_artists_that_turn_out_to_be_one_become_one_with_all_that_they_have(queue: Queue) -> None:
    (plain, other) = kept(
        queue, song("Words", "Low", album="Hope", mbid=M1), song("words", "Low Band", album="hope", artist_mbid=M2)
    )
    kept(queue, song("Sea", "Low"))
    library, db = Library(queue), tables(queue)
    low, band = library.artists("ada")
    library.put(library.badge("artist", low.id, Badge(word="Queued", tone="calm", icon="clock")))
    db.write(lambda tx: tx.many("count_tracks", [{"id": plain, "n": 2, "at": 5.0}, {"id": other, "n": 3, "at": 4.0}]))
    db.write(lambda tx: tx.many("add_plays", [{"ref": "a", "at": 5.0, "track_id": plain}], user_id="ada", provider="x"))

    assert db.write(lambda tx: identify_artist(tx, low.id, M2)) == band.id

    assert [(each.name, each.mbid) for each in library.artists("ada")] == [("Low Band", M2)]
    assert [each.title for each in library.albums("ada")] == ["hope"]
    assert sorted(each.title for each in library.tracks("ada")) == ["Sea", "words"]
    page = db.all("page_tracks", user_id="ada", plays=2**53, before=2**53, n=9)
    assert [(row[1], row[2], row[3]) for row in page] == [("words", M1, 5), ("Sea", None, 0)]
    assert db.all("plays_of", user_id="ada", at=9.0, before=2**53, n=9)[0][3] == other
    assert db.all("page_artists", user_id="ada", plays=2**53, before=2**53, n=9)[0][7] == "Queued"
    assert library.artist(low.id) is None


@pytest.mark.parametrize(
    ("operation", "answer"),
    [(Operation.TAGS, {"tags": ("slowcore",)}), (Operation.ART, {"art": {"thumb": "https://art.test/1.jpg"}})],
)
def test_what_was_found_is_never_paid_for_again_and_only_what_was_not_is_asked_for_later(
    queue: Queue, operation: Operation, answer: dict[str, object]
) -> None:
    kept(
        queue,
        song("Words", "Low", artist_mbid=M1, album="Hope", album_mbid=M1),
        song("Sea", "Codeine", artist_mbid=M2, album="White", album_mbid=M2),
    )
    keeping, lane = LibraryWriter(tables(queue), lambda: 1000.0), SyncOperation("ada", "svc", operation)
    of_artists = keeping.wanted(lane, 0.0, 9)
    low, codeine = (each.id for each in of_artists)
    found = (Enrichment(id=low, **answer), Enrichment(id=codeine, nothing=True))  # type: ignore[arg-type]
    keeping.found(lane, of_artists, Batch(items=found))
    of_albums = keeping.wanted(lane, 0.0, 9)
    hope, white = [each.id for each in of_albums] or [0, 0]
    answers = (Enrichment(id=hope, **answer), Enrichment(id=white, nothing=True))  # type: ignore[arg-type]
    keeping.found(lane, of_albums, Batch(items=answers))
    assert keeping.wanted(lane, 999.0, 9) == []

    later = keeping.wanted(lane, 1001.0, 9)
    assert [each.name for each in later] == ["Codeine"]
    keeping.found(lane, later, Batch(items=(Enrichment(id=codeine, **answer),)))  # type: ignore[arg-type]
    assert [each.name for each in keeping.wanted(lane, 1001.0, 9)] == (["White"] if of_albums else [])


def test_an_id_that_nobody_has_is_simply_given(queue: Queue) -> None:
    (track,) = kept(queue, song("Words", album="Hope"))
    db, library = tables(queue), Library(queue)
    (artist,), (album,) = library.artists("ada"), library.albums("ada")

    db.write(
        lambda tx: (identify_artist(tx, artist.id, M1), identify_album(tx, album.id, M1), identify_track(tx, track, M1))
    )
    db.write(lambda tx: identify_artist(tx, artist.id, M1))

    assert (library.albums("ada")[0].mbid, library.albums("ada")[0].artist_mbid) == (M1, M1)
    assert db.one("track_by_mbid", user_id="ada", mbid=M1)[0] == track  # type: ignore[index]


def played(queue: Queue, *plays: tuple[float, Song]) -> None:
    rows = tuple(Play(ref=f"at {at}", at=at, song=song) for at, song in plays)
    LibraryWriter(tables(queue), lambda: 1000.0).plays(SyncOperation("ada", "x", Operation.PLAYS), Batch(items=rows))


def counts(queue: Queue) -> dict[str, tuple[int, float | None]]:
    """How often and when each was played, by its name."""
    everything = {"user_id": "ada", "plays": 2**53, "before": 2**53, "n": 99}
    db = tables(queue)
    named = {f"artist {row[1]}": (row[3], row[4]) for row in db.all("page_artists", **everything)}
    named |= {f"album {row[1]}": (row[3], row[4]) for row in db.all("page_albums", **everything)}
    return named | {f"track {row[1]}": (row[3], row[4]) for row in db.all("page_tracks", **everything)}


def test_merged_tracks_take_their_plays_along_to_their_album_and_their_artist(queue: Queue) -> None:
    played(queue, (5.0, song("Words", "Low", album="Hope")), (9.0, song("Words!!", "Low & Friends", album="Live")))
    played(queue, (6.0, song("Sea", "Low", album="Hope")), (7.0, song("Cut", "Low & Friends", album="Live")))
    tracks = {each.title: each.id for each in Library(queue).tracks("ada")}
    for title in ("Words", "Words!!"):
        tables(queue).write(lambda tx, title=title: identify_track(tx, tracks[title], M1))  # type: ignore[misc]

    assert counts(queue) == {
        "artist Low": (3, 9.0), "album Hope": (3, 9.0), "track Words": (2, 9.0),
        "artist Low & Friends": (1, 7.0), "album Live": (1, 7.0), "track Sea": (1, 6.0), "track Cut": (1, 7.0),
    }  # fmt: skip


def test_merged_artists_and_albums_show_the_later_play_and_the_picture_and_tags_of_either(queue: Queue) -> None:
    played(queue, (9.0, song("Words", "Low", album="Hope", album_mbid=M1)), (5.0, song("Sea", "Low Band", album="Hi")))
    db, library = tables(queue), Library(queue)
    (low, band), (_, hi) = library.artists("ada"), library.albums("ada")
    keeping, site = LibraryWriter(db, lambda: 1000.0), "https://art.test"
    db.all("found_art_artist", id=low.id, at=1000.0, art=json.dumps({"thumb": f"{site}/low.jpg"}))
    db.all("found_tags_artist", id=low.id, at=1000.0, tags="slowcore")
    db.all("found_art_album", id=hi.id, at=1000.0, art=json.dumps({"cover": f"{site}/hi.jpg"}))
    db.write(lambda tx: (identify_artist(tx, band.id, M2), identify_artist(tx, low.id, M2)))
    db.write(lambda tx: identify_album(tx, hi.id, M1))

    everything = {"user_id": "ada", "plays": 2**53, "before": 2**53, "n": 9}
    ((_, name, _, plays, at, art, tags, *_),) = db.all("page_artists", **everything)
    assert (name, plays, at, tags) == ("Low Band", 2, 9.0, "slowcore")
    assert "low.jpg" in art
    ((_, title, _, plays, at, art, *_),) = db.all("page_albums", **everything)
    assert (title, plays, at) == ("Hope", 2, 9.0)
    assert "hi.jpg" in art
    assert keeping.wanted(SyncOperation("ada", "x", Operation.ART), 2000.0, 9) == []
    assert keeping.wanted(SyncOperation("ada", "x", Operation.TAGS), 2000.0, 9) == []


def test_a_track_takes_its_plays_along_into_the_album_that_it_gets_later(queue: Queue) -> None:
    played(queue, (5.0, song("Words")), (6.0, song("Words")))
    played(queue, (7.0, song("Words", album="Hope")))
    assert counts(queue) == {"artist Low": (3, 7.0), "album Hope": (3, 7.0), "track Words": (3, 7.0)}


def test_only_playlists_that_are_new_or_have_changed_are_counted(queue: Queue) -> None:
    keeping, lane = LibraryWriter(tables(queue), lambda: 1000.0), SyncOperation("ada", "x", Operation.PLAYLISTS)

    def put(**more: object) -> int:
        given = {"ref": "1", "name": "Slow", "songs": (song("Words"), song("Sea")), **more}
        other = Playlist(ref="2", name="Unseen")
        return keeping.playlists(lane, Batch(items=(Playlist(**given), other)))  # type: ignore[arg-type]

    assert (put(), put(), put(songs=None), put(songs=())) == (2, 0, 0, 0)
    assert (put(songs=(song("Sea"), song("Words"))), put(songs=(song("Sea"), song("Words")))) == (1, 0)
    assert (put(name="Slower", songs=None), put(name="Slower", about="For rain", songs=None)) == (1, 1)


def test_two_albums_and_two_tracks_with_the_same_id_become_one(queue: Queue) -> None:
    one, two = kept(queue, song("Words", album="Hope"), song("Words (Remastered)", album="Hope (Deluxe)"))
    db, library = tables(queue), Library(queue)
    for album in library.albums("ada"):
        db.write(lambda tx, id_=album.id: identify_album(tx, id_, M1))  # type: ignore[misc]
    for track in (one, two):
        db.write(lambda tx, id_=track: identify_track(tx, id_, M2))  # type: ignore[misc]

    assert [(each.title, each.mbid) for each in library.albums("ada")] == [("Hope", M1)]
    assert [(each.id, each.title) for each in library.tracks("ada")] == [(one, "Words")]


def test_whoever_asks_first_opens_the_tables_and_ids_are_a_place_to_go_on_from(queue: Queue) -> None:
    early = Library(queue)
    kept(queue, *(song(f"Song {n}", f"Artist {n}") for n in range(5)))

    seen = early.artists("ada", limit=3)
    rest = Library(queue).artists("ada", after=seen[-1].id)
    assert [each.name for each in (*seen, *rest)] == [f"Artist {n}" for n in range(5)]
    assert early.album(99) is None


def test_a_badge_is_put_changed_and_taken_away_and_a_wrong_one_is_refused(queue: Queue) -> None:
    kept(queue, song("Words"))
    library, db = Library(queue), tables(queue)

    def words() -> list[str | None]:
        return [row.word for row in db.query_as(EntryRow, "page_tracks", user_id="ada", plays=2**53, before=2**53, n=9)]

    id_ = library.tracks("ada")[0].id
    library.put(library.badge("track", id_, Badge(word="Queued", tone="calm", icon="clock", href="/lidarr")))
    library.put(library.badge("track", id_, Badge(word="Available", tone="good", icon="check")))
    assert words() == ["Available"]
    library.put(library.badge("track", id_, None))
    assert words() == [None]

    for given, said in (
        ({"word": "", "tone": "good", "icon": "x"}, "word: it is empty"),
        ({"word": "A", "tone": "pink", "icon": "x"}, "tone: 'pink' is not allowed"),
        ({"word": "A", "tone": "good", "icon": "x", "href": "//evil.example"}, "href: '//evil.example' is not allowed"),
    ):
        with pytest.raises(ValueError, match=said):
            Badge(**given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind: 'song'"):
        library.badge("song", 1, None)  # type: ignore[arg-type]
