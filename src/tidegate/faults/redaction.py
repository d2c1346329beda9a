"""Text without secrets: redaction, fingerprints of messages, and JSON as users may see it."""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from string import ascii_lowercase, ascii_uppercase
from typing import Any

# -- redaction ------------------------------------------------------------------------------------------------------

MAX_REDACTED = 500  # characters of detail

_FLAGS = re.ASCII | re.DOTALL

# Nested quotes have many backslashes.
_BETWEEN = r"[\\\"'\]]{0,8}\s{0,3}(?:[=:]|=>|%3d|(?<=[\"']),)\s{0,3}"
_QUOTED = r"b?\\{0,7}(?P<quote>[\"'])(?:(?!(?P=quote))[^\\]|\\.)*(?P=quote)?"

# A name that ends in one of these, and its value: name=value, "name": "value", ('name', 'value'). The text after
# Authorization or Cookie is secret up to the end of the line. The search uses lower case, which is four times faster.
_NAMED: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("token", "key", "secret", "pass", "pwd", "sig", "jwt", "credential"),
        (
            r"(?:token|key|secret|pass(?:wd|word|phrase)?|pwd|sig(?:nature)?|jwt|credentials?)"
            rf"{_BETWEEN}(?P<value>{_QUOTED}|[^\s&\"'<>]+)"
        ),
    ),
    (("authorization", "cookie"), rf"(?:authorization|cookie){_BETWEEN}(?P<value>{_QUOTED}|[^\r\n]+)"),
)
_TO_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)

_SHORT = "|".join(f"(?<={start}{name}=)" for name in ("[utsp]", "sk", "code") for start in ("^", r"[?&;\s\"'(]"))

# Each with fragments in lower case, of which the text must contain one. That check is cheap and nearly always fails. So
# most patterns never run, and they are compiled on first use.
_RULES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    # One-letter names are those of Subsonic. They are only safe to match in a query string, a form or a dictionary
    # (whose quote may be gone with the previous secret). A pattern that starts with the sign is twenty times faster
    # than one that starts with the names.
    (("=",), rf"=(?:{_SHORT})[^\s&\"'<>]+", "=***"),
    (("':", '":', "',"), rf"((?<=[\"'*])(?:[utsp]|sk)\\{{0,7}}[\"']\s{{0,3}}[:,]\s{{0,3}}){_QUOTED}", r"\1***"),
    (("bearer", "basic"), r"\b([Bb](?i:earer|asic)\s{1,3})[A-Za-z0-9._~+/=:-]{6,}", r"\1***"),
    (("@",), r"(://)[^\s/?#\"'<>]{1,400}@", r"\1***@"),
    (("sk-", "eyj"), r"\b(?:sk-|eyJ)[A-Za-z0-9_.*-]{8,}", "***"),
)


def redact(text: str, limit: int = MAX_REDACTED) -> str:
    """Returns *text* as one printable line of up to *limit* characters, with secrets replaced."""
    short = text if len(text) <= 4 * limit else _whole_words(text[: 4 * limit])
    lowered = short.lower()
    for hints, pattern in _NAMED:
        for hint in hints:
            if hint in lowered:
                short = _without_values(short, pattern)
                lowered = short.lower()
                break
    for hints, pattern, instead in _RULES:
        for hint in hints:
            if hint in lowered:
                short = re.sub(pattern, instead, short, flags=_FLAGS)
                break
    if not short.isprintable():
        short = " ".join(short.split())
        if not short.isprintable():
            short = "".join(c if c.isprintable() else " " for c in short)
    return short if len(short) <= limit else short[: limit - 1] + "…"


def _without_values(text: str, pattern: str) -> str:
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters become two in lower case
        lowered = text.translate(_TO_LOWER)
    parts: list[str] = []
    at = 0
    for match in re.finditer(pattern, lowered, _FLAGS):
        parts += text[at : match.start("value")], "***"
        at = match.end()
    return "".join((*parts, text[at:]))


def _whole_words(text: str) -> str:
    """Removes the word at the cut: half a secret is not recognized."""
    end = max(text.rfind(" "), text.rfind("\n"), text.rfind("&"))
    return text[:end] if end > 0 else text


# -- fingerprints: equal for failures that differ only in variable parts --------------------------------------------

MAX_FINGERPRINTED = 200  # characters of a message that distinguish it
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
    """Replaces all variable parts of a message by an ellipsis: ids, numbers, quoted words, addresses."""
    return " ".join(_VARIES.sub("…", message[: 4 * MAX_FINGERPRINTED]).split())[:MAX_FINGERPRINTED]


def fingerprint(subject: str, code: str, message: str) -> str:
    """Returns the same value for failures of one *subject* (a target or job kind) with the same code and message."""
    parts = "\0".join((subject, code, normalise(message)))
    return blake2b(parts.encode("utf-8", "replace"), digest_size=8).hexdigest()


# -- values shown to users ------------------------------------------------------------------------------------------

MAX_JSON = 20_000  # characters of JSON
_MAX_TEXT = 2_000
_MAX_MESSAGE = 1000
_DEEPEST = 20
# Names of secret values. A plain "key" is not one: jobs have keys that are not secret.
_SECRET = re.compile(
    r"token|secret|passw|passphrase|passcode|(?:^|[-_ ])pass$|pwd|credential|authorization|cookie|signature|jwt"
    r"|(?:api|private|access|signing|encryption|license)[-_ ]?key",
    re.IGNORECASE,
)


def cut(text: str, limit: int) -> str:
    """Truncates to *limit* characters, and replaces invalid ones."""
    clean = text.encode("utf-8", "replace").decode()
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"


def shown_message(text: str) -> str:
    """Returns the message of a failure for users, in one line."""
    return redact(text, _MAX_MESSAGE)


def shown_json(text: Any) -> Any:
    """Returns JSON text as a value for users, or the start of the text if it is too long."""
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
    """Returns *value* without secrets, with long texts truncated."""
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {
            cut(str(name), 200): "***" if _SECRET.search(str(name)) and item else shown_value(item, depth + 1)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [shown_value(item, depth + 1) for item in value]
    # `redact` truncates: it would not recognize a secret that was already cut.
    return redact(value, _MAX_TEXT) if isinstance(value, str) else value
