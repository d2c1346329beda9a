"""URL parsing. A URL is parsed once: the parsed host is resolved, checked and verified by TLS."""

from __future__ import annotations

import base64
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from ipaddress import IPv4Address
from urllib.parse import unquote_to_bytes

import httpx2

from tidegate.net.errors import BadUrl

_PORTS = {"http": 80, "https": 443}
_MAX_URL = 8192
_NAME = re.compile(
    r"(?=.{1,254}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?"
)
_V6 = re.compile(r"[0-9a-f:.]{2,45}")
# Resolvers treat a host that ends in a number as IPv4, in any form: 2130706433, 0x7f.1, 127.1.
_NUMBER_AT_END = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedUrl:
    """A parsed URL. *url* has no user, password or fragment."""

    url: str
    scheme: str
    host: str
    port: int
    target: bytes
    authorization: bytes | None

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> bytes:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}").encode("ascii")


def parse_url(url: str, ports: AbstractSet[int] | None) -> ParsedUrl:
    """Parses *url*. Raises BadUrl if it is not valid or not allowed. *ports*: None allows all."""
    return _read(_parsed(url), ports)


def next_place(here: ParsedUrl, location: str, ports: AbstractSet[int] | None) -> ParsedUrl:
    """Parses the target of a redirect. Raises BadUrl as above. User and password are not carried over."""
    try:
        joined = httpx2.URL(here.url).join(_parsed(location.strip()))
    except (httpx2.InvalidURL, ValueError, TypeError) as error:
        raise BadUrl(f"a redirect leads to an address that cannot be read: {error}") from error
    return _read(joined.copy_with(userinfo=b""), ports)


def _parsed(url: object) -> httpx2.URL:
    if not isinstance(url, str):
        raise TypeError(f"url: {url!r:.80} is not a string; give one such as https://example.org/feed.xml")
    if len(url) > _MAX_URL:
        raise BadUrl(f"the address has {len(url)} characters; at most {_MAX_URL} are read")
    try:
        return httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise BadUrl(f"the address cannot be read: {error}") from error


def _read(url: httpx2.URL, ports: AbstractSet[int] | None) -> ParsedUrl:
    scheme = url.scheme
    if scheme not in _PORTS:
        raise BadUrl(f"the address begins with {scheme + ':' if scheme else 'no scheme'}; give http:// or https://")
    host = _valid_host(url.raw_host.decode("ascii", "replace").lower())
    port = _PORTS[scheme] if url.port is None else url.port
    if not 1 <= port <= 65535 or (ports is not None and port not in ports):
        allowed = "" if ports is None else f"; allowed are {', '.join(map(str, sorted(ports)))}"
        raise BadUrl(f"port {port} of {host} is not allowed{allowed}")
    return ParsedUrl(
        url=_bare(url),
        scheme=scheme,
        host=host,
        port=port,
        target=url.raw_path,
        authorization=_basic(url.userinfo),
    )


def _bare(url: httpx2.URL) -> str:
    text = str(url)
    return str(url.copy_with(userinfo=b"", fragment=None)) if "@" in text or "#" in text else text


def _valid_host(host: str) -> str:
    if not host:
        raise BadUrl("the address has no host")
    if ":" in host or "%" in host:
        if not _V6.fullmatch(host):
            raise BadUrl(f"{host!r:.80} is not a valid host; give an address without a zone (%)")
        return host
    if _NUMBER_AT_END.fullmatch(host):
        try:
            return str(IPv4Address(host))
        except ValueError as error:
            raise BadUrl(f"{host!r:.80} is not a valid host; write an IPv4 address as four plain numbers") from error
    if not _NAME.fullmatch(host):
        raise BadUrl(f"{host!r:.80} is not a valid host; give a name such as example.org")
    return host


def _basic(userinfo: bytes) -> bytes | None:
    if not userinfo.strip(b":"):
        return None
    user, _, password = userinfo.partition(b":")
    return b"Basic " + base64.b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password))
