"""What an exception type says by itself, by its name, without importing the library it comes from."""

from __future__ import annotations

import errno
from enum import StrEnum


class Kind(StrEnum):
    """What went wrong below or beside HTTP."""

    TIMEOUT = "timeout"
    DNS = "dns"
    REFUSED = "refused"
    RESET = "reset"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    CERTIFICATE = "certificate"
    CUT = "cut"
    CONNECT = "connect"  # the connection failed; only the cause says how
    PROTOCOL = "protocol"  # no proper HTTP came back
    BAD_URL = "bad_url"
    REDIRECTS = "redirects"
    NOT_JSON = "not_json"
    BAD_REQUEST = "bad_request"  # our side built something that cannot be sent
    POOL = "pool"
    DISK_FULL = "disk_full"
    CANCELLED = "cancelled"


# A generic kind gives way to a specific one that a cause brings.
GENERIC = frozenset({Kind.CONNECT, Kind.PROTOCOL})

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
    Kind.NOT_JSON: "bad_answer",
    Kind.BAD_REQUEST: "bad_request",
    Kind.POOL: "own_pool",
    Kind.DISK_FULL: "own_disk",
    Kind.CANCELLED: "cancelled",
}

_HTTPX = {
    "ConnectTimeout": Kind.TIMEOUT, "ReadTimeout": Kind.TIMEOUT, "WriteTimeout": Kind.TIMEOUT,
    "TimeoutException": Kind.TIMEOUT, "PoolTimeout": Kind.POOL,
    "ConnectError": Kind.CONNECT, "ProxyError": Kind.CONNECT, "ReadError": Kind.RESET, "WriteError": Kind.RESET,
    "CloseError": Kind.RESET, "NetworkError": Kind.CONNECT, "RemoteProtocolError": Kind.PROTOCOL,
    "LocalProtocolError": Kind.BAD_REQUEST, "ProtocolError": Kind.PROTOCOL,
    "UnsupportedProtocol": Kind.BAD_URL, "InvalidURL": Kind.BAD_URL, "TooManyRedirects": Kind.REDIRECTS,
    "DecodingError": Kind.CUT, "TransportError": Kind.CONNECT, "ConnectionNotAvailable": Kind.POOL,
}  # fmt: skip

