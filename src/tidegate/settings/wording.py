"""What pydantic finds wrong, in our words."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pydantic import SecretBytes, SecretStr
from pydantic_core import ErrorDetails

from tidegate.core.redact import redact

_MAX_SHOWN = 60

# kind of mistake -> what to give; the fields are those that pydantic tells beside it
_GIVE = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": 'a list such as ["one", "two"]',
    "tuple_type": 'a list such as ["one", "two"]',
    "set_type": 'a list such as ["one", "two"]',
    "frozen_set_type": 'a list such as ["one", "two"]',
    "dict_type": "a table",
    "model_type": "a table",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "string_pattern_mismatch": "a text that matches {pattern}",
    "url_parsing": "an address such as https://example.org",
    "url_type": "an address such as https://example.org",
    "url_scheme": "an address that begins with {expected_schemes}",
    "path_type": "the path of a file",
}


def describe_error(error: ErrorDetails, secrets: Collection[str] = ()) -> str:
    """One sentence: what is wrong and what to give. None of *secrets* is in it."""
    context: dict[str, Any] = error.get("ctx") or {}
    kind, value = error["type"], error["input"]
    if kind in ("value_error", "assertion_error"):
        return hide_secrets(" ".join(str(context.get("error") or error["msg"]).split()), secrets)
    give = _GIVE.get(kind, "").format_map(context)
    if not give:
        what = error["msg"][:1].lower() + error["msg"][1:]
        return hide_secrets(f"{show_value(value, secrets)} is not allowed: {what}", secrets)
    return hide_secrets(f"{show_value(value, secrets)} is not allowed; give {give}", secrets)


def show_value(value: object, secrets: Iterable[str] = ()) -> str:
    """A value as the user wrote it, without *secrets*, and without what looks like one."""
    if isinstance(value, (SecretStr, SecretBytes)):
        return "it"
    if isinstance(value, bool):
        return str(value).lower()
    # Before it is cut: nobody would know half of a secret again.
    return redact(hide_secrets(repr(value), secrets), _MAX_SHOWN)


def hide_secrets(text: str, secrets: Iterable[str]) -> str:
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(repr(secret), "it").replace(secret, "***")
    return text
