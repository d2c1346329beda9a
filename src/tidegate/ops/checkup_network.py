"""Whether the services can be reached. Names and ports only: nothing is asked of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from tidegate.ops.checkup import Finding, error_finding, ok_finding

_CONNECT_TIMEOUT = 5.0
_PORTS = {"http": 80, "https": 443}


def reachable(addresses: Mapping[str, str]) -> Iterator[Finding]:
    """*addresses* by the key of the settings that has them."""
    if not addresses:
        yield ok_finding("network.services", "The settings name no address of a service.")
        return
    with ThreadPoolExecutor(8) as pool:
        yield from pool.map(_tried, addresses, addresses.values())


def _tried(key: str, url: str) -> Finding:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    except (KeyError, ValueError):
        return error_finding("network.services", f"{key} has an address that is none.", f"tidegate config {key}")
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        fix = f"Is the name right? tidegate config {key}; if it is: does the resolver of this machine work?"
        return error_finding("network.services", f"{key}: nobody knows the name {host}.", fix)
    why = ""
    for family, kind, protocol, _, place in places:
        try:
            with socket.socket(family, kind, protocol) as tried:
                tried.settimeout(_CONNECT_TIMEOUT)
                tried.connect(place)
            return ok_finding("network.services", f"{key}: {host} answers on port {port}.")
        except OSError as error:
            why = (error.strerror or "it took too long").lower()
    return error_finding(
        "network.services", f"{key}: {host} does not answer on port {port} ({why}).",
        f"Is the service started, and is a firewall between? tidegate config {key}",
    )  # fmt: skip
