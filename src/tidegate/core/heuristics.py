"""What a plain message says, when no type says anything. The last resort before "unknown"."""

from __future__ import annotations

import re

MOST = 4096

# "spotify API returned status 403", "HTTP 502", "status code: 429", "HTTP/1.1 503", "too many 503 error responses"
_STATUS = re.compile(
    r"\b(?:http(?:/[0-9](?:\.[0-9])?)?|status(?: ?code)?|response code|error code|returned)[ :=]{1,3}([1-5][0-9]{2})\b"
    r"|\btoo many ([1-5][0-9]{2}) error responses\b"
    r"|\b([45][0-9]{2}) (?:client|server) error\b",
    re.ASCII,
)

# Fatal words come first: a page about a refused login may well speak of a "session timeout".
_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("unauthorized", ("invalid api key", "invalid_api_key", "unauthorized", "authentication failed", "invalid credentials",
                      "invalid_grant", "wrong username or password", "invalid access token")),
    ("quota_exhausted", ("insufficient_quota", "quota exceeded", "payment required", "billing hard limit")),
    ("forbidden", ("403 forbidden", "access denied", "permission denied", "forbidden")),
    ("certificate", ("certificate verify failed", "certificate has expired", "self signed certificate")),
    ("rate_limited", ("too many requests", "rate limit", "rate-limit", "ratelimit", "slow down")),
    ("timeout", ("timed out", "timeout", "deadline exceeded")),
    ("network", ("connection refused", "connection reset", "connection aborted", "broken pipe", "no such host",
                 "name or service not known", "temporary failure in name resolution", "getaddrinfo failed",
                 "nodename nor servname", "network is unreachable", "no route to host", "server disconnected",
                 "remote end closed connection", "unexpected eof")),
    ("overloaded", ("service unavailable", "temporarily unavailable", "overloaded", "try again later")),
    ("upstream_failure", ("bad gateway", "gateway timeout", "internal server error")),
)  # fmt: skip
_BOUNDED = tuple(
    (code, word, re.compile(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", re.ASCII)) for code, words in _WORDS for word in words
)


def status_in(text: str) -> int:
    """The HTTP status that a message speaks of; 0 when it does not."""
    found = _STATUS.search(text[:MOST].lower())
    return int(next(group for group in found.groups() if group)) if found else 0


def code_in(text: str) -> tuple[str, str] | None:
    """The code that well-known words of a message stand for, and the word that decided."""
    lowered = text[:MOST].lower()
    for code, word, pattern in _BOUNDED:
        # A plain search first: nearly always it says no, many times faster than the pattern.
        if word in lowered and pattern.search(lowered):
            return code, word
    return None
