"""Last.fm: plays from the history of an account. Numbers are text, and a single row has no list."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from tidegate import Rate, rules
from tidegate_apps.music.client import ProviderClient, ProviderRequest
from tidegate_apps.music.parsing import (
    BadRow,
    WrongShape,
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
    LoginRedirect,
    LoginRefused,
    Operation,
    Play,
    Provider,
    ProviderConnection,
    ProviderContext,
    ProviderKind,
    RejectedRow,
    Returned,
    Song,
)

_ADDRESS = "https://ws.audioscrobbler.com"
_WEB = "https://www.last.fm"
_PAGE_SIZE = 200
_OVERLAP = 3600.0  # seconds: players submit offline plays later
_MAX_WALKS = 5  # how often the history may change during a read
_MAX_PAGES = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """*total*: number of plays; *pages*: number of pages."""

    plays: tuple[Play, ...]
    bad: tuple[RejectedRow, ...]
    total: str
    pages: int


class _Shifted(Exception):
    """A play was added or deleted in the middle of the history."""


class LastFm(Provider):
    """Calls are signed after a login, which also shows a private history."""

    def __init__(self, connection: ProviderConnection, context: ProviderContext) -> None:
        self._values, self._clock = connection.values, context.clock
        self._client = _Client(self._values, context)

    async def check(self) -> None:
        await self._client.ask("user.getInfo", user=self._values["user"])

    async def plays(self, mark: str | None) -> AsyncIterator[Batch[Play]]:
        reached = moment(mark)
        since = self._clock.now() - LOOK_BACK if reached is None else reached - _OVERLAP
        for _ in range(_MAX_WALKS):
            try:
                async for page in self._walk(int(since)):
                    # A play may have a date in the future. Our clock alone never advances the mark: it may be wrong.
                    times = [min(play.at, self._clock.now()) for play in page.plays]
                    reached = max([*times, *([] if reached is None else [reached])], default=None)
                    since = max([since, *(play.at for play in page.plays)])
                    yield Batch(items=page.plays, bad=page.bad, mark=None if reached is None else str(int(reached)))
            except _Shifted:
                continue  # continue from the last batch
            return

    async def _walk(self, since: int) -> AsyncIterator[_Page]:
        """Yield the pages of the history, oldest first. Raises _Shifted if it changed meanwhile."""
        first = await self._page(since, None, 1)
        # The newest play limits all pages, because new plays would shift them. Our clock may be wrong.
        end = int(max((play.at for play in first.plays), default=since)) + 1
        for at in range(min(first.pages, _MAX_PAGES), 1, -1):
            page = await self._page(since, end, at)
            if page.total != first.total:
                raise _Shifted
            yield page
        yield first

    async def _page(self, since: int, end: int | None, at: int) -> _Page:
        bounds = {"from": since} if end is None else {"from": since, "to": end}
        document = await self._client.ask(
            "user.getRecentTracks", user=self._values["user"], limit=_PAGE_SIZE, page=at, **bounds
        )
        recent = mapping(document.get("recenttracks"), "recenttracks")
        about = part(recent, "@attr")
        plays, bad = read_rows(rows(recent.get("track"), "list of tracks"), _play)
        plays.reverse()
        pages = number(about.get("totalPages"))
        return _Page(plays=tuple(plays), bad=tuple(bad), total=text(about.get("total")), pages=max(1, int(pages or 1)))


class _Client:
    """Calls methods. Credentials are in the query, so errors only show the method."""

    def __init__(self, values: Mapping[str, str], context: ProviderContext) -> None:
        self._values = values
        self._url = f"{context.addresses.get('lastfm', _ADDRESS).rstrip('/')}/2.0/"
        self.calls = ProviderClient("lastfm", rules.lastfm, context, rate=kind.rate, key=kind.counted(values))

    async def ask(self, method: str, **given: str | int) -> Mapping[str, object]:
        query = {"method": method, "api_key": self._values["api_key"], **{k: str(v) for k, v in given.items()}}
        secret, session = self._values.get("shared_secret"), self._values.get("session_key")
        if secret and (session or method.startswith("auth.")):
            if session:
                query["sk"] = session
            query["api_sig"] = signature(query, secret)
        answer = await self.calls.ask(
            ProviderRequest(url=self._url, query={**query, "format": "json"}, shown=("method",))
        )
        return mapping(answer.json, "object")


def signature(query: Mapping[str, str], secret: str) -> str:
    """Return the signature of a call: MD5 of the sorted names and values and the secret."""
    signed = "".join(f"{name}{query[name]}" for name in sorted(query) if name not in ("format", "callback"))
    return hashlib.md5(f"{signed}{secret}".encode(), usedforsecurity=False).hexdigest()


def _play(row: Mapping[str, object]) -> Play | None:
    if part(row, "@attr").get("nowplaying") == "true":
        return None  # still playing, so it has no date
    at = moment(part(row, "date").get("uts"))
    if at is None:
        raise BadRow("it has no date")
    title, artist = required_text(row, "name"), part(row, "artist")
    name = text(artist.get("#text")) or text(artist.get("name"))
    if not name:
        raise BadRow("it has no artist")
    # Several songs may have the same second. The name distinguishes them.
    digest = hashlib.sha256(f"{name}\n{title}".encode()).hexdigest()[:16]
    song = Song(
        title=title,
        artist=name,
        album=text(part(row, "album").get("#text")),
        mbid=mbid(row.get("mbid")),
        artist_mbid=mbid(artist.get("mbid")),
        ref=text(row.get("url")),
    )
    return Play(ref=f"{int(at)}-{digest}", at=at, song=song)


class _Login:
    """A login in the browser. The return URL carries the state, because Last.fm has no parameter for it."""

    required = False

    def begin(self, values: Mapping[str, str], *, redirect: str, state: str, context: ProviderContext) -> LoginRedirect:
        back = f"{redirect}{'&' if '?' in redirect else '?'}{urlencode({'state': state})}"
        web = context.addresses.get("lastfm_web", _WEB).rstrip("/")
        return LoginRedirect(url=f"{web}/api/auth/?{urlencode({'api_key': values['api_key'], 'cb': back})}")

    async def finish(self, values: Mapping[str, str], returned: Returned) -> Mapping[str, str]:
        if not returned.answer.get("token"):
            raise LoginRefused("Last.fm has given no permission. Connect once more and allow the access.")
        if not values.get("shared_secret"):
            raise LoginRefused("The operator has not entered the shared secret of Last.fm; logins need it.")
        client = _Client({name: value for name, value in values.items() if name != "session_key"}, returned.context)
        document = await client.ask("auth.getSession", token=returned.answer["token"])
        session = part(document, "session")
        user, key = text(session.get("name")), token(session.get("key"))
        if not user or not key:
            raise WrongShape("session with a name and a key")
        return {"user": user, "session_key": key}


kind = ProviderKind(
    name="lastfm",
    title="Last.fm",
    about="What you played, from the history of your account.",
    operations=(Operation.PLAYS,),
    fields=(
        Field(name="user", label="User name"),
        Field(name="api_key", label="API key", secret=True, operator=True),
        Field(name="shared_secret", label="Shared secret", secret=True, operator=True, required=False),
        Field(name="session_key", label="Session", secret=True, required=False, hidden=True),
    ),
    every=300,
    rules=rules.lastfm,
    make=LastFm,
    rate=Rate(4, "1s", burst=5),
    counted=lambda values: values.get("api_key", ""),
    addresses={"lastfm": _ADDRESS, "lastfm_web": _WEB},
    oauth=_Login(),
)
