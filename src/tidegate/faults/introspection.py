"""Safe reads of foreign objects, and the chain of causes of an exception."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard, TypeVar

# Reads attributes and texts of strangers' objects: any of them may raise, lie about its type or be endless.

T = TypeVar("T")

MAX_TEXT = 4096
_MAX_TYPES = 4096

# What exceptions carry: the answer, its status and headers, and the exceptions below them that they do not chain.
HIDDEN = ("reason", "os_error", "original_error", "cause")
_ASKED = frozenset({"response", "status_code", "status", "http_status", "headers", "exceptions", *HIDDEN})

_NOTHING: dict[str, object] = {}
_on_class: dict[type, tuple[str, ...]] = {}


def read(source: object, name: str) -> object:
    """An attribute, or None: a property of a stranger's class may raise anything."""
    if source is None:
        return None
    try:
        return getattr(source, name, None)
    except Exception:
        return None


def is_a(value: object, kind: type[T]) -> TypeGuard[T]:
    """`isinstance` without asking the object, which may lie about its class or raise."""
    return issubclass(type(value), kind)


def type_name(error: BaseException) -> str:
    name = read(type(error), "__name__")
    return name if type(name) is str else "BaseException"


def message_of(error: BaseException | None, limit: int = MAX_TEXT) -> str:
    """The text of an exception, at most *most* characters of it; empty when its `str` raises."""
    if error is None:
        return ""
    try:
        text = str(error)
        return (text if type(text) is str else str.__str__(text))[:limit]
    except Exception:
        return ""


def status_in_field(found: object) -> int:
    """*found* as an HTTP status; 0 when it is none."""
    if type(found) is int:
        return found if 100 <= found <= 599 else 0
    # HTTPStatus and its like: a subclass may compare as it likes.
    if is_a(found, int):
        return status_in_field(int.__int__(found))
    return 0


def fields_of(error: BaseException) -> dict[str, object]:
    """Those of the attributes that matter which *error* has.

    Most have none, and to see that in the dictionary of the instance is much cheaper than to ask for each.
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
    found = {name: own[name] for name in own.keys() & _ASKED}
    for name in names:
        found[name] = read(error, name)
    return found


_ALL = tuple(sorted(_ASKED))


def _learn(cls: type) -> tuple[str, ...]:
    """The attributes that the class itself defines; all of them when it answers for attributes in a way of its own."""
    if read(cls, "__getattribute__") is not BaseException.__getattribute__ or read(cls, "__getattr__") is not None:
        names = _ALL
    else:
        names = tuple(name for name in _ALL if read(cls, name) is not None)
    if len(_on_class) >= _MAX_TYPES:
        _on_class.clear()
    _on_class[cls] = names
    return names


# Walks an exception and everything that led to it: causes, groups, and what clients hide in attributes.

MAX_NODES = 64

# Bugs of the program. One that is raised while an answer is being handled is news of its own, so what was being
# handled does not explain it; only what it was explicitly raised from does. Subclasses are somebody's own meaning.
BUGS: frozenset[type[BaseException]] = frozenset({
    TypeError, AttributeError, NameError, UnboundLocalError, KeyError, IndexError, AssertionError, ImportError,
    ModuleNotFoundError, SyntaxError, IndentationError, NotImplementedError, RecursionError, ZeroDivisionError,
})  # fmt: skip
_BUGS = frozenset(map(id, BUGS))  # a class whose metaclass has no hash cannot be looked for in a set of classes


def is_bug(error: object) -> bool:
    """Whether it is of exactly one of the classes that a mistake in a program raises."""
    return id(type(error)) in _BUGS


def causes(error: BaseException) -> Iterator[BaseException]:
    """*error* and what it was explicitly raised from, outermost first; members of a group in their order."""
    return _walk(error, implicit=False)


def contexts(error: BaseException) -> Iterator[BaseException]:
    """The same, and what was being handled when each was raised."""
    return _walk(error, implicit=True)


def ends(error: BaseException) -> Iterator[BaseException]:
    """Those of `causes` that nothing led to."""
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
    found: list[object] = [] if cause is None else [cause]
    if fields:
        found += (fields[name] for name in HIDDEN if name in fields)
        members = fields.get("exceptions")
        if type(members) is tuple or type(members) is list:
            found += members[:MAX_NODES]
    args = read(node, "args")
    if type(args) is tuple:
        found += args[:MAX_NODES]
    if implicit and cause is None and not is_bug(node) and not read(node, "__suppress_context__"):
        found.append(read(node, "__context__"))
    return [each for each in found if is_a(each, BaseException)]
