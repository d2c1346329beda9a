"""Texts and keys of strangers, before they reach a database."""

from __future__ import annotations

from collections.abc import Hashable
from hashlib import sha256

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
