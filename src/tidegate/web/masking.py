"""What may be shown of jobs, failures and settings: nothing that looks like a secret, no path, and no endless text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tidegate.core.redact import redacted
from tidegate.web.problems import cut

MOST_JSON = 20_000  # characters of JSON
_MOST_TEXT = 2_000
_MOST_MESSAGE = 1000
_MOST_SETTING = 1000
_DEEPEST = 20
_SECRET = re.compile(
    r"token|secret|passw|pwd|passphrase|api_?key|private_?key|credential|authorization|cookie|signature|jwt",
    re.IGNORECASE,
)


# A path from the root on, alone or behind what says that it is one; not the path of a URL.
_PATH = re.compile(r"(?:(?<![^\s'\"=(\[,;])|(?<=file:)|(?<=sqlite:///))/(?:[^\s/'\",;)\]]+/)+(?=[^\s/'\",;)\]])")


def without_paths(text: str) -> str:
    """*text* with the last part of each path of this machine, and not where that is."""
    return _PATH.sub("…/", text)


def shown_setting(found: Mapping[str, Any]) -> dict[str, Any]:
    """One effective setting as it may be shown."""
    # Whoever gives the settings masks them; what looks like a secret in an address is taken out here, too.
    value = without_paths(redacted(str(found["value"]), _MOST_SETTING))
    return {"about": "", "variable": "", **found, "value": value, "origin": without_paths(str(found["origin"]))}


def shown_message(text: str) -> str:
    """What a handler or a service said of a failure, as it may be shown: in one line."""
    return redacted(text, _MOST_MESSAGE)


def shown_json(text: Any) -> Any:
    """A JSON text as a value that may be shown; one that is too long as the beginning of its text."""
    if text is None:
        return None
    if not isinstance(text, str):
        return shown_value(text)
    if len(text) > MOST_JSON:
        return redacted(cut(text, _MOST_TEXT), _MOST_TEXT)
    try:
        return shown_value(json.loads(text))
    except (ValueError, RecursionError):
        return redacted(text, _MOST_TEXT)


def shown_value(value: Any, depth: int = 0) -> Any:
    """*value* without secrets, texts cut."""
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {
            cut(str(name), 200): "***" if _SECRET.search(str(name)) and each else shown_value(each, depth + 1)
            for name, each in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [shown_value(each, depth + 1) for each in value]
    return _text(value) if isinstance(value, str) else value


def _text(value: str) -> str:
    return redacted(cut(value, _MOST_TEXT), _MOST_TEXT) if value else value
