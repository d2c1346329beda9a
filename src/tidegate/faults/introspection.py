"""Safe reads of third-party objects, and the chain of causes of an exception."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard, TypeVar

# -- attributes: reading one may raise, lie about its type or never end ---------------------------------------------

T = TypeVar("T")

MAX_TEXT = 4096
_MAX_TYPES = 4096

# Attributes of exceptions: the response, its status and headers, and causes that are not chained.
HIDDEN = ("reason", "os_error", "original_error", "cause")
_ASKED = frozenset({"response", "status_code", "status", "http_status", "headers", "exceptions", *HIDDEN})

_NOTHING: dict[str, object] = {}
_on_class: dict[type, tuple[str, ...]] = {}


def read(source: object, name: str) -> object:
    """Returns an attribute, or None: a property of a third-party class may raise anything."""
    if source is None:
        return None
    try:
        return getattr(source, name, None)
    except Exception:
        return None


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    """`isinstance` without calling the object, which may lie about its class or raise."""
    return issubclass(type(value), kind)


def type_name(error: BaseException) -> str:
    name = read(type(error), "__name__")
    return name if type(name) is str else "BaseException"


def message_of(error: BaseException | None, limit: int = MAX_TEXT) -> str:
    """Returns the text of an exception, up to *limit* characters. Empty if its `str` raises."""
    if error is None:
        return ""
    try:
        text = str(error)
        return (text if type(text) is str else str.__str__(text))[:limit]
    except Exception:
        return ""


def status_in_field(value: object) -> int:
    """Returns *value* as an HTTP status, or 0."""
    if type(value) is int:
        return value if 100 <= value <= 599 else 0
    # HTTPStatus and other subclasses may override comparisons.
    if is_a(value, int):
        return status_in_field(int.__int__(value))
    return 0


def fields_of(error: BaseException) -> dict[str, object]:
    """Returns the relevant attributes of *error*.

    Most exceptions have none. Checking the instance dictionary is much cheaper than reading each attribute.
    """
    cls = type(error)
    names = _on_class.get(cls)
    if names is None:
        names = _learn(cls)
    if names is _ALL:
        return {name: read(error, name) for name in names}
    own = error.__dict__
    if not own and not names:
        return _NOTHING
    fields = {name: own[name] for name in own.keys() & _ASKED}
    for name in names:
        fields[name] = read(error, name)
    return fields


_ALL = tuple(sorted(_ASKED))


def _learn(cls: type) -> tuple[str, ...]:
    """Returns the relevant attributes that the class defines. All of them if it overrides attribute access."""
    if read(cls, "__getattribute__") is not BaseException.__getattribute__ or read(cls, "__getattr__") is not None:
        names = _ALL
    else:
        names = tuple(name for name in _ALL if read(cls, name) is not None)
    if len(_on_class) >= _MAX_TYPES:
        _on_class.clear()
    _on_class[cls] = names
    return names


# -- chain of causes ------------------------------------------------------------------------------------------------

MAX_NODES = 64

# Bugs of the program. A bug that is raised while a response is handled is a separate failure, so its context does not
# explain it. Only its explicit cause does. Subclasses may have another meaning.
BUGS: frozenset[type[BaseException]] = frozenset(
    {
        TypeError,
        AttributeError,
        NameError,
        UnboundLocalError,
        KeyError,
        IndexError,
        AssertionError,
        ImportError,
        ModuleNotFoundError,
        SyntaxError,
        IndentationError,
        NotImplementedError,
        RecursionError,
        ZeroDivisionError,
        OverflowError,
        StopIteration,
    }
)
_BUGS = frozenset(map(id, BUGS))  # by id, because a metaclass may make a class unhashable


def is_bug(error: object) -> bool:
    """Whether its class is exactly one of `BUGS`."""
    return id(type(error)) in _BUGS


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yields *error* and its explicit causes, outermost first. Members of a group come in order."""
    return _walk(error, implicit=False)


def contexts(error: BaseException) -> Iterator[BaseException]:
    """Yields the same, and the context of each exception."""
    return _walk(error, implicit=True)


def ends(error: BaseException) -> Iterator[BaseException]:
    """Yields those of `causes` that have no cause."""
    return (node for node in causes(error) if not _below(node, implicit=False))


def _walk(error: BaseException, *, implicit: bool) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < MAX_NODES:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting.extend(reversed(_below(node, implicit=implicit)))


def _below(node: BaseException, *, implicit: bool) -> list[BaseException]:
    fields = fields_of(node)
    cause = read(node, "__cause__")
    nodes: list[object] = [] if cause is None else [cause]
    if fields:
        nodes += (fields[name] for name in HIDDEN if name in fields)
        members = fields.get("exceptions")
        if type(members) is tuple or type(members) is list:
            nodes += members[:MAX_NODES]
    args = read(node, "args")
    if type(args) is tuple:
        nodes += args[:MAX_NODES]
    if implicit and cause is None and not is_bug(node) and not read(node, "__suppress_context__"):
        nodes.append(read(node, "__context__"))
    return [child for child in nodes if is_a(child, BaseException)]
