"""Who opened the other end of a local connection: a login account, or a service that may forward for strangers.

A proxy on this machine can look exactly like a browser: loopback peer, loopback Host, no forwarding header. The kernel
knows the account that opened the socket. Proxies run as system accounts, browsers do not.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

Endpoint = tuple[IPv4Address | IPv6Address, int]  # address and port

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOGIN_DEFS = Path("/etc/login.defs")
_DEFAULT_RANGE = {"UID_MIN": 1000, "UID_MAX": 60_000}
_MAX_LOCAL_UID = 65_535  # uids above are of a directory service; those of services are below


def owner_of(near: Endpoint, far: Endpoint) -> int | None:
    """Return the uid that opened the socket from *near* to *far* on this machine. None without such a socket."""
    for table in _TABLES:
        try:
            uid = find_owner(table.read_text(encoding="ascii"), near, far)
        except OSError:  # no /proc, or no IPv6
            continue
        if uid is not None:
            return uid
    return None


def find_owner(table: str, near: Endpoint, far: Endpoint) -> int | None:
    """Return the uid in the row of /proc/net/tcp or tcp6 for the socket from *near* to *far*.

    A socket that no process has open any more has inode 0, and its uid says nothing.
    """
    for first, second in zip(_spellings(near), _spellings(far), strict=False):
        at = table.find(f" {first} {second} ")
        if at >= 0:
            fields = table[at:].split("\n", 1)[0].split()
            uid, inode = int(fields[6]), int(fields[8])
            return uid if inode else None
    return None


def _spellings(endpoint: Endpoint) -> list[str]:
    """Return the endpoint as the tables write it: 32-bit words in the byte order of the machine. IPv4 also as IPv6."""
    address, port = endpoint
    mapped = IPv6Address(f"::ffff:{address}") if isinstance(address, IPv4Address) else address
    parts = [mapped.packed[at : at + 4] for at in range(0, 16, 4)]
    v6 = "".join(f"{int.from_bytes(part, sys.byteorder):08X}" for part in parts)
    return [f"{v6[24:]}:{port:04X}"] * isinstance(address, IPv4Address) + [f"{v6}:{port:04X}"]


def is_login(uid: int, own_uid: int, login_defs: str) -> bool:
    """Whether *uid* is a login account, or the account of the server unless that is a system account."""
    written = dict(re.findall(r"^(UID_MIN|UID_MAX)[ \t]+([0-9]+)\s*$", login_defs, re.MULTILINE))
    limits = {name: int(written.get(name, default)) for name, default in _DEFAULT_RANGE.items()}
    if limits["UID_MIN"] <= uid <= limits["UID_MAX"]:
        return True
    return uid == own_uid and (uid == 0 or uid > _MAX_LOCAL_UID)


@cache
def _login_defs() -> str:
    try:
        return _LOGIN_DEFS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def opened_by_login(near: Endpoint, far: Endpoint) -> bool | None:
    """Whether a login account opened the socket from *near* to *far*. None if the kernel does not show it.

    Only Linux shows it without special rights. Elsewhere every local socket counts as that of a login account.
    """
    if sys.platform != "linux":
        return True
    uid = owner_of(near, far)
    return None if uid is None else is_login(uid, os.getuid(), _login_defs())
