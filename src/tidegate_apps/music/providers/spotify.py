"""Spotify: recent plays and playlists, with two generations of its API."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from urllib.parse import urlencode, urlsplit

from tidegate import Rate, rules
from tidegate_apps.music.client import ProviderClient, ProviderRequest, ProviderResponse, ServiceError
from tidegate_apps.music.merge import MAX_SONGS, PlaylistHead, Playlists
from tidegate_apps.music.parsing import (
    BadRow,
    WrongShape,
    isrc,
    mapping,
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
    Gap,
    LoginRedirect,
    LoginRefused,
    Operation,
    Play,
    Playlist,
    Provider,
    ProviderConnection,
    ProviderContext,
    ProviderKind,
    RejectedRow,
    Returned,
    Song,
)

# -- tokens ------------------------------------------------------------------------------------------------------------
# They are never deleted here.

ACCOUNTS = "https://accounts.spotify.com"
SCOPES = "user-read-recently-played playlist-read-private playlist-read-collaborative"
CONSENT = 182 * 86400.0  # seconds: a refresh token expires six months after the consent
_RENEW_BEFORE_SECONDS = 60.0  # seconds before its expiry that a token is renewed
_HOUR = 3600.0
_LOOPBACK = ("127.0.0.1", "::1")  # Spotify rejects the name localhost
_TOTAL = 15.0  # seconds; a stopping loop waits for a renewal


class Tokens:
    """The access token of one connection. Concurrent callers share one renewal, and it is saved before it is used.

    A started renewal is completed even if all callers are cancelled: the old token may be invalid by then.
    """

    def __init__(self, values: Mapping[str, str], client: ProviderClient, context: ProviderContext) -> None:
        self._values, self._client, self._context = dict(values), client, context
        self._unsaved: Mapping[str, str] = {}
        self._renewal: asyncio.Task[None] | None = None

    async def current(self) -> str:
        """Return a valid token. One that is about to expire is renewed first."""
        ends = number(self._values.get("expires_at"))
        stale = not self._values.get("access_token") or (
            ends is not None and ends - _RENEW_BEFORE_SECONDS <= self._context.clock.now()
        )
        if self._unsaved or (stale and self.renewable):
            await self._renewed()
        return self._values.get("access_token", "")

    async def other_than(self, refused: str) -> str:
        """Return a token other than the rejected one."""
        if self._values.get("access_token") == refused:
            await self._renewed()
        return self._values.get("access_token", "")

    @property
    def renewable(self) -> bool:
        return bool(self._values.get("refresh_token"))

    async def aclose(self) -> None:
        """Wait for a running renewal."""
        if self._renewal is not None:
            await asyncio.wait([self._renewal])

    async def _renewed(self) -> None:
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew())
            self._renewal.add_done_callback(_looked_at)
        await asyncio.shield(self._renewal)

    async def _renew(self) -> None:
        if not self._unsaved:
            form = {"grant_type": "refresh_token", "refresh_token": self._values["refresh_token"]}
            self._unsaved = await request_tokens(self._values, form, self._client, self._context)
        # If this fails, the next call saves the same tokens again, without another request.
        await self._context.save(self._unsaved)
        self._values |= self._unsaved
        self._unsaved = {}


def _looked_at(renewal: asyncio.Task[None]) -> None:
    """Waiting callers get the error. Without any, the next call meets it again."""
    if not renewal.cancelled():
        renewal.exception()


async def request_tokens(
    values: Mapping[str, str], form: Mapping[str, str], calls: ProviderClient, context: ProviderContext
) -> Mapping[str, str]:
    """Return the tokens as values to save. If there is no new refresh token, the old one stays."""
    client, secret = values["client_id"], values.get("client_secret")
    login = base64.b64encode(f"{client}:{secret}".encode()).decode()
    url = f"{context.addresses.get('spotify_accounts', ACCOUNTS).rstrip('/')}/api/token"
    headers = {"Authorization": f"Basic {login}"} if secret else {}
    form = {**form, **({} if secret else {"client_id": client})}
    answer = await calls.ask(ProviderRequest(url=url, headers=headers, form=form, total=_TOTAL))
    document = mapping(answer.json, "object")
    access, refresh = token(document.get("access_token")), token(document.get("refresh_token"))
    if not access:
        raise WrongShape("access_token")
    ends = context.clock.now() + (number(document.get("expires_in")) or _HOUR)
    scope = text(document.get("scope"))
    tokens = {"access_token": access, "refresh_token": refresh, "scope": scope, "expires_at": str(int(ends))}
    return {name: value for name, value in tokens.items() if value}


class Login:
    """Authorization code flow with PKCE: an intercepted code is useless."""

    required = True

    def __init__(self, client: Callable[[Mapping[str, str], ProviderContext], ProviderClient]) -> None:
        self._client = client

    def begin(self, values: Mapping[str, str], *, redirect: str, state: str, context: ProviderContext) -> LoginRedirect:
        base = context.addresses.get("spotify_accounts", ACCOUNTS).rstrip("/")
        back = urlsplit(redirect)
        if base == ACCOUNTS and back.scheme != "https" and back.hostname not in _LOOPBACK:
            raise LoginRefused(
                "Spotify sends a browser back to https, or to http://127.0.0.1, and nowhere else. "
                "Open this page at such an address, or set music.public_url to it."
            )
        verifier = secrets.token_urlsafe(64)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": values["client_id"],
            "scope": SCOPES,
            "redirect_uri": redirect,
            "state": state,
            "code_challenge_method": "S256",
            "code_challenge": challenge,
        }
        return LoginRedirect(url=f"{base}/authorize?{urlencode(query)}", verifier=verifier)

    async def finish(self, values: Mapping[str, str], returned: Returned) -> Mapping[str, str]:
        context = returned.context
        if not returned.answer.get("code"):
            raise LoginRefused("Spotify has given no permission. Connect once more and allow the access.")
        form = {
            "grant_type": "authorization_code",
            "code": returned.answer["code"],
            "redirect_uri": returned.redirect,
            "code_verifier": returned.verifier,
        }
        tokens = await request_tokens(values, form, self._client(values, context), context)
        return {**tokens, "authorized_at": str(int(context.clock.now()))}


def consent_ends(values: Mapping[str, str]) -> float | None:
    """Return when the authorization of the user expires."""
    authorized_at = number(values.get("authorized_at"))
    return None if authorized_at is None else authorized_at + CONSENT


_ADDRESS = "https://api.spotify.com"
_PAGE_SIZE = 50
_MAX_PAGES = 40  # of plays and of playlists
_OVERLAP = 3600_000  # milliseconds: players submit offline plays later


class Spotify(Provider):
    """One account. After a rejected token the call is repeated once with a renewed one."""

    def __init__(self, connection: ProviderConnection, context: ProviderContext) -> None:
        self._base = f"{context.addresses.get('spotify', _ADDRESS).rstrip('/')}/v1"
        self._client = _calls(connection.values, context)
        self._tokens = Tokens(connection.values, self._client, context)
        self._playlists = Playlists(self._client, self._songs)
        self._contents = ["items", "tracks"]  # the newer name first; the working one moves to the front
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
            # A play may have a date in the future. Our clock alone never advances the mark: it may be wrong.
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
            playlists = rows(page.get("items"), "list of playlists")
            good, unread = read_rows((row for row in playlists if row is not None), _head)
            heads += good
            bad += unread
            if not page.get("next") or not playlists:
                break
        async for batch in self._playlists.each(heads, bad):
            yield batch

    async def aclose(self) -> None:
        await self._tokens.aclose()

    async def _since(self, after: int) -> tuple[list[Play], list[RejectedRow], bool]:
        """Return plays after a time, oldest first, and whether there may be more.

        Spotify does not document which plays come if there are more than a page: the newest, or the earliest after the
        time. So this walks back from the first page to the time, and then requests again from the newest on.
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
        plays = rows(mapping(answer.json, "page of plays").get("items"), "list of plays")
        return *read_rows(plays, _play), len(plays) >= _PAGE_SIZE

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
        """Return the songs if the app has the older API; else the error of the newer call."""
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
                return None  # only the name of another user's playlist is visible
            page_songs, _ = read_rows(rows(page["items"], "list of songs"), _entry)
            songs += page_songs
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
        # It was rejected before execution, so repeating it is safe for any method.
        return await self._asked(path, query, await self._tokens.other_than(token))

    async def _asked(self, path: str, query: Mapping[str, str | int], token: str) -> ProviderResponse:
        headers = {"Authorization": f"Bearer {token}"}
        return await self._client.ask(ProviderRequest(url=f"{self._base}/{path}", query=query, headers=headers))


def _ms(play: Play) -> int:
    return round(play.at * 1000)


def _gap(reached: int, plays: list[Play]) -> Gap | None:
    """Return the gap between the mark and a full page that does not reach it: there may have been more plays."""
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
    # A removed song is null. An episode is not music.
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
        ref=text(row.get("id")) or text(row.get("uri")),  # a local file of the user has no id
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
