"""`/tokens`: making one, which is shown once, and removing one. They are listed at `/people`."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from tidegate.errors import Rejected
from tidegate.ops import accounts
from tidegate.ops.rights import Permission
from tidegate.web.access import requires
from tidegate.web.pages.people import Field, confirm_removal, find_named, list_users
from tidegate.web.pages.rendering import page
from tidegate.web.pages.saying import Flash
from tidegate.web.site import site_of

router = APIRouter()


@router.post("/tokens/add")
@requires(Permission.MANAGE)
def add_token(request: Request, name: Field = "", role: Field = "", lasts: Field = "") -> Response:
    site = site_of(request)
    called, by = name.strip(), site.actor_of(request)
    try:
        made = site.write(lambda tx: accounts.add_token(tx, called, role, by, lasts or None))
    except (Rejected, ValueError) as error:
        said = Flash(text=f"Nothing was changed: {error}.", tone="bad")
        return list_users(site, request, said, token=called, token_role=role, lasts=lasts)
    # No redirect could carry it without keeping it somewhere. And this page cannot be asked for again.
    return page(request, "token_made.html", name=called, role=role, token=made, live=None)


@router.get("/tokens/{name}/remove")
@requires(Permission.MANAGE)
def confirm_token_removal(request: Request, name: str) -> Response:
    one = find_named("token", name, site_of(request).read(accounts.tokens))
    return page(request, "remove.html", what="token", one=one, last=False)


@router.post("/tokens/{name}/remove")
@requires(Permission.MANAGE)
def remove_token(request: Request, name: str) -> Response:
    text = f"The token {name} is removed; whoever has it gets in no more."
    return confirm_removal(site_of(request), request, name, accounts.remove_token, text)
