"""Errors of a fetch.

    FetchError
    ├── Refused                 nothing was sent, because it is not allowed
    │   ├── BadUrl              the URL is not valid, or its scheme, host or port is not allowed
    │   └── BlockedAddress      the host has an address that is not public
    ├── BadRedirect             the redirect is not followed
    │   └── TooManyRedirects    the redirects do not end
    ├── TooBig                  the body, its decoded size, or the headers
    ├── TooSlow                 the fetch did not finish in time
    ├── Busy                    all of our connections to this host were in use
    ├── Unreachable             no connection: name not found, refused, or TLS not trusted
    └── Broken                  the connection broke, or the response is not HTTP
        └── CutShort            the body or its compression is incomplete

`tidegate.classify` knows them all. The `__cause__` is the underlying error. Messages contain the host only: the rest of
a URL may contain a secret.
"""

from __future__ import annotations

from tidegate.errors import TidegateError


class FetchError(TidegateError):
    """A fetch failed. *url* is the URL at that moment, without user and password."""

    def __init__(self, message: str, *, url: str = "") -> None:
        super().__init__(message)
        self.url = url


class Refused(FetchError):
    """Nothing was sent, because it is not allowed."""


class BadUrl(Refused):
    """The URL is not valid, or its scheme, host or port is not allowed."""


class BlockedAddress(Refused):
    """The host has an address that is not public, and no setting allows it."""

    def __init__(self, host: str, address: str, why: str) -> None:
        found = f"the address {address} is" if host == address else f"{host} has the address {address}, which is"
        super().__init__(f"{found} {why}; allow its network to fetch from there")
        self.host = host
        self.address = address
        self.why = why


class BadRedirect(FetchError):
    """The redirect is not followed."""


class TooManyRedirects(BadRedirect):
    """The redirects do not end."""


class TooBig(FetchError):
    """The body, its decoded size, or the headers are too large."""


class TooSlow(FetchError):
    """The fetch did not finish in time."""


class Busy(FetchError):
    """All of our connections to this host were in use."""


class Unreachable(FetchError):
    """No connection: the name was not found, the host refused, or TLS is not trusted."""


class Broken(FetchError):
    """The connection broke, or the response is not HTTP."""


class CutShort(Broken):
    """The body or its compression is incomplete."""
