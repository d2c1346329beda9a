"""What may be shown of jobs and failures: nothing that looks like a secret, and no endless text."""

from __future__ import annotations

import json
import re
from typing import Any

from tidegate.core.redact import redact

MAX_JSON = 20_000  # characters of JSON
_MAX_TEXT = 2_000
_MAX_MESSAGE = 1000
_DEEPEST = 20
# Names of values that are secret. A lone "key" is not: jobs have keys that are none.
_SECRET = re.compile(
    r"token|secret|passw|passphrase|passcode|(?:^|[-_ ])pass$|pwd|credential|authorization|cookie|signature|jwt"
    r"|(?:api|private|access|signing|encryption|license)[-_ ]?key",
    re.IGNORECASE,
)


def cut(text: str, limit: int) -> str:
    """At most so many characters, and none that is no text."""
    clean = text.encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"


def shown_message(text: str) -> str:
    """What a handler or a service said of a failure, as it may be shown: in one line."""
    return redact(text, _MAX_MESSAGE)


def shown_json(text: Any) -> Any:
    """A JSON text as a value that may be shown; one that is too long as the beginning of its text."""
    if text is None:
        return None
    if not isinstance(text, str):
        return shown_value(text)
    if len(text) > MAX_JSON:
        return redact(text, _MAX_TEXT)
    try:
        return shown_value(json.loads(text))
    except (ValueError, RecursionError):
        return redact(text, _MAX_TEXT)


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
    # `redacted` cuts, too: a secret that was cut before is not recognised.
    return redact(value, _MAX_TEXT) if isinstance(value, str) else value
