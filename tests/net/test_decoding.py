"""Packed bodies: right whatever the pieces are, and never larger than allowed."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest

from tidegate.net import Broken, CutShort, TooBig
from tidegate.net.decoding import Body

TEXT = b"<rss>" + bytes(range(256)) * 20 + b"</rss>"


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": (" X-GZIP ", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "bare deflate": ("deflate", raw_deflate),
    "brotli": ("br", lambda data: bytes(brotli.compress(data, quality=5))),
    "nothing": ("identity", bytes),
    "no header": ("", bytes),
}


def unpacked(encoding: str, pieces: list[bytes], most: int = 5_000_000, ratio: float = 200) -> bytes:
    body = Body(encoding, most, ratio)
    for piece in pieces:
        body.feed(piece)
    return body.done()


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000, 1_000_000])
def test_a_body_is_the_same_in_whatever_pieces_it_comes(name: str, size: int) -> None:
    encoding, pack = PACKERS[name]
    packed = pack(TEXT)
    assert unpacked(encoding, [packed[at : at + size] for at in range(0, len(packed), size)]) == TEXT


@pytest.mark.parametrize("name", ["gzip", "deflate", "bare deflate", "brotli"])
def test_a_packed_body_that_stops_in_the_middle_is_never_a_whole_one(name: str) -> None:
    encoding, pack = PACKERS[name]
    packed = pack(TEXT)
    for end in range(1, len(packed), max(1, len(packed) // 50)):
        with pytest.raises(CutShort):
            unpacked(encoding, [packed[:end]])


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", ""])
def test_an_empty_body_is_empty_whatever_its_header_says(encoding: str) -> None:
    assert unpacked(encoding, []) == b""


@pytest.mark.parametrize("size", [1, 2, 1_000_000])
def test_gzip_may_have_several_members_and_something_behind_them(size: int) -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0 padding"
    assert unpacked("gzip", [packed[at : at + size] for at in range(0, len(packed), size)]) == b"one two"


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_what_is_not_packed_as_it_says_is_broken(encoding: str) -> None:
    with pytest.raises(Broken):
        unpacked(encoding, [b"<rss>not packed at all, and long enough to see</rss>"])


@pytest.mark.parametrize("encoding", ["zstd", "gzip, gzip", "compress", "gzip;q=1", "\udcff"])
def test_an_encoding_nobody_asked_for_is_refused(encoding: str) -> None:
    with pytest.raises(Broken, match="packed as"):
        Body(encoding, 100, 200)


@pytest.mark.parametrize("name", PACKERS)
def test_a_body_may_be_as_large_as_allowed_and_no_larger(name: str) -> None:
    encoding, pack = PACKERS[name]
    assert unpacked(encoding, [pack(TEXT)], most=len(TEXT)) == TEXT
    with pytest.raises(TooBig, match=f"more than {len(TEXT) - 1} bytes"):
        unpacked(encoding, [pack(TEXT)], most=len(TEXT) - 1)


@pytest.mark.req("FEED-13")
@pytest.mark.parametrize("name", ["gzip", "deflate", "bare deflate", "brotli"])
def test_a_bomb_takes_little_more_memory_than_a_body_may_have(name: str) -> None:
    encoding, pack = PACKERS[name]
    bomb = pack(bytes(100_000_000))

    tracemalloc.start()
    try:
        with pytest.raises(TooBig):
            unpacked(encoding, [bomb], most=2_000_000, ratio=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


@pytest.mark.parametrize("name", ["gzip", "deflate", "brotli"])
def test_a_body_that_unpacks_too_well_is_refused_before_it_is_too_large(name: str) -> None:
    encoding, pack = PACKERS[name]
    with pytest.raises(TooBig, match="200 times"):
        unpacked(encoding, [pack(bytes(4_000_000))])
    assert len(unpacked(encoding, [pack(bytes(900_000))])) == 900_000


def test_members_without_content_do_not_go_on_for_ever() -> None:
    with pytest.raises(TooBig, match="members"):
        unpacked("gzip", [gzip.compress(b"") * 2000])
