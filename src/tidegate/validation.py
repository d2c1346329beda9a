"""Checks of arguments and of external text. Each returns the value, or raises with the field and a fix."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from difflib import get_close_matches
from hashlib import sha256
from typing import Any

JsonObject = Mapping[str, Any]  # deserialised JSON, before its fields are checked


def similar(given: str, known: Iterable[str]) -> str | None:
    """Returns the name that *given* is probably a typo of. Upper and lower case do not differ."""
    names = {name.lower(): name for name in known}
    close = get_close_matches(given.lower(), names, n=1, cutoff=0.7)
    return names[close[0]] if close else None


# -- arguments ------------------------------------------------------------------------------------------------------

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_]{1,63}", re.ASCII)
_MAX_NAME_LENGTH = 200


def valid_name(name: object, *, field: str) -> str:
    """Checks the name of a target or a breaker. It becomes a metric label, a log field and text on a page."""
    if not isinstance(name, str):
        raise TypeError(f"{field}: {name!r:.60} is not a string; give 1 to {_MAX_NAME_LENGTH} printable characters")
    if not name or len(name) > _MAX_NAME_LENGTH or not name.isprintable() or name != name.strip():
        raise ValueError(
            f"{field}: {name!r} is not allowed; give 1 to {_MAX_NAME_LENGTH} printable characters, no space at the ends"
        )
    return name


def text(value: object, *, field: str) -> str:
    """Checks that it is a string. It may be empty."""
    if not isinstance(value, str):
        raise TypeError(f"{field} must be a text, got {value!r:.60}; did you mean {field}={str(value)[:40]!r}?")
    return value


def flag(value: object, *, field: str) -> bool:
    """Checks that it is True or False, not just truthy."""
    if not isinstance(value, bool):
        raise TypeError(f"{field} must be True or False, got {value!r:.60}")
    return value


def function(value: object, *, field: str, of: str) -> None:
    """Checks that it is callable."""
    if not callable(value):
        raise TypeError(f"{field} must be a function that {of}, got {value!r:.60}")


def parameters(value: Callable[..., Any], *given: object, field: str) -> None:
    """Checks that it can be called with the arguments *given*."""
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):  # some functions written in C have none
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        count = f"{len(given)} argument{'' if len(given) == 1 else 's'}"
        name = getattr(value, "__name__", type(value).__name__)
        raise TypeError(f"{field} is called with {count}, got {name}{signature}: {error}") from None


def did_you_mean(given: object, allowed: Collection[str]) -> str:
    """Returns a suggestion for the end of a message. Empty if nothing is similar."""
    close = get_close_matches(str(given), allowed, n=1)
    return f"; did you mean {str(close[0])!r}?" if close else ""


def clock(value: object, *, field: str = "clock") -> None:
    """Checks a clock for targets and queues. The clock of a `Breaker` is a function."""
    if not all(callable(getattr(value, name, None)) for name in ("now", "monotonic")):
        hint = "; did you mean VirtualClock() of tidegate.testing, or to leave it out?"
        raise TypeError(f"{field} must be a Clock, with now() and monotonic(), got {value!r:.60}{hint}")


def is_code(text: str) -> bool:
    """Whether the text is a valid code."""
    return _CODE.fullmatch(text) is not None


def valid_code(code: object, *, field: str) -> str:
    """Checks a code, of the code book or of an application."""
    if not isinstance(code, str) or not is_code(code):
        raise ValueError(f"{field}: {code!r:.80} is not a valid code; give 2 to 64 letters, digits and underscores")
    return code


def whole(value: object, *, field: str, minimum: int = 1, maximum: int = 1_000_000_000) -> int:
    """Checks an integer between *minimum* and *maximum*."""
    if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
        raise ValueError(f"{field}: {value!r} is not allowed; give a whole number from {minimum} to {maximum}")
    return value


def number(value: object, *, field: str, minimum: float, maximum: float) -> float:
    """Checks a number between *minimum* and *maximum*."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not minimum <= value <= maximum:
        raise ValueError(f"{field}: {value!r} is not allowed; give a number from {minimum:g} to {maximum:g}")
    return float(value)


def share(value: object, *, field: str) -> float:
    """Checks a fraction: above 0, up to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise ValueError(f"{field}: {value!r} is not allowed; give a number above 0 and up to 1")
    return float(value)


# -- external text and keys, before they reach a database -----------------------------------------------------------

_MAX_PLAIN_KEY = 200  # longer keys are hashed


def storable(text: str, limit: int | None = None) -> str:
    """Returns *text* as every database accepts it: up to *limit* characters, without NULs and lone surrogates."""
    return text[:limit].replace("\0", "").encode("utf-8", "replace").decode()


def key_text(key: Hashable) -> str:
    """Returns a key as text that every database accepts, '' for None. Keys with the same text are one key to users."""
    if key is None:
        return ""
    try:
        text = storable(str(key))
    except Exception:  # the `str` of a user's class raised
        text = type(key).__name__
    return text if len(text) <= _MAX_PLAIN_KEY else f"sha256:{sha256(text.encode()).hexdigest()}"
