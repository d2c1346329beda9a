"""Music with everything that its pages can show: connections in every state, a library, and what is wrong with some."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.apps.music.building import DAY, HOUR, KEY, MINUTE
from tidegate import Queue
from tidegate.apps import Installed, install
from tidegate.clock import VirtualClock
from tidegate.web.site import Site
from tidegate_apps.music.app import app
from tidegate_apps.music.connections import Connections
from tidegate_apps.music.health import OperationStates
from tidegate_apps.music.library import Badge, Library
from tidegate_apps.music.library_writer import LibraryWriter, SyncOperation
from tidegate_apps.music.provider import Batch, Gap, Operation, Play, Playlist, RejectedRow, Song
from tidegate_apps.music.settings import SETTINGS, MusicSettings
from tidegate_demo.simulators.music.base import TRACKS, CatalogueTrack
from tidegate_demo.simulators.music.metadata import png

USER = "local"
PAGES = {
    "music": "/music",
    "music-connect": "/music/connect/navidrome",
    "music-login": "/music/connect/spotify",
    "music-artists": "/music/library?shelf=artists",
    "music-albums": "/music/library?shelf=albums",
    "music-tracks": "/music/library?shelf=tracks",
    "music-plays": "/music/library?shelf=plays",
    "music-playlists": "/music/library?shelf=playlists",
    "music-none-match": "/music/library?shelf=tracks&q=nothing+of+this+name",
}
_PROVIDERS = ("navidrome", "spotify", "lastfm")
_BADGES = (
    Badge(word="Queued", tone="calm", icon="clock"), Badge(word="In Lidarr", tone="good", icon="check"),
    Badge(word="Failed", tone="bad", icon="alert", tooltip="Lidarr does not know it."),
)  # fmt: skip


@contextmanager
def music_site(folder: Path, now: float) -> Iterator[Site]:
    """A site that only shows, at *now*."""
    settings: dict[str, Any] = {
        "sync": False, "contact": "https://tidegate.example", "spotify": {"client_id": "c"}, "lastfm": {"api_key": "k"},
        "fanart": {"api_key": "k"}, "openai": {"enabled": False},
    }  # fmt: skip
    with Queue(f"sqlite:///{folder / 'music.db'}", clock=VirtualClock(now)) as queue:
        there = install(app, queue, SETTINGS.model_validate(settings), lambda: KEY)
        _library(there, now)
        _connections(there, now)
        yield Site(queue=queue, apps=[there])


def _song(track: CatalogueTrack) -> Song:
    return Song(
        title=track.title, artist=track.artist, album=track.album, artist_mbid=track.artist_mbid,
        album_mbid=track.album_mbid, mbid=track.mbid, seconds=float(track.seconds),
    )  # fmt: skip


def _library(there: Installed[MusicSettings], now: float) -> None:
    keeping, db = LibraryWriter(there.db, lambda: now), there.db
    for which, provider in enumerate(_PROVIDERS):
        plays = tuple(
            Play(ref=str(n), at=now - n * 41 * MINUTE - which, song=_song(TRACKS[n * (which + 3) % len(TRACKS)]))
            for n in range(60)
        )
        keeping.plays(SyncOperation(USER, provider, Operation.PLAYS), Batch(items=plays, mark="1"))
    lists = (
        Playlist(ref="1", name="Road songs", about="For the coast.", songs=tuple(map(_song, TRACKS[:7]))),
        Playlist(ref="2", name="Made for you", songs=()),
    )
    keeping.playlists(SyncOperation(USER, "spotify", Operation.PLAYLISTS), Batch(items=lists))
    there.db.all("playlists_gone", at=now, seen_before=now + 1, user_id=USER, provider="navidrome")
    library = Library(there.queue)
    artists, albums = library.artists(USER), library.albums(USER)
    ids = {"artist": [each.id for each in artists], "album": [each.id for each in albums]}
    for shelf, entries in ids.items():
        for n, id_ in enumerate(entries):
            if n % 3 != 2:
                address = f"https://art.example/{shelf}/{n}.png"
                db.all(f"found_art_{shelf}", id=id_, at=now, art=json.dumps({"thumb": address}))
                body = png(bytes((40 + 17 * n % 160, 60 + 29 * n % 120, 90 + 11 * n % 130)))
                db.all("put_picture", address=address, media_type="image/png", body=body, at=now)
    for n, artist in enumerate(artists):
        db.all("found_tags_artist", id=artist.id, at=now, tags="shanty, slow, brass, rainy afternoons" if n % 2 else "")
    for n, badge in enumerate(_BADGES):
        library.put(
            library.badge("artist", artists[n].id, badge), library.badge("album", albums[n].id, badge),
            library.badge("track", library.tracks(USER)[n].id, badge),
        )  # fmt: skip


def _connections(there: Installed[MusicSettings], now: float) -> None:
    connections: Connections = there.jobs.connections
    entered = {
        "navidrome": {"url": "https://music.example.org", "user": "ada", "password": "p"},
        "spotify": {"access_token": "a", "refresh_token": "r", "authorized_at": str(int(now - 175 * DAY))},
        "lastfm": {"user": "ada-at-lastfm"},
        "fanart": {"client_key": "k"},
    }
    for name, values in entered.items():
        connections.put(USER, there.jobs.kinds[name], values)
    states = OperationStates(there.db, lambda: now)
    well: dict[str, Any] = {"tried_at": now - MINUTE, "success_at": now - MINUTE, "next_at": now + 4 * MINUTE}
    told: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("navidrome", "plays", {**well, "items": 12, "bad": 2}),
        ("navidrome", "playlists", _wrong(now, 3, "forbidden", "The service does not allow this.", "fatal")),
        ("spotify", "plays", _wrong(now, 1, "grant_revoked", "Spotify no longer accepts our access.", "fatal")),
        ("spotify", "playlists", _wrong(now, 1, "grant_revoked", "Spotify no longer accepts our access.", "fatal")),
        ("lastfm", "plays", _wrong(now, 2, "rate_limited", "The service asks us to call less often.", "retry_after")),
        ("fanart", "art", _wrong(now, 6, "network", "The service cannot be reached.", "backoff")),
        ("musicbrainz", "ids", {**well, "began_at": now}),
    )
    for provider, operation, how in told:
        lane = SyncOperation(USER, provider, Operation(operation))
        state = states.of(lane)
        for name, value in how.items():
            setattr(state, name, value)
        states.changed(lane)
    states.write(states.taken())
    song = _song(TRACKS[0])
    gap = Gap(since=now - 30 * HOUR, until=now - 27 * HOUR)
    play = Play(ref="gap", at=now - 27 * HOUR, song=song)
    bad = (RejectedRow(row='{"name": "Fog Signal", "date": null}', why="it has no date"),) * 2
    keeping = LibraryWriter(there.db, lambda: now)
    keeping.plays(SyncOperation(USER, "spotify", Operation.PLAYS), Batch(items=(play,), mark="2", gap=gap))
    keeping.plays(SyncOperation(USER, "navidrome", Operation.PLAYS), Batch(bad=bad, mark="2"))


def _wrong(now: float, failures: int, code: str, message: str, held: str) -> dict[str, Any]:
    return {
        "tried_at": now - MINUTE, "success_at": now - 5 * HOUR, "failures": failures, "code": code, "message": message,
        "failed_since": now - HOUR, "held": held, "advice": "Connect the account again.",
        "next_at": None if held == "fatal" else now + 10 * MINUTE,
    }  # fmt: skip
