"""Checks of arguments and of text from outside. Each returns the value or raises with the field and a fix."""

from __future__ import annotations

import re
from collections.abc import Hashable
from hashlib import sha256

# What a policy may be given. Each check returns the value, or raises with the field, the value and what is allowed.

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_]{1,63}", re.ASCII)
_MAX_NAME_LENGTH = 200


def valid_name(name: object, *, field: str) -> str:
    """A name of a target or a breaker: it becomes a metric label, a log field and a line on a page."""
    if not isinstance(name, str):
        raise TypeError(f"{field}: {name!r:.60} is no text; give 1 to {_MAX_NAME_LENGTH} printable characters")
    if not name or len(name) > _MAX_NAME_LENGTH or not name.isprintable() or name != name.strip():
        raise ValueError(
            f"{field}: {name!r} is not allowed; give 1 to {_MAX_NAME_LENGTH} printable characters, no space at the ends"
        )
    return name


def text(value: object, *, field: str) -> str:
    """Any text, also an empty one."""
    if not isinstance(value, str):
        raise TypeError(f"{field} must be a text, got {value!r:.60}; did you mean {field}={str(value)[:40]!r}?")
    return value


def flag(value: object, *, field: str) -> bool:
    """True or False, and nothing that is merely true."""
    if not isinstance(value, bool):
        raise TypeError(f"{field} must be True or False, got {value!r:.60}")
    return value


def function(value: object, *, field: str, of: str) -> None:
    """Something that can be called."""
    if not callable(value):
        raise TypeError(f"{field} must be a function that {of}, got {value!r:.60}")


def clock(value: object, *, field: str = "clock") -> None:
    """A clock for targets and queues. That of a `Breaker` is a function."""
    if not all(callable(getattr(value, name, None)) for name in ("now", "monotonic")):
        hint = "; did you mean VirtualClock() of tidegate.testing, or to leave it out?"
        raise TypeError(f"{field} must be a Clock, with now() and monotonic(), got {value!r:.60}{hint}")


def is_code(text: str) -> bool:
    """Whether a code may be called so."""
    return _CODE.fullmatch(text) is not None


def valid_code(code: object, *, field: str) -> str:
    """The name of a code: of the book, or of an application."""
    if not isinstance(code, str) or not is_code(code):
        raise ValueError(f"{field}: {code!r:.80} is no code; give 2 to 64 letters, digits and underscores")
    return code


def whole(value: object, *, field: str, minimum: int = 1, maximum: int = 1_000_000_000) -> int:
    """A whole number between *least* and *most*."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise ValueError(f"{field}: {value!r} is not allowed; give a whole number from {minimum} to {maximum}")
    return value


def number(value: object, *, field: str, minimum: float, maximum: float) -> float:
    """A number between *least* and *most*."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not minimum <= value <= maximum:
        raise ValueError(f"{field}: {value!r} is not allowed; give a number from {minimum:g} to {maximum:g}")
    return float(value)


def share(value: object, *, field: str) -> float:
    """A part of a whole: above 0, up to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise ValueError(f"{field}: {value!r} is not allowed; give a number above 0 and up to 1")
    return float(value)


# Texts and keys of strangers, before they reach a database.

_MAX_PLAIN_KEY = 200  # characters of a key that are kept as they are


def storable(text: str, limit: int | None = None) -> str:
    """*text* as every database takes it, cut after *most* characters: without NULs, and without half characters."""
    return text[:limit].replace("\0", "").encode("utf-8", "replace").decode()


def key_text(key: Hashable) -> str:
    """A key as a text that every database takes; '' when there is none. Keys that look alike are one to a person."""
    if key is None:
        return ""
    try:
        text = storable(str(key))
    except Exception:  # a user's own class, which has no text for it
        text = type(key).__name__
    return text if len(text) <= _MAX_PLAIN_KEY else f"sha256:{sha256(text.encode()).hexdigest()}"
