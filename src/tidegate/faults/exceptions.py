"""Exception types of the standard library and of HTTP clients, and the kind of failure of each."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from enum import StrEnum

from tidegate.faults.introspection import MAX_TEXT, message_of, read

# -- kinds ----------------------------------------------------------------------------------------------------------


class ExceptionKind(StrEnum):
    """What went wrong below HTTP or around it."""

    TIMEOUT = "timeout"
    DNS = "dns"
    REFUSED = "refused"
    RESET = "reset"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    CERTIFICATE = "certificate"
    CUT = "cut"
    CONNECT = "connect"  # the connection failed; only the cause tells how
    PROTOCOL = "protocol"  # the response was not valid HTTP
    BAD_URL = "bad_url"
    REDIRECTS = "redirects"
    TOO_BIG = "too_big"
    NOT_JSON = "not_json"
    NOT_XML = "not_xml"
    HTML = "html"  # a web page instead of data
    BAD_REQUEST = "bad_request"  # our side built a request that cannot be sent
    POOL = "pool"
    DISK_FULL = "disk_full"
    CANCELLED = "cancelled"
    HELD = "held"  # an inner gate held the call: nothing was sent


_HTTPX: dict[str, ExceptionKind | None] = {
    "ConnectTimeout": ExceptionKind.TIMEOUT,
    "ReadTimeout": ExceptionKind.TIMEOUT,
    "WriteTimeout": ExceptionKind.TIMEOUT,
    "TimeoutException": ExceptionKind.TIMEOUT,
    "PoolTimeout": ExceptionKind.POOL,
    "ConnectError": ExceptionKind.CONNECT,
    "ProxyError": ExceptionKind.CONNECT,
    "ReadError": ExceptionKind.RESET,
    "WriteError": ExceptionKind.RESET,
    "CloseError": ExceptionKind.RESET,
    "NetworkError": ExceptionKind.CONNECT,
    "RemoteProtocolError": ExceptionKind.PROTOCOL,
    "LocalProtocolError": ExceptionKind.BAD_REQUEST,
    "ProtocolError": ExceptionKind.PROTOCOL,
    "UnsupportedProtocol": ExceptionKind.BAD_URL,
    "InvalidURL": ExceptionKind.BAD_URL,
    "TooManyRedirects": ExceptionKind.REDIRECTS,
    "DecodingError": ExceptionKind.CUT,
    "TransportError": ExceptionKind.CONNECT,
    "ConnectionNotAvailable": ExceptionKind.POOL,
}

# By the first part of the module. None: neither the type nor its bases have a meaning.
NAMES: dict[str, dict[str, ExceptionKind | None]] = {
    "builtins": {
        "ConnectionRefusedError": ExceptionKind.REFUSED,
        "ConnectionResetError": ExceptionKind.RESET,
        "BrokenPipeError": ExceptionKind.RESET,
        "ConnectionAbortedError": ExceptionKind.RESET,
        "ConnectionError": ExceptionKind.CONNECT,
        "TimeoutError": ExceptionKind.TIMEOUT,
        "EOFError": ExceptionKind.CUT,
        "KeyboardInterrupt": ExceptionKind.CANCELLED,
        "SystemExit": ExceptionKind.CANCELLED,
        "GeneratorExit": ExceptionKind.CANCELLED,
    },
    "socket": {"gaierror": ExceptionKind.DNS, "herror": ExceptionKind.DNS, "timeout": ExceptionKind.TIMEOUT},
    "ssl": {
        "SSLCertVerificationError": ExceptionKind.CERTIFICATE,
        "CertificateError": ExceptionKind.CERTIFICATE,
        "SSLZeroReturnError": ExceptionKind.RESET,
        "SSLEOFError": ExceptionKind.RESET,
        "SSLError": ExceptionKind.TLS,
    },
    "http": {
        "IncompleteRead": ExceptionKind.CUT,
        "RemoteDisconnected": ExceptionKind.RESET,
        "InvalidURL": ExceptionKind.BAD_URL,
        "BadStatusLine": ExceptionKind.PROTOCOL,
        "LineTooLong": ExceptionKind.PROTOCOL,
        "UnknownProtocol": ExceptionKind.PROTOCOL,
        "UnknownTransferEncoding": ExceptionKind.PROTOCOL,
        "HTTPException": ExceptionKind.PROTOCOL,
        # Wrong order of operations on a connection is a bug of the program.
        "ImproperConnectionState": None,
        "NotConnected": None,
        "UnimplementedFileMode": None,
    },
    "urllib": {"HTTPError": None, "ContentTooShortError": ExceptionKind.CUT, "URLError": ExceptionKind.CONNECT},
    "asyncio": {
        "TimeoutError": ExceptionKind.TIMEOUT,
        "IncompleteReadError": ExceptionKind.CUT,
        "CancelledError": ExceptionKind.CANCELLED,
        "LimitOverrunError": ExceptionKind.PROTOCOL,
    },
    "concurrent": {"TimeoutError": ExceptionKind.TIMEOUT, "CancelledError": ExceptionKind.CANCELLED},
    "json": {"JSONDecodeError": ExceptionKind.NOT_JSON},
    "simplejson": {"JSONDecodeError": ExceptionKind.NOT_JSON},
    "xml": {"ParseError": ExceptionKind.NOT_XML, "ExpatError": ExceptionKind.NOT_XML},
    "zlib": {"error": ExceptionKind.CUT},
    "gzip": {"BadGzipFile": ExceptionKind.CUT},
    "httpx": _HTTPX,
    "httpx2": _HTTPX,
    "httpcore": _HTTPX,
    "httpcore2": _HTTPX,
    "requests": {
        "ConnectTimeout": ExceptionKind.TIMEOUT,
        "ReadTimeout": ExceptionKind.TIMEOUT,
        "Timeout": ExceptionKind.TIMEOUT,
        "SSLError": ExceptionKind.TLS,
        "ProxyError": ExceptionKind.CONNECT,
        "ConnectionError": ExceptionKind.CONNECT,
        "ChunkedEncodingError": ExceptionKind.CUT,
        "ContentDecodingError": ExceptionKind.CUT,
        "TooManyRedirects": ExceptionKind.REDIRECTS,
        "InvalidURL": ExceptionKind.BAD_URL,
        "MissingSchema": ExceptionKind.BAD_URL,
        "InvalidSchema": ExceptionKind.BAD_URL,
        "URLRequired": ExceptionKind.BAD_URL,
        "InvalidHeader": ExceptionKind.BAD_REQUEST,
        "JSONDecodeError": ExceptionKind.NOT_JSON,
        "InvalidJSONError": ExceptionKind.BAD_REQUEST,
    },
    "urllib3": {
        "NameResolutionError": ExceptionKind.DNS,
        "NewConnectionError": ExceptionKind.CONNECT,
        "ConnectTimeoutError": ExceptionKind.TIMEOUT,
        "ReadTimeoutError": ExceptionKind.TIMEOUT,
        "TimeoutError": ExceptionKind.TIMEOUT,
        "SSLError": ExceptionKind.TLS,
        "IncompleteRead": ExceptionKind.CUT,
        "InvalidChunkLength": ExceptionKind.CUT,
        "ProtocolError": ExceptionKind.PROTOCOL,
        "ProxyError": ExceptionKind.CONNECT,
        "DecodeError": ExceptionKind.CUT,
        "LocationParseError": ExceptionKind.BAD_URL,
        "LocationValueError": ExceptionKind.BAD_URL,
        "EmptyPoolError": ExceptionKind.POOL,
        "MaxRetryError": ExceptionKind.CONNECT,
        "ResponseError": ExceptionKind.CONNECT,
    },
    "aiohttp": {
        "ConnectionTimeoutError": ExceptionKind.TIMEOUT,
        "SocketTimeoutError": ExceptionKind.TIMEOUT,
        "ServerTimeoutError": ExceptionKind.TIMEOUT,
        "ClientConnectorDNSError": ExceptionKind.DNS,
        "ClientConnectorCertificateError": ExceptionKind.CERTIFICATE,
        "ClientConnectorSSLError": ExceptionKind.TLS,
        "ClientSSLError": ExceptionKind.TLS,
        "ServerFingerprintMismatch": ExceptionKind.CERTIFICATE,
        "ServerDisconnectedError": ExceptionKind.RESET,
        "ClientConnectionResetError": ExceptionKind.RESET,
        "ClientConnectorError": ExceptionKind.CONNECT,
        "ClientOSError": ExceptionKind.CONNECT,
        "ClientConnectionError": ExceptionKind.CONNECT,
        "ClientPayloadError": ExceptionKind.CUT,
        "InvalidURL": ExceptionKind.BAD_URL,
        "NonHttpUrlClientError": ExceptionKind.BAD_URL,
        "RedirectClientError": ExceptionKind.REDIRECTS,
        "InvalidUrlRedirectClientError": ExceptionKind.REDIRECTS,
        "NonHttpUrlRedirectClientError": ExceptionKind.REDIRECTS,
        "TooManyRedirects": ExceptionKind.REDIRECTS,
        "ContentTypeError": ExceptionKind.NOT_JSON,
        "PayloadEncodingError": ExceptionKind.CUT,
        "HttpProcessingError": ExceptionKind.PROTOCOL,
    },
    "botocore": {"ParamValidationError": ExceptionKind.BAD_REQUEST},
    "openai": {
        "APITimeoutError": ExceptionKind.TIMEOUT,
        "APIConnectionError": ExceptionKind.CONNECT,
        "APIResponseValidationError": ExceptionKind.NOT_JSON,
    },
    "anyio": {
        "EndOfStream": ExceptionKind.RESET,
        "BrokenResourceError": ExceptionKind.RESET,
        "IncompleteRead": ExceptionKind.CUT,
    },
    "h11": {"RemoteProtocolError": ExceptionKind.PROTOCOL, "LocalProtocolError": ExceptionKind.BAD_REQUEST},
    "tidegate": {
        "Held": ExceptionKind.HELD,
        "BadUrl": ExceptionKind.BAD_URL,
        "BlockedAddress": ExceptionKind.BAD_URL,
        "BadRedirect": ExceptionKind.REDIRECTS,
        "TooBig": ExceptionKind.TOO_BIG,
        "TooSlow": ExceptionKind.TIMEOUT,
        "Busy": ExceptionKind.POOL,
        "CutShort": ExceptionKind.CUT,
        "Unreachable": ExceptionKind.CONNECT,
        "Broken": ExceptionKind.CONNECT,
    },
}


# -- kind of an exception -------------------------------------------------------------------------------------------

CODE_OF_KIND = {
    ExceptionKind.TIMEOUT: "timeout",
    ExceptionKind.DNS: "network",
    ExceptionKind.REFUSED: "network",
    ExceptionKind.RESET: "network",
    ExceptionKind.UNREACHABLE: "network",
    ExceptionKind.TLS: "network",
    ExceptionKind.CONNECT: "network",
    ExceptionKind.PROTOCOL: "network",
    ExceptionKind.CERTIFICATE: "certificate",
    ExceptionKind.CUT: "cut_short",
    ExceptionKind.BAD_URL: "bad_address",
    ExceptionKind.REDIRECTS: "redirected",
    ExceptionKind.TOO_BIG: "parse_error",
    ExceptionKind.NOT_JSON: "bad_answer",
    ExceptionKind.NOT_XML: "bad_answer",
    ExceptionKind.HTML: "html_answer",
    ExceptionKind.BAD_REQUEST: "bad_request",
    ExceptionKind.POOL: "own_pool",
    ExceptionKind.DISK_FULL: "own_disk",
    ExceptionKind.CANCELLED: "cancelled",
    ExceptionKind.HELD: "cancelled",
}

# A stronger kind in a cause beats a weaker one above it: an SSLError of a client may be a wrong certificate, and its
# timeout may be our own full pool.
STRENGTH = dict.fromkeys(ExceptionKind, 3) | {
    ExceptionKind.CONNECT: 0,
    ExceptionKind.PROTOCOL: 1,
    ExceptionKind.TLS: 2,
    ExceptionKind.TIMEOUT: 2,
    ExceptionKind.CUT: 2,
    ExceptionKind.NOT_JSON: 2,
}
VAGUE = frozenset({ExceptionKind.CONNECT, ExceptionKind.PROTOCOL})

OURS = frozenset({ExceptionKind.CANCELLED, ExceptionKind.HELD})
UNSENT = frozenset({ExceptionKind.BAD_URL, ExceptionKind.BAD_REQUEST})  # the client refused to send the request

# These may carry a status without meaning: of a response that could not be read, of the last redirect, or one that the
# client invented for a response that is not HTTP.
INCIDENTAL = frozenset(
    {ExceptionKind.NOT_JSON, ExceptionKind.HTML, ExceptionKind.CUT, ExceptionKind.REDIRECTS, ExceptionKind.PROTOCOL}
)

_ERRNO = {
    errno.ETIMEDOUT: ExceptionKind.TIMEOUT,
    errno.ECONNREFUSED: ExceptionKind.REFUSED,
    errno.ECONNRESET: ExceptionKind.RESET,
    errno.ECONNABORTED: ExceptionKind.RESET,
    errno.EPIPE: ExceptionKind.RESET,
    errno.ENETUNREACH: ExceptionKind.UNREACHABLE,
    errno.EHOSTUNREACH: ExceptionKind.UNREACHABLE,
    errno.ENETDOWN: ExceptionKind.UNREACHABLE,
    errno.EHOSTDOWN: ExceptionKind.UNREACHABLE,
    errno.ENOSPC: ExceptionKind.DISK_FULL,
    errno.EDQUOT: ExceptionKind.DISK_FULL,
    errno.EMFILE: ExceptionKind.POOL,
    errno.ENFILE: ExceptionKind.POOL,
}

# Fixed messages of clients, where one type has several meanings.
_WORDS: dict[ExceptionKind, tuple[tuple[str, ExceptionKind], ...]] = {
    ExceptionKind.PROTOCOL: (
        ("peer closed connection without sending complete message body", ExceptionKind.CUT),
        ("server disconnected", ExceptionKind.RESET),
        ("connectionterminated", ExceptionKind.RESET),
        ("streamreset", ExceptionKind.RESET),
    ),
    ExceptionKind.CONNECT: (
        ("unknown url type", ExceptionKind.BAD_URL),
        ("no host given", ExceptionKind.BAD_URL),
        ("too many redirects", ExceptionKind.REDIRECTS),
    ),
}

_Refinement = Callable[[BaseException, ExceptionKind | None], ExceptionKind | None]

_PAGES = ("<!doctype html", "<html")
_MAX_TYPES = 4096
# Nothing, or the first half of a word, a number or an escape.
_JSON_ENDED = r"(?:t(?:ru?)?|f(?:al?s?)?|n(?:ul?)?|-|\.|[eE][+-]?|u[0-9a-fA-F]{0,4})?"
_XML_ENDED = (3, 5)  # expat: no element found, unclosed token
_by_type: dict[type, tuple[ExceptionKind | None, _Refinement | None]] = {}


def kind_of(error: BaseException) -> ExceptionKind | None:
    """Returns the kind of this exception. Ignores its causes."""
    cls = type(error)
    kind, look = _by_type.get(cls) or _learn(cls)
    return kind if look is None else look(error, kind)


def _learn(cls: type) -> tuple[ExceptionKind | None, _Refinement | None]:
    kind = next((entry[0] for base in cls.__mro__ if (entry := _named(base))), None)
    look = _by_errno if kind is None and issubclass(cls, OSError) else _REFINEMENTS.get(kind)
    if len(_by_type) >= _MAX_TYPES:
        _by_type.clear()  # the program creates types in a loop; dropping all entries frees them
    _by_type[cls] = learnt = (kind, look)
    return learnt


def _named(cls: type) -> tuple[ExceptionKind | None] | None:
    """Returns the table entry of this class, or None."""
    module, name = read(cls, "__module__"), cls.__name__
    names = NAMES.get(module.partition(".")[0]) if type(module) is str else None
    return (names[name],) if names is not None and name in names else None


def _by_errno(error: BaseException, kind: ExceptionKind | None) -> ExceptionKind | None:
    number = read(error, "errno")
    return _ERRNO.get(number, kind) if type(number) is int else kind


def _by_words(error: BaseException, kind: ExceptionKind | None) -> ExceptionKind | None:
    if (by_errno := _by_errno(error, kind)) is not kind or kind is None:
        return by_errno
    text = message_of(error, 200).lower()
    return next((meant for words, meant in _WORDS[kind] if words in text), kind)


def _by_json(error: BaseException, kind: ExceptionKind | None) -> ExceptionKind | None:
    """Text that stops in the middle was cut off. A web page comes from another server."""
    doc, at = read(error, "doc"), read(error, "pos")
    if type(doc) is bytes:
        doc = doc[:MAX_TEXT].decode("latin-1")
    if type(doc) is not str or type(at) is not int:
        # aiohttp checks the content type before it reads the body.
        return ExceptionKind.HTML if "mimetype: text/html" in message_of(error, 500) else kind
    if doc[:200].lstrip().lower().startswith(_PAGES):
        return ExceptionKind.HTML
    rest = doc[at : at + MAX_TEXT].strip()
    ended = re.fullmatch(_JSON_ENDED, rest) is not None or message_of(error, 40).startswith("Unterminated")
    return ExceptionKind.CUT if ended else kind


def _by_xml(error: BaseException, kind: ExceptionKind | None) -> ExceptionKind | None:
    number = read(error, "code")
    return ExceptionKind.CUT if type(number) is int and number in _XML_ENDED else kind


_REFINEMENTS: dict[ExceptionKind | None, _Refinement] = {
    ExceptionKind.CONNECT: _by_words,
    ExceptionKind.PROTOCOL: _by_words,
    ExceptionKind.NOT_JSON: _by_json,
    ExceptionKind.NOT_XML: _by_xml,
}
