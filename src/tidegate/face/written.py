"""What settings hold as people write it.

Durations: `3m` in the file, 180.0 in the program, and `3m` again where it is shown. Addresses of services: checked, and
without a slash at their end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from tidegate.core.duration import Duration, brief, seconds

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema


_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)


class Seconds(float):
    """A number of seconds that remembers how it was written. As a type of a setting it takes 30, "30s" or "1h30m".

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
        plain = isinstance(value, str) and _NUMBER.fullmatch(value.strip())  # a variable can hold no number
        try:
            made = super().__new__(cls, seconds(float(value) if plain else value))  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            if "no duration" not in str(error):
                raise ValueError(str(error).removeprefix("duration: ")) from None
            raise ValueError(f"{value!r:.60} is no duration; give one such as 30s, 5m, 1h30m or 7d") from None
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
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": ["string", "number"], "description": "a duration: a number of seconds, or a text such as '3m'"}


def _brief(value: float) -> str:
    """The shortest text that means exactly *value*."""
    text = brief(value)
    return text if seconds(text) == value else f"{value!r}s"


def validate_url(value: str, give: str, *, login: bool = False) -> str:
    """*value* as the address of a service, without a slash at its end; empty stays empty. *give* says what fits.

    ValueError for what is none, and unless *login* for one with a name or a password: pages link to it, for everybody.

        base_url: Annotated[str, AfterValidator(lambda value: validate_url(value, "one such as http://weather:80"))] =
        ""
    """
    text = value.strip()
    try:
        found = urlsplit(text)
        fits = found.scheme in ("http", "https") and bool(found.hostname) and found.port != 0
    except ValueError:  # its words may show a part of a password
        raise ValueError(f"it is no address; give {give}") from None
    if text and (not fits or found.query or found.fragment):
        raise ValueError(f"it is no address; give {give}")
    if "@" in found.netloc and not login:
        raise ValueError(f"give it without a name or a password: {give}")
    return text.rstrip("/")
