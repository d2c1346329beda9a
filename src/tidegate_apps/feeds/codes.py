"""Codes of its own: none. The eight types of a failed poll are codes of the core."""

from __future__ import annotations

from tidegate.faults import Code

CODES: tuple[Code, ...] = ()
