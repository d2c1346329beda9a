"""Spotify: what was played lately, and playlists. Two generations of its API are spoken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from tidegate import Rate, rules
from tidegate_apps.music.calls import ProviderClient, ProviderRequest, ProviderResponse, ServiceError
from tidegate_apps.music.contract import (
    LOOK_BACK,
    Batch,
    Gap,
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
from tidegate_apps.music.playlists import MAX_SONGS, PlaylistHead, Playlists
from tidegate_apps.music.providers.spotify_tokens import ACCOUNTS, Login, Tokens, consent_ends
from tidegate_apps.music.reading import (
    BadRow,
    isrc,
    mapping,
    moment,
    number,
    part,
    read_rows,
    required_text,
    rows,
    text,
)

_ADDRESS = "https://api.spotify.com"
_PAGE_SIZE = 50
_MAX_PAGES = 40  # of plays and of playlists
_OVERLAP = 3600_000  # milliseconds: players hand in what they played offline


class Spotify(Provider):
    """One account. A refused token is renewed once, and the call is made once more with the new one."""

    def __init__(self, connection: ProviderConnection, context: ProviderContext) -> None:
        self._base = f"{context.addresses.get('spotify', _ADDRESS).rstrip('/')}/v1"
        self._client = _calls(connection.values, context)
        self._tokens = Tokens(connection.values, self._client, context)
        self._playlists = Playlists(self._client, self._songs)
        self._contents = ["items", "tracks"]  # the newer name first; the first is the one that is right
        self._clock = context.clock

    async def check(self) -> None:
        await self._ask("me")

    async def plays(self, mark: str | None) -> AsyncIterator[Batch[Play]]:
        now = int(self._clock.now() * 1000)
        reached = int(number(mark) or 0)
        after = reached - _OVERLAP if reached else now - int(LOOK_BACK * 1000)
        for number_of_page in range(_MAX_PAGES):
            plays, bad, full = await self._since(after)
            gap = _gap(reached, plays) if full and reached and not number_of_page else None
            # A play may be dated in the future. Our own clock alone never moves the mark: it may be wrong.
            reached = max([reached, *(min(_ms(play), now) for play in plays)])
            yield Batch(items=tuple(plays), bad=tuple(bad), mark=str(reached) if reached else None, gap=gap)
            if not full or reached <= after:
                return
            after = reached

    async def playlists(self) -> AsyncIterator[Batch[Playlist]]:
        heads, bad = list[PlaylistHead](), list[RejectedRow]()
        for number_of_page in range(_MAX_PAGES):
            answer = await self._ask("me/playlists", limit=_PAGE_SIZE, offset=number_of_page * _PAGE_SIZE)
            page = mapping(answer.json, "page of playlists")
            found = rows(page.get("items"), "list of playlists")
            good, unread = read_rows((row for row in found if row is not None), _head)
            heads += good
            bad += unread
            if not page.get("next") or not found:
                break
        async for batch in self._playlists.each(heads, bad):
            yield batch

    async def aclose(self) -> None:
        await self._tokens.aclose()

    async def _since(self, after: int) -> tuple[list[Play], list[RejectedRow], bool]:
        """Plays after a moment, the oldest first, and whether there may be more.

        It is not said which of them come when there are more than a page: the newest, or those right after the moment.
        So it is walked back from the first page to the moment, and asked again from the newest on.
        """
        plays, bad, full = await self._page(after=after)
        page, more = plays, full
        for _ in range(_MAX_PAGES):
            if not more or not page or min(map(_ms, page)) <= after:
                break
            page, unread, more = await self._page(before=min(map(_ms, page)))
            page = [play for play in page if _ms(play) > after]
            plays, bad = [*page, *plays], [*bad, *unread]
        return sorted({play.ref: play for play in plays}.values(), key=_ms), bad, full

    async def _page(self, **where: int) -> tuple[list[Play], list[RejectedRow], bool]:
        answer = await self._ask("me/player/recently-played", limit=_PAGE_SIZE, **where)
        if answer.status == 204:
            return [], [], False
        found = rows(mapping(answer.json, "page of plays").get("items"), "list of plays")
        return *read_rows(found, _play), len(found) >= _PAGE_SIZE

    async def _songs(self, head: PlaylistHead) -> tuple[Song, ...] | None:
        first, *others = self._contents
        try:
            songs = await self._contents_of(head, first)
        except ServiceError as error:
            if not others or error.response.status_code not in (403, 404):
                raise
            songs = await self._by_the_older_name(head, others[0], error)
        else:
            self._contents = [first]
        return songs

    async def _by_the_older_name(self, head: PlaylistHead, name: str, newer: ServiceError) -> tuple[Song, ...] | None:
        """The songs, if the app is of the older generation; else what the newer call said."""
        try:
            songs = await self._contents_of(head, name)
        except ServiceError as error:
            if error.response.status_code not in (403, 404):
                raise
            raise newer from None
        self._contents = [name]
        return songs

    async def _contents_of(self, head: PlaylistHead, name: str) -> tuple[Song, ...] | None:
        songs: list[Song] = []
        for offset in range(0, MAX_SONGS, _PAGE_SIZE):
            answer = await self._ask(f"playlists/{head.ref}/{name}", limit=_PAGE_SIZE, offset=offset)
            page = mapping(answer.json, "page of songs")
            if not isinstance(page.get("items"), list):
                return None  # of somebody else's playlist there is nothing but the name
            found, _ = read_rows(rows(page["items"], "list of songs"), _entry)
            songs += found
            if not page.get("next") or not page["items"]:
                break
        return tuple(songs)

    async def _ask(self, path: str, **query: str | int) -> ProviderResponse:
        token = await self._tokens.current()
        try:
            return await self._asked(path, query, token)
        except ServiceError as error:
            if error.response.status_code != 401 or not self._tokens.renewable:
                raise
        # It was refused before it was carried out, so that it may be repeated, whatever it is.
        return await self._asked(path, query, await self._tokens.other_than(token))

    async def _asked(self, path: str, query: Mapping[str, str | int], token: str) -> ProviderResponse:
        headers = {"Authorization": f"Bearer {token}"}
        return await self._client.ask(ProviderRequest(url=f"{self._base}/{path}", query=query, headers=headers))


def _ms(play: Play) -> int:
    return round(play.at * 1000)


def _gap(reached: int, plays: list[Play]) -> Gap | None:
    """What lies between the mark and a full page that does not go back to it: there may have been more plays."""
    oldest = min(map(_ms, plays), default=0)
    return Gap(since=reached / 1000, until=oldest / 1000) if oldest > reached else None


def _play(row: Mapping[str, object]) -> Play:
    at = moment(row.get("played_at"))
    if at is None:
        raise BadRow("it has no played_at")
    song = _song(part(row, "track") or part(row, "item"))
    return Play(ref=f"{round(at * 1000)}-{song.ref}", at=at, song=song)


def _entry(row: Mapping[str, object]) -> Song | None:
    track = part(row, "item") or part(row, "track")
    # A song that was taken down is null; an episode is no music.
    return None if not track or track.get("type") == "episode" else _song(track)


def _song(row: Mapping[str, object]) -> Song:
    artists = row.get("artists")
    first = artists[0] if isinstance(artists, list) and artists else None
    artist = text(part({"first": first}, "first").get("name"))
    if not artist:
        raise BadRow("it has no artist")
    length = number(row.get("duration_ms"))
    return Song(
        title=required_text(row, "name"),
        artist=artist,
        album=text(part(row, "album").get("name")),
        isrc=isrc(part(row, "external_ids").get("isrc")),
        seconds=None if length is None else length / 1000,
        ref=text(row.get("id")) or text(row.get("uri")),  # a file of the user's own has no id
    )


def _head(row: Mapping[str, object]) -> PlaylistHead:
    return PlaylistHead(
        ref=required_text(row, "id"),
        name=text(row.get("name")),
        about=text(row.get("description")),
        version=text(row.get("snapshot_id")),
    )


def _calls(values: Mapping[str, str], context: ProviderContext) -> ProviderClient:
    return ProviderClient("spotify", rules.spotify, context, rate=kind.rate, key=kind.counted(values))


def _made(connection: ProviderConnection, context: ProviderContext) -> Provider | None:
    tokens = (connection.values.get(name) for name in ("access_token", "refresh_token"))
    return Spotify(connection, context) if any(tokens) else None


kind = ProviderKind(
    name="spotify",
    title="Spotify",
    about="What you played lately, and your playlists.",
    operations=(Operation.PLAYS, Operation.PLAYLISTS),
    fields=(
        Field(name="client_id", label="Client id", operator=True),
        Field(name="client_secret", label="Client secret", secret=True, operator=True, required=False),
        Field(name="access_token", label="Access token", secret=True, required=False, hidden=True),
        Field(name="refresh_token", label="Refresh token", secret=True, required=False, hidden=True),
        Field(name="expires_at", label="End of the access token", required=False, hidden=True),
        Field(name="authorized_at", label="Day of the consent", required=False, hidden=True),
        Field(name="scope", label="Permissions", required=False, hidden=True),
    ),
    every=300,
    rules=rules.spotify,
    make=_made,
    rate=Rate(2, "1s", burst=5),
    counted=lambda values: values.get("client_id", ""),
    addresses={"spotify": _ADDRESS, "spotify_accounts": ACCOUNTS},
    oauth=Login(_calls),
    ends=consent_ends,
)
