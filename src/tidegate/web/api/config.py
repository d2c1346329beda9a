"""/config: every effective setting with its origin; secrets are masked."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from tidegate.core.redact import redacted
from tidegate.web.api import strict
from tidegate.web.api.answers import read, says
from tidegate.web.api.shapes import Listed, Shown
from tidegate.web.site import site_of

router = strict.api("config")

_MOST = 1000


class Setting(Shown):
    """One setting: its value, and where that came from. *variable* is that of the environment that sets it."""

    key: str
    value: str
    origin: str
    about: str = ""
    secret: bool = False
    variable: str = ""


@router.get("/config", responses=says(Listed[Setting]))
def list_settings(request: Request) -> Response:
    """The settings that are in force; the value of a secret is masked."""
    items = [_setting(each) for each in site_of(request).config()]
    return read(request, Listed(items=items, next_cursor=None, total=len(items)))


def _setting(found: dict[str, Any]) -> Setting:
    # Whoever gives the settings masks them; what looks like a secret in an address is taken out here, too.
    return Setting(**{**found, "value": redacted(str(found["value"]), _MOST)})
