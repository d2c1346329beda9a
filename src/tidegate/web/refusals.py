"""What is wrong with a request, field by field, in plain sentences; never with what was sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

from tidegate.ops.masking import cut
from tidegate.web.problems import Problem

_MAX_ERRORS = 20
_MAX_NAME = 100
_BRANCH = re.compile(r"[-\[]|^(?:float|int|str|bool|datetime|dict|none)$")  # pydantic's names for parts of a union

# By pydantic's type of error, with what it says of it.
_SENTENCES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": lambda ctx: "it is missing",
    "extra_forbidden": lambda ctx: "there is no such field",
    "int_type": lambda ctx: "give a whole number",
    "int_parsing": lambda ctx: "give a whole number",
    "int_from_float": lambda ctx: "give a whole number",
    "int_parsing_size": lambda ctx: "the number is too large",
    "float_type": lambda ctx: "give a number",
    "float_parsing": lambda ctx: "give a number",
    "finite_number": lambda ctx: "give a finite number",
    "bool_type": lambda ctx: "give true or false",
    "bool_parsing": lambda ctx: "give true or false",
    "string_type": lambda ctx: "give a text",
    "string_too_short": lambda ctx: f"give at least {ctx['min_length']} characters",
    "string_too_long": lambda ctx: f"give at most {ctx['max_length']} characters",
    "string_pattern_mismatch": lambda ctx: "it has characters that are not allowed",
    "greater_than": lambda ctx: f"give more than {ctx['gt']:g}",
    "greater_than_equal": lambda ctx: f"give {ctx['ge']} or more",
    "less_than_equal": lambda ctx: f"give {ctx['le']} or less",
    "literal_error": lambda ctx: f"give one of: {ctx['expected']}",
    "enum": lambda ctx: f"give one of: {ctx['expected']}",
    "model_attributes_type": lambda ctx: "give a JSON object",
    "model_type": lambda ctx: "give a JSON object",
    "dict_type": lambda ctx: "give a JSON object",
    "list_type": lambda ctx: "give a list",
    "too_long": lambda ctx: f"give at most {ctx['max_length']} entries",
    "value_error": lambda ctx: str(ctx["error"]),
}


def problem_of_validation(request: Request, error: RequestValidationError) -> Problem:
    """What a request that does not fit its route is told."""
    found = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return Problem("malformed", "body: it is no JSON.")
    model = _body_model(request)
    # What may be left out is a union with None, and is told twice what is wrong.
    errors = [_field(each, model) for each in found if each["type"] != "none_required"][:_MAX_ERRORS]
    return invalid(errors)


def invalid(errors: Sequence[Mapping[str, str]]) -> Problem:
    """A problem that names fields: each with `field` and `message`."""
    first = errors[0]
    said = f"{first['field']}: {first['message']}"
    return Problem("invalid", said if said.endswith("?") else f"{said}.", errors=[dict(error) for error in errors])


def wrong(field: str, message: str) -> Problem:
    """One field is not as it should be."""
    return invalid([{"field": field, "message": message.rstrip(".")}])


def meant(given: str, known: Iterable[str]) -> str:
    """A suggestion for a name that nobody knows."""
    close = get_close_matches(given, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _field(error: Mapping[str, Any], model: type[BaseModel] | None) -> dict[str, str]:
    place, *names = (str(part) for part in error["loc"] if not _BRANCH.search(str(part)))
    say = _SENTENCES.get(error["type"])
    message = str(error["msg"]) if say is None else say(error.get("ctx") or {})
    if error["type"] == "extra_forbidden" and names:
        message += meant(names[-1], _known(model, names[:-1])) if place == "body" else ""
    return {"field": cut(".".join(names) or place, _MAX_NAME), "message": cut(message, 200)}


def _body_model(request: Request) -> type[BaseModel] | None:
    field = getattr(request.scope.get("route"), "body_field", None)
    found = None if field is None else field.field_info.annotation
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _known(model: type[BaseModel] | None, path: Sequence[str]) -> list[str]:
    """The names of the fields at a place inside a body."""
    for name in path:
        field = None if model is None else model.model_fields.get(name)
        inner = None if field is None else field.annotation
        model = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None
    return [] if model is None else [field.alias or name for name, field in model.model_fields.items()]
