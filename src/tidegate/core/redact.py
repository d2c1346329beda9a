"""Takes secrets out of text before it reaches a log."""

from __future__ import annotations

import re

MOST = 500  # characters of detail that are kept

_SECRET_NAMES = (
    "access_token|refresh_token|api_key|apikey|api-key|api_sig|client_key|client-key|client_secret|password|passwd"
    "|secret|token|authorization|x-api-key|x-nd-authorization|cookie|set-cookie|sk|jwt|code"
)
_PATTERNS = (
    # name=value and "name": "value"; the one-letter names are Subsonic's, and only safe to read in a query string
    (re.compile(rf"(?i)\b({_SECRET_NAMES})(\"?\s*[=:]\s*\"?)(?:bearer |basic )?[^\s&\"',;<>]+", re.ASCII), r"\1\2***"),
    (re.compile(r"([?&](?:u|t|s|p)=)[^\s&\"'<>]+", re.ASCII), r"\1***"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{6,}", re.ASCII), r"\1 ***"),
    (re.compile(r"(://)[^\s/@:]{1,200}:[^\s/@]{1,200}@", re.ASCII), r"\1***@"),
)  # fmt: skip
_HINTS = ("=", ":", "earer", "asic")


def redacted(text: str, most: int = MOST) -> str:
    """*text* in one printable line of at most *most* characters, with what looks like a secret taken out."""
    short = text[: 4 * most]  # before the patterns: they must not read a megabyte
    if any(hint in short for hint in _HINTS):
        for pattern, instead in _PATTERNS:
            short = pattern.sub(instead, short)
    if not short.isprintable():
        short = "".join(c if c.isprintable() else " " for c in short)
    return short if len(short) <= most else short[: most - 1] + "…"
