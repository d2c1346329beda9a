"""Device cookies: a browser that signed in before is not slowed down by the failures of others.

The cookie is signed for one user and one password. It signs nobody in: it only counts failures per browser. A new
password makes it worthless.
"""

from __future__ import annotations

import hashlib
from secrets import token_hex

from fastapi import Request, Response

from tidegate.secrets import Secrets

COOKIE = "tidegate_device_"  # and a digest of the user's name: people who share a browser have one each
LIFETIME = 180 * 86400  # seconds
_MAX_LENGTH = 300


def device_of(request: Request, secrets: Secrets, name: str, password_digest: str | None, now: float) -> str | None:
    """The id of a browser that signed in as *name* with the current password; None for any other."""
    cookie = request.cookies.get(_cookie_name(name), "")
    if password_digest is None or not cookie or len(cookie) > _MAX_LENGTH:
        return None
    text = secrets.read(_purpose(name, password_digest), cookie)
    if text is None:
        return None
    device, _, signed_in_at = text.partition(" ")
    return device if 0 <= now - float(signed_in_at) < LIFETIME else None


def remember_device(
    response: Response, request: Request, secrets: Secrets, name: str, password_digest: str, now: float
) -> None:
    """Sets the cookie after a successful sign-in."""
    response.set_cookie(
        _cookie_name(name), secrets.sign(_purpose(name, password_digest), f"{token_hex(16)} {int(now)}"),
        max_age=LIFETIME, httponly=True, samesite="strict", secure=request.url.scheme == "https",
        path=f"{request.scope.get('root_path', '')}/sign-in",
    )  # fmt: skip


def _cookie_name(name: str) -> str:
    return COOKIE + hashlib.sha256(name.encode()).hexdigest()[:16]


def _purpose(name: str, password_digest: str) -> str:
    return f"device 1 {name} {hashlib.sha256(password_digest.encode()).hexdigest()}"
