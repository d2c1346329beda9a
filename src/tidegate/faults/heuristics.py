"""Fallbacks of classification: message text and Retry-After."""

from __future__ import annotations

import re
from datetime import UTC

from tidegate.faults.introspection import MAX_TEXT

# -- message text, if the type has no meaning -----------------------------------------------------------------------

MAX_READ = MAX_TEXT

_PHRASES = (
    "bad request|unauthorized|payment required|forbidden|not found|method not allowed|request timeout|conflict|gone"
    "|payload too large|unsupported media type|unprocessable|too many requests|client error|internal server error"
    "|server error|not implemented|bad gateway|service unavailable|gateway time-?out"
)
# As in "spotify API returned status 403", "HTTP/1.1 503", "HTTP Error 404: Not Found", "502 Bad Gateway" and "the API
# returned 500.", but not "returned 500 rows".
_STATUS = (
    r"\b(?:http(?:/[0-9](?:\.[0-9])?)?(?: error| status)?|status(?:[ _-]?code)?|response code|error code)"
    r"[\"']?[ :=]{1,3}[\"']?([3-5][0-9]{2})\b"
    r"|\btoo many ([3-5][0-9]{2}) error responses\b"
    rf"|\b([45][0-9]{{2}}):? (?:{_PHRASES})"
    r"|\b(?:returned|responded with|got)(?: an?)?(?: http)?(?: error)?:? ([45][0-9]{2})(?![0-9a-z%]| [a-z])"
)

# Last.fm has its own numbers in XML. They are more specific than the HTTP status.
_LASTFM = r"<lfm\b[^>]{0,200}>[\s\\rn]{0,200}<error\s{1,5}code\s{0,3}=\s{0,3}\\{0,2}[\"']?([0-9]{1,3})\b"
LASTFM_CODES = {
    2: "bad_request", 3: "bad_request", 4: "unauthorized", 5: "bad_request", 6: "not_found", 7: "bad_request",
    8: "upstream_failure", 9: "unauthorized", 10: "misconfigured", 11: "overloaded", 13: "bad_request",
    14: "unauthorized", 15: "unauthorized", 16: "upstream_failure", 17: "forbidden", 26: "misconfigured",
    27: "not_supported", 29: "rate_limited",
}  # fmt: skip

# Fatal words come first: a page about a rejected login may contain "session timeout". Then longer phrases: a "gateway
# timeout" is not our timeout.
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
    """Returns the HTTP status in a message, or 0."""
    # Patterns are compiled on first use: compiling them at import would be a tenth of `import tidegate`.
    match = re.search(_STATUS, text[:MAX_READ].lower(), re.ASCII)
    return int(next(group for group in match.groups() if group)) if match else 0


def lastfm_in(text: str) -> int:
    """Returns the number of a Last.fm XML error in a message. 0 without one, or if it is unknown."""
    if "<lfm" not in text[:MAX_READ]:
        return 0
    match = re.search(_LASTFM, text[:MAX_READ].lower(), re.ASCII)
    return int(match[1]) if match and int(match[1]) in LASTFM_CODES else 0


def code_in(text: str) -> tuple[str, str] | None:
    """Returns the code for well-known words in a message, and the words that decided."""
    lowered = text[:MAX_READ].lower()
    for code, words in WORDS:
        for word in words:
            if word in lowered and _stands_alone(word, lowered):
                return code, word
    return None


def _stands_alone(word: str, text: str) -> bool:
    """Whether *word* is in *text* with no letter or digit next to it."""
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if not (text[at - 1 : at] or " ").isalnum() and not (text[end : end + 1] or " ").isalnum():
            return True
        at = text.find(word, end)
    return False


_THROTTLED = re.compile(rb"throttl|rate.?limit|slow.?down|too many requests|reduce your request rate", re.IGNORECASE)


def is_throttled(body: bytes) -> bool:
    """Whether a body asks to send fewer requests, as S3 does with a 503."""
    return _THROTTLED.search(body) is not None


# -- Retry-After ----------------------------------------------------------------------------------------------------

_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,6})?"
_MAX_LENGTH = 64  # characters: no valid value is longer


def retry_after(
    value: str | None, *, milliseconds: str | None = None, date: str | None = None, now: float | None = None
) -> float | None:
    """Returns the seconds of a `Retry-After` or `retry-after-ms` header. None if missing, invalid or not in the future.

    A date is compared with the *date* of the response, else with *now* (UNIX time), else it is ignored: our clock and
    that of the service may differ by hours.
    """
    if milliseconds is not None and (number := _number(milliseconds)):
        return number / 1000
    if value is None:
        return None
    if (number := _number(value)) is not None:
        return number or None
    then, base = http_date(value), http_date(date)
    if then is None:
        return None
    base = now if base is None else base
    return then - base if base is not None and then > base else None


def http_date(text: str | None) -> float | None:
    """Returns the UNIX time of an HTTP date in one of its three forms. Without a zone it is UTC."""
    if text is None or len(text) > _MAX_LENGTH or not text.isascii():  # int() accepts the digits of any script
        return None
    from email.utils import parsedate_to_datetime  # 12 ms to import, for a rare header

    try:
        moment = parsedate_to_datetime(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _number(text: str) -> float | None:
    text = text.strip() if len(text) <= _MAX_LENGTH else ""
    return float(text) if re.fullmatch(_NUMBER, text) else None