_NAMES: dict[str, dict[str, Kind]] = {
    "builtins": {
        "ConnectionRefusedError": Kind.REFUSED, "ConnectionResetError": Kind.RESET, "BrokenPipeError": Kind.RESET,
        "ConnectionAbortedError": Kind.RESET, "ConnectionError": Kind.CONNECT, "TimeoutError": Kind.TIMEOUT,
    },
    "socket": {"gaierror": Kind.DNS, "herror": Kind.DNS, "timeout": Kind.TIMEOUT},
    "ssl": {
        "SSLCertVerificationError": Kind.CERTIFICATE, "CertificateError": Kind.CERTIFICATE,
        "SSLZeroReturnError": Kind.RESET, "SSLEOFError": Kind.RESET, "SSLError": Kind.TLS,
    },
    "http": {
        "IncompleteRead": Kind.CUT, "RemoteDisconnected": Kind.RESET, "InvalidURL": Kind.BAD_URL,
        "BadStatusLine": Kind.PROTOCOL, "HTTPException": Kind.PROTOCOL,
    },
    "urllib": {"ContentTooShortError": Kind.CUT, "URLError": Kind.CONNECT},
    "asyncio": {
        "TimeoutError": Kind.TIMEOUT, "IncompleteReadError": Kind.CUT, "CancelledError": Kind.CANCELLED,
        "LimitOverrunError": Kind.PROTOCOL,
    },
    "concurrent": {"TimeoutError": Kind.TIMEOUT, "CancelledError": Kind.CANCELLED},
    "json": {"JSONDecodeError": Kind.NOT_JSON},
    "zlib": {"error": Kind.CUT},
    "httpx": _HTTPX, "httpx2": _HTTPX, "httpcore": _HTTPX, "httpcore2": _HTTPX,
    "requests": {
        "ConnectTimeout": Kind.TIMEOUT, "ReadTimeout": Kind.TIMEOUT, "Timeout": Kind.TIMEOUT,
        "SSLError": Kind.TLS, "ProxyError": Kind.CONNECT, "ConnectionError": Kind.CONNECT,
        "ChunkedEncodingError": Kind.CUT, "ContentDecodingError": Kind.CUT, "TooManyRedirects": Kind.REDIRECTS,
        "InvalidURL": Kind.BAD_URL, "MissingSchema": Kind.BAD_URL, "InvalidSchema": Kind.BAD_URL,
        "InvalidHeader": Kind.BAD_REQUEST, "JSONDecodeError": Kind.NOT_JSON, "InvalidJSONError": Kind.BAD_REQUEST,
    },
    "urllib3": {
        "NameResolutionError": Kind.DNS, "NewConnectionError": Kind.CONNECT, "ConnectTimeoutError": Kind.TIMEOUT,
        "ReadTimeoutError": Kind.TIMEOUT, "TimeoutError": Kind.TIMEOUT, "SSLError": Kind.TLS,
        "IncompleteRead": Kind.CUT, "InvalidChunkLength": Kind.CUT, "ProtocolError": Kind.PROTOCOL,
        "ProxyError": Kind.CONNECT, "DecodeError": Kind.CUT, "LocationParseError": Kind.BAD_URL,
        "LocationValueError": Kind.BAD_URL, "EmptyPoolError": Kind.POOL, "MaxRetryError": Kind.CONNECT,
    },
    "aiohttp": {
        "ConnectionTimeoutError": Kind.TIMEOUT, "SocketTimeoutError": Kind.TIMEOUT, "ServerTimeoutError": Kind.TIMEOUT,
        "ClientConnectorDNSError": Kind.DNS, "ClientConnectorCertificateError": Kind.CERTIFICATE,
        "ClientConnectorSSLError": Kind.TLS, "ClientSSLError": Kind.TLS, "ServerFingerprintMismatch": Kind.CERTIFICATE,
        "ServerDisconnectedError": Kind.RESET, "ClientConnectionResetError": Kind.RESET,
        "ClientConnectorError": Kind.CONNECT, "ClientOSError": Kind.CONNECT, "ClientConnectionError": Kind.CONNECT,
        "ClientPayloadError": Kind.CUT, "InvalidURL": Kind.BAD_URL, "TooManyRedirects": Kind.REDIRECTS,
        "ContentTypeError": Kind.NOT_JSON,
    },
    "openai": {
        "APITimeoutError": Kind.TIMEOUT, "APIConnectionError": Kind.CONNECT, "APIResponseValidationError": Kind.NOT_JSON,
    },
    "anyio": {"EndOfStream": Kind.RESET, "BrokenResourceError": Kind.RESET, "IncompleteRead": Kind.CUT},
}  # fmt: skip

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

_MOST_TYPES = 4096
_by_type: dict[type, Kind | None] = {}


def kind_of(error: BaseException) -> Kind | None:
    """The kind of this one exception, by its type and errno; its causes are not looked at."""
    found = _kind_of_type(type(error))
    if found is None and isinstance(error, OSError):
        return _ERRNO.get(error.errno) if isinstance(error.errno, int) else None
    if found is Kind.CONNECT and isinstance(error, OSError) and isinstance(error.errno, int):
        return _ERRNO.get(error.errno, found)
    if found is Kind.NOT_JSON and _ended_early(error):
        return Kind.CUT
    return found


def _kind_of_type(cls: type) -> Kind | None:
    try:
        return _by_type[cls]
    except KeyError:
        pass
    found = next((kind for base in cls.__mro__ if (kind := _named(base)) is not None), None)
    if len(_by_type) >= _MOST_TYPES:
        _by_type.clear()  # somebody makes types in a loop; start over rather than keep them alive
    _by_type[cls] = found
    return found


def _named(cls: type) -> Kind | None:
    module = cls.__module__
    names = _NAMES.get(module.partition(".")[0]) if isinstance(module, str) else None
    return None if names is None else names.get(cls.__name__)


def _ended_early(error: BaseException) -> bool:
    """Whether a JSON text stopped in the middle: an answer that broke off, not one of another shape."""
    doc, pos = getattr(error, "doc", None), getattr(error, "pos", None)
    return isinstance(doc, str) and isinstance(pos, int) and bool(doc.strip()) and pos >= len(doc.rstrip())
