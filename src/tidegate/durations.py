"""Durations and moments: parsed from settings, written for operators, checked against limits."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema


# -- durations ------------------------------------------------------------------------------------------------------

MAX_SECONDS = 36525 * 86400.0  # a hundred years; a longer sleep overflows
_ALLOWED = "a number of seconds, a text such as '30s', '5m' or '1h30m', or a timedelta"

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MAX_TEXT = 100
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)", re.ASCII)

Duration = float | int | str | timedelta


def seconds(value: object, *, field: str = "duration", minimum: float = 0.0) -> float:
    """Converts *value* to seconds. Errors name *field*: invalid, below *minimum*, or above a hundred years."""
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, str):
        number = _parse(value, field)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        number = value
    else:
        raise TypeError(f"{field}: {value!r} is not a duration; give {_ALLOWED}")
    if not minimum <= number <= MAX_SECONDS:  # also rejects NaN
        raise ValueError(
            f"{field}: {value!r} is not allowed; give {minimum:g} seconds or more, and finite (a hundred years)"
        )
    return float(number)


def _parse(text: str, field: str) -> float:
    stripped = text.strip()
    total, at = 0.0, 0
    for part in _PART.finditer(stripped[:_MAX_TEXT]):
        if stripped[at : part.start()].strip():
            break
        total += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if not stripped or stripped[at:].strip():
        raise ValueError(f"{field}: {text!r} is not a duration; give {_ALLOWED}")
    return total


def brief(value: float) -> str:
    """The shortest usual form of *value* seconds: 90 -> '1m30s', 0.25 -> '250ms'."""
    if value < 0.9995:
        return f"{value * 1000:.0f}ms" if value else "0s"
    parts, rest = [], round(value)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        if rest >= size:
            parts.append(f"{rest // size}{unit}")
            rest %= size
    return "".join(parts[:2])


# -- moments --------------------------------------------------------------------------------------------------------

Until = float | str | timedelta | datetime


def ahead(until: Until, now: float, *, field: str = "until") -> float:
    """Converts *until* to UNIX time. ValueError if it is not a time, or not after *now*."""
    if isinstance(until, (str, timedelta)):
        moment = now + seconds(until, field=field)
    elif isinstance(until, datetime):
        moment = until.timestamp()
    elif type(until) in (int, float):
        moment = float(until)
    else:
        raise TypeError(f"{field}: {until!r} is not a time; give '2h', a timedelta, a datetime or UNIX time")
    if not now < moment <= now + MAX_SECONDS:
        raise ValueError(f"{field}: {until!r} is not allowed; give a time ahead of now, at most a hundred years")
    return moment


# -- clock of a breaker ---------------------------------------------------------------------------------------------

Time = Callable[[], float]

_A_DATE = 1e9
_TIMES = "a time ahead of now on the breaker's clock, a text such as '10m', a timedelta or a datetime"


def offset_of(clock: Time) -> Time:
    """Returns the offset from the clock to the time that users read."""
    # Monotonic time means nothing to users. A clock that was passed in is what its owner reads.
    return (lambda: time.time() - clock()) if clock is time.monotonic else (lambda: 0.0)


def moment(until: object, now: float, offset: Time) -> float:
    """Converts *until* to a time on the breaker's clock. Raises if it is not after *now*."""
    if isinstance(until, (str, timedelta)):
        end = now + seconds(until, field="until")
    elif isinstance(until, datetime):
        end = until.timestamp() - offset()
    elif isinstance(until, (int, float)) and not isinstance(until, bool):
        # Monotonic clocks do not reach the year 2001, so such a number is UNIX time.
        end = until - offset() if until > _A_DATE and now < _A_DATE else float(until)
    else:
        raise TypeError(f"until: {until!r} is not a time; give {_TIMES}")
    if not math.isfinite(end) or end <= now:
        raise ValueError(f"until: {until!r} is not ahead of now ({now:g}); give {_TIMES}")
    return end


# -- types of settings ----------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)


class Seconds(float):
    """Seconds that keep their notation: `3m` in the file is 180.0 in the program, and is shown as `3m`.

    As the type of a setting it accepts 30, "30s" or "1h30m".

        class Settings(BaseModel):
            interval: Seconds = Seconds("3m")
    """

    __slots__ = ("written",)

    written: str

    def __new__(cls, value: Duration) -> Self:
        if isinstance(value, Seconds):
            made = super().__new__(cls, float(value))
            made.written = value.written
            return made
        plain = isinstance(value, str) and _NUMBER.fullmatch(value.strip())  # an environment variable is always text
        try:
            made = super().__new__(cls, seconds(float(value) if plain else value))  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            if "not a duration" not in str(error):
                raise ValueError(str(error).removeprefix("duration: ")) from None
            raise ValueError(f"{value!r:.60} is not a duration; give one such as 30s, 5m, 1h30m or 7d") from None
        made.written = value.strip() if isinstance(value, str) else _brief(float(made))
        return made

    def __str__(self) -> str:
        return self.written

    def __repr__(self) -> str:
        return f"Seconds({self.written!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.written,)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls, serialization=core_schema.to_string_ser_schema(when_used="json")
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, object]:
        return {"type": ["string", "number"], "description": "a duration: a number of seconds, or a text such as '3m'"}


def _brief(value: float) -> str:
    """The shortest text that means exactly *value*."""
    text = brief(value)
    return text if seconds(text) == value else f"{value!r}s"


def validate_url(value: str, give: str, *, login: bool = False) -> str:
    """Checks the URL of a service, and removes a trailing slash. Empty stays empty. *give* describes a valid URL.

    ValueError if it is not a URL, or, unless *login*, if it has a user name or a password: pages show it as a link to
    all users.

        BaseUrl = Annotated[str, AfterValidator(lambda value: validate_url(value, "one such as http://weather:80"))]
    """
    text = value.strip()
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the original message may contain part of a password
        raise ValueError(f"it is not a valid address; give {give}") from None
    if text and (not fits or parts.query or parts.fragment):
        raise ValueError(f"it is not a valid address; give {give}")
    if "@" in parts.netloc and not login:
        raise ValueError(f"a URL with a name or a password is not allowed; give {give}")
    return text.rstrip("/")
