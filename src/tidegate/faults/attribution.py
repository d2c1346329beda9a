"""Attributes a failure to the service or to a bug of the program, by exception type and traceback.

Types such as `KeyError` and `TypeError` are bugs of the program if its own code raises them, or if a client library
raises them because of its arguments. They are failures of the service if a client library raises them while it reads a
response. The frames of the traceback tell these apart, from the inside out:

1. Frames of Tidegate, and of standard modules that neither use HTTP nor read JSON, are skipped.
2. A function of a client library that reads a response means the service. One that builds or sends a request means the
program.
3. Other functions of client libraries are skipped. The first frame of any other code means the program.

A client library is on a list, or is the package of a client that the program has wrapped.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from enum import Enum
from types import CodeType, TracebackType

from tidegate.faults.introspection import is_a, is_bug, read

# Modules that call a service or read its response, by the first part of their name.
_PARSERS = frozenset({"json", "simplejson", "orjson", "ujson", "rapidjson", "xml", "gzip", "email"})
# Libraries for one service: a missing key is missing in a response.
_SDKS = frozenset(
    {
        "openai",
        "anthropic",
        "stripe",
        "boto3",
        "botocore",
        "aiobotocore",
        "googleapiclient",
        "azure",
        "spotipy",
        "pylast",
        "musicbrainzngs",
        "slack_sdk",
        "twilio",
        "telegram",
        "discord",
        "github",
        "gitlab",
        "jira",
        "elasticsearch",
    }
)
_CLIENTS = _PARSERS | _SDKS | frozenset({
    "http", "urllib", "xmlrpc", "ftplib", "smtplib", "imaplib", "poplib", "socket", "ssl",
    "httpx", "httpx2", "httpcore", "httpcore2", "h11", "h2", "hpack", "requests", "urllib3", "aiohttp", "niquests",
    "pycurl", "tornado", "treq", "websockets", "websocket", "grpc", "zeep",
})  # fmt: skip
# Packages of wrapped clients. They are libraries for one service. Each of their functions reads a response, unless it
# builds or sends a request.
_WRAPPED: set[str] = set()
# Where a client library checks its arguments: module, and prefixes of functions (empty: all of them).
_BUILDING: dict[str, tuple[str, ...]] = {
    "urllib.parse": (), "json.encoder": (), "json": ("dump",), "requests.models": ("prepare", "_encode"),
    "http.client": ("put", "_encode", "_send", "_validate", "_read_readable", "_get_content_length"),
    "urllib.request": ("_parse", "parse_"), "urllib3.util.url": (), "urllib3.util.timeout": (),
    "aiohttp.client_proto": ("set_response_params",),
    "ssl": ("create_default_context", "_create_unverified_context", "load_"),
    **{
        f"{client}.{part}": ()
        for client in ("httpx", "httpx2")
        for part in ("_urls", "_urlparse", "_content", "_config", "_multipart", "_auth")
    },
}  # fmt: skip
# In any client library, by the names of functions without leading underscores, and by the names of classes.
_SENDS = re.compile(r"send|request|build_request|prepare|urlopen|encode|dump|write|put|serialize|tostring|escape")
_READS = re.compile(
    r"a?read|recv|receive|a?iter_|begin|parse|decode|raw_decode|decompress|unpack|unmarshal|deserialize|construct|loads"
    r"|feed|data_received|next_event|getre(?:sp|ply)|get_?(?:multi|long)?(?:line|resp)|get_tagged|handle_chunk"
    r"|update_chunk|extract_(?:next|cookies)|raise_for_status|get_redirect|redirect_|process_(?:event|reply)|.*response"
)
_READERS = re.compile(r".*(?:Response|ResponseStream|Reader|Decoder|Parser|Unmarshaller)|(?:Async)?Stream")
# `email` parses request headers and response headers with the same functions.
_READING_MODULES = frozenset({"email.parser", "email.feedparser", "tidegate.net.decoding"})

# Never caused by an unreadable response, whichever library raises them.
_ALWAYS_OWN = frozenset(map(id, (ImportError, ModuleNotFoundError, NameError, UnboundLocalError, SyntaxError)))
# Bugs, but their messages may come from a network library.
_OWN_FILES = frozenset(
    map(id, (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError))
)
_OWN_TEXTS = frozenset(map(id, (UnicodeError, UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError)))

# Built-in classes without a specific meaning, and those of lost connections.
_SILENT = frozenset(
    map(id, (BaseException, Exception, RuntimeError, OSError, ConnectionError, TimeoutError, EOFError))
) | frozenset(map(id, (ExceptionGroup, BaseExceptionGroup)))
# What a parser raises for an argument that is not text.
_NOT_A_TEXT = frozenset(map(id, (TypeError, AttributeError)))
_MISSING = frozenset(map(id, (KeyError, IndexError)))
_MAX_FRAMES = 1000
_MAX_MEMBERS = 1000  # of a group, including nested groups
_MAX_TYPES = 4096
_readable: dict[type, bool] = {}


class _Part(Enum):
    """The role of a function in a call, by its name."""

    READS = "reads a response"
    BUILDS = "builds or sends a request"
    CLIENT = "belongs to a client library"
    SKIPPED = "belongs to Tidegate or the standard library"
    PROGRAM = "belongs to the program"


_parts: dict[tuple[str, str], _Part] = {}


def add_client(client: object, program: str) -> None:
    """Treats the package of *client* as a client library, unless it is the package of the module *program*."""
    module = read(type(client), "__module__")
    top = module.partition(".")[0] if type(module) is str else ""
    known = top in _CLIENTS or top == "tidegate" or top in sys.stdlib_module_names
    if known or top in ("", "__main__", program.partition(".")[0]) or top in _WRAPPED:
        return
    _WRAPPED.add(top)
    _parts.clear()
    _readable.clear()


def is_own_bug(error: object) -> bool:
    """Whether the program's own code is at fault. False for an exception that was never raised.

    A group is a bug of the program if all its exceptions are.
    """
    if not is_a(error, BaseException):
        return False
    if is_a(error, BaseExceptionGroup):
        return _all_own(error)
    kind = id(type(error))
    if read(error, "__traceback__") is None:
        return False
    if kind in _OWN_FILES:
        return _is_own_file(error)
    if kind == id(OSError):
        return read(error, "errno") is None and _is_missing_certificate(error)
    if not (is_bug(error) or kind in _OWN_TEXTS):
        return False
    return kind in _ALWAYS_OWN or not reads_response(error)


def reads_response(error: BaseException) -> bool:
    """Whether a client library raised it while it read a response."""
    kind = id(type(error))
    innermost = True
    for module, code in _inside_out(error):
        part = _part_of(module, code)
        top = module.partition(".")[0]
        if innermost and kind in _MISSING and (top in _SDKS or top in _WRAPPED):
            return True
        innermost = False
        if part is _Part.READS and not (kind in _NOT_A_TEXT and top in _PARSERS):
            return True
        if part is _Part.BUILDS or part is _Part.PROGRAM:
            return False
    return False


def has_readable_text(error: BaseException) -> bool:
    """Whether to search its message for words and numbers, because nothing else has a meaning.

    That is so for classes of network and HTTP libraries, for exceptions of such a library while it reads a response,
    and for classes without a specific meaning, such as `RuntimeError` and most subclasses of `Exception` in programs.
    """
    cls = type(error)
    try:
        readable = _readable.get(cls)
        if readable is None:
            if len(_readable) >= _MAX_TYPES:
                _readable.clear()
            readable = _readable[cls] = _says_nothing(cls)
    except Exception:  # a metaclass without a hash, or one that raises
        return False
    if readable or is_bug(error):
        return readable
    return _is_bad_url(error) or reads_response(error)


def _all_own(group: BaseExceptionGroup[BaseException]) -> bool:
    waiting: list[object] = [group]
    count = 0
    while waiting:
        node = waiting.pop()
        count += 1
        if count > _MAX_MEMBERS:
            return False
        if not is_a(node, BaseExceptionGroup):
            if not is_own_bug(node):
                return False
            continue
        members = read(node, "exceptions")
        if type(members) is not tuple or not members or len(members) > _MAX_MEMBERS:
            return False
        waiting.extend(members)
    return True


def _is_own_file(error: BaseException) -> bool:
    """Whether the program named the file. The missing socket of a service that is down has no file name here."""
    if read(error, "filename") is not None:
        return True
    if is_a(error, PermissionError):
        return False  # a firewall raises it, too
    if is_a(error, FileNotFoundError):
        for module, code in _inside_out(error):
            part = _part_of(module, code)
            if part is _Part.BUILDS:
                return True
            if part is _Part.PROGRAM:
                return True
            if "connect" in code.co_name:
                return False
    return not reads_response(error)


def _is_missing_certificate(error: BaseException) -> bool:
    """Whether requests did not find the file of `verify=` or `cert=`, which it raises as a plain `OSError`."""
    module, code = next(_inside_out(error), ("", None))
    return code is not None and code.co_name == "cert_verify" and module.endswith(".adapters")


def _is_bad_url(error: BaseException) -> bool:
    """Whether urllib could not parse a URL, or a client library could not encode a host name."""
    kind = type(error)
    of_host = kind is UnicodeError or (id(kind) in _OWN_TEXTS and read(error, "encoding") == "idna")
    if kind is not ValueError and not of_host:
        return False
    for module, code in _inside_out(error):
        part = _part_of(module, code)
        if part is not _Part.SKIPPED:
            in_urllib = module == "urllib.parse" or (module == "urllib.request" and code.co_name == "_parse")
            return in_urllib if kind is ValueError else part is not _Part.PROGRAM
    return False


def _says_nothing(cls: type) -> bool:
    module = read(cls, "__module__")
    top = module.partition(".")[0] if type(module) is str else ""
    if top in _CLIENTS or top in _WRAPPED or top == "asyncio":
        return True
    if top != "builtins" and top in sys.stdlib_module_names:
        return False
    base = next((base for base in cls.__mro__ if read(base, "__module__") == "builtins"), None)
    return id(base) in _SILENT


def _inside_out(error: BaseException) -> Iterator[tuple[str, CodeType]]:
    """Yields module and code of each frame, innermost first. A frame without a module name belongs to the program."""
    frames: list[tuple[str, CodeType]] = []
    trace = read(error, "__traceback__")
    step = trace if is_a(trace, TracebackType) else None
    while step is not None:
        module = step.tb_frame.f_globals.get("__name__")
        frames.append((module if type(module) is str else "", step.tb_frame.f_code))
        step = step.tb_next
        if len(frames) > 2 * _MAX_FRAMES:
            del frames[:_MAX_FRAMES]
    return reversed(frames)


def _part_of(module: str, code: CodeType) -> _Part:
    key = module, code.co_qualname
    part = _parts.get(key)
    if part is None:
        if len(_parts) >= _MAX_TYPES:
            _parts.clear()
        part = _parts[key] = _named_part(module, code.co_qualname)
    return part


def _named_part(module: str, qualname: str) -> _Part:
    top = module.partition(".")[0]
    if top not in _CLIENTS and top not in _WRAPPED and not module.startswith("tidegate.net."):
        return _Part.SKIPPED if top == "tidegate" or top in sys.stdlib_module_names else _Part.PROGRAM
    names = [name for name in qualname.split(".") if name != "<locals>"]
    starts = _BUILDING.get(module)
    if starts is not None and (not starts or names[-1].startswith(starts)):
        return _Part.BUILDS
    if module in _READING_MODULES:
        return _Part.READS
    if top == "email":
        return _Part.CLIENT
    if any(_READERS.fullmatch(name) for name in names[:-1]):
        return _Part.READS
    for name in reversed(names):
        if _SENDS.match(name.lstrip("_")) or name.endswith("Request"):
            return _Part.BUILDS
        if _READS.match(name.lstrip("_")):
            return _Part.READS
    return _Part.READS if top in _PARSERS or top in _WRAPPED else _Part.CLIENT
