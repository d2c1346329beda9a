"""How long a service asks us to wait, in seconds."""

from __future__ import annotations

import re
from datetime import UTC

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
