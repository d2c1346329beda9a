"""What a page of the library costs when it is large, as a browser gets it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter as clock

from starlette.testclient import TestClient

from bench.row import Row, at_most
from tidegate import Queue
from tidegate.apps import install
from tidegate.web import Site, build
from tidegate_apps.music.app import app
from tidegate_apps.music.settings import SETTINGS

TRACKS, PLAYS = 100_000, 500_000
MOST_MS = 150.0
_ROUNDS = 8
_PATHS = (
    "/music/library?shelf=artists",
    "/music/library?shelf=albums",
    "/music/library?shelf=tracks",
    "/music/library?shelf=plays",
    "/music/library?shelf=tracks&q=song+77",
    "/music/library?shelf=tracks&after=2-50000",
)


def run(tracks: int = TRACKS, plays: int = PLAYS, rounds: int = _ROUNDS, url: str | None = None) -> list[Row]:
    """The time of each of these pages, many times over."""
    with tempfile.TemporaryDirectory() as folder, Queue(url or f"sqlite:///{Path(folder) / 'music.db'}") as queue:
        there = install(app, queue, SETTINGS())
        fill(queue, tracks, plays)
        took: list[float] = []
        with TestClient(
            build(Site(queue=queue, apps=(there,))), client=("127.0.0.1", 50000), base_url="http://127.0.0.1:8321"
        ) as client:
            for round_ in range(rounds + 1):
                for path in _PATHS:
                    began = clock()
                    answer = client.get(path)
                    spent = 1000 * (clock() - began)
                    if answer.status_code != 200:
                        raise RuntimeError(f"{path} answered {answer.status_code}")
                    if round_:  # the first round compiles the templates
                        took.append(spent)
    took.sort()
    return [at_most(f"music: library page of {tracks:,} tracks, p95", took[int(len(took) * 0.95)], MOST_MS, " ms")]


def fill(queue: Queue, tracks: int, plays: int) -> None:
    """So many tracks on a tenth of as many albums, of a hundredth of as many artists; and plays of them."""

    def series(n: int) -> str:
        if queue.url.startswith("sqlite"):
            return f"(with recursive s(n) as (select 1 union all select n + 1 from s where n < {n}) select n from s)"
        return f"(select generate_series(1, {n}) as n)"

    albums, artists = max(1, tracks // 10), max(1, tracks // 100)
    statements = (
        "insert into music_user (user_id, made_at) values ('local', 0)",
        (
            "insert into music_artist (user_id, name, name_key, plays) "
            f"select 'local', 'Artist ' || n, 'artist ' || n, n % 500 from {series(artists)} as given"
        ),
        (
            "insert into music_album (user_id, artist_id, title, name_key, plays) "
            f"select 'local', n % {artists} + 1, 'Album ' || n, 'album ' || n, n % 90 from {series(albums)} as given"
        ),
        (
            "insert into music_track (user_id, artist_id, album_id, title, name_key, plays, played_at) "
            f"select 'local', n % {artists} + 1, n % {albums} + 1, 'Song ' || n, 'song ' || n, n % 40, n "
            f"from {series(tracks)} as given"
        ),
        (
            "insert into music_play (user_id, provider, ref, at, track_id) "
            f"select 'local', 'lastfm', cast(n as text), n, n % {tracks} + 1 from {series(plays)} as given"
        ),
        "analyze",
    )
    queue.db("music").all("users")  # the tables are there
    for statement in statements:
        queue.store.write(lambda tx, text=statement: tx.execute(text))  # type: ignore[misc]
