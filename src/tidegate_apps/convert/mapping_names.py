"""Valid names of mappings. Only the gateway knows which exist."""

from __future__ import annotations

import re

_NAME = re.compile(r"[a-z0-9_-]{1,64}", re.ASCII)
MAPPING = "1 to 64 small letters, digits, dashes and underscores"


def is_mapping(name: str) -> bool:
    """Return whether *name* is syntactically valid."""
    return _NAME.fullmatch(name) is not None
