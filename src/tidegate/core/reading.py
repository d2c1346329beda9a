"""Reads attributes and texts of strangers' objects: any of them may raise, lie about its type or be endless."""

from __future__ import annotations

from typing import TypeGuard, TypeVar

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
