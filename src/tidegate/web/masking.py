"""What may be shown of settings: nothing that looks like a secret, and no path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidegate.faults.redaction import redact

_MAX_SETTING = 1000

# A path from the root on, alone or behind what says that it is one; not the path of a URL.
_PATH = re.compile(r"(?:(?<![^\s'\"=(\[,;])|(?<=file:)|(?<=sqlite:///))/(?:[^\s/'\",;)\]]+/)+(?=[^\s/'\",;)\]])")


def without_paths(text: str) -> str:
    """*text* with the last part of each path of this machine, and not where that is."""
    return _PATH.sub("…/", text)


def shown_setting(found: Mapping[str, Any]) -> dict[str, Any]:
    """One effective setting as it may be shown."""
    # Whoever gives the settings masks them; what looks like a secret in an address is taken out here, too.
    value = without_paths(redact(str(found["value"]), _MAX_SETTING))
    return {"about": "", "variable": "", **found, "value": value, "origin": without_paths(str(found["origin"]))}
