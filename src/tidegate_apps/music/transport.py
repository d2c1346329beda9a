"""The HTTP transport of all providers. It checks the addresses of servers that users enter.

All addresses of such a server are checked, and the checked address is the one connected to. So a name that resolves
differently the second time has no effect. URLs that the operator set are not restricted.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
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


class AddressCheckedTransport(httpx2.AsyncBaseTransport):
    """A transport for all providers; *allowed* are networks for entered servers in addition to public ones.

    Each loop makes one request at a time, so no connection limit makes others wait.
    """

    def __init__(self, allowed: Iterable[str] = HOME, look_up: net.Resolver = net.system_resolver) -> None:
        networks = tuple(allowed)
        self._look_up = look_up
        self._checks: dict[tuple[bool, bool], net.AddressCheck | None] = {
            (False, False): None,
            (True, False): partial(why_not, allowed=net.Networks(networks)),
            (True, True): partial(why_not, allowed=net.Networks((*networks, *_LOOPBACK_NETWORKS))),
        }
        self._transports: dict[tuple[bool, bool], httpx2.AsyncBaseTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        entered = bool(request.extensions.get(ENTERED))
        kind = entered, entered and bool(request.extensions.get(LOOPBACK))
        if kind not in self._transports:  # at the first use: starting a login makes no call
            self._transports[kind] = net.async_transport(check=self._checks[kind], resolver=self._look_up)
        return await self._transports[kind].handle_async_request(request)

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()


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
        raise ValueError("it is not a valid address; give one such as https://music.example.org") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("it names no server; give its address with http:// or https://")
    if url.userinfo:
        raise ValueError("the URL must not have a user name or a password; give them in their own fields")
    if "?" in text or "\\" in text or any(char.isspace() for char in text):
        raise ValueError(
            "the URL must not have more than a server and a path; give one such as https://music.example.org"
        )
    path = url.raw_path.decode("ascii").rstrip("/").removesuffix("/app").rstrip("/")
    usual = {"http": ":80", "https": ":443"}[url.scheme]
    return f"{url.scheme}://{url.netloc.decode('ascii').removesuffix(usual)}{path}"
