"""`/tokens`: making one, which is shown once, and removing one. They are listed at `/people`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tidegate.errors import Refused
from tidegate.ops import accounts
from tidegate.ops.rights import Right
from tidegate.web.access import needs
from tidegate.web.pages.people import Field, everybody, named, removed
from tidegate.web.pages.rendering import page
from tidegate.web.pages.saying import Said
from tidegate.web.site import site_of

router = APIRouter()


@router.post("/tokens/add")
@needs(Right.MANAGE)
def add(request: Request, name: Field = "", role: Field = "", lasts: Field = "") -> Response:
    site = site_of(request)
    called, by = name.strip(), site.actor_of(request)
    try:
        made = site.write(lambda tx: accounts.add_token(tx, called, role, by, lasts or None))
    except (Refused, ValueError) as error:
        said = Said(text=f"Nothing was changed: {error}.", tone="bad")
        return everybody(site, request, said, token=called, token_role=role, lasts=lasts)
    # No redirect could carry it without keeping it somewhere. And this page cannot be asked for again.
    return page(request, "token_made.html", name=called, role=role, token=made, live=None)


@router.get("/tokens/{name}/remove")
@needs(Right.MANAGE)
def ask(request: Request, name: str) -> Response:
    one = named("token", name, site_of(request).read(accounts.tokens))
    return page(request, "remove.html", what="token", one=one, last=False)


@router.post("/tokens/{name}/remove")
@needs(Right.MANAGE)
def remove(request: Request, name: str) -> Response:
    text = f"The token {name} is removed; whoever has it gets in no more."
    return removed(site_of(request), request, name, accounts.remove_token, text)
