"""Spotify's accounts service: consents with their times and scopes, codes with PKCE, tokens that rotate or do not."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from urllib.parse import urlencode

from tidegate.testing import RecordedRequest, Step
from tidegate_apps.music.simulators.listening import Time
from tidegate_apps.music.simulators.service import HTML

CLIENT, SECRET = "tidegate-simulated", "rising tide"
SCOPES = "user-read-recently-played playlist-read-private playlist-read-collaborative"
_SIX_MONTHS = 182 * 86400.0
_FIELDS = ("client_id", "redirect_uri", "state", "scope", "code_challenge")


def refused(error: str, said: str, status: int = 400) -> Step:
    """In the form of the accounts service."""
    return Step(status, {"error": error, "error_description": said})


REVOKED = refused("invalid_grant", "Refresh token revoked")


@dataclass
class Consent:
    """What a user has allowed, and when; *refresh*: the tokens that renew it."""

    user: str
    at: float
    scopes: str
    refresh: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class AuthorizationCode:
    """Issued to a browser, good once."""

    user: str
    scopes: str
    redirect: str
    challenge: str


class Accounts:
    """*rotates*: each renewal brings a new refresh token and ends the old one. *lasts*: seconds of an access token."""

    def __init__(self, clock: Time) -> None:
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        """Everything as at the start."""
        self.rotates = False
        self.lasts = 3600.0
        self.secret = SECRET
        self.consents: dict[str, Consent] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._access: dict[str, tuple[str, float]] = {}
        self._made = 0

    def consent(self, user: str, scopes: str = SCOPES) -> dict[str, str]:
        """A consent of now, and its tokens as a program keeps them; any earlier ones of the user are worth nothing."""
        self._access = {token: each for token, each in self._access.items() if each[0] != user}
        self.consents[user] = Consent(user, self._clock.now(), scopes)
        refresh = self._new("refresh")
        self.consents[user].refresh.add(refresh)
        now = self._clock.now()
        return {
            "access_token": self._token(user), "refresh_token": refresh, "scope": scopes,
            "expires_at": f"{now + self.lasts:.0f}", "authorized_at": f"{now:.0f}",
        }  # fmt: skip

    def revoke(self, user: str) -> None:
        """As the user may at any time, on a page of Spotify."""
        self.consents.pop(user, None)
        self._access = {token: each for token, each in self._access.items() if each[0] != user}

    def end_access(self, user: str) -> None:
        """The access tokens of a user are refused from now on; the consent stays."""
        self._access = {token: each for token, each in self._access.items() if each[0] != user}

    def holder(self, token: str) -> Consent | None:
        """Whose access token this is, as long as it is good."""
        user, ends = self._access.get(token, ("", 0.0))
        return self.consents.get(user) if ends > self._clock.now() else None

    # -- answers ---------------------------------------------------------------------------------------------------

    def authorize(self, request: RecordedRequest) -> object:
        """The page on which a user says yes or no."""
        given = {name: request.query.get(name, "") for name in _FIELDS}
        if given["client_id"] != CLIENT or request.query.get("response_type") != "code":
            return Step(400, "INVALID_CLIENT: Invalid client", HTML)
        hidden = "".join(f'<input type="hidden" name="{name}" value="{escape(v)}">' for name, v in given.items())
        buttons = "".join(f'<button name="say" value="{say}">{word}</button>' for say, word in _BUTTONS.items())
        form = f'<label>Account <input name="user" value="ann"></label>{hidden}{buttons}'
        return Step(200, f"<!DOCTYPE html><title>Simulated Spotify</title><form method='post'>{form}</form>", HTML)

    def authorized(self, request: RecordedRequest) -> object:
        """Sends the browser back, with a code or without."""
        given = request.form
        state = {"state": given.get("state", "")}
        if given.get("say") != "yes":
            return _to(given.get("redirect_uri", ""), {"error": "access_denied", **state})
        code = self._new("code")
        scopes, redirect = given.get("scope", ""), given.get("redirect_uri", "")
        self._codes[code] = AuthorizationCode(
            given.get("user") or "ann", scopes, redirect, given.get("code_challenge", "")
        )
        return _to(redirect, {"code": code, **state})

    def token(self, request: RecordedRequest) -> object:
        """Tokens for a code or a refresh token."""
        given = request.form
        if not self._client(request, given):
            return refused("invalid_client", "Invalid client secret")
        match given.get("grant_type"):
            case "authorization_code":
                return self._for_code(given)
            case "refresh_token":
                return self._for_refresh(given)
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
        kept = self.consent(code.user, code.scopes)
        return self._sent(kept["access_token"], code.scopes, kept["refresh_token"])

    def _for_refresh(self, given: Mapping[str, str]) -> object:
        token = given.get("refresh_token", "")
        consent = next((each for each in self.consents.values() if token in each.refresh), None)
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
        self._access = {token: each for token, each in self._access.items() if each[1] > now}
        token = self._new("access")
        self._access[token] = (user, now + self.lasts)
        return token

    def _new(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{hashlib.sha256(f'{kind} {self._made}'.encode()).hexdigest()[:40]}"


_BUTTONS = {"yes": "Allow", "no": "Cancel"}


def _to(where: str, query: Mapping[str, str]) -> Step:
    return Step(302, b"", {"Location": f"{where}{'&' if '?' in where else '?'}{urlencode(query)}"})
