"""Whose failure is it: that of the service, or a bug of the program that calls it? Decided by type and traceback.

Types such as `KeyError` and `TypeError` are bugs of the program when its own code raises them. The same types are
failures of the service when an HTTP or JSON library raises them while it reads a response. The innermost frames of the
traceback tell the two apart:

1. frames of Tidegate, and of standard modules that neither speak HTTP nor read JSON, decide nothing;
2. the first other frame, from the inside out, decides: a function that builds a request, or any code that is not a
   known client library, is the program; a known client library is the service.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from tidegate.core.chain import is_bug
from tidegate.core.reading import is_a, read

# Modules that talk to a service or read its response, by the first part of their name.
_STANDARD_CLIENTS = frozenset({
    "http", "urllib", "xmlrpc", "ftplib", "smtplib", "imaplib", "poplib", "socket", "ssl", "json", "xml", "email",
    "gzip",
})  # fmt: skip
_CLIENTS = _STANDARD_CLIENTS | frozenset({
    "httpx", "httpx2", "httpcore", "httpcore2", "h11", "h2", "hpack", "requests", "urllib3", "aiohttp", "niquests",
    "pycurl", "tornado", "treq", "websockets", "websocket", "grpc", "zeep", "simplejson", "orjson", "ujson",
    "rapidjson", "openai", "anthropic", "stripe", "boto3", "botocore", "aiobotocore", "googleapiclient", "azure",
    "spotipy", "pylast", "musicbrainzngs", "slack_sdk", "twilio", "telegram", "discord", "github", "gitlab",
    "jira", "elasticsearch",
})  # fmt: skip
# Where a client library looks at what the program gave it: module, and the functions that do so (empty: all of them).
_BUILDING: dict[str, tuple[str, ...]] = {
    "urllib.parse": (), "json.encoder": (), "json": ("dump",), "requests.models": ("prepare", "_encode"),
    "http.client": ("put", "_encode", "_send_request", "_validate"),
    **{
        f"{client}.{part}": ()
        for client in ("httpx", "httpx2")
        for part in ("_urls", "_urlparse", "_content", "_config", "_multipart", "_auth")
    },
}  # fmt: skip

# Never a response that is hard to read, whichever library raises them.
_ALWAYS_OWN = frozenset(map(id, (ImportError, ModuleNotFoundError, NameError, UnboundLocalError, SyntaxError)))
# Bugs, but their messages may be those of a network library.
_OWN_FILES = frozenset(
    map(id, (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError))
)
_OWN_TEXTS = frozenset(map(id, (UnicodeError, UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError)))

# Built-in classes that say nothing themselves, and those of lost connections.
_SILENT = frozenset(
    map(id, (BaseException, Exception, RuntimeError, OSError, ConnectionError, TimeoutError, EOFError))
) | frozenset(map(id, (ExceptionGroup, BaseExceptionGroup)))
_MAX_FRAMES = 1000
_MAX_TYPES = 4096
_readable: dict[type, bool] = {}


def is_own_bug(error: object) -> bool:
    """Whether the program's own code raised it by mistake. An exception that was never raised is not known to be."""
    if not is_a(error, BaseException):
        return False
    kind = id(type(error))
    if not (is_bug(error) or kind in _OWN_FILES or kind in _OWN_TEXTS) or error.__traceback__ is None:
        return False
    return kind in _ALWAYS_OWN or not raised_by_client(error)


def raised_by_client(error: BaseException) -> bool:
    """Whether the innermost frames that decide are those of a client library that reads a response."""
    frame = _deciding(error)
    return frame is not None and not _builds(str(frame.f_globals.get("__name__")), frame.f_code.co_name)


def has_readable_text(error: BaseException) -> bool:
    """Whether its message may be read for words and numbers, because nothing else says what it means.

    That is so for classes of network and HTTP libraries, for whatever such a library raises, and for classes that say
    nothing themselves, such as `RuntimeError` and most classes that programs derive from `Exception`.
    """
    cls = type(error)
    try:
        found = _readable.get(cls)
        if found is None:
            if len(_readable) >= _MAX_TYPES:
                _readable.clear()
            found = _readable[cls] = _says_nothing(cls)
    except Exception:  # a metaclass that has no hash, or raises when it is asked
        return False
    return found or (not is_bug(error) and _deciding(error) is not None)


def _says_nothing(cls: type) -> bool:
    module = read(cls, "__module__")
    top = module.partition(".")[0] if type(module) is str else ""
    if top in _CLIENTS or top == "asyncio":
        return True
    if top != "builtins" and top in sys.stdlib_module_names:
        return False
    base = next((each for each in cls.__mro__ if read(each, "__module__") == "builtins"), None)
    return id(base) in _SILENT


def _deciding(error: BaseException) -> FrameType | None:
    """The innermost frame of a client library; None when the program's own code is further inside."""
    for frame in _inside_out(error):
        module = frame.f_globals.get("__name__")
        if type(module) is not str:
            return None
        top = module.partition(".")[0]
        if top in _CLIENTS or module.startswith("tidegate.net."):
            return frame
        if top != "tidegate" and top not in sys.stdlib_module_names:
            return None
    return None


def _inside_out(error: BaseException) -> Iterator[FrameType]:
    frames: list[FrameType] = []
    step = error.__traceback__
    while step is not None:
        frames.append(step.tb_frame)
        step = step.tb_next
        if len(frames) > 2 * _MAX_FRAMES:
            del frames[:_MAX_FRAMES]
    return reversed(frames)


def _builds(module: str, function: str) -> bool:
    starts = _BUILDING.get(module)
    return starts is not None and (not starts or function.startswith(starts))
