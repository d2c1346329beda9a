"""/codes: every code there is, of faults and of the API's own problems."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Request, Response
from pydantic import Field

from tidegate.core.codes import Code
from tidegate.errors import NotFound
from tidegate.web.api import strict
from tidegate.web.api.answers import read, responses
from tidegate.web.api.shapes import Listed, ResponseModel, Token
from tidegate.web.problems import API_CODES, ApiCode
from tidegate.web.site import Site, site_of

router = strict.api("codes")


class CodeShown(ResponseModel):
    """One code. Those of the API have a status, those of faults a reason and a reach."""

    code: str
    class_: str = Field(alias="class")
    of: str = Field(description="'fault' or 'api'.")
    title: str
    advice: str
    reason: str | None = None
    reach: str | None = None
    level: str | None = None
    status: int | None = None
    help: str


@router.get("/codes", responses=responses(Listed[CodeShown]))
def list_codes(request: Request) -> Response:
    """The codes of faults, with those of the applications, then those of the API."""
    items = _all(site_of(request))
    return read(request, Listed(items=list(items.values()), next_cursor=None, total=len(items)))


@router.get("/codes/{code}", responses=responses(CodeShown, 404))
def one_code(request: Request, code: Annotated[Token, Path()]) -> Response:
    """What one code means."""
    found = _all(site_of(request)).get(code)
    if found is None:
        raise NotFound(f"there is no code {code}")
    return read(request, found)


def _all(site: Site) -> dict[str, CodeShown]:
    faults = {name: _of_fault(code, site.base) for name, code in site.codes.items()}
    return faults | {name: _of_api(row, site.base) for name, row in API_CODES.items() if name not in faults}


def _class(fatal: bool) -> dict[str, Any]:
    return {"class": "fatal" if fatal else "retriable"}


def _of_fault(code: Code, base: str) -> CodeShown:
    return CodeShown(
        **_class(code.fatal), code=code.name, of="fault", title=code.message,
        advice=code.advice, reason=str(code.reason), reach=str(code.reach), level=str(code.level),
        help=f"{base}/help/errors/{code.name}",
    )  # fmt: skip


def _of_api(row: ApiCode, base: str) -> CodeShown:
    return CodeShown(
        **_class(not row.retriable), code=row.name, of="api", title=row.title,
        advice=row.advice, status=row.status, help=f"{base}/help/errors/{row.name}",
    )  # fmt: skip
