"""Navidrome: playlists by the Subsonic API, and plays by its native API, which alone has them."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence

from tidegate import Rate, rules
from tidegate_apps.music.client import ProviderClient, ProviderRequest, ProviderResponse, ServiceError, Values
from tidegate_apps.music.merge import MAX_SONGS, PlaylistHead, Playlists
from tidegate_apps.music.parsing import (
    BadRow,
    WrongShape,
    isrc,
    mapping,
    mbid,
    moment,
    number,
    part,
    read_rows,
    required_text,
    rows,
    text,
    token,
)
from tidegate_apps.music.provider import (
    LOOK_BACK,
    Batch,
    Field,
    Operation,
    Play,
    Playlist,
    Provider,
    ProviderConnection,
    ProviderContext,
    ProviderKind,
    RejectedRow,
    Song,
)
from tidegate_apps.music.transport import server

# -- native API --------------------------------------------------------------------------------------------------------

PAGE_SIZE = 200
_LOGINS = Rate(1, "5s")  # the server allows 5 in 20 s per client address
_SESSION = "x-nd-authorization"
_NOT_THERE = frozenset({"not_found", "no_server", "html_answer", "redirected", "not_supported"})


class Native:
    """The native API. Every response renews the session, and an expired one causes a new login."""

    def __init__(self, client: ProviderClient, base: str, values: Mapping[str, str], context: ProviderContext) -> None:
        self._client, self._base, self._values, self._context = client, base, values, context
        self._session = values.get("session", "")
        self._login = asyncio.Lock()

    async def scrobbles(self, since: int, start: int) -> list[object] | None:
        """Return a page of the log, oldest first; None if this version has none."""
        try:
            answer = await self._ask("scrobble", [*_page("submission_time", "ASC", start), ("from", since)])
        except ServiceError as error:
            fault = self._client.verdict(error)
            if fault is None or fault.code not in _NOT_THERE:
                raise
            return None
        return rows(answer.json, "list of scrobbles")

    async def songs(self, refs: Sequence[str]) -> list[object]:
        answer = await self._ask("song", [("_start", 0), ("_end", len(refs)), *(("id", ref) for ref in refs)])
        return rows(answer.json, "list of songs")

    async def last_played(self, start: int) -> list[object]:
        return rows((await self._ask("song", _page("play_date", "DESC", start))).json, "list of songs")

    async def _ask(self, path: str, query: Values) -> ProviderResponse:
        session = self._session or await self._logged_in("")
        try:
            answer = await self._asked(path, query, session)
        except ServiceError as error:
            if error.response.status_code != 401:
                raise
            answer = await self._asked(path, query, await self._logged_in(session))
        self._session = answer.headers.get(_SESSION, "").removeprefix("Bearer ") or self._session
        return answer

    async def _asked(self, path: str, query: Values, session: str) -> ProviderResponse:
        headers = {_SESSION: f"Bearer {session}"}
        return await self._client.ask(ProviderRequest(url=f"{self._base}/api/{path}", query=query, headers=headers))

    async def _logged_in(self, refused: str) -> str:
        """Return a session other than the rejected one. It is saved before it is used."""
        async with self._login:
            if self._session and self._session != refused:
                return self._session
            await self._context.paces.turn(f"navidrome login {self._base}", _LOGINS)
            body = {"username": self._values["user"], "password": self._values["password"]}
            answer = await self._client.ask(ProviderRequest(url=f"{self._base}/auth/login", body=body))
            session = token(mapping(answer.json, "object").get("token"))
            if not session:
                raise WrongShape("token")
            await self._context.save({"session": session})
            self._session = session
            return session


def _page(sort: str, order: str, start: int) -> list[tuple[str, str | int]]:
    return [("_sort", sort), ("_order", order), ("_start", start), ("_end", start + PAGE_SIZE)]


# -- Subsonic API ------------------------------------------------------------------------------------------------------
# A response with status 200 may be a failure, which the rules recognize.

_VERSION, _NAME = "1.16.1", "tidegate"


class Subsonic:
    """Authenticates every request with a salted hash of the password."""

    def __init__(self, client: ProviderClient, base: str, user: str, password: str) -> None:
        self._client, self._base, self._user, self._password = client, base, user, password

    async def ping(self) -> None:
        await self._ask("ping")

    async def heads(self) -> tuple[list[PlaylistHead], list[RejectedRow]]:
        """Return the playlists of the user and public ones."""
        listed = part(await self._ask("getPlaylists"), "playlists")
        return read_rows(rows(listed.get("playlist"), "list of playlists"), _head)

    async def songs(self, head: PlaylistHead) -> tuple[Song, ...]:
        playlist = mapping((await self._ask("getPlaylist", id=head.ref)).get("playlist"), "playlist")
        songs, _ = read_rows(rows(playlist.get("entry"), "list of songs")[:MAX_SONGS], _subsonic_song)
        return tuple(songs)

    async def _ask(self, method: str, **given: str) -> Mapping[str, object]:
        salt = secrets.token_hex(8)
        token = hashlib.md5(f"{self._password}{salt}".encode(), usedforsecurity=False).hexdigest()
        login = {"u": self._user, "t": token, "s": salt, "v": _VERSION, "c": _NAME, "f": "json"}
        answer = await self._client.ask(ProviderRequest(url=f"{self._base}/rest/{method}", query={**login, **given}))
        return mapping(mapping(answer.json, "object").get("subsonic-response"), "subsonic-response")


def _head(row: Mapping[str, object]) -> PlaylistHead:
    # An empty list of songs is omitted, so the count distinguishes an empty playlist from a hidden one.
    version = f"{text(row.get('changed'))} {text(row.get('songCount'))}" if row.get("changed") else ""
    return PlaylistHead(
        ref=required_text(row, "id"), name=text(row.get("name")), about=text(row.get("comment")), version=version
    )


def _subsonic_song(row: Mapping[str, object]) -> Song:
    return Song(
        title=required_text(row, "title"),
        artist=required_text(row, "artist"),
        album=text(row.get("album")),
        mbid=mbid(row.get("musicBrainzId")),
        isrc=isrc(row.get("isrc")),
        seconds=number(row.get("duration")),
        ref=text(row.get("id")),
    )


_TOGETHER = 50
_MAX_PAGES = 500
_MAX_KNOWN, _REMEMBERED = 5000, 6 * 3600.0  # songs, and seconds after which they are requested again
_NEVER = "0001-"
_OVERLAP = 3600.0  # seconds: apps submit offline plays later


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
            # A play may have a date in the future. Our clock alone never advances the mark: it may be wrong.
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
        # A server may have no log, or one that starts later. Plays in both have the same second, and so the same ref.
        for plays, bad in await self._last_plays(since):
            more = [play for play in plays if play.ref not in heard]
            if more or bad or first is None:
                yield more, bad

    async def _with_songs(self, page: Sequence[object], since: int) -> tuple[list[Play], list[RejectedRow]]:
        """Request the songs of a page, because the log only has ids. They are cached for a while."""
        known, now = self._known, self._clock.monotonic()
        if now >= self._known_until or len(known) > _MAX_KNOWN:
            known.clear()
            self._known_until = now + _REMEMBERED
        heard, bad = read_rows(page, _scrobble)
        heard = [play for play in heard if play[1] >= since]
        missing = sorted({ref for ref, _ in heard} - known.keys())
        for at in range(0, len(missing), _TOGETHER):
            songs, unread = read_rows(await self._native.songs(missing[at : at + _TOGETHER]), _song)
            known.update((song.ref, song) for song in songs)
            bad += unread
        bad += [RejectedRow(row=ref, why="the server no longer has this song") for ref, _ in heard if ref not in known]
        return [_play(known[ref], when) for ref, when in heard if ref in known], bad

    async def _last_plays(self, since: int) -> list[tuple[list[Play], list[RejectedRow]]]:
        """Return the last play of each song, which is all there is without a log. The oldest page comes first."""
        pages = []
        for number_of_page in range(_MAX_PAGES):
            page = await self._native.last_played(number_of_page * PAGE_SIZE)
            plays, bad = read_rows(page, _last_play)
            wanted = sorted((play for play in plays if play.at >= since), key=lambda play: play.at)
            pages.append((wanted, bad))
            if len(page) < PAGE_SIZE or len(wanted) + len(bad) < len(page):
                break  # the rest was played earlier or never
        return pages[::-1]


def _base(values: Mapping[str, str]) -> str:
    try:
        return server(values.get("url", ""))
    except ValueError:
        return ""  # makes every call fail with the message that no server is set


def _scrobble(row: Mapping[str, object]) -> tuple[str, int]:
    return required_text(row, "mediaFileId"), _second(row.get("submissionTime"), "submissionTime")


def _second(value: object, name: str) -> int:
    at = moment(value)
    if at is None:
        raise BadRow(f"it has no {name}")
    return int(at)


def _last_play(row: Mapping[str, object]) -> Play | None:
    # Songs that were never played come last, without a date or with that of the year one.
    never = not row.get("playDate") or text(row["playDate"]).startswith(_NEVER)
    return None if never else _play(_song(row), _second(row["playDate"], "playDate"))


def _play(song: Song, at: int) -> Play:
    return Play(ref=f"{song.ref}@{at}", at=float(at), song=song)


def _song(row: Mapping[str, object]) -> Song:
    # Releases differ in the case of these names.
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
