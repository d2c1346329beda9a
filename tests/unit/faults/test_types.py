"""The type of an exception says what happened, through any number of wrappers."""

from __future__ import annotations

import asyncio
import errno
import gzip
import http.client
import json
import socket
import ssl
import zlib
from concurrent.futures import CancelledError as FutureCancelled
from typing import Any
from urllib.error import URLError
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.faults.failing import AppError, chained, raised, verdict

TYPED: dict[str, tuple[BaseException, str, str]] = {
    "refused": (ConnectionRefusedError(errno.ECONNREFUSED, "no"), "network", "kind:refused"),
    "reset": (ConnectionResetError(errno.ECONNRESET, "no"), "network", "kind:reset"),
    "aborted": (ConnectionAbortedError("no"), "network", "kind:reset"),
    "broken pipe": (BrokenPipeError(errno.EPIPE, "no"), "network", "kind:reset"),
    "some connection error": (ConnectionError("no"), "network", "kind:connect"),
    "errno alone": (OSError(errno.ENETUNREACH, "no"), "network", "kind:unreachable"),
    "errno of a host": (OSError(errno.EHOSTUNREACH, "no"), "network", "kind:unreachable"),
    "errno in a connection error": (ConnectionError(errno.EHOSTDOWN, "no"), "network", "kind:unreachable"),
    "timeout": (TimeoutError(), "timeout", "kind:timeout"),
    "timeout of a socket": (socket.timeout("timed out"), "timeout", "kind:timeout"),  # noqa: UP041
    "timeout by errno": (OSError(errno.ETIMEDOUT, "no"), "timeout", "kind:timeout"),
    "no such name": (socket.gaierror(-2, "no"), "network", "kind:dns"),
    "no such host": (socket.herror(1, "no"), "network", "kind:dns"),
    "TLS": (ssl.SSLError(1, "wrong version number"), "network", "kind:tls"),
    "TLS ended": (ssl.SSLEOFError(8, "no"), "network", "kind:reset"),
    "certificate": (ssl.SSLCertVerificationError(1, "no"), "certificate", "kind:certificate"),
    "cut body": (http.client.IncompleteRead(b"abc", 9), "cut_short", "kind:cut"),
    "cut stream": (asyncio.IncompleteReadError(b"abc", 9), "cut_short", "kind:cut"),
    "cut gzip": (raised(lambda: gzip.decompress(gzip.compress(b"abc")[:-9])), "cut_short", "kind:cut"),
    "bad gzip": (raised(lambda: gzip.decompress(b"no gzip at all")), "cut_short", "kind:cut"),
    "bad deflate": (raised(lambda: zlib.decompress(b"no")), "cut_short", "kind:cut"),
    "odd status line": (http.client.BadStatusLine("SSH-2.0"), "network", "kind:protocol"),
    "endless header": (http.client.LineTooLong("header line"), "network", "kind:protocol"),
    "bad address": (http.client.InvalidURL("nonnumeric port: 'x'"), "bad_address", "kind:bad_url"),
    "unknown scheme": (URLError("unknown url type: gopher"), "bad_address", "kind:bad_url"),
    "urllib of anything": (URLError("no"), "network", "kind:connect"),
    "urllib of a refusal": (URLError(ConnectionRefusedError(111, "no")), "network", "kind:refused"),
    "not JSON": (raised(lambda: json.loads("{oops}")), "bad_answer", "kind:not_json"),
    "an empty text": (raised(lambda: json.loads("")), "cut_short", "kind:cut"),
    "a page, not JSON": (raised(lambda: json.loads("\n <HTML><p>hello")), "html_answer", "kind:html"),
    "not XML": (raised(lambda: ET.fromstring("{}")), "bad_answer", "kind:not_xml"),
    "cut XML": (raised(lambda: ET.fromstring("<a><b>")), "cut_short", "kind:cut"),
    "cut tag": (raised(lambda: ET.fromstring("<a><b")), "cut_short", "kind:cut"),
    "full disk": (OSError(errno.ENOSPC, "no"), "own_disk", "kind:disk_full"),
    "no more files": (OSError(errno.EMFILE, "no"), "own_pool", "kind:pool"),
    "cancelled": (asyncio.CancelledError(), "cancelled", "kind:cancelled"),
    "cancelled future": (FutureCancelled(), "cancelled", "kind:cancelled"),
    "interrupted": (KeyboardInterrupt(), "cancelled", "kind:cancelled"),
    "exit": (SystemExit(1), "cancelled", "kind:cancelled"),
    "closed generator": (GeneratorExit(), "cancelled", "kind:cancelled"),
}  # fmt: skip


@pytest.mark.req("SYNC-01", "SYNC-02")
@pytest.mark.parametrize(("error", "code", "rule"), TYPED.values(), ids=TYPED)
def test_a_type_says_what_happened(error: BaseException, code: str, rule: str) -> None:
    assert (verdict(error).code, verdict(error).rule) == (code, rule)


@pytest.mark.req("SYNC-02")
@pytest.mark.parametrize(("error", "code", "rule"), TYPED.values(), ids=TYPED)
def test_a_wrapper_that_was_raised_from_it_says_the_same(error: BaseException, code: str, rule: str) -> None:
    wrapped = chained(AppError("sync failed"), cause=chained(ValueError("no luck"), cause=error))

    assert (verdict(wrapped).code, verdict(wrapped).rule) == (code, rule)


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=9)
inner = st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=5), scalars, max_size=3) | scalars
documents = st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)


@settings(deadline=None)
@given(documents, st.data())
def test_a_json_text_that_was_cut_anywhere_was_cut_short(document: Any, data: st.DataObject) -> None:
    text = json.dumps(document)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]

    assert verdict(raised(lambda: json.loads(cut))).code == "cut_short"
