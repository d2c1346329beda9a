"""What a name of a target or a breaker may look like."""

from __future__ import annotations

_MOST = 200


def valid_name(name: str, *, field: str) -> str:
    """*name*, or ValueError: it becomes a metric label, a log field and a line on a page."""
    if not isinstance(name, str):
        raise TypeError(f"{field}: {name!r} is no text")
    if not name or len(name) > _MOST or not name.isprintable() or name != name.strip():
        raise ValueError(f"{field}: {name!r} is not allowed; give 1 to {_MOST} printable characters, no space at the ends")
    return name
