"""Spotify's tokens: how they are got, renewed and kept. None is ever deleted here."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Callable, Mapping
from urllib.parse import urlencode, urlsplit

from tidegate_apps.music.calls import ProviderClient, ProviderRequest
from tidegate_apps.music.contract import ProviderContext
from tidegate_apps.music.kind import LoginRedirect, LoginRefused, Returned
from tidegate_apps.music.reading import WrongShape, mapping, number, text, token

ACCOUNTS = "https://accounts.spotify.com"
SCOPES = "user-read-recently-played playlist-read-private playlist-read-collaborative"
CONSENT = 182 * 86400.0  # seconds: a refresh token dies six months after the consent, however often it is used
_RENEW_BEFORE_SECONDS = 60.0  # seconds before its end that a token is renewed
_HOUR = 3600.0
_LOOPBACK = ("127.0.0.1", "::1")  # by number; the name localhost is refused
_TOTAL = 15.0  # seconds; whoever ends a loop waits for a renewal


class Tokens:
    """The access token of one connection. It is renewed once for all who find it refused, and saved before it is used.

    A renewal that was begun is brought to its end even if nobody waits for it any more: the old token may be dead.
    """

    def __init__(self, values: Mapping[str, str], client: ProviderClient, context: ProviderContext) -> None:
        self._values, self._client, self._context = dict(values), client, context
        self._unsaved: Mapping[str, str] = {}
        self._renewal: asyncio.Task[None] | None = None

    async def current(self) -> str:
        """A token that should be good; one that is about to end is renewed first."""
        ends = number(self._values.get("expires_at"))
        stale = not self._values.get("access_token") or (
            ends is not None and ends - _RENEW_BEFORE_SECONDS <= self._context.clock.now()
        )
        if self._unsaved or (stale and self.renewable):
            await self._renewed()
        return self._values.get("access_token", "")

    async def other_than(self, refused: str) -> str:
        """A token other than the one that was refused."""
        if self._values.get("access_token") == refused:
            await self._renewed()
        return self._values.get("access_token", "")

    @property
    def renewable(self) -> bool:
        return bool(self._values.get("refresh_token"))

    async def aclose(self) -> None:
        """Waits for a renewal that is under way."""
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
        # If this fails, the next call saves the same tokens again instead of asking for others.
        await self._context.save(self._unsaved)
        self._values |= self._unsaved
        self._unsaved = {}


def _looked_at(renewal: asyncio.Task[None]) -> None:
    """Whoever waits gets the error; when nobody does any more, the next call meets it again."""
    if not renewal.cancelled():
        renewal.exception()


async def request_tokens(
    values: Mapping[str, str], form: Mapping[str, str], calls: ProviderClient, context: ProviderContext
) -> Mapping[str, str]:
    """What the accounts service grants, as values to save. Where it sends no new refresh token, the old one stays."""
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
    found = {"access_token": access, "refresh_token": refresh, "scope": scope, "expires_at": str(int(ends))}
    return {name: value for name, value in found.items() if value}


class Login:
    """The code flow with PKCE: whoever catches the code cannot use it."""

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
            "response_type": "code", "client_id": values["client_id"], "scope": SCOPES, "redirect_uri": redirect,
            "state": state, "code_challenge_method": "S256", "code_challenge": challenge,
        }  # fmt: skip
        return LoginRedirect(url=f"{base}/authorize?{urlencode(query)}", verifier=verifier)

    async def finish(self, values: Mapping[str, str], returned: Returned) -> Mapping[str, str]:
        context = returned.context
        if not returned.answer.get("code"):
            raise LoginRefused("Spotify has given no permission. Connect once more and allow the access.")
        form = {
            "grant_type": "authorization_code", "code": returned.answer["code"], "redirect_uri": returned.redirect,
            "code_verifier": returned.verifier,
        }  # fmt: skip
        found = await request_tokens(values, form, self._client(values, context), context)
        return {**found, "authorized_at": str(int(context.clock.now()))}


def consent_ends(values: Mapping[str, str]) -> float | None:
    """When the permission of the user ends by itself."""
    given = number(values.get("authorized_at"))
    return None if given is None else given + CONSENT
