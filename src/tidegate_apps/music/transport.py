"""The HTTP transport of all providers. It checks the addresses of servers that users enter.

All addresses of such a server are checked, and the checked address is the one connected to. So a name that resolves
differently the second time has no effect. URLs that the operator set are not restricted.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence
from functools import cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import httpx2

from tidegate import net

ENTERED = "music_entered"  # a request extension: a user has entered the URL
LOOPBACK = "music_loopback"  # a request extension: the user may reach this machine
HOME = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
_LOOPBACK_NETWORKS = ("127.0.0.0/8", "::1/128")
NEVER_ALLOWED = "never that of a music server"
LOOPBACK_REFUSED = (
    "this machine itself; ask an admin to enter it, or add its network to music.server_networks in the settings"
)
# Cloud metadata services, which return credentials of the machine. The last two are those of specific clouds.
_NEVER = net.Networks(["169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "100.100.100.200/32", "168.63.129.16/32"])
_WITHIN_V6 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
_MAX_ADDRESSES = 4
_MAX_KEPT_CONNECTIONS = 50  # connections


class AddressCheckedTransport(httpx2.AsyncBaseTransport):
    """A transport for all providers; *allowed* are networks for entered servers in addition to public ones.

    Each loop makes one request at a time, so no connection limit makes others wait.
    """

    def __init__(self, allowed: Iterable[str] = HOME, look_up: net.Resolver = net.system_resolver) -> None:
        networks = tuple(allowed)
        self._allowed, self._look_up = net.Networks(networks), look_up
        self._with_loopback = net.Networks((*networks, *_LOOPBACK_NETWORKS))
        self._ways: dict[int, httpx2.AsyncHTTPTransport] = {}  # by number of kept connections

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if not request.extensions.get(ENTERED):
            return await self._way(_MAX_KEPT_CONNECTIONS).handle_async_request(request)
        failed: httpx2.RequestError | None = None
        for address in (await self._addresses(request))[:_MAX_ADDRESSES]:
            try:
                # The pool identifies connections by address, so a kept one could be used for another name.
                return await self._way(0).handle_async_request(_to(address, request))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failed = error  # nothing was sent, so another address of the server may work
        raise failed or httpx2.ConnectError(f"{request.url.host} has no address", request=request)

    async def aclose(self) -> None:
        for way in self._ways.values():
            await way.aclose()

    def _way(self, kept: int) -> httpx2.AsyncHTTPTransport:
        """Create the transport at the first use: starting a login makes no call."""
        if kept not in self._ways:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=kept)
            self._ways[kept] = httpx2.AsyncHTTPTransport(verify=_trusted(), limits=limits)
        return self._ways[kept]

    async def _addresses(self, request: httpx2.Request) -> Sequence[str]:
        host, port = request.url.host, request.url.port or (443 if request.url.scheme == "https" else 80)
        try:
            addresses = await self._look_up(request.url.raw_host.decode("ascii"), port)
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(f"the name {host} could not be resolved: {error}", request=request) from error
        allowed = self._with_loopback if request.extensions.get(LOOPBACK) else self._allowed
        for address in addresses:
            if why := why_not(address, allowed):
                raise net.BlockedAddress(host, address, why)
        return addresses


def why_not(address: str, allowed: net.Networks) -> str | None:
    """Return why *address* must not be reached; None if it may be."""
    try:
        ip = ip_address(address)
    except ValueError:
        return "no address"
    if isinstance(ip, IPv6Address) and any(ip in network for network in _WITHIN_V6):
        ip = IPv4Address(int(ip) & 0xFFFF_FFFF)
    if ip in _NEVER:
        return NEVER_ALLOWED
    why = net.why_blocked(str(ip), allowed)
    return LOOPBACK_REFUSED if why and ip.is_loopback else why


def is_loopback(url: str) -> bool:
    """Return whether a URL names this machine literally. What a name resolves to is checked at the call."""
    host = httpx2.URL(url).host.rstrip(".")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def server(text: str) -> str:
    """Return the base URL of a server from what users copy from the browser.

    Raises ValueError with what to enter instead. The path must be fixed, because requests append to it.
    """
    text = text.strip().partition("#")[0]
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as error:
        raise ValueError("it is no address; give one such as https://music.example.org") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("it names no server; give its address with http:// or https://")
    if url.userinfo:
        raise ValueError("it has a user name or a password in it; give them in their own fields")
    if "?" in text or "\\" in text or any(char.isspace() for char in text):
        raise ValueError("it has more than a server and a path; give one such as https://music.example.org")
    path = url.raw_path.decode("ascii").rstrip("/").removesuffix("/app").rstrip("/")
    usual = {"http": ":80", "https": ":443"}[url.scheme]
    return f"{url.scheme}://{url.netloc.decode('ascii').removesuffix(usual)}{path}"


def _to(address: str, request: httpx2.Request) -> httpx2.Request:
    """Return the same request to that address. The name stays in `Host` and in the certificate check."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.raw_host.decode("ascii")},
    )


@cache
def _trusted() -> ssl.SSLContext:
    """Return the certificate authorities. Loading takes long, so all transports share them."""
    return httpx2.create_ssl_context()
