"""/config: every effective setting with its origin; secrets are masked."""

from __future__ import annotations

from fastapi import Request, Response

from tidegate.web.api import strict
from tidegate.web.api.answers import read, responses
from tidegate.web.api.shapes import Listed, ResponseModel
from tidegate.web.masking import shown_setting
from tidegate.web.site import site_of

router = strict.api("config")


class Setting(ResponseModel):
    """One setting: its value, and where that came from. *variable* is that of the environment that sets it."""

    key: str
    value: str
    origin: str
    about: str = ""
    secret: bool = False
    variable: str = ""


@router.get("/config", responses=responses(Listed[Setting]))
def list_settings(request: Request) -> Response:
    """The settings that are in force; the value of a secret is masked."""
    items = [Setting(**shown_setting(each)) for each in site_of(request).config()]
    return read(request, Listed(items=items, next_cursor=None, total=len(items)))
