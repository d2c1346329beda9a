"""A simulated Spotify: the Web API in two generations with a 30-second rate window, and its accounts service."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from html import escape
from urllib.parse import urlencode

from tidegate.testing import RecordedRequest, Simulator, Step
from tidegate_demo.simulators.music.base import HTML, TRACKS, CatalogueTrack, Fault, Listened, Time

# -- accounts service: consents with times and scopes, codes with PKCE, rotating or fixed tokens -----------------------

CLIENT, SECRET = "tidegate-simulated", "rising tide"
SCOPES = "user-read-recently-played playlist-read-private playlist-read-collaborative"
_SIX_MONTHS = 182 * 86400.0
_FIELDS = ("client_id", "redirect_uri", "state", "scope", "code_challenge")


def refused(error: str, said: str, status: int = 400) -> Step:
    """Return an error in the format of the accounts service."""
    return Step(status, {"error": error, "error_description": said})


REVOKED = refused("invalid_grant", "Refresh token revoked")


@dataclass
class Consent:
    """The scopes that a user has allowed, and when; *refresh*: the valid refresh tokens."""

    user: str
    at: float
    scopes: str
    refresh: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class AuthorizationCode:
    """A code for a browser, valid once."""

    user: str
    scopes: str
    redirect: str
    challenge: str


class Accounts:
    """*rotates*: each renewal issues a new refresh token and invalidates the old one.

    *lasts*: seconds of an access token.
    """

    def __init__(self, clock: Time) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Reset all state."""
        self.rotates = False
        self.lasts = 3600.0
        self.secret = SECRET
        self.consents: dict[str, Consent] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._access: dict[str, tuple[str, float]] = {}
        self._made = 0

    def consent(self, user: str, scopes: str = SCOPES) -> dict[str, str]:
        """Create a consent and return its tokens as values. Earlier tokens of the user become invalid."""
        self._access = {token: access for token, access in self._access.items() if access[0] != user}
        self.consents[user] = Consent(user, self._clock.now(), scopes)
        refresh = self._new("refresh")
        self.consents[user].refresh.add(refresh)
        now = self._clock.now()
        return {
            "access_token": self._token(user),
            "refresh_token": refresh,
            "scope": scopes,
            "expires_at": f"{now + self.lasts:.0f}",
            "authorized_at": f"{now:.0f}",
        }

    def revoke(self, user: str) -> None:
        """Revoke the consent, as a user may at any time at Spotify."""
        self.consents.pop(user, None)
        self._access = {token: access for token, access in self._access.items() if access[0] != user}

    def end_access(self, user: str) -> None:
        """Invalidate the access tokens of a user; the consent stays."""
        self._access = {token: access for token, access in self._access.items() if access[0] != user}

    def holder(self, token: str) -> Consent | None:
        """Return the user of a valid access token."""
        user, ends = self._access.get(token, ("", 0.0))
        return self.consents.get(user) if ends > self._clock.now() else None

    # -- responses -----------------------------------------------------------------------------------------------------

    def authorize(self, request: RecordedRequest) -> object:
        """Return the consent page."""
        fields = {name: request.query.get(name, "") for name in _FIELDS}
        if fields["client_id"] != CLIENT or request.query.get("response_type") != "code":
            return Step(400, "INVALID_CLIENT: Invalid client", HTML)
        hidden = "".join(f'<input type="hidden" name="{name}" value="{escape(v)}">' for name, v in fields.items())
        buttons = "".join(f'<button name="say" value="{say}">{word}</button>' for say, word in _BUTTONS.items())
        form = f'<label>Account <input name="user" value="ann"></label>{hidden}{buttons}'
        return Step(200, f"<!DOCTYPE html><title>Simulated Spotify</title><form method='post'>{form}</form>", HTML)

    def authorized(self, request: RecordedRequest) -> object:
        """Redirect the browser back, with or without a code."""
        form = request.form
        state = {"state": form.get("state", "")}
        if form.get("say") != "yes":
            return _to(form.get("redirect_uri", ""), {"error": "access_denied", **state})
        code = self._new("code")
        scopes, redirect = form.get("scope", ""), form.get("redirect_uri", "")
        self._codes[code] = AuthorizationCode(
            form.get("user") or "ann", scopes, redirect, form.get("code_challenge", "")
        )
        return _to(redirect, {"code": code, **state})

    def token(self, request: RecordedRequest) -> object:
        """Return tokens for a code or a refresh token."""
        form = request.form
        if not self._client(request, form):
            return refused("invalid_client", "Invalid client secret")
        match form.get("grant_type"):
            case "authorization_code":
                return self._for_code(form)
            case "refresh_token":
                return self._for_refresh(form)
        return refused("unsupported_grant_type", "grant_type must be one of authorization_code, refresh_token")

    def _client(self, request: RecordedRequest, given: Mapping[str, str]) -> bool:
        kind, _, login = request.headers.get("authorization").partition(" ")
        if kind == "Basic":
            try:
                return base64.b64decode(login).decode() == f"{CLIENT}:{self.secret}"
            except (binascii.Error, UnicodeDecodeError):
                return False
        return given.get("client_id") == CLIENT

    def _for_code(self, given: Mapping[str, str]) -> object:
        code = self._codes.pop(given.get("code", ""), None)
        if code is None or code.redirect != given.get("redirect_uri"):
            return refused("invalid_grant", "Invalid authorization code")
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != code.challenge:
            return refused("invalid_grant", "code_verifier was incorrect")
        tokens = self.consent(code.user, code.scopes)
        return self._sent(tokens["access_token"], code.scopes, tokens["refresh_token"])

    def _for_refresh(self, given: Mapping[str, str]) -> object:
        token = given.get("refresh_token", "")
        consent = next((candidate for candidate in self.consents.values() if token in candidate.refresh), None)
        if consent is None:
            return REVOKED
        if self._clock.now() - consent.at > _SIX_MONTHS:
            return refused("invalid_grant", "Refresh token expired")
        if not self.rotates:
            return self._sent(self._token(consent.user), consent.scopes)
        new = self._new("refresh")
        consent.refresh = {new}
        return self._sent(self._token(consent.user), consent.scopes, new)

    def _sent(self, access: str, scopes: str, refresh: str = "") -> Step:
        said = {"access_token": access, "token_type": "Bearer", "scope": scopes, "expires_in": int(self.lasts)}
        return Step(200, {**said, "refresh_token": refresh} if refresh else said)

    def _token(self, user: str) -> str:
        now = self._clock.now()
        self._access = {token: access for token, access in self._access.items() if access[1] > now}
        token = self._new("access")
        self._access[token] = (user, now + self.lasts)
        return token

    def _new(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{hashlib.sha256(f'{kind} {self._made}'.encode()).hexdigest()[:40]}"


_BUTTONS = {"yes": "Allow", "no": "Cancel"}


def _to(where: str, query: Mapping[str, str]) -> Step:
    return Step(302, b"", {"Location": f"{where}{'&' if '?' in where else '?'}{urlencode(query)}"})


_WINDOW = 30.0


def said(status: int, message: str, *, reason: str = "", retry_after: float | None = None) -> Step:
    """Return an error in the format of the Web API."""
    error = {"status": status, "message": message, **({"reason": reason} if reason else {})}
    return Step(status, {"error": error}, retry_after=retry_after)


FAULTS: Mapping[str, Fault] = {
    "token_expired": said(401, "The access token expired"),
    "token_invalid": said(401, "Invalid access token"),
    "scope_missing": said(403, "Insufficient client scope"),
    "not_registered": said(403, "User not registered in the Developer Dashboard"),
    "forbidden": said(403, "Forbidden"),
    "premium_required": said(403, "Player command failed: Premium required", reason="PREMIUM_REQUIRED"),
    "owner_not_premium": said(403, "Active premium subscription required for the owner of the app."),
    "not_found": said(404, "Resource not found"),
    "too_fast": said(429, "API rate limit exceeded", retry_after=17),
    "too_fast_for_hours": said(429, "API rate limit exceeded", retry_after=40_000),
    "quota_exceeded": said(429, "Quota exceeded", reason="QUOTA_EXCEEDED"),
    "server_error": said(500, "Server error."),
    "bad_gateway_said": said(502, "Bad gateway."),
    "unavailable_said": said(503, "Service unavailable"),
    "mass_invalid_grant": REVOKED,  # for all users, although none has revoked a consent
    "invalid_client": refused("invalid_client", "Invalid client"),
    "token_too_fast": Step(429, {"error": "too_many_requests"}, retry_after=9),
    "token_broken": Step(503, "upstream connect error"),
    "private_session": Step(204, b""),
}

Reply = Callable[[Consent, RecordedRequest], object]


@dataclass
class OwnedList:
    """A playlist; its songs are numbers of the catalogue, None is a removed one."""

    name: str
    owner: str
    songs: list[int | None] = field(default_factory=list)
    snapshot: int = 1
    exists: bool = True


class SpotifyService(Listened):
    """*generation*: "new" lists playlists as `items`, "old" as `tracks`. *limit*: requests in 30 s."""

    name = "spotify"
    faults = FAULTS

    def __init__(self, clock: Time, every: float | None = None) -> None:
        self.accounts = Accounts(clock)
        super().__init__(clock, every)

    def begin(self) -> None:
        super().begin()
        self.accounts.begin()
        self.playlists: dict[str, OwnedList] = {}
        self.generation = "new"
        self.limit = 100
        self.kept = 50  # plays that the history returns
        self.newest_first = True  # what a full page after a time contains: the newest plays, or the earliest
        self._requests: deque[float] = deque()

    def user(self, name: str) -> dict[str, str]:
        """Create an account with all scopes, and return its tokens."""
        self._opened(name)
        return self.accounts.consent(name)

    def _opened(self, name: str) -> None:
        """Create an account with two playlists and one of another user."""
        self.playlists.setdefault(f"{name}1", OwnedList(f"Road songs of {name}", name, [1, 2, None, 17]))
        self.playlists.setdefault(f"{name}2", OwnedList("Nothing yet", name))
        self.playlists.setdefault(f"{name}3", OwnedList("Made for you", "spotify", [3, 4]))
        self.listening.heard(name)

    def mount(self, sim: Simulator) -> None:
        self._route(sim, "authorize", "GET /authorize", self.accounts.authorize)
        self._route(sim, "authorized", "POST /authorize", self.accounts.authorized)
        self._route(sim, "token", "POST /api/token", self.accounts.token)
        calls: Mapping[str, tuple[str, str, Reply]] = {
            "me": ("/v1/me", "", self._me),
            "recently-played": ("/v1/me/player/recently-played", "user-read-recently-played", self._recent),
            "playlists": ("/v1/me/playlists", "playlist-read-private", self._lists),
            "items": ("/v1/playlists/{id}/items", "", partial(self._songs, generation="new")),
            "tracks": ("/v1/playlists/{id}/tracks", "", partial(self._songs, generation="old")),
        }
        for where, (path, scope, reply) in calls.items():
            self._route(sim, where, f"GET {path}", partial(self._let_in, scope=scope, reply=reply))

    def _let_in(self, request: RecordedRequest, scope: str, reply: Reply) -> object:
        now = self.clock.now()
        while self._requests and now - self._requests[0] >= _WINDOW:
            self._requests.popleft()
        if len(self._requests) >= self.limit:
            wait = max(1.0, self._requests[0] + _WINDOW - now)
            return said(429, "API rate limit exceeded", retry_after=round(wait))
        self._requests.append(now)
        kind, _, token = request.headers.get("authorization").partition(" ")
        if kind != "Bearer" or not token:
            return said(401, "No token provided")
        consent = self.accounts.holder(token)
        if consent is None:
            return FAULTS["token_expired"]
        if scope and scope not in consent.scopes.split():
            return FAULTS["scope_missing"]
        self._opened(consent.user)  # a user who came through the login page
        return reply(consent, request)

    def _me(self, consent: Consent, request: RecordedRequest) -> object:
        return {"id": consent.user, "display_name": consent.user.title()}

    def _recent(self, consent: Consent, request: RecordedRequest) -> object:
        query = request.query
        if "after" in query and "before" in query:
            return said(400, "Only one of after and before may be given")
        after, before = int(query.get("after", 0)), int(query.get("before", 10**15))
        heard = self.listening.heard(consent.user)[-self.kept :]
        plays = [(round(at * 1000), track) for at, track in heard]
        wanted = [(at, track) for at, track in plays if after < at < before]
        limit = int(query.get("limit", 20))
        page = (wanted[:limit] if "after" in query and not self.newest_first else wanted[-limit:])[::-1]
        items = [{"track": _track(track), "played_at": _date(at / 1000), "context": None} for at, track in page]
        times = [str(at) for at, _ in page]
        cursors = {"after": times[0], "before": times[-1]} if times else None
        return {"items": items, "next": "more" if len(wanted) > limit else None, "cursors": cursors, "limit": limit}

    def _lists(self, consent: Consent, request: RecordedRequest) -> object:
        playlists = [
            self._listed(ref, playlist)
            for ref, playlist in self.playlists.items()
            if playlist.exists and (playlist.owner == consent.user or ref.startswith(consent.user))
        ]
        return _paged(playlists, request)

    def _listed(self, ref: str, found: OwnedList) -> dict[str, object]:
        contents = {"href": f"/v1/playlists/{ref}", "total": len(found.songs)}
        return {
            "id": ref,
            "name": found.name,
            "description": "",
            "public": False,
            "owner": {"id": found.owner},
            "snapshot_id": f"snapshot {found.snapshot}",
            "images": None,
            "items" if self.generation == "new" else "tracks": contents,
        }

    def _songs(self, consent: Consent, request: RecordedRequest, generation: str) -> object:
        if generation != self.generation:
            return FAULTS["forbidden"] if generation == "old" else FAULTS["not_found"]
        playlist = self.playlists.get(request.params["id"])
        if playlist is None or not playlist.exists:
            return FAULTS["not_found"]
        if playlist.owner != consent.user:
            return FAULTS["forbidden"] if self.generation == "new" else FAULTS["not_found"]
        word = "item" if self.generation == "new" else "track"
        rows: list[dict[str, object]] = [
            {"added_at": _date(0), "is_local": False, word: None if song is None else _track(TRACKS[song])}
            for song in playlist.songs
        ]
        return _paged(rows, request)


def _paged(found: list[dict[str, object]], request: RecordedRequest) -> dict[str, object]:
    limit, offset = int(request.query.get("limit", 20)), int(request.query.get("offset", 0))
    more = offset + limit < len(found)
    return {"items": found[offset : offset + limit], "next": "more" if more else None, "total": len(found)}


def _track(track: CatalogueTrack) -> dict[str, object]:
    ref = f"sp{track.number:020d}"
    return {
        "id": ref,
        "uri": f"spotify:track:{ref}",
        "type": "track",
        "name": track.title,
        "duration_ms": track.seconds * 1000,
        "album": {"name": track.album},
        "artists": [{"name": track.artist}],
        "external_ids": {"isrc": track.isrc},
        "external_urls": {"spotify": f"https://open.spotify.example/{ref}"},
    }


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
