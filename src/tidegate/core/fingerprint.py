"""Which failures are the same one: what they say, without what differs from job to job."""

from __future__ import annotations

import re
from hashlib import blake2b

MAX_FINGERPRINTED = 200  # characters of a message that tell it from others
_VARIES = re.compile(
    r"""
    "[^"]{0,200}" | '[^']{0,200}' | «[^»]{0,200}» | “[^”]{0,200}”           # what is quoted
    | \b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b                       # a UUID
    | \b0x[0-9a-f]+\b | \b(?=[a-f]*[0-9])[0-9a-f]{12,}\b                     # addresses, digests
    | https?://[^\s]+ | (?<![\w.])/[^\s:]+                                   # where it was
    | (?<!\d)(?!(?<=HTTP\ )\d{1,3}(?!\d))\d+(?:[.,:]\d+)*                    # numbers and times, but no status
    """,
    re.VERBOSE | re.IGNORECASE,
)


def normalise(message: str) -> str:
    """The message with an ellipsis for whatever varies: ids, numbers, quoted words, addresses."""
    return " ".join(_VARIES.sub("…", message[: 4 * MAX_FINGERPRINTED]).split())[:MAX_FINGERPRINTED]


def fingerprint(subject: str, code: str, message: str) -> str:
    """The same for failures of one *subject* (a target, or a kind of job) with one code that say the same."""
    parts = "\0".join((subject, code, normalise(message)))
    return blake2b(parts.encode("utf-8", "replace"), digest_size=8).hexdigest()
