"""Navidrome: playlists by the API of Subsonic, and what was played by its own, which is the only one that has it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from tidegate import Rate, rules
from tidegate_apps.music.calls import ProviderClient
from tidegate_apps.music.contract import (
    LOOK_BACK,
    Batch,
    Operation,
    Play,
    Playlist,
    Provider,
    ProviderConnection,
    ProviderContext,
    RejectedRow,
    Song,
)
from tidegate_apps.music.kind import Field, ProviderKind
from tidegate_apps.music.playlists import Playlists
from tidegate_apps.music.providers.navidrome_session import PAGE_SIZE, Native
from tidegate_apps.music.providers.subsonic import Subsonic
from tidegate_apps.music.reading import (
    BadRow,
    mbid,
    moment,
    number,
    read_rows,
    required_text,
    text,
)
from tidegate_apps.music.way_out import server

_TOGETHER = 50
_MAX_PAGES = 500
_MAX_KNOWN, _REMEMBERED = 5000, 6 * 3600.0  # songs, and seconds after which their names are asked for again
_NEVER = "0001-"
_OVERLAP = 3600.0  # seconds: apps hand in what they played offline


class Navidrome(Provider):
    """One account at one server."""

    def __init__(self, connection: ProviderConnection, context: ProviderContext) -> None:
        values = connection.values
        base = _base(values)
        self._client = ProviderClient("navidrome", rules.navidrome, context, rate=kind.rate, key=base, entered=True)
        self._subsonic = Subsonic(self._client, base, values["user"], values["password"])
        self._native = Native(self._client, base, values, context)
        self._playlists = Playlists(self._client, self._subsonic.songs)
        self._clock = context.clock
        self._known: dict[str, Song] = {}
        self._known_until = 0.0

    async def check(self) -> None:
        await self._subsonic.ping()

    async def playlists(self) -> AsyncIterator[Batch[Playlist]]:
        heads, bad = await self._subsonic.heads()
        async for batch in self._playlists.each(heads, bad):
            yield batch

    async def plays(self, mark: str | None) -> AsyncIterator[Batch[Play]]:
        reached = moment(mark)
        since = int(self._clock.now() - LOOK_BACK if reached is None else reached - _OVERLAP)
        async for plays, bad in self._history(since, all_of_it=reached is None):
            # A play may be dated in the future. Our own clock alone never moves the mark: it may be wrong.
            times = [min(play.at, self._clock.now()) for play in plays]
            reached = max([*times, *([] if reached is None else [reached])], default=None)
            yield Batch(items=tuple(plays), bad=tuple(bad), mark=None if reached is None else str(int(reached)))

    async def _history(self, since: int, *, all_of_it: bool) -> AsyncIterator[tuple[list[Play], list[RejectedRow]]]:
        heard = set[str]()
        page = first = await self._native.scrobbles(since, 0)
        for number_of_page in range(1, _MAX_PAGES):
            if page is None:
                break
            plays, bad = await self._with_songs(page, since)
            heard.update(play.ref for play in plays)
            yield plays, bad
            full = len(page) >= PAGE_SIZE
            page = await self._native.scrobbles(since, number_of_page * PAGE_SIZE) if full else None
        if first and not all_of_it:
            return
        # A server may keep no log, or have begun it later. What is in both has the same second, and so the same ref.
        for plays, bad in await self._last_plays(since):
            more = [play for play in plays if play.ref not in heard]
            if more or bad or first is None:
                yield more, bad

    async def _with_songs(self, page: Sequence[object], since: int) -> tuple[list[Play], list[RejectedRow]]:
        """The log has ids alone; the songs are asked for, and remembered for a while."""
        known, now = self._known, self._clock.monotonic()
        if now >= self._known_until or len(known) > _MAX_KNOWN:
            known.clear()
            self._known_until = now + _REMEMBERED
        heard, bad = read_rows(page, _scrobble)
        heard = [each for each in heard if each[1] >= since]
        missing = sorted({ref for ref, _ in heard} - known.keys())
        for at in range(0, len(missing), _TOGETHER):
            songs, unread = read_rows(await self._native.songs(missing[at : at + _TOGETHER]), _song)
            known.update((song.ref, song) for song in songs)
            bad += unread
        bad += [RejectedRow(row=ref, why="the server no longer has this song") for ref, _ in heard if ref not in known]
        return [_play(known[ref], when) for ref, when in heard if ref in known], bad

    async def _last_plays(self, since: int) -> list[tuple[list[Play], list[RejectedRow]]]:
        """When each song was played last, which is all that there is without a log. The oldest page comes first."""
        pages = []
        for number_of_page in range(_MAX_PAGES):
            page = await self._native.last_played(number_of_page * PAGE_SIZE)
            plays, bad = read_rows(page, _last_play)
            wanted = sorted((play for play in plays if play.at >= since), key=lambda play: play.at)
            pages.append((wanted, bad))
            if len(page) < PAGE_SIZE or len(wanted) + len(bad) < len(page):
                break  # what follows was played before, or never
        return pages[::-1]


def _base(values: Mapping[str, str]) -> str:
    try:
        return server(values.get("url", ""))
    except ValueError:
        return ""  # so that every call says that it names no server


def _scrobble(row: Mapping[str, object]) -> tuple[str, int]:
    return required_text(row, "mediaFileId"), _second(row.get("submissionTime"), "submissionTime")


def _second(value: object, name: str) -> int:
    at = moment(value)
    if at is None:
        raise BadRow(f"it has no {name}")
    return int(at)


def _last_play(row: Mapping[str, object]) -> Play | None:
    # Songs that were never played come last, and have no date, or that of the year one.
    never = not row.get("playDate") or text(row["playDate"]).startswith(_NEVER)
    return None if never else _play(_song(row), _second(row["playDate"], "playDate"))


def _play(song: Song, at: int) -> Play:
    return Play(ref=f"{song.ref}@{at}", at=float(at), song=song)


def _song(row: Mapping[str, object]) -> Song:
    # Releases differ in how they write the names of these fields.
    ids = {name.lower(): value for name, value in row.items() if name.lower().startswith("mbz")}
    return Song(
        title=required_text(row, "title"),
        artist=required_text(row, "artist"),
        album=text(row.get("album")),
        mbid=mbid(ids.get("mbzrecordingid")),
        artist_mbid=mbid(ids.get("mbzartistid")),
        album_mbid=mbid(ids.get("mbzreleasegroupid")),
        seconds=number(row.get("duration")),
        ref=required_text(row, "id"),
    )


kind = ProviderKind(
    name="navidrome",
    title="Navidrome",
    about="What you played on your own music server, and your playlists there.",
    operations=(Operation.PLAYS, Operation.PLAYLISTS),
    fields=(
        Field(name="url", label="Address", hint="As in your browser, such as https://music.example.org", check=server),
        Field(name="user", label="User name"),
        Field(name="password", label="Password", secret=True),
        Field(name="session", label="Session", secret=True, required=False, hidden=True),
    ),
    every=300,
    rules=rules.navidrome,
    make=Navidrome,
    rate=Rate(10, "1s", burst=10),
    counted=_base,
)
