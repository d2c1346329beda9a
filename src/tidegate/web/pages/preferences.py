"""What a reader likes: light or dark, shortcuts or none. Kept in a cookie, changed by a form."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from tidegate.web.pages.rendering import KEYS_COOKIE, THEME_COOKIE, THEMES
from tidegate.web.pages.saying import answer
from tidegate.web.site import site_of

_YEAR = 366 * 86400
Field = Annotated[str, Form(max_length=2000)]


router = APIRouter()


@router.post("/preferences")
def prefer(request: Request, back: Field = "", theme: Field = "", keys: Field = "") -> Response:
    response = answer(request, None, back, "/")
    home = site_of(request).base or "/"
    for cookie, value, allowed in ((THEME_COOKIE, theme, THEMES), (KEYS_COOKIE, keys, ("on", "off"))):
        if value in allowed:
            response.set_cookie(cookie, value, max_age=_YEAR, samesite="lax", httponly=True, path=home)
    return response
