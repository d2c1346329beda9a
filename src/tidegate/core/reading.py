"""Reads attributes and texts of strangers' objects: any of them may raise, lie about its type or be endless."""

from __future__ import annotations

MOST_TEXT = 4096


def read(source: object, name: str) -> object:
    """An attribute, or None: a property of a stranger's class may raise anything."""
    if source is None:
        return None
    try:
        return getattr(source, name, None)
    except Exception:  # noqa: BLE001 - total, whatever the property does
        return None


def message_of(error: BaseException | None, most: int = MOST_TEXT) -> str:
    """The text of an exception, at most *most* characters of it; empty when its `str` raises."""
    if error is None:
        return ""
    try:
        return str(error)[:most]
    except Exception:  # noqa: BLE001 - an exception that cannot say what it is still gets a verdict
        return ""


def status_in_field(found: object) -> int:
    """*found* as an HTTP status; 0 when it is none."""
    if type(found) is int:
        return found if 100 <= found <= 599 else 0
    # HTTPStatus and its like. A bool is no status, and a subclass may compare as it likes.
    if issubclass(type(found), int) and type(found) is not bool:
        return status_in_field(int.__int__(found))  # type: ignore[arg-type]
    return 0
