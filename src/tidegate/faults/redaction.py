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

# Names of secrets, in lower case. A name in a text or in JSON is secret if it ends in one of them. Words that are also
# the end of harmless names (monkey, compass) must be whole, or follow one of `_KEY_OF`.
_ANYWHERE = (
    r"token|secret(?:[-_ ]?id)?|passw(?:or)?d|passphrase|passcode|pwd|signature|jwt|credentials?|sess(?:ion)?[-_ .]?id"
)
_LINE = r"authorization|cookies?"  # in a text, the value goes up to the end of the line
_WHOLE = ("pass", "sig", "hmac", "otp", "session", "dsn")
_KEY_OF = (
    "api", "access", "secret", "private", "signing", "encryption", "license", "client", "auth", "master", "shared",
    "account", "consumer", "service",
)  # fmt: skip

# Nested quotes have many backslashes.
_BETWEEN = r"[\\\"'\]]{0,8}\s{0,3}(?:[=:]|=>|%3d|(?<=[\"']),)\s{0,3}"
_QUOTED = r"b?\\{0,7}(?P<quote>[\"'])(?:(?!(?P=quote))[^\\]|\\.)*(?P=quote)?"
# Patterns that begin with a letter are twice as fast, so what must be before a word is checked after it.
_NAME = "|".join(
    (_ANYWHERE, *(f"{word}(?<![a-z]{word})" for word in _WHOLE), "key(?:(?<![a-z]key)|")
) + "|".join(f"(?<={of}key)" for of in _KEY_OF) + ")"  # fmt: skip

# A name and its value: name=value, "name": "value", ('name', 'value'). The search uses lower case, which is four times
# faster. Each pattern with fragments, of which the text must contain one.
_HINTS = ("token", "key", "secret", "pass", "pwd", "sig", "jwt", "credential", "sess", "hmac", "otp", "dsn")
_NAMED: tuple[tuple[tuple[str, ...], str], ...] = (
    (_HINTS, rf"(?:{_NAME}){_BETWEEN}(?P<value>{_QUOTED}|[^\s&\"'<>]+)"),
    (("authorization", "cookie"), rf"(?:{_LINE}){_BETWEEN}(?P<value>{_QUOTED}|[^\r\n]+)"),
)
_TO_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)

_SHORT = "|".join(f"(?<={start}{name}=)" for name in ("[utsp]", "sk", "code") for start in ("^", r"[?&;\s\"'(]"))

# Tokens that are recognized by their beginning.
_PREFIXES = (
    r"sk-|eyJ|tg_(?=[A-Za-z0-9_-]{40})|gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|xapp-|[prs]k_(?:live|test)_|whsec_|AKIA|ASIA"
    r"|AIza|ya29\.|npm_(?=[A-Za-z0-9]{30})|pypi-AgE|hf_(?=[A-Za-z]{30})|SG\.(?=[A-Za-z0-9_-]{20})|dop_v1_"
)
_BEGINNINGS = (
    "sk-", "eyj", "tg_", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "xox", "xapp-", "k_live_",
    "k_test_", "whsec_", "akia", "asia", "aiza", "ya29.", "npm_", "pypi-age", "hf_", "sg.", "dop_v1_",
)  # fmt: skip

# Secrets of several lines. They are replaced before a text is cut or split.
_PRIVATE_KEY = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)"
_YAML_BLOCK = rf"(?:{_NAME})[\"']?\s{{0,3}}:\s{{0,3}}(?P<value>[|>][-+0-9]{{0,2}}\r?\n(?:[ \t]+[^\r\n]*(?:\r?\n|\Z))+)"
_QUOTED_LINES = rf"(?:{_NAME}){_BETWEEN}(?P<value>(?P<quote>[\"'])(?=[^\"'\n]{{0,2000}}\n)[^\"']{{1,4000}}(?P=quote))"

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
    (_BEGINNINGS, rf"\b(?:{_PREFIXES})[A-Za-z0-9_.*-]{{8,}}", "***"),
)


def redact(text: str, limit: int = MAX_REDACTED) -> str:
    """Returns *text* as one printable line of up to *limit* characters, with secrets replaced."""
    short = text if len(text) <= 4 * limit else _whole_words(text[: 4 * limit])
    short = _without_blocks(short)
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


def redact_lines(text: str) -> list[str]:
    """Returns the lines of *text*, each as `redact` does it, without secrets that go over several lines."""
    return [redact(line) for line in _without_values(_without_blocks(text), _QUOTED_LINES).splitlines()]


def _without_blocks(text: str) -> str:
    """Replaces private keys and blocks of YAML."""
    if "PRIVATE KEY-----" in text:
        text = re.sub(_PRIVATE_KEY, "***", text, flags=_FLAGS)
    if "\n " in text and any(sign in text for sign in ("|\n", ">\n", "-\n", "|\r", ">\r", "-\r")):
        text = _without_values(text, _YAML_BLOCK, "***\n")
    return text


def _without_values(text: str, pattern: str, instead: str = "***") -> str:
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters become two in lower case
        lowered = text.translate(_TO_LOWER)
    parts: list[str] = []
    at = 0
    for match in re.finditer(pattern, lowered, _FLAGS):
        parts += text[at : match.start("value")], instead
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
# A plain "key" is not secret: jobs have keys that are not. Neither is a name that ends in a property: token_type.
_SECRET = re.compile(
    rf"(?:{_ANYWHERE}|{_LINE}|(?<![a-z])(?:{'|'.join(_WHOLE)})|(?:{'|'.join(_KEY_OF)})[-_ ]?key)"
    r"(?P<many>s?)(?![a-z])(?P<rest>.*)",
    re.DOTALL,
)
_PROPERTY = re.compile(
    r"(?:^|[-_ .])(?:age|at|budget|count|endpoint|expires|expiry|field|file|id|in|left|length|limit|max|min|name|path"
    r"|policy|remaining|required|size|ttl|type|uri|url|used|valid|version)s?$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_secret_name(name: str, value: object = "") -> bool:
    """Whether a field with this name has a secret value. A number of tokens or sessions is none."""
    match = _SECRET.search(_CAMEL.sub("_", name).lower())
    if match is None or _PROPERTY.search(match["rest"]):
        return False
    counts = match["many"] or match[0].startswith("session")
    return not (counts and isinstance(value, (int, float)))


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
            cut(str(name), 200): "***" if item and is_secret_name(str(name), item) else shown_value(item, depth + 1)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [shown_value(item, depth + 1) for item in value]
    # `redact` truncates: it would not recognize a secret that was already cut.
    return redact(value, _MAX_TEXT) if isinstance(value, str) else value
