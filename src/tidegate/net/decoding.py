"""Response bodies: decompressed while they arrive, with limits on size and compression ratio."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Protocol

from tidegate.net.errors import Broken, CutShort, TooBig

_RATIO_FROM = 1_000_000  # decoded bytes below which the compression ratio is not checked
_MAX_MEMBERS = 1000  # each costs a copy of the rest
_MAGIC = b"\x1f\x8b"

ACCEPTED = "gzip, deflate, br" if find_spec("brotli") else "gzip, deflate"


class Decoder(Protocol):
    """Decompresses piece by piece. One call returns about *limit* bytes at most."""

    def feed(self, data: bytes, limit: int) -> bytes: ...

    @property
    def more(self) -> bool:
        """Whether output is pending: call `feed` again without data."""

    @property
    def whole(self) -> bool:
        """Whether the compressed stream is complete."""


class Body:
    """Collects a body of up to *limit* bytes. Beyond the first megabyte the compression ratio is limited to *ratio*."""

    def __init__(self, encoding: str, limit: int, ratio: float) -> None:
        self._decoder = _decoder_of(encoding)
        self._parts: list[bytes] = []
        self._limit, self._ratio = limit, ratio
        self._packed = self.size = 0

    def feed(self, data: bytes) -> None:
        """Adds received bytes. Raises TooBig above the limit, Broken if they cannot be decompressed."""
        self._packed += len(data)
        if self._decoder is None:
            self._add(data)
            return
        while data or self._decoder.more:
            self._add(self._decoder.feed(data, self._limit - self.size + 1))
            data = b""

    def done(self) -> bytes:
        """Returns the whole body. Raises CutShort if the compressed stream is incomplete."""
        if self._decoder is not None and self._packed and not self._decoder.whole:
            raise CutShort("the packed body stops in the middle")
        return self.so_far()

    def so_far(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def _add(self, part: bytes) -> None:
        self.size += len(part)
        if self.size > self._limit:
            raise TooBig(f"the body has more than {self._limit} bytes")
        if self.size > _RATIO_FROM and self.size > self._ratio * self._packed:
            raise TooBig(f"the body unpacks to more than {self._ratio:g} times its size")
        if part:
            self._parts.append(part)


class _Gzip:
    """One or more members. Data after the last one is ignored, as in browsers."""

    def __init__(self) -> None:
        self._inner = _gzip_member()
        self._members = 1
        self._left = b""
        self.more = False

    def feed(self, data: bytes, limit: int) -> bytes:
        data, self._left = self._left + data, b""
        if self._inner.eof:
            if len(data) < len(_MAGIC):
                self._left, self.more = data, False
                return b""
            if not data.startswith(_MAGIC):
                self.more = False
                return b""
            if self._members == _MAX_MEMBERS:
                raise TooBig(f"the packed body has more than {_MAX_MEMBERS} members")
            self._inner = _gzip_member()
            self._members += 1
        got = _inflate(self._inner, data, limit)
        self._left = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail
        self.more = bool(self._left)
        return got

    @property
    def whole(self) -> bool:
        return self._inner.eof


class _Deflate:
    """With the zlib header of the standard, or without it, as some servers send it."""

    def __init__(self) -> None:
        self._inner: zlib._Decompress | None = None
        self._left = b""
        self.more = False

    def feed(self, data: bytes, limit: int) -> bytes:
        data, self._left = self._left + data, b""
        if self._inner is None:
            if len(data) < 2:
                self._left = data
                return b""
            header = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
            self._inner = zlib.decompressobj(zlib.MAX_WBITS if header else -zlib.MAX_WBITS)
        if self._inner.eof:
            self.more = False
            return b""
        got = _inflate(self._inner, data, limit)
        self._left = self._inner.unconsumed_tail
        self.more = bool(self._left)
        return got

    @property
    def whole(self) -> bool:
        return self._inner is not None and self._inner.eof


def _gzip_member() -> zlib._Decompress:
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


def _inflate(inner: zlib._Decompress, data: bytes, limit: int) -> bytes:
    try:
        return inner.decompress(data, limit)
    except zlib.error as error:
        raise Broken(f"the packed body cannot be unpacked: {error}") from error


class _Brotli:
    def __init__(self) -> None:
        import brotli  # type: ignore[import-untyped]

        self._error: type[Exception] = brotli.error
        self._inner: Any = brotli.Decompressor()
        self.more = False

    def feed(self, data: bytes, limit: int) -> bytes:
        if data and self._inner.is_finished():
            return b""
        try:
            # Brotli may allocate nearly twice the limit.
            output: bytes = self._inner.process(data, output_buffer_limit=max(1, min(limit, 1 << 19)))
        except self._error as error:
            raise Broken(f"the packed body cannot be unpacked: {error}") from error
        # Near the end Brotli's own flag is wrong. Only an empty result means that nothing is pending.
        self.more = bool(output) and not self._inner.is_finished()
        return output

    @property
    def whole(self) -> bool:
        return bool(self._inner.is_finished())


_DECODERS: dict[str, Callable[[], Decoder]] = {
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "deflate": _Deflate,
}
if "br" in ACCEPTED:
    _DECODERS["br"] = _Brotli

KNOWN = frozenset(_DECODERS)


def _decoder_of(encoding: str) -> Decoder | None:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name not in _DECODERS:
        # Several encodings at once are refused too. No server needs them, and their ratios multiply.
        raise Broken(f"the body is packed as {name!r:.40}; we asked for {ACCEPTED}")
    return _DECODERS[name]()
