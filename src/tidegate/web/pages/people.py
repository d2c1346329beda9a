"""`/people`: who may sign in, what they may do, and who changed that. For admins only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from tidegate.ops import account_events, accounts
from tidegate.ops.rights import OF_PEOPLE, Permission, Role
from tidegate.store.tx import Tx
from tidegate.web.access import requires
from tidegate.web.pages.rendering import page
from tidegate.web.pages.saying import Flash, act, answer, attempt
from tidegate.web.pages.times import many
from tidegate.web.problems import Problem
from tidegate.web.site import Site, site_of

MEANINGS: Mapping[str, str] = {
    Role.VIEWER: "sees everything but the settings, and changes nothing",
    Role.OPERATOR: "acts on jobs and targets, and puts in work",
    Role.ADMIN: "does everything, with people and tokens",
    Role.POLLER: "lists sources, enables and disables feeds, nothing else",
}
LASTS: Mapping[str, str] = {"30d": "30 days", "90d": "90 days", "365d": "1 year", "": "until it is removed"}
_ROLES = [str(role) for role in OF_PEOPLE]

Field = Annotated[str, Form(max_length=2000)]


router = APIRouter()


@router.get("/people")
@requires(Permission.MANAGE)
def people(request: Request) -> Response:
    return list_users(site_of(request), request)


@router.post("/people/add")
@requires(Permission.MANAGE)
def add(request: Request, name: Field = "", role: Field = "", password: Field = "") -> Response:
    site = site_of(request)
    who = name.strip()

    def work() -> Flash:
        digest, by = accounts.digest_of(password), site.actor_of(request)
        site.write(lambda tx: accounts.add_user(tx, who, role, digest, by))
        return Flash(text=f"{who} may sign in as {role}.")

    said = attempt(work)
    if said.tone == "good":
        return answer(request, said, "", "/people")
    return list_users(site, request, said, name=who, role=role)


@router.get("/people/{name}")
@requires(Permission.MANAGE)
def person(request: Request, name: str) -> Response:
    user = find_named("user", name, site_of(request).read(accounts.users))
    return page(request, "person.html", user=user, roles=_ROLES, meanings=MEANINGS, least=accounts.MIN_PASSWORD_LENGTH)


@router.post("/people/{name}/role")
@requires(Permission.MANAGE)
def change_role(request: Request, name: str, role: Field = "", key: Field = "") -> Response:
    site = site_of(request)
    wanted = role or key  # an undoing names the role that was

    def say(was: str) -> Flash:
        if was == wanted:
            return Flash(text=f"{name} is {wanted} already.", tone="warn")
        text = f"{name} was {was} and is {wanted} now; all their sessions have ended."
        return Flash(text=text, undo="role_of", of=name, key=was)

    said = act(site, lambda tx: accounts.set_role(tx, name, wanted, site.actor_of(request)), say)
    return answer(request, said, "", "/people")


@router.post("/people/{name}/password")
@requires(Permission.MANAGE)
def change_password(request: Request, name: str, password: Field = "") -> Response:
    site = site_of(request)

    def work() -> Flash:
        digest, by = accounts.digest_of(password), site.actor_of(request)
        site.write(lambda tx: accounts.set_password(tx, name, digest, by))
        return Flash(text=f"{name} has a new password; all their sessions have ended.")

    said = attempt(work)
    return answer(request, said, "", *(("/people",) if said.tone == "good" else ("/people", name)))


@router.post("/people/{name}/sign-out")
@requires(Permission.MANAGE)
def sign_out(request: Request, name: str) -> Response:
    site = site_of(request)

    def say(n: int) -> Flash:
        if not n:
            return Flash(text=f"{name} was not signed in.", tone="warn")
        return Flash(text=f"{name} is signed out: {many(n, 'session')} ended.")

    said = act(site, lambda tx: accounts.sign_out(tx, name, site.actor_of(request)), say)
    return answer(request, said, "", "/people")


@router.get("/people/{name}/remove")
@requires(Permission.MANAGE)
def ask(request: Request, name: str) -> Response:
    there = site_of(request).read(accounts.users)
    return page(request, "remove.html", what="user", one=find_named("user", name, there), last=len(there) == 1)


@router.post("/people/{name}/remove")
@requires(Permission.MANAGE)
def remove(request: Request, name: str) -> Response:
    return confirm_removal(
        site_of(request), request, name, accounts.remove_user, f"{name} is removed, and gets in no more."
    )


def confirm_removal(
    site: Site, request: Request, name: str, remove: Callable[[Tx, str, str], None], text: str
) -> Response:
    """The answer to a form that removes somebody or something."""
    said = act(site, lambda tx: remove(tx, name, site.actor_of(request)), lambda _: Flash(text=text))
    return answer(request, said, "", "/people")


def list_users(site: Site, request: Request, wrong: Flash | None = None, **given: str) -> Response:
    """All people and tokens; after a refusal with why, and with what was typed."""
    users, tokens, events = site.read(lambda tx: (accounts.users(tx), accounts.tokens(tx), account_events.newest(tx)))
    # What was refused is not refreshed: its address answers a form only.
    values: dict[str, Any] = {} if wrong is None else {"said": wrong, "live": None}
    return page(
        request, "people.html", status=200 if wrong is None else 422, users=users, tokens=tokens, events=events,
        given=given, roles=_ROLES, token_roles=[str(role) for role in Role], meanings=MEANINGS, lasts=LASTS,
        least=accounts.MIN_PASSWORD_LENGTH, **values,
    )  # fmt: skip


def find_named(what: str, name: str, there: list[Any]) -> Any:
    """The one of that name; a page that says so when there is none."""
    for each in there:
        if each.name == name:
            return each
    raise Problem("not_there", f"There is no {what} {name!r}; it may have been removed.", status=404)
