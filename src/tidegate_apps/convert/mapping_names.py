"""What a mapping may be called. Whether there is one of that name, the gateway knows."""

from __future__ import annotations

import re

_NAME = re.compile(r"[a-z0-9_-]{1,64}", re.ASCII)
MAPPING = "1 to 64 small letters, digits, dashes and underscores"


def is_mapping(name: str) -> bool:
    """Whether it has the form of a name."""
    return _NAME.fullmatch(name) is not None
