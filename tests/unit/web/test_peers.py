"""Who opened a local connection, as the kernel's tables say it, and whether that is a person's account."""

from __future__ import annotations

import sys
from ipaddress import ip_address

import pytest

from tidegate.web.peers import find_owner, is_login

pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="the tables below are of a little-endian machine")

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
TCP = HEAD + (
    "   0: 0100007F:2081 00000000:0000 0A 00000000:00000000 00:00000000 00000000   998        0 1116 1 0 100 0 0\n"
    "   1: 0100007F:2081 0100007F:C351 01 00000000:00000000 00:00000000 00000000   998        0 1117 1 0 20 4 3\n"
    "   2: 0100007F:C351 0100007F:2081 01 00000000:00000000 00:00000000 00000000    33        0 1118 1 0 20 4 3\n"
    "   3: 0100007F:C352 0100007F:2081 01 00000000:00000000 00:00000000 00000000  1000        0 1119 1 0 20 4 3\n"
    "   4: 0100007F:C353 0100007F:2081 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 3\n"
    "   5: 0100007F:C354 0100007F:2081 06 00000000:00000000 03:000017A2 00000000     0        0 0 3 0\n"
    "   6: 0100007F:C355 0100007F:2081 05 00000000:00000000 00:00000000 00000000  1001        0 1120 1 0 20 4 3\n"
    "   7: 0200007F:C351 0100007F:2081 01 00000000:00000000 00:00000000 00000000  1002        0 1121 1 0 20 4 3\n"
)
LOOP6, MAPPED = "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"
TCP6 = HEAD + (
    f"   0: {LOOP6}:C351 {LOOP6}:2081 01 00000000:00000000 00:00000000 00000000   101        0 2118 1 0 20 4 3\n"
    f"   1: {MAPPED}:C352 {MAPPED}:2081 01 00000000:00000000 00:00000000 00000000   102        0 2119 1 0 20 4 3\n"
)


@pytest.mark.parametrize(
    ("table", "near", "far", "uid"),
    [
        (TCP, ("127.0.0.1", 50001), ("127.0.0.1", 8321), 33),
        (TCP, ("127.0.0.1", 50002), ("127.0.0.1", 8321), 1000),
        (TCP, ("127.0.0.1", 8321), ("127.0.0.1", 50001), 998),  # the end of the server
        (TCP, ("127.0.0.2", 50001), ("127.0.0.1", 8321), 1002),
        (TCP, ("127.0.0.1", 50005), ("127.0.0.1", 8321), 1001),  # it has sent all, and still reads
        (TCP, ("127.0.0.1", 50003), ("127.0.0.1", 8321), None),  # closed: the kernel says uid 0
        (TCP, ("127.0.0.1", 50004), ("127.0.0.1", 8321), None),  # closed on both sides
        (TCP, ("127.0.0.1", 50001), ("127.0.0.1", 8322), None),
        (TCP, ("127.0.0.1", 50009), ("127.0.0.1", 8321), None),
        (TCP, ("::1", 50001), ("::1", 8321), None),
        (TCP6, ("::1", 50001), ("::1", 8321), 101),
        (TCP6, ("127.0.0.1", 50002), ("127.0.0.1", 8321), 102),  # an IPv6 socket that uses IPv4
        (TCP6, ("127.0.0.1", 50001), ("127.0.0.1", 8321), None),
        (HEAD, ("127.0.0.1", 50001), ("127.0.0.1", 8321), None),
        ("", ("127.0.0.1", 50001), ("127.0.0.1", 8321), None),
    ],
)
def test_the_owner_is_in_the_row_of_the_socket(
    table: str, near: tuple[str, int], far: tuple[str, int], uid: int | None
) -> None:
    assert find_owner(table, (ip_address(near[0]), near[1]), (ip_address(far[0]), far[1])) == uid


@pytest.mark.parametrize(
    ("uid", "own", "login_defs", "person"),
    [
        (1000, 998, "", True),
        (60_000, 998, "", True),
        (999, 998, "", False),
        (33, 998, "", False),
        (33, 33, "", False),  # a server and its proxy may share a system account
        (0, 998, "", False),  # a proxy that runs as root
        (0, 0, "", True),
        (65_534, 65_534, "", False),
        (61_184, 998, "", False),  # a dynamic user of systemd
        (1_234_567_890, 1_234_567_890, "", True),  # an account of a directory service
        (1_234_567_890, 1000, "", False),
        (500, 998, "UID_MIN\t\t  500\n", True),
        (499, 998, "UID_MIN\t\t  500\n", False),
        (70_000, 998, "# UID_MAX 1\nUID_MAX 80000\n", True),
        (1000, 998, "SYS_UID_MIN 2000\nUID_MIN many\n", True),
    ],
)
def test_a_person_has_a_login_account_or_runs_the_server(uid: int, own: int, login_defs: str, person: bool) -> None:
    assert is_login(uid, own, login_defs) is person
