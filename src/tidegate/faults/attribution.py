"""Attributes a failure to the service or to a bug of the program, by exception type and traceback.

Types such as `KeyError`, `TypeError` and `ValueError` are bugs of the program if its own code raises them, or if a
client library raises them because of its arguments. They are failures of the service if a client library raises them
while it reads a response. The frames of the traceback tell these apart, from the inside out:

1. Frames of Tidegate, and of standard modules that neither use HTTP nor read JSON, are skipped.
2. A function of a client library that reads a response means the service. One that builds or sends a request means the
program.
3. Other functions of client libraries are skipped. The first frame of any other code means the program.

A client library is on a list and installed, or is the package of a client that the program has wrapped. A module of the
program with the same name is not a client library.

A client's own exception for a request that it cannot send, such as `InvalidURL`, is a bug of the program too, unless a
redirect of the service led there.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from enum import Enum
from types import TracebackType
from typing import NamedTuple

from tidegate.faults.introspection import contexts, is_a, is_bug, read

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
# Where a client library follows a redirect of the service.
_REDIRECTS = re.compile(r"resolve_redirects|http_error_30")
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
# What an established TLS connection, or a handshake, calls. Other functions read certificates and keys of the program.
_TLS_PEER = re.compile(r".*(?:handshake|shutdown|unwrap|close|connect)|a?read|recv|write|send|feed|data_received")
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_STANDARD = os.__file__.removesuffix("os.py").removesuffix("os.pyc")
_MAX_FRAMES = 1000
_MAX_MEMBERS = 1000  # of a group, including nested groups
_MAX_TYPES = 4096
_readable: dict[type, bool] = {}


class _Role(Enum):
    """The role of a function in a call, by its name."""

    READS = "reads a response"
    BUILDS = "builds or sends a request"
    CLIENT = "belongs to a client library"
    SKIPPED = "belongs to Tidegate or the standard library"
    PROGRAM = "belongs to the program"


class _Frame(NamedTuple):
    """A frame of a traceback. Without a module name it belongs to the program."""

    module: str
    function: str  # qualified
    file: str

    @property
    def name(self) -> str:
        return self.function.rpartition(".")[2]

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


_roles: dict[_Frame, _Role] = {}


def add_client(client: object, program: str) -> None:
    """Treats the package of *client* as a client library, unless it is the package of the module *program*."""
    module = read(type(client), "__module__")
    top = module.partition(".")[0] if type(module) is str else ""
    known = _is_client_class(type(client)) or top == "tidegate" or top in sys.stdlib_module_names
    if known or top in ("", "__main__", program.partition(".")[0]) or top in _WRAPPED:
        return
    _WRAPPED.add(top)
    _roles.clear()
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
    if not (is_bug(error) or kind in _OWN_TEXTS or kind == id(ValueError)):
        return False
    return kind in _ALWAYS_OWN or not reads_response(error)


def never_sent(error: BaseException) -> bool:
    """Whether a client library refused to send the program's request. *error* is of a kind that says so.

    False for an exception that was never raised, and for the target of a redirect. Tidegate fetches URLs of users, so
    its own exceptions are not bugs of the program.
    """
    if read(error, "__traceback__") is None or type(error).__module__.partition(".")[0] == "tidegate":
        return False
    return not any(
        _REDIRECTS.match(frame.name) and _role_of(frame) not in (_Role.PROGRAM, _Role.SKIPPED)
        for frame in _inside_out(error)
    )


def reads_own_certificate(error: BaseException) -> bool:
    """Whether a TLS error, or one of its causes, is about a certificate or key file of the program."""
    for node in contexts(error):
        if type(node).__name__ == "SSLError" and type(node).__module__ == "ssl":
            frame = next(_inside_out(node), None)
            return frame is not None and _TLS_PEER.match(frame.name.lstrip("_")) is None
    return False


def is_installed(file: str) -> bool:
    """Whether *file* belongs to the standard library or to an installed distribution."""
    return _INSTALLED.search(file) is not None or file.startswith((_STANDARD, "<frozen "))


def reads_response(error: BaseException) -> bool:
    """Whether a client library raised it while it read a response."""
    kind = id(type(error))
    innermost = True
    for frame in _inside_out(error):
        role = _role_of(frame)
        if (
            innermost
            and kind in _MISSING
            and (frame.top in _WRAPPED or (frame.top in _SDKS and role is not _Role.PROGRAM))
        ):
            return True
        innermost = False
        if role is _Role.READS and not (kind in _NOT_A_TEXT and frame.top in _PARSERS):
            return True
        if role is _Role.BUILDS or role is _Role.PROGRAM:
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
        for frame in _inside_out(error):
            if _role_of(frame) in (_Role.BUILDS, _Role.PROGRAM):
                return True
            if "connect" in frame.name:
                return False
    return not reads_response(error)


def _is_missing_certificate(error: BaseException) -> bool:
    """Whether requests did not find the file of `verify=` or `cert=`, which it raises as a plain `OSError`."""
    frame = next(_inside_out(error), None)
    return frame is not None and frame.name == "cert_verify" and frame.module.endswith(".adapters")


def _is_bad_url(error: BaseException) -> bool:
    """Whether urllib could not parse a URL, or a client library could not encode a host name."""
    kind = type(error)
    of_host = kind is UnicodeError or (id(kind) in _OWN_TEXTS and read(error, "encoding") == "idna")
    if kind is not ValueError and not of_host:
        return False
    for frame in _inside_out(error):
        role = _role_of(frame)
        if role is not _Role.SKIPPED:
            in_urllib = frame.module == "urllib.parse" or (frame.module == "urllib.request" and frame.name == "_parse")
            return in_urllib if kind is ValueError else role is not _Role.PROGRAM
    return False


def _says_nothing(cls: type) -> bool:
    module = read(cls, "__module__")
    top = module.partition(".")[0] if type(module) is str else ""
    if _is_client_class(cls) or top in _WRAPPED or top == "asyncio":
        return True
    if top != "builtins" and top in sys.stdlib_module_names:
        return False
    base = next((base for base in cls.__mro__ if read(base, "__module__") == "builtins"), None)
    return id(base) in _SILENT


def _is_client_class(cls: type) -> bool:
    """Whether a client library on the list defines it, and not a module of the program with the same name."""
    module = read(cls, "__module__")
    if type(module) is not str or module.partition(".")[0] not in _CLIENTS:
        return False
    file = read(sys.modules.get(module), "__file__")
    return type(file) is not str or is_installed(file)


def own_frame(error: BaseException) -> tuple[str, int] | None:
    """The file and line of the innermost frame of the program, rather than of an installed package, if there is one."""
    trace = read(error, "__traceback__")
    step = trace if is_a(trace, TracebackType) else None
    found: tuple[str, int] | None = None
    installed = True
    while step is not None:
        if _role_of(_frame_of(step)) is _Role.PROGRAM:
            file = step.tb_frame.f_code.co_filename
            packaged = is_installed(file)
            if installed or not packaged:
                found, installed = (file, step.tb_lineno), packaged
        step = step.tb_next
    return found


def _frame_of(step: TracebackType) -> _Frame:
    names, code = step.tb_frame.f_globals, step.tb_frame.f_code
    # The file of the module: generated functions, as of attrs, have none of their own.
    module, file = names.get("__name__"), names.get("__file__")
    return _Frame(
        module if type(module) is str else "",
        code.co_qualname,
        file if type(file) is str else code.co_filename,
    )


def _inside_out(error: BaseException) -> Iterator[_Frame]:
    """Yields the frames, innermost first."""
    frames: list[_Frame] = []
    trace = read(error, "__traceback__")
    step = trace if is_a(trace, TracebackType) else None
    while step is not None:
        frames.append(_frame_of(step))
        step = step.tb_next
        if len(frames) > 2 * _MAX_FRAMES:
            del frames[:_MAX_FRAMES]
    return reversed(frames)


def _role_of(frame: _Frame) -> _Role:
    role = _roles.get(frame)
    if role is None:
        if len(_roles) >= _MAX_TYPES:
            _roles.clear()
        role = _roles[frame] = _named_role(*frame)
    return role


def _named_role(module: str, qualname: str, file: str) -> _Role:
    top = module.partition(".")[0]
    if top not in _WRAPPED and top != "tidegate" and not is_installed(file):
        return _Role.PROGRAM
    if top not in _CLIENTS and top not in _WRAPPED and not module.startswith("tidegate.net."):
        return _Role.SKIPPED if top == "tidegate" or top in sys.stdlib_module_names else _Role.PROGRAM
    names = [name for name in qualname.split(".") if name != "<locals>"]
    starts = _BUILDING.get(module)
    if starts is not None and (not starts or names[-1].startswith(starts)):
        return _Role.BUILDS
    if module in _READING_MODULES:
        return _Role.READS
    if top == "email":
        return _Role.CLIENT
    if any(_READERS.fullmatch(name) for name in names[:-1]):
        return _Role.READS
    for name in reversed(names):
        if _SENDS.match(name.lstrip("_")) or name.endswith("Request"):
            return _Role.BUILDS
        if _READS.match(name.lstrip("_")):
            return _Role.READS
    return _Role.READS if top in _PARSERS or top in _WRAPPED else _Role.CLIENT
