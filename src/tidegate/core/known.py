"""What the exceptions of the standard library and of HTTP clients mean, by the name of their module and type."""

from __future__ import annotations

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
    TOO_BIG = "too_big"
    NOT_JSON = "not_json"
    NOT_XML = "not_xml"
    HTML = "html"  # a web page where data was expected
    BAD_REQUEST = "bad_request"  # our side built something that cannot be sent
    POOL = "pool"
    DISK_FULL = "disk_full"
    CANCELLED = "cancelled"
    HELD = "held"  # a gate further in was shut: nothing was sent


_HTTPX: dict[str, Kind | None] = {
    "ConnectTimeout": Kind.TIMEOUT, "ReadTimeout": Kind.TIMEOUT, "WriteTimeout": Kind.TIMEOUT,
    "TimeoutException": Kind.TIMEOUT, "PoolTimeout": Kind.POOL,
    "ConnectError": Kind.CONNECT, "ProxyError": Kind.CONNECT, "ReadError": Kind.RESET, "WriteError": Kind.RESET,
    "CloseError": Kind.RESET, "NetworkError": Kind.CONNECT, "RemoteProtocolError": Kind.PROTOCOL,
    "LocalProtocolError": Kind.BAD_REQUEST, "ProtocolError": Kind.PROTOCOL,
    "UnsupportedProtocol": Kind.BAD_URL, "InvalidURL": Kind.BAD_URL, "TooManyRedirects": Kind.REDIRECTS,
    "DecodingError": Kind.CUT, "TransportError": Kind.CONNECT, "ConnectionNotAvailable": Kind.POOL,
}  # fmt: skip

