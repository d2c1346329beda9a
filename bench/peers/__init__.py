"""Tidegate beside other libraries: `make peers` measures them in an environment of their own."""

from __future__ import annotations

import importlib.metadata


def version(distribution: str) -> str:
    """Of a library that is measured; empty for a floor, and for Tidegate where it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
