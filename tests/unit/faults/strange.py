"""Strategies for exceptions and answers that no sane library makes, and for secrets to plant in them."""

from __future__ import annotations

import asyncio
import enum
import socket
import ssl
from typing import Any, cast

from hypothesis import strategies as st

from tidegate.faults.exceptions import NAMES

SECRET = "Zq7-hunter2-x9"
SECRET_NAMES = (
    "apikey", "api_key", "api_sig", "sk", "token", "client_key", "access_token", "refresh_token", "u", "t", "s", "p",
)  # fmt: skip
SECRET_HEADERS = ("Authorization", "X-Api-Key", "x-nd-authorization", "api-key", "client-key")

names = st.sampled_from(SECRET_NAMES)
headers = st.sampled_from(SECRET_HEADERS)
planted = st.one_of(
    names.map(lambda name: f"https://host/path?{name}={SECRET}&x=1"),
    names.map(lambda name: f"https://host/path?x=1&{name}={SECRET}"),
    names.map(lambda name: f'{{"{name}": "{SECRET}"}}'),
    names.map(lambda name: f"{{'{name}': '{SECRET}'}}"),
    headers.map(lambda name: f"{name}: {SECRET}"),
    headers.map(lambda name: f"{{'{name}': 'Bearer {SECRET}'}}"),
    st.just(f"Bearer {SECRET}"),
    st.just(f"https://joe:{SECRET}@host/path"),
    st.just(f"https://{SECRET}@host/"),
)
words = st.sampled_from([
    "status 403", "HTTP 502", "timeout", "rate limit", "connection refused", "unauthorized", '<lfm status="failed">',
    '<error code="9">', "returned 500", "://", "\n", "\x00", "é", "İ", "", " ", "=", "x" * 600, "&", "token", "'", '"',
])  # fmt: skip
# Apart by spaces: what stands right before a secret may make it part of something else.
texts = st.lists(st.one_of(words, planted, st.text(max_size=30)), max_size=6).map(" ".join)


class Status(enum.IntEnum):
    TEAPOT = 418
    BROKEN = 503


class EvilInt(int):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __le__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __ge__ = __lt__ = __gt__ = __le__
    __hash__ = int.__hash__


class Liar:
    """Claims to be something else, and breaks when it is asked for more."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("who wants to know?")

    def __getattr__(self, name: str) -> Any:
        raise OSError("nothing here")


class Endless:
    """Has every attribute, all of them itself, callable too."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self


class BadHeaders(dict[str, str]):
    def get(self, *given: Any) -> Any:
        raise KeyError("no")

    def items(self) -> Any:
        raise RuntimeError("no")


class Silent(Exception):
    def __str__(self) -> str:
        raise ValueError("I say nothing")


NOT_TEXT: Any = 42


class NotEvenText(Exception):
    def __str__(self) -> str:
        return cast("str", NOT_TEXT)


class Closed(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("closed")


class Broken(Exception):
    @property
    def response(self) -> Any:
        raise RuntimeError("no response")

    @property
    def status_code(self) -> Any:
        raise LookupError("no status")

    headers = property(lambda self: 1 / 0)
    reason = property(lambda self: self)
    body = property(lambda self: dict[str, str]()["body"])


class NoModule(OSError):
    __module__ = None  # type: ignore[assignment]


class LyingGroup(Exception):
    exceptions = property(lambda self: [self, None, 3, TimeoutError()])


odd = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 700), st.floats(), st.text(max_size=20), st.binary(max_size=20),
    st.sampled_from([Status.TEAPOT, Status.BROKEN, EvilInt(503), Endless(), object(), int, 10**400, [], {}]),
)  # fmt: skip
header_values = st.one_of(odd, texts, st.sampled_from(["7", "-1", "Sun, 06 Nov 1994 08:49:37 GMT", "9" * 500, "٣"]))
header_names = st.sampled_from(["Retry-After", "retry-after", "retry-after-ms", "Date", "Content-Type", "X-Api-Key"])
header_maps = st.one_of(
    odd, st.dictionaries(st.one_of(header_names, st.integers()), header_values), st.builds(BadHeaders)
)


def _endless() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


bodies = st.one_of(
    odd, texts, texts.map(lambda text: text.encode("utf-8", "replace")), st.just("[" * 5000), st.builds(_endless),
    st.dictionaries(st.text(max_size=5), texts, max_size=3), st.binary(max_size=9000),
)  # fmt: skip


class Answer:
    def __init__(self, status: Any, headers: Any, body: Any) -> None:
        self.status_code, self.headers, self.content = status, headers, body


class Carrier(Exception):
    """An exception with whatever attributes the strategy thinks of."""


answers = st.builds(Answer, st.one_of(st.integers(100, 599), odd), header_maps, bodies)
attributes = st.dictionaries(
    st.sampled_from(["response", "status_code", "status", "http_status", "code", "headers", "reason", "body", "url"]),
    st.one_of(odd, answers, header_maps, texts),
    max_size=3,
)


def _carrying(text: str, fields: dict[str, Any]) -> BaseException:
    error = Carrier(text)
    error.__dict__.update(fields)
    return error


def _of_library(which: tuple[str, str], text: str) -> BaseException:
    module, name = which
    made: Any = type(name, (Exception,), {"__module__": module})
    found: BaseException = made(text)
    return found


LIBRARY_NAMES = [(module, name) for module, found in NAMES.items() for name in found]
BUILTIN = (
    ValueError, KeyError, TypeError, OSError, TimeoutError, ConnectionResetError, ConnectionError, EOFError,
    RuntimeError, Silent, NotEvenText, Closed, Broken, NoModule, LyingGroup, asyncio.CancelledError, KeyboardInterrupt,
    ssl.SSLError, socket.gaierror, StopIteration, UnicodeError,
)  # fmt: skip
leaves: st.SearchStrategy[BaseException] = st.one_of(
    st.builds(lambda made, text: made(text), st.sampled_from(BUILTIN), texts),
    st.builds(_carrying, texts, attributes),
    st.builds(_of_library, st.sampled_from(LIBRARY_NAMES), texts),
    st.builds(OSError, st.integers(-3, 140), texts),
)


def _linked(outer: BaseException, inner: BaseException, how: str) -> BaseException:
    match how:
        case "cause":
            outer.__cause__ = inner
        case "context":
            outer.__context__ = inner
        case "hidden":
            outer.__context__, outer.__suppress_context__ = inner, True
        case "group":
            return BaseExceptionGroup("group", [outer, inner])
        case "argument":
            return RuntimeError("wrapped", inner, outer)
        case "loop":
            outer.__cause__ = inner
            inner.__context__ = outer
    return outer


how = st.sampled_from(["cause", "context", "hidden", "group", "argument", "loop"])
errors = st.recursive(leaves, lambda inner: st.builds(_linked, inner, inner, how), max_leaves=8)
anything = st.one_of(errors, answers, texts, odd)
