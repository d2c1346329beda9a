"""What somebody enters for a connection: which fields there are, what is wrong with a value, whose account it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

from tidegate_apps.music.kind import Field, Kind

MOST_VALUE = 4000  # characters


class WrongValue(ValueError):
    """Something that was entered cannot be used; the text is for people. *field* is empty when it is about none."""

    def __init__(self, why: str, field: str = "") -> None:
        super().__init__(f"{field}: {why}" if field else why)
        self.why, self.field = why, field


def asked_for(kind: Kind) -> tuple[Field, ...]:
    """What a user is asked for."""
    return tuple(each for each in kind.fields if not each.operator and not each.hidden)


def by_itself(kind: Kind, operator: Mapping[str, str]) -> bool:
    """Whether it needs nothing of a user, and the operator has entered the rest."""
    return not any(each.required for each in asked_for(kind)) and kind.oauth is None and not kind.missing(operator)


def entered(kind: Kind, given: Mapping[str, str], before: Mapping[str, str] | None = None) -> dict[str, str]:
    """What somebody entered, cleaned; a secret that was left empty stays as it was. WrongValue names the field."""
    fields = {each.name: each for each in asked_for(kind)}
    for name in given:
        if name not in fields:
            raise WrongValue(f"{kind.title} does not ask for it; it asks for: {', '.join(fields) or 'nothing'}", name)
    found: dict[str, str] = {}
    for name, each in fields.items():
        value = given.get(name, "").strip() or each.default
        if not value and each.secret and before:
            value = before.get(name, "")
        if len(value) > MOST_VALUE or "\0" in value:
            raise WrongValue(f"it is too long, or no text; give at most {MOST_VALUE} characters", name)
        if not value and each.required:
            raise _empty(each)
        if value:
            found[name] = checked(each, value)
    return found


def complete(kind: Kind, values: Mapping[str, str]) -> None:
    """WrongValue when there is a field too many, or one is missing that the operator does not give for all."""
    names = [each.name for each in kind.fields]
    for name in values:
        if name not in names:
            raise WrongValue(f"{kind.title} has no such field; it has: {', '.join(names) or 'none'}", name)
    for each in kind.missing(values):
        if not each.operator:
            raise _empty(each)


def _empty(each: Field) -> WrongValue:
    return WrongValue(f"it is empty; give the {each.label}", each.name)


def checked(each: Field, value: str) -> str:
    try:
        return each.check(value)
    except ValueError as error:
        raise WrongValue(str(error), each.name) from error


def leading(kind: Kind) -> list[Field]:
    """What says where a connection leads, and to whom."""
    return [each for each in asked_for(kind) if not each.secret]


def account(kind: Kind, values: Mapping[str, str]) -> str:
    """What tells one account from another. Where nothing but a login says whose it is, each login may be another's."""
    names = [each.name for each in leading(kind) or [each for each in kind.fields if each.hidden]]
    return hidden(json.dumps([values.get(name, "") for name in names]))


def hidden(text: str) -> str:
    """What tells that two texts are the same. A table has it of a state: whoever reads it can come back with none."""
    return sha256(text.encode()).hexdigest()
