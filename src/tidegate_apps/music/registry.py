"""Provider kinds, found by entry points, and validation of what users enter for a connection."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points

from tidegate_apps.music.provider import Field, Provider, ProviderConnection, ProviderContext, ProviderKind

# -- kinds -------------------------------------------------------------------------------------------------------------
# A new provider is one module and one entry point.

GROUP = "tidegate_apps.music.providers"
_log = logging.getLogger("tidegate.music")


@cache
def kinds() -> Mapping[str, ProviderKind]:
    """Return kinds by name, the most frequently synced first. One that fails to load is logged and left out."""
    return load_kinds(entry_points(group=GROUP))


def load_kinds(points: Iterable[EntryPoint]) -> Mapping[str, ProviderKind]:
    """Return the kinds of *points*. Of two with one name, Tidegate's own wins, else the first."""
    kinds_by_name: dict[str, ProviderKind] = {}
    for point in sorted(points, key=lambda each: (not each.value.startswith("tidegate_apps."), each.value)):
        kind = _kind(point)
        if kind is None:
            continue
        if kind.name in kinds_by_name:
            _log.error("the provider %r of %s is left out: its name is taken", kind.name, point.value)
            continue
        kinds_by_name[kind.name] = kind
    return dict(sorted(kinds_by_name.items(), key=lambda each: (each[1].every, each[1].title)))


def make_provider(kind: ProviderKind, connection: ProviderConnection, context: ProviderContext) -> Provider | None:
    """Return the provider of *connection*; None if a required value is missing."""
    return None if kind.missing(connection.values) else kind.make(connection, context)


def _kind(point: EntryPoint) -> ProviderKind | None:
    try:
        kind = point.load()
    except Exception:  # third-party code must not stop the others
        _log.exception("the provider %s cannot be loaded", point.value)
        return None
    if not isinstance(kind, ProviderKind):
        _log.error("the provider %s is not a ProviderKind; give the name of one in its entry point", point.value)
        return None
    return kind


MAX_VALUE = 4000  # characters


class WrongValue(ValueError):
    """An entered value cannot be used; the text is for users. *field* is empty if it concerns none."""

    def __init__(self, why: str, field: str = "") -> None:
        super().__init__(f"{field}: {why}" if field else why)
        self.why, self.field = why, field


def asked_for(kind: ProviderKind) -> tuple[Field, ...]:
    """Return the fields that a user enters."""
    return tuple(field for field in kind.fields if not field.operator and not field.hidden)


def by_itself(kind: ProviderKind, operator: Mapping[str, str]) -> bool:
    """Return whether a user needs to enter nothing, and the operator has entered the rest."""
    return (
        not any(user_field.required for user_field in asked_for(kind))
        and kind.oauth is None
        and not kind.missing(operator)
    )


def enter_values(
    kind: ProviderKind, given: Mapping[str, str], before: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return entered values, cleaned. An empty secret keeps its value. Raises WrongValue with the field."""
    fields = {user_field.name: user_field for user_field in asked_for(kind)}
    for name in given:
        if name not in fields:
            raise WrongValue(f"{kind.title} does not ask for it; it asks for: {', '.join(fields) or 'nothing'}", name)
    entered: dict[str, str] = {}
    for name, field in fields.items():
        value = given.get(name, "").strip() or field.default
        if not value and field.secret and before:
            value = before.get(name, "")
        if len(value) > MAX_VALUE or "\0" in value:
            raise WrongValue(f"it is too long, or no text; give at most {MAX_VALUE} characters", name)
        if not value and field.required:
            raise _empty(field)
        if value:
            entered[name] = check_value(field, value)
    return entered


def complete(kind: ProviderKind, values: Mapping[str, str]) -> None:
    """Raise WrongValue for an unknown field, or a missing one that the operator does not set."""
    names = [field.name for field in kind.fields]
    for name in values:
        if name not in names:
            raise WrongValue(f"{kind.title} has no such field; it has: {', '.join(names) or 'none'}", name)
    for missing_field in kind.missing(values):
        if not missing_field.operator:
            raise _empty(missing_field)


def _empty(each: Field) -> WrongValue:
    return WrongValue(f"it is empty; give the {each.label}", each.name)


def check_value(each: Field, value: str) -> str:
    try:
        return each.check(value)
    except ValueError as error:
        raise WrongValue(str(error), each.name) from error


def leading(kind: ProviderKind) -> list[Field]:
    """Return the fields that identify the server and the account."""
    return [user_field for user_field in asked_for(kind) if not user_field.secret]


def account(kind: ProviderKind, values: Mapping[str, str]) -> str:
    """Return what distinguishes accounts. If only a login identifies the account, each login may be another one."""
    names = [account_field.name for account_field in leading(kind) or [field for field in kind.fields if field.hidden]]
    return hidden(json.dumps([values.get(name, "") for name in names]))


def hidden(text: str) -> str:
    """Return a digest to compare texts. A stored OAuth state cannot be used by readers of the table."""
    return sha256(text.encode()).hexdigest()
