"""Fallbacks of classification: message text and Retry-After."""

from __future__ import annotations

import re
from datetime import UTC

from tidegate.faults.introspection import MAX_TEXT

# What a plain message says, when no type says anything. The last resort before "unknown".

MAX_READ = MAX_TEXT

_PHRASES = (
    "bad request|unauthorized|payment required|forbidden|not found|method not allowed|request timeout|conflict|gone"
    "|payload too large|unsupported media type|unprocessable|too many requests|client error|internal server error"
    "|server error|not implemented|bad gateway|service unavailable|gateway time-?out"
)
# As in "spotify API returned status 403", "HTTP/1.1 503", "HTTP Error 404: Not Found", "502 Bad Gateway" and "the API
# returned 500."; but "returned 500 rows" is about something else.
_STATUS = (
    r"\b(?:http(?:/[0-9](?:\.[0-9])?)?(?: error| status)?|status(?:[ _-]?code)?|response code|error code)"
    r"[\"']?[ :=]{1,3}[\"']?([3-5][0-9]{2})\b"
    r"|\btoo many ([3-5][0-9]{2}) error responses\b"
    rf"|\b([45][0-9]{{2}}):? (?:{_PHRASES})"
    r"|\b(?:returned|responded with|got)(?: an?)?(?: http)?(?: error)?:? ([45][0-9]{2})(?![0-9a-z%]| [a-z])"
)

# Last.fm puts its own numbers into XML, and they say more than the HTTP status beside them.
_LASTFM = r"<lfm\b[^>]{0,200}>[\s\\rn]{0,200}<error\s{1,5}code\s{0,3}=\s{0,3}\\{0,2}[\"']?([0-9]{1,3})\b"
LASTFM_CODES = {
    2: "bad_request", 3: "bad_request", 4: "unauthorized", 5: "bad_request", 6: "not_found", 7: "bad_request",
    8: "upstream_failure", 9: "unauthorized", 10: "misconfigured", 11: "overloaded", 13: "bad_request",
    14: "unauthorized", 15: "unauthorized", 16: "upstream_failure", 17: "forbidden", 26: "misconfigured",
    27: "not_supported", 29: "rate_limited",
}  # fmt: skip

# Fatal words come first: a page about a refused login may well speak of a "session timeout". After them, what is
# longer: a "gateway timeout" is no timeout of ours.
WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("unauthorized", ("invalid api key", "invalid_api_key", "unauthorized", "authentication failed",
                      "invalid credentials", "invalid_grant", "wrong username or password", "invalid access token",
                      "invalid session key")),
    ("quota_exhausted", ("insufficient_quota", "quota exceeded", "payment required", "billing hard limit")),
    ("forbidden", ("access denied", "permission denied", "forbidden")),
    ("certificate", ("certificate verify failed", "certificate_verify_failed", "certificate has expired",
                     "self signed certificate", "self-signed certificate", "certificate is not valid",
                     "x509: certificate")),
    ("bad_address", ("unknown url type", "invalid ipv6 url", "unsupported protocol scheme", "no scheme supplied",
                     "port out of range 0-65535", "encoding with 'idna' codec failed")),
    ("rate_limited", ("too many requests", "rate limit", "rate limited", "rate-limit", "ratelimit", "slow down")),
    ("upstream_failure", ("bad gateway", "gateway timeout", "internal server error")),
    ("timeout", ("timed out", "timeout", "deadline exceeded")),
    ("network", ("connection refused", "connection reset", "connection aborted", "broken pipe", "no such host",
                 "name or service not known", "temporary failure in name resolution", "getaddrinfo failed",
                 "nodename nor servname", "network is unreachable", "no route to host", "server disconnected",
                 "remote end closed connection", "unexpected eof")),
    ("overloaded", ("service unavailable", "temporarily unavailable", "overloaded", "try again later")),
)  # fmt: skip


def status_in(text: str) -> int:
    """The HTTP status that a message speaks of; 0 when it does not."""
    # Patterns stay text until they are needed: compiling them would be a tenth of `import tidegate`.
    found = re.search(_STATUS, text[:MAX_READ].lower(), re.ASCII)
    return int(next(group for group in found.groups() if group)) if found else 0


def lastfm_in(text: str) -> int:
    """The number in an XML error of Last.fm that a message quotes; 0 when there is none, or one that nobody knows."""
    if "<lfm" not in text[:MAX_READ]:
        return 0
    found = re.search(_LASTFM, text[:MAX_READ].lower(), re.ASCII)
    return int(found[1]) if found and int(found[1]) in LASTFM_CODES else 0


def code_in(text: str) -> tuple[str, str] | None:
    """The code that well-known words of a message stand for, and the words that decided."""
    lowered = text[:MAX_READ].lower()
    for code, words in WORDS:
        for word in words:
            if word in lowered and _stands_alone(word, lowered):
                return code, word
    return None


def _stands_alone(word: str, text: str) -> bool:
    """Whether *word* is somewhere in *text* with no letter or digit next to it."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not (text[at - 1 : at] or " ").isalnum() and not (text[end : end + 1] or " ").isalnum():
            return True
        at = text.find(word, end)
    return False


# How long a service asks us to wait, in seconds.

_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,6})?"
_MAX_LENGTH = 64  # characters: nothing legal is longer


def retry_after(
    value: str | None, *, milliseconds: str | None = None, date: str | None = None, now: float | None = None
) -> float | None:
    """Seconds from a `Retry-After` and a `retry-after-ms` header; None when there is none, or nonsense, or not ahead.

    A date is measured against the answer's own *date*, else against *now* (UNIX time), else it is ignored: our clock
    and theirs may differ by hours.
    """
    if milliseconds is not None and (found := _number(milliseconds)):
        return found / 1000
    if value is None:
        return None
    if (found := _number(value)) is not None:
        return found or None
    then, base = http_date(value), http_date(date)
    if then is None:
        return None
    base = now if base is None else base
    return then - base if base is not None and then > base else None


def http_date(text: str | None) -> float | None:
    """UNIX time of one of the three legal forms of a date; one without a zone is UTC."""
    if text is None or len(text) > _MAX_LENGTH or not text.isascii():  # int() takes the digits of any script
        return None
    from email.utils import parsedate_to_datetime  # 12 ms to import, for a header that few send

    try:
        found = parsedate_to_datetime(text.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _number(text: str) -> float | None:
    text = text.strip() if len(text) <= _MAX_LENGTH else ""
    return float(text) if re.fullmatch(_NUMBER, text) else None