# By the first part of the module. None: the type says nothing by itself, and neither do its bases.
NAMES: dict[str, dict[str, Kind | None]] = {
    "builtins": {
        "ConnectionRefusedError": Kind.REFUSED, "ConnectionResetError": Kind.RESET, "BrokenPipeError": Kind.RESET,
        "ConnectionAbortedError": Kind.RESET, "ConnectionError": Kind.CONNECT, "TimeoutError": Kind.TIMEOUT,
        "EOFError": Kind.CUT, "KeyboardInterrupt": Kind.CANCELLED, "SystemExit": Kind.CANCELLED,
        "GeneratorExit": Kind.CANCELLED,
    },
    "socket": {"gaierror": Kind.DNS, "herror": Kind.DNS, "timeout": Kind.TIMEOUT},
    "ssl": {
        "SSLCertVerificationError": Kind.CERTIFICATE, "CertificateError": Kind.CERTIFICATE,
        "SSLZeroReturnError": Kind.RESET, "SSLEOFError": Kind.RESET, "SSLError": Kind.TLS,
    },
    "http": {
        "IncompleteRead": Kind.CUT, "RemoteDisconnected": Kind.RESET, "InvalidURL": Kind.BAD_URL,
        "BadStatusLine": Kind.PROTOCOL, "LineTooLong": Kind.PROTOCOL, "UnknownProtocol": Kind.PROTOCOL,
        "UnknownTransferEncoding": Kind.PROTOCOL, "HTTPException": Kind.PROTOCOL,
        # A connection that is used in the wrong order is a bug of the program.
        "ImproperConnectionState": None, "NotConnected": None, "UnimplementedFileMode": None,
    },
    "urllib": {"HTTPError": None, "ContentTooShortError": Kind.CUT, "URLError": Kind.CONNECT},
    "asyncio": {
        "TimeoutError": Kind.TIMEOUT, "IncompleteReadError": Kind.CUT, "CancelledError": Kind.CANCELLED,
        "LimitOverrunError": Kind.PROTOCOL,
    },
    "concurrent": {"TimeoutError": Kind.TIMEOUT, "CancelledError": Kind.CANCELLED},
    "json": {"JSONDecodeError": Kind.NOT_JSON}, "simplejson": {"JSONDecodeError": Kind.NOT_JSON},
    "xml": {"ParseError": Kind.NOT_XML, "ExpatError": Kind.NOT_XML},
    "zlib": {"error": Kind.CUT},
    "gzip": {"BadGzipFile": Kind.CUT},
    "httpx": _HTTPX, "httpx2": _HTTPX, "httpcore": _HTTPX, "httpcore2": _HTTPX,
    "requests": {
        "ConnectTimeout": Kind.TIMEOUT, "ReadTimeout": Kind.TIMEOUT, "Timeout": Kind.TIMEOUT,
        "SSLError": Kind.TLS, "ProxyError": Kind.CONNECT, "ConnectionError": Kind.CONNECT,
        "ChunkedEncodingError": Kind.CUT, "ContentDecodingError": Kind.CUT, "TooManyRedirects": Kind.REDIRECTS,
        "InvalidURL": Kind.BAD_URL, "MissingSchema": Kind.BAD_URL, "InvalidSchema": Kind.BAD_URL,
        "URLRequired": Kind.BAD_URL, "InvalidHeader": Kind.BAD_REQUEST, "JSONDecodeError": Kind.NOT_JSON,
        "InvalidJSONError": Kind.BAD_REQUEST,
    },
    "urllib3": {
        "NameResolutionError": Kind.DNS, "NewConnectionError": Kind.CONNECT, "ConnectTimeoutError": Kind.TIMEOUT,
        "ReadTimeoutError": Kind.TIMEOUT, "TimeoutError": Kind.TIMEOUT, "SSLError": Kind.TLS,
        "IncompleteRead": Kind.CUT, "InvalidChunkLength": Kind.CUT, "ProtocolError": Kind.PROTOCOL,
        "ProxyError": Kind.CONNECT, "DecodeError": Kind.CUT, "LocationParseError": Kind.BAD_URL,
        "LocationValueError": Kind.BAD_URL, "EmptyPoolError": Kind.POOL, "MaxRetryError": Kind.CONNECT,
        "ResponseError": Kind.CONNECT,
    },
    "aiohttp": {
        "ConnectionTimeoutError": Kind.TIMEOUT, "SocketTimeoutError": Kind.TIMEOUT, "ServerTimeoutError": Kind.TIMEOUT,
        "ClientConnectorDNSError": Kind.DNS, "ClientConnectorCertificateError": Kind.CERTIFICATE,
        "ClientConnectorSSLError": Kind.TLS, "ClientSSLError": Kind.TLS, "ServerFingerprintMismatch": Kind.CERTIFICATE,
        "ServerDisconnectedError": Kind.RESET, "ClientConnectionResetError": Kind.RESET,
        "ClientConnectorError": Kind.CONNECT, "ClientOSError": Kind.CONNECT, "ClientConnectionError": Kind.CONNECT,
        "ClientPayloadError": Kind.CUT, "InvalidURL": Kind.BAD_URL, "NonHttpUrlClientError": Kind.BAD_URL,
        "RedirectClientError": Kind.REDIRECTS, "TooManyRedirects": Kind.REDIRECTS, "ContentTypeError": Kind.NOT_JSON,
        "PayloadEncodingError": Kind.CUT, "HttpProcessingError": Kind.PROTOCOL,
    },
    "openai": {
        "APITimeoutError": Kind.TIMEOUT, "APIConnectionError": Kind.CONNECT,
        "APIResponseValidationError": Kind.NOT_JSON,
    },
    "anyio": {"EndOfStream": Kind.RESET, "BrokenResourceError": Kind.RESET, "IncompleteRead": Kind.CUT},
    "h11": {"RemoteProtocolError": Kind.PROTOCOL, "LocalProtocolError": Kind.BAD_REQUEST},
    "tidegate": {
        "Held": Kind.HELD, "BadUrl": Kind.BAD_URL, "BlockedAddress": Kind.BAD_URL, "BadRedirect": Kind.REDIRECTS,
        "TooBig": Kind.TOO_BIG, "TooSlow": Kind.TIMEOUT, "Busy": Kind.POOL, "CutShort": Kind.CUT,
        "Unreachable": Kind.CONNECT, "Broken": Kind.CONNECT,
    },
}  # fmt: skip
