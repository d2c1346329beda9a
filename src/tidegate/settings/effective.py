"""Effective settings: every value as text, and its origin."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path as FilePath
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Secret, SecretBytes, SecretStr
from pydantic_core import ErrorDetails

from tidegate.faults.redaction import redact
from tidegate.settings.schema import Key, Section, section_of
from tidegate.settings.sources import Found

MASK = "********"
DEFAULT = "default"
_MAX_VALUES = 1000


@dataclass(frozen=True, slots=True)
class Effective:
    """One effective value. A secret is masked. For a reference it shows where the secret is."""

    key: str
    value: str
    origin: str  # "default", the file, the variable or the flag
    about: str
    secret: bool
    variable: str = ""  # the environment variable that sets it

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def effective(
    tree: Section, values: BaseModel, of_apps: Mapping[str, object], values_by_path: Found
) -> list[Effective]:
    known = {key.path for key in tree.keys()}  # noqa: SIM118 - a section is not a mapping
    rows = []
    for key, value in _pairs(tree, values, of_apps):
        source = values_by_path.get(key.path)
        text = text_of(value, secret=key.secret)
        if source is not None and source.named:
            text = f"{text} from {source.named}"
        variable = key.variables[0] if key.path in known else ""
        rows.append(Effective(key.name, text, source.origin if source else DEFAULT, key.about, key.secret, variable))
    return rows


def addresses(tree: Section, values: BaseModel, of_apps: Mapping[str, object]) -> dict[str, str]:
    """Returns the service URLs in the settings of applications, by key."""
    urls = {}
    for key, value in _pairs(tree, values, of_apps):
        text = "" if key.secret or len(key.path) < 2 or key.path[0] not in of_apps else str(value)
        if text.startswith(("http://", "https://")) and urlsplit(text).hostname:
            urls[key.name] = text
    return urls


def secret_files(values_by_path: Found, file: FilePath | None) -> dict[FilePath, str]:
    """Returns the files that contain secrets, with a description of each."""
    paths: dict[FilePath, str] = {}
    for source in values_by_path.values():
        elsewhere = source.named.split(", ") if source.named else []
        for name in elsewhere:
            if name.startswith("file:"):
                path = source.folder / FilePath(name.removeprefix("file:").strip()).expanduser()
                paths[path] = f"the secret {source.key.name}"
        if (
            file is not None
            and source.origin == str(file)
            and not elsewhere
            and _contains_secret(source.key, source.value)
        ):
            paths[file] = "a secret in the settings"
    return paths


def _contains_secret(key: Key, value: Any) -> bool:
    return bool(value) if key.secret else key.reference and redact(str(value), _MAX_VALUES) != str(value)


def _pairs(tree: Section, values: BaseModel, of_apps: Mapping[str, object]) -> list[tuple[Key, Any]]:
    """Returns every effective key with its value: plain keys before sections, the core before applications."""
    pairs: list[tuple[Key, Any]] = []
    for name, part in sorted(tree.parts.items(), key=lambda entry: isinstance(entry[1], Section)):
        if name not in of_apps and name not in type(values).model_fields:
            continue  # an application that does not run
        holder = of_apps[name] if name in of_apps else getattr(values, name)
        pairs += [(part, holder)] if isinstance(part, Key) else _of_section(part, holder)
    return pairs


def _of_section(section: Section, holder: Any) -> list[tuple[Key, Any]]:
    pairs: list[tuple[Key, Any]] = []
    if holder is None:
        return pairs
    for name, part in section.parts.items():
        value = getattr(holder, name)
        pairs += [(part, value)] if isinstance(part, Key) else _of_section(part, value)
    for name, inner in ((holder.model_extra or {}) if section.others is not None else {}).items():
        pairs += [
            (key, value)
            for key, value in _of_section(section_of(section.others, (*section.path, name)), inner)  # type: ignore[arg-type]
            if value is not None
        ]
    return pairs


def text_of(value: Any, *, secret: bool = False) -> str:
    """Formats a value as a user would write it."""
    if value is None:
        return ""
    if secret:
        return MASK if _has_secret_value(value) else ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return text_of(value.value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(map(text_of, sorted(value, key=str) if isinstance(value, (set, frozenset)) else value))
    if isinstance(value, BaseModel):
        return redact(value.model_dump_json(), _MAX_VALUES)
    if isinstance(value, Mapping):
        return redact(json.dumps(value, default=str), _MAX_VALUES)
    return redact(str(value), _MAX_VALUES)


def _has_secret_value(value: Any) -> bool:
    """Whether a secret has a value to hide."""
    if isinstance(value, (Secret, SecretStr, SecretBytes)):
        return bool(value.get_secret_value())
    return bool(value)


# -- validation errors -------------------------------------------------------------------------------------------------

_MAX_SHOWN = 60

# pydantic's error type -> the expected value; the fields come from pydantic's context
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
    """Returns one sentence: what is wrong and what to give. It contains none of the *secrets*."""
    context: dict[str, object] = error.get("ctx") or {}
    kind, value = error["type"], error["input"]
    if kind in ("value_error", "assertion_error"):
        return hide_secrets(" ".join(str(context.get("error") or error["msg"]).split()), secrets)
    give = _GIVE.get(kind, "").format_map(context)
    if not give:
        what = error["msg"][:1].lower() + error["msg"][1:]
        return hide_secrets(f"{show_value(value, secrets)} is not allowed: {what}", secrets)
    return hide_secrets(f"{show_value(value, secrets)} is not allowed; give {give}", secrets)


def show_value(value: object, secrets: Iterable[str] = ()) -> str:
    """Formats a value as the user wrote it, without *secrets* and anything that looks like one."""
    if isinstance(value, (SecretStr, SecretBytes)):
        return "it"
    if isinstance(value, bool):
        return str(value).lower()
    # Redact before truncating: half of a secret would not be recognised.
    return redact(hide_secrets(repr(value), secrets), _MAX_SHOWN)


def hide_secrets(text: str, secrets: Iterable[str]) -> str:
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(repr(secret), "it").replace(secret, "***")
    return text
