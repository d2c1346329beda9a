"""Which addresses may be reached, and which hosts are no hosts at all."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.net import BadUrl, Networks, why_blocked
from tidegate.net.urls import next_place, parse_url

PUBLIC = (
    "1.1.1.1", "8.8.8.8", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.255.255", "172.32.0.1",
    "192.0.1.1", "198.17.255.255", "198.20.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1",
    "2001:200::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
)  # fmt: skip
BLOCKED = (
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1",
    "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe",
    "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::",
    "2002:0808:0808::1", "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%eth0",
    "2606:4700::1111%eth0", "febf::1", "fec0::1", "ff02::1", "ff0e::1", "127.1", "2130706433", "0x7f000001",
    "0177.0.0.1", "localhost", "", "1.1.1.1.", " 1.1.1.1",
)  # fmt: skip


@pytest.mark.req("FEED-13")
@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_reached(address: str) -> None:
    assert why_blocked(address) is None


@pytest.mark.req("FEED-13")
@pytest.mark.parametrize("address", BLOCKED)
def test_any_other_address_may_not_and_it_says_why(address: str) -> None:
    assert why_blocked(address)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_as_public_in_every_ipv6_form_of_it(address: IPv4Address) -> None:
    plain = why_blocked(str(address))
    assert why_blocked(f"::ffff:{address}") == plain
    assert why_blocked(f"64:ff9b::{address}") == plain


@given(st.ip_addresses(v=6))
def test_no_ipv6_address_outside_of_the_public_range_gets_through(address: IPv6Address) -> None:
    stands_for_ipv4 = address.ipv4_mapped or str(address).startswith("64:ff9b::")
    if not stands_for_ipv4 and int(address) >> 125 != 0b001:
        assert why_blocked(str(address))


def test_allowed_networks_open_what_is_in_them_and_nothing_else() -> None:
    allowed = Networks(["10.1.0.0/16", "fd00::/8"])

    assert why_blocked("10.1.2.3", allowed) is None
    assert why_blocked("::ffff:10.1.2.3", allowed) is None
    assert why_blocked("fd00::7", allowed) is None
    assert why_blocked("10.2.0.1", allowed) == "private"
    assert why_blocked("127.0.0.1", allowed) == why_blocked("127.0.0.1")
    assert why_blocked("fd00::7%eth0", allowed)


@pytest.mark.parametrize("wrong", ["10.0.0.1/8", "ten", "10.0.0.0/33", ""])
def test_what_is_no_network_is_refused_with_an_example(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"^allow: .*10\.0\.0\.0/8"):
        Networks([wrong])


def test_one_text_is_no_list_of_networks() -> None:
    with pytest.raises(TypeError, match=r"^allow: '10\.0\.0\.0/8'"):
        Networks("10.0.0.0/8")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://2130706433/", "four plain numbers"),
        ("http://0x7f000001/", "four plain numbers"),
        ("http://0x7f.1/", "four plain numbers"),
        ("http://127.1/", "four plain numbers"),
        ("http://127.0.0.1./", "four plain numbers"),
        ("http://0177.0.0.1/", "cannot be read"),
        ("http://127.0.0.0x1/", "four plain numbers"),
        ("http://\uff11\uff12\uff17.0.0.1/", "cannot be read"),
        ("http://[fe80::1%25eth0]/", "zone"),
        ("http://[fe80::1%eth0]/", "zone"),
        ("http://[::1", "cannot be read"),
        ("http://exa mple.com/", "zone"),
        ("http://a..b/", "is not a valid host"),
        ("http://-a.example/", "is not a valid host"),
        (f"http://{'a' * 64}.example/", "is not a valid host"),
        ("http:///path", "no host"),
        ("http:\\\\evil/", "no host"),
        ("ftp://example.com/", "https://"),
        ("file:///etc/passwd", "https://"),
        ("gopher://example.com/", "https://"),
        ("//example.com/", "no scheme"),
        ("example.com", "no scheme"),
        ("", "no scheme"),
        ("http://example.com:22/", "port 22 .*80, 443"),
        ("http://example.com:0/", "port 0"),
        ("http://example.com:99999/", "port 99999"),
        ("http://exam\nple.com/", "cannot be read"),
        ("http://example.com/" + "a" * 9000, "9019 characters"),
    ],
)
def test_what_leads_nowhere_or_elsewhere_is_no_address(url: str, says: str) -> None:
    with pytest.raises(BadUrl, match=says):
        parse_url(url, frozenset({80, 443}))


@pytest.mark.parametrize(
    ("url", "host", "authority", "target"),
    [
        ("http://Example.com", "example.com", b"example.com", b"/"),
        ("HTTP://example.com:80/a b?c=ü#x", "example.com", b"example.com", b"/a%20b?c=%C3%BC"),
        ("https://bücher.example:443/", "xn--bcher-kva.example", b"xn--bcher-kva.example", b"/"),
        ("http://example.com:443/?a=%2F", "example.com", b"example.com:443", b"/?a=%2F"),
        ("http://[2606:4700::1111]/", "2606:4700::1111", b"[2606:4700::1111]", b"/"),
        ("http://127。0。0。1/", "127.0.0.1", b"127.0.0.1", b"/"),
    ],
)
def test_the_host_that_is_named_is_the_host_that_is_looked_up(
    url: str, host: str, authority: bytes, target: bytes
) -> None:
    place = parse_url(url, frozenset({80, 443}))
    assert (place.host, place.authority, place.target) == (host, authority, target)


def test_user_and_password_become_a_header_and_leave_the_address() -> None:
    place = parse_url("https://me:p%40ss@example.com/x", None)
    assert place.url == "https://example.com/x"
    assert place.authorization == b"Basic bWU6cEBzcw=="
    assert next_place(place, "//you:word@other.example/y", None).authorization is None


@pytest.mark.parametrize(
    "url", ["http://a.example/x#", "http://a.example/x#y", "http://@a.example/x", "http://:@a.example/x"]
)
def test_an_address_is_written_in_one_way_alone(url: str) -> None:
    place = parse_url(url, None)
    assert (place.url, place.authorization) == ("http://a.example/x", None)


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("b", "https://example.com/a/b"),
        ("/b?c", "https://example.com/b?c"),
        ("//other.example", "https://other.example"),
        (" https://other.example/ ", "https://other.example/"),
        ("?q", "https://example.com/a/feed?q"),
        ("#top", "https://example.com/a/feed"),
    ],
)
def test_a_redirect_leads_from_where_it_was_met(location: str, leads_to: str) -> None:
    assert next_place(parse_url("https://example.com/a/feed", None), location, None).url == leads_to
