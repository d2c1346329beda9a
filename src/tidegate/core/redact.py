"""Takes secrets out of text before it reaches a log."""

from __future__ import annotations

import re
from string import ascii_lowercase, ascii_uppercase

MAX_REDACTED = 500  # characters of detail that are kept

_FLAGS = re.ASCII | re.DOTALL

# A text that quotes a text that quotes a text has many backslashes.
_BETWEEN = r"[\\\"'\]]{0,8}\s{0,3}(?:[=:]|=>|%3d|(?<=[\"']),)\s{0,3}"
_QUOTED = r"b?\\{0,7}(?P<quote>[\"'])(?:(?!(?P=quote))[^\\]|\\.)*(?P=quote)?"

# A name that ends in one of these, and its value: name=value, "name": "value", ('name', 'value'). What follows
# Authorization or Cookie is secret to the end of the line. Searched in lower case, which is four times faster.
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

# Each with fragments of which one must be there, in lower case: nearly always none is, and that is cheap to see. So
# most patterns are never needed, and none is compiled before it is.
_RULES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    # One-letter names are Subsonic's, and only safe to read in a query string, a form or a dictionary (whose quote may
    # have gone with the secret before it). A pattern that starts with the sign itself is found twenty times faster than
    # one that starts with the names.
    (("=",), rf"=(?:{_SHORT})[^\s&\"'<>]+", "=***"),
    (("':", '":', "',"), rf"((?<=[\"'*])(?:[utsp]|sk)\\{{0,7}}[\"']\s{{0,3}}[:,]\s{{0,3}}){_QUOTED}", r"\1***"),
    (("bearer", "basic"), r"\b([Bb](?i:earer|asic)\s{1,3})[A-Za-z0-9._~+/=:-]{6,}", r"\1***"),
    (("@",), r"(://)[^\s/?#\"'<>]{1,400}@", r"\1***@"),
    (("sk-", "eyj"), r"\b(?:sk-|eyJ)[A-Za-z0-9_.*-]{8,}", "***"),
)


def redact(text: str, limit: int = MAX_REDACTED) -> str:
    """*text* in one printable line of at most *most* characters, with what looks like a secret taken out."""
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
    if len(lowered) != len(text):  # a few letters become two when they are lowered
        lowered = text.translate(_TO_LOWER)
    parts: list[str] = []
    at = 0
    for found in re.finditer(pattern, lowered, _FLAGS):
        parts += text[at : found.start("value")], "***"
        at = found.end()
    return "".join((*parts, text[at:]))


def _whole_words(text: str) -> str:
    """Without the word that a cut went through: half a secret is not recognised."""
    end = max(text.rfind(" "), text.rfind("\n"), text.rfind("&"))
    return text[:end] if end > 0 else text
