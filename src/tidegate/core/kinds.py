"""What one exception says by its type, and by the few attributes that tell apart what one type lumps together."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

from tidegate.core.known import NAMES, Kind
from tidegate.core.reading import MOST_TEXT, message_of, read

__all__ = ["BESIDE_THE_POINT", "CODE_OF_KIND", "OURS", "STRENGTH", "VAGUE", "Kind", "kind_of"]

CODE_OF_KIND = {
    Kind.TIMEOUT: "timeout",
    Kind.DNS: "network",
    Kind.REFUSED: "network",
    Kind.RESET: "network",
    Kind.UNREACHABLE: "network",
    Kind.TLS: "network",
    Kind.CONNECT: "network",
    Kind.PROTOCOL: "network",
    Kind.CERTIFICATE: "certificate",
    Kind.CUT: "cut_short",
    Kind.BAD_URL: "bad_address",
    Kind.REDIRECTS: "redirected",
    Kind.TOO_BIG: "parse_error",
    Kind.NOT_JSON: "bad_answer",
    Kind.NOT_XML: "bad_answer",
    Kind.HTML: "html_answer",
    Kind.BAD_REQUEST: "bad_request",
    Kind.POOL: "own_pool",
    Kind.DISK_FULL: "own_disk",
    Kind.CANCELLED: "cancelled",
    Kind.HELD: "cancelled",
}

# A stronger kind in a cause beats a weaker one above it: a client's SSLError may be a wrong certificate, its timeout
# may be our own full pool.
STRENGTH = dict.fromkeys(Kind, 3) | {
    Kind.CONNECT: 0, Kind.PROTOCOL: 1, Kind.TLS: 2, Kind.TIMEOUT: 2, Kind.CUT: 2, Kind.NOT_JSON: 2,
}  # fmt: skip
VAGUE = frozenset({Kind.CONNECT, Kind.PROTOCOL})

OURS = frozenset({Kind.CANCELLED, Kind.HELD})

# These may carry a status that is not the point: of the answer that could not be read, of the last redirect, or one
# that the client made up for what was no HTTP at all.
BESIDE_THE_POINT = frozenset({Kind.NOT_JSON, Kind.HTML, Kind.CUT, Kind.REDIRECTS, Kind.PROTOCOL})

_ERRNO = {
    errno.ETIMEDOUT: Kind.TIMEOUT,
    errno.ECONNREFUSED: Kind.REFUSED,
    errno.ECONNRESET: Kind.RESET,
    errno.ECONNABORTED: Kind.RESET,
    errno.EPIPE: Kind.RESET,
    errno.ENETUNREACH: Kind.UNREACHABLE,
    errno.EHOSTUNREACH: Kind.UNREACHABLE,
    errno.ENETDOWN: Kind.UNREACHABLE,
    errno.EHOSTDOWN: Kind.UNREACHABLE,
    errno.ENOSPC: Kind.DISK_FULL,
    errno.EDQUOT: Kind.DISK_FULL,
    errno.EMFILE: Kind.POOL,
    errno.ENFILE: Kind.POOL,
}

# The clients' own fixed words, where one type of theirs stands for several things.
_WORDS: dict[Kind, tuple[tuple[str, Kind], ...]] = {
    Kind.PROTOCOL: (
        ("peer closed connection without sending complete message body", Kind.CUT),
        ("server disconnected", Kind.RESET),
        ("connectionterminated", Kind.RESET),
        ("streamreset", Kind.RESET),
    ),
    Kind.CONNECT: (
        ("unknown url type", Kind.BAD_URL),
        ("no host given", Kind.BAD_URL),
        ("too many redirects", Kind.REDIRECTS),
    ),
}

_Look = Callable[[BaseException, Kind | None], Kind | None]

_PAGES = ("<!doctype html", "<html")
_MOST_TYPES = 4096
# Nothing, or the first half of a word, a number or an escape.
_JSON_ENDED = r"(?:t(?:ru?)?|f(?:al?s?)?|n(?:ul?)?|-|\.|[eE][+-]?|u[0-9a-fA-F]{0,4})?"
_XML_ENDED = (3, 5)  # expat: no element found, unclosed token
_by_type: dict[type, tuple[Kind | None, _Look | None]] = {}


def kind_of(error: BaseException) -> Kind | None:
    """The kind of this one exception; its causes are not looked at."""
    cls = type(error)
    kind, look = _by_type.get(cls) or _learn(cls)
    return kind if look is None else look(error, kind)


def _learn(cls: type) -> tuple[Kind | None, _Look | None]:
    kind = next((found[0] for base in cls.__mro__ if (found := _named(base))), None)
    look = _by_errno if kind is None and issubclass(cls, OSError) else _LOOKS.get(kind)
    if len(_by_type) >= _MOST_TYPES:
        _by_type.clear()  # somebody makes types in a loop; start over rather than keep them alive
    _by_type[cls] = learnt = (kind, look)
    return learnt


def _named(cls: type) -> tuple[Kind | None] | None:
    """The entry of the table for this one class; None when there is none."""
    module, name = read(cls, "__module__"), cls.__name__
    names = NAMES.get(module.partition(".")[0]) if type(module) is str else None
    return (names[name],) if names is not None and name in names else None


def _by_errno(error: BaseException, kind: Kind | None) -> Kind | None:
    number = read(error, "errno")
    return _ERRNO.get(number, kind) if type(number) is int else kind


def _by_words(error: BaseException, kind: Kind | None) -> Kind | None:
    if (found := _by_errno(error, kind)) is not kind or kind is None:
        return found
    text = message_of(error, 200).lower()
    return next((meant for words, meant in _WORDS[kind] if words in text), kind)


def _by_json(error: BaseException, kind: Kind | None) -> Kind | None:
    """A text that stops in the middle broke off; one that is a web page comes from somebody else."""
    doc, at = read(error, "doc"), read(error, "pos")
    if type(doc) is bytes:
        doc = doc[:MOST_TEXT].decode("latin-1")
    if type(doc) is not str or type(at) is not int:
        # aiohttp looks at the content type before it reads anything.
        return Kind.HTML if "mimetype: text/html" in message_of(error, 500) else kind
    if doc[:200].lstrip().lower().startswith(_PAGES):
        return Kind.HTML
    rest = doc[at : at + MOST_TEXT].strip()
    ended = re.fullmatch(_JSON_ENDED, rest) is not None or message_of(error, 40).startswith("Unterminated")
    return Kind.CUT if ended else kind


def _by_xml(error: BaseException, kind: Kind | None) -> Kind | None:
    number = read(error, "code")
    return Kind.CUT if type(number) is int and number in _XML_ENDED else kind


_LOOKS: dict[Kind | None, _Look] = {
    Kind.CONNECT: _by_words, Kind.PROTOCOL: _by_words, Kind.NOT_JSON: _by_json, Kind.NOT_XML: _by_xml,
}  # fmt: skip
