"""Until when: what a person orders always has an end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from tidegate.core.duration import MAX_SECONDS as LONGEST
from tidegate.web.api.shapes import RequestModel, Seconds, Why, iso
from tidegate.web.problems import Problem

_ONE: dict[str, Any] = {"oneOf": [{"required": ["until"]}, {"required": ["for"]}]}


def _text(given: Any) -> Any:
    if not isinstance(given, str):
        raise ValueError("give a time such as 2026-11-20T14:30:00Z")  # noqa: TRY004 - pydantic wants this one
    return given


Time = Annotated[
    AwareDatetime, Field(strict=False, description="ISO-8601, with its offset from UTC."), BeforeValidator(_text)
]


class Ending(RequestModel):
    """Give `until`, a time ahead, or `for`, a number of seconds."""

    model_config = ConfigDict(json_schema_extra=_ONE, title="Ending")

    until: Time | SkipJsonSchema[None] = None
    for_: Seconds | SkipJsonSchema[None] = Field(None, alias="for")
    reason: Why = ""

    @model_validator(mode="after")
    def one_end(self) -> Ending:
        if (self.until is None) == (self.for_ is None):
            raise ValueError("it must have an end: give either until or for")
        return self

    def moment(self, now: float) -> float:
        """The UNIX time that is meant; a problem when it has passed."""
        return moment(self.until, self.for_, now)


def moment(until: datetime | None, lasts: float | None, now: float) -> float:
    end = now + (lasts or 0.0) if until is None else until.astimezone(UTC).timestamp()
    if not now < end <= now + LONGEST:
        raise Problem("time_passed", f"until: it is {iso(now)} now; give a time ahead, at most a hundred years.")
    return end
