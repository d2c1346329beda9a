"""What the exceptions of the standard library and of HTTP clients mean, by the name of their module and type."""

from __future__ import annotations

from enum import StrEnum


class ExceptionKind(StrEnum):
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

# By the first part of the module. None: the type says nothing by itself, and neither do its bases.
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
        # A connection that is used in the wrong order is a bug of the program.
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
        "TooManyRedirects": ExceptionKind.REDIRECTS,
        "ContentTypeError": ExceptionKind.NOT_JSON,
        "PayloadEncodingError": ExceptionKind.CUT,
        "HttpProcessingError": ExceptionKind.PROTOCOL,
    },
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
