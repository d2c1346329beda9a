"""Why something could not be fetched.

    FetchError
    ├── Refused                 nothing was sent, because it may not be
    │   ├── BadUrl              the address cannot be read, or its scheme, host or port is not allowed
    │   └── BlockedAddress      the host has an address that is not public
    ├── BadRedirect             the answer leads where we do not follow
    │   └── TooManyRedirects    they do not end
    ├── TooBig                  the body, what it unpacks to, or the headers
    ├── TooSlow                 the whole of it was not there in time
    ├── Busy                    our own connections to this host were taken all the time
    ├── Unreachable             no connection: no such name, nobody there, no trust
    └── Broken                  the connection broke, or what came is no HTTP
        └── CutShort            the body, or its compression, stops in the middle

`tidegate.classify` knows them all. What a client below raised is the `__cause__`. Messages name the host alone: the
rest of an address may hold a secret.
"""

from __future__ import annotations

from tidegate.errors import TidegateError


class FetchError(TidegateError):
    """Something could not be fetched; *url* is what was asked for at that moment, without its user and password."""

    def __init__(self, message: str, *, url: str = "") -> None:
        super().__init__(message)
        self.url = url


class Refused(FetchError):
    """Nothing was sent, because it may not be."""


class BadUrl(Refused):
    """The address cannot be read, or its scheme, host or port is not allowed."""


class BlockedAddress(Refused):
    """The host has an address that is not public, and that no setting allows."""

    def __init__(self, host: str, address: str, why: str) -> None:
        found = f"the address {address} is" if host == address else f"{host} has the address {address}, which is"
        super().__init__(f"{found} {why}; allow its network to fetch from there")
        self.host = host
        self.address = address
        self.why = why


class BadRedirect(FetchError):
    """The answer leads where we do not follow."""


class TooManyRedirects(BadRedirect):
    """The redirects do not end."""


class TooBig(FetchError):
    """The body, what it unpacks to, or the headers."""


class TooSlow(FetchError):
    """The whole of it was not there in time."""


class Busy(FetchError):
    """Our own connections to this host were taken all the time."""


class Unreachable(FetchError):
    """There is no connection: no such name, nobody there, or no trust in who is."""


class Broken(FetchError):
    """The connection broke, or what came back is no HTTP."""


class CutShort(Broken):
    """The body, or its compression, stops in the middle."""
