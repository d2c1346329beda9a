"""Texts of strangers, before they reach a database."""

from __future__ import annotations


def storable(text: str, most: int | None = None) -> str:
    """*text* as every database takes it, cut after *most* characters: without NULs, and without half characters."""
    return text[:most].replace("\0", "").encode("utf-8", "replace").decode()
