"""Masks settings before they are shown: no secrets, no absolute paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidegate.faults.redaction import redact

_MAX_SETTING = 1000

# An absolute path, alone or after a prefix such as `sqlite:///`. Not the path of a URL.
_PATH = re.compile(r"(?:(?<![^\s'\"=(\[,;])|(?<=file:)|(?<=sqlite:///))/(?:[^\s/'\",;)\]]+/)+(?=[^\s/'\",;)\]])")


def without_paths(text: str) -> str:
    """Replace the folders of each absolute path in *text* and keep the file name."""
    return _PATH.sub("…/", text)


def shown_setting(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return one effective setting, masked."""
    # The caller has masked the settings. This removes secrets inside URLs as well.
    value = without_paths(redact(str(setting["value"]), _MAX_SETTING))
    return {"about": "", "variable": "", **setting, "value": value, "origin": without_paths(str(setting["origin"]))}
