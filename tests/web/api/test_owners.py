"""Whose something is: visitors without a name are told apart by a cookie that nobody else can make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse, RedirectResponse
from starlette.testclient import TestClient

from tests.web.api.building import HERE, Shop, client_of, served
from tidegate.accounts import access, users
from tidegate.accounts.access import Issuer, Role
from tidegate.apps import App, Installed, Page
from tidegate.secrets import Secrets
from tidegate.web import PUBLIC, Problem, owner_session, page, requires
from tidegate.web.auth import COOKIE as SESSION
from tidegate.web.auth import Authenticator
from tidegate.web.extension import COOKIE

Owner = Annotated[str, Depends(owner_session)]
KEY = Secrets("k" * 32)
JWT = Issuer.own(b"j" * 32)
VISITOR = re.compile(r"visitor:[0-9a-f]{32}")


def routes(_: Installed[Any]) -> APIRouter:
    router = APIRouter()

    @router.get("/api/files")
    @requires(PUBLIC)
    def mine(owner: Owner) -> str:
        return owner

    @router.get("/api/files/twice")
    @requires(PUBLIC)
    def twice(request: Request, owner: Owner) -> bool:
        return owner == owner_session(request)

    @router.post("/api/files")
    @requires(PUBLIC)
    def upload(owner: Owner) -> Response:
        return RedirectResponse("/api/files", status_code=303)

    @router.get("/api/files/wrong")
    @requires(PUBLIC)
    def wrong(owner: Owner) -> None:
        raise Problem("not_there", "There is no such file.", status=404)

    @router.get("/api/files/all")
    def everybodys(owner: Owner) -> str:
        return owner

    return router


@requires(PUBLIC)
def show(request: Request, _: Installed[Any]) -> Response:
    return PlainTextResponse(owner_session(request))


@requires(PUBLIC)
def framed(request: Request, _: Installed[Any]) -> Response:
    return page(request, "not_found.html", what="file", back="/files")


FILES: App[Any] = App(
    name="files", routes=routes, pages=[Page(path="/files", show=show), Page(path="/framed", show=framed)]
)


def server(there: Shop, key: Secrets = KEY, **more: Any) -> FastAPI:
    return served(there, FILES, access=Authenticator([JWT], key), **more)


@pytest.fixture
def ada(there: Shop) -> str:
    """A user, and so everybody else is a visitor; the secret of a session of hers."""

    def add(tx: Any) -> str:
        users.add_user(tx, "ada", "admin", "no password fits this")
        return users.begin_session(tx, "ada")

    return there.queue.store.write(add)


@pytest.fixture
def visitor(there: Shop, ada: str) -> Iterator[TestClient]:
    with client_of(server(there)) as client:
        yield client


def asked(client: TestClient, cookie: str | None = None, path: str = "/api/files", **headers: str) -> tuple[str, str]:
    """The owner of a request with that cookie, and the cookie that it was given."""
    client.cookies.clear()
    if cookie is not None:
        headers["cookie"] = f"{COOKIE}={cookie}"
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.text.strip('"'), answer.cookies.get(COOKIE) or ""


def test_a_visitor_is_known_again_by_a_cookie_that_no_script_reads(visitor: TestClient) -> None:
    answer = visitor.get("/api/files")
    owner, said = answer.json(), answer.headers["set-cookie"]
    assert VISITOR.fullmatch(owner)
    assert said.startswith(f"{COOKIE}=1.")
    assert {part.strip().lower() for part in said.split(";")[1:]} == {
        "httponly", "samesite=lax", "path=/", "max-age=34560000",
    }  # fmt: skip
    again = visitor.get("/api/files")
    assert again.json() == owner
    assert "set-cookie" not in again.headers


def test_the_cookie_is_for_https_where_the_page_is(there: Shop, ada: str) -> None:
    with client_of(server(there), HERE.replace("http:", "https:")) as client:
        assert "; secure" in client.get("/api/files").headers["set-cookie"].lower()


def test_behind_a_base_path_the_cookie_stays_below_it(there: Shop, ada: str) -> None:
    with client_of(server(there, base="/tide")) as client:
        assert "; path=/tide;" in client.get("/tide/api/files").headers["set-cookie"].lower()


def test_two_visitors_are_two_owners(visitor: TestClient) -> None:
    owners = {asked(visitor)[0] for _ in range(20)}
    assert len(owners) == 20


def test_pages_routes_redirects_and_problems_know_the_same_visitor(visitor: TestClient) -> None:
    for first in ("/files", "/api/files/twice", "/api/files/wrong"):
        visitor.cookies.clear()
        assert COOKIE in visitor.get(first).cookies, first
    visitor.cookies.clear()
    redirect = visitor.post("/api/files", follow_redirects=False)
    owner = asked(visitor, redirect.cookies[COOKIE])[0]
    assert asked(visitor, redirect.cookies[COOKIE], "/files") == (owner, "")
    assert visitor.get("/api/files/twice").json() is True


def test_a_cookie_lasts_over_a_restart_with_the_same_key_or_with_a_newer_one_before_it(there: Shop, ada: str) -> None:
    owners, cookie = [], None
    for key in (KEY, Secrets("k" * 32), Secrets("n" * 32, former=["k" * 32]), Secrets("n" * 32)):
        with client_of(server(there, key)) as client:
            owner, given = asked(client, cookie)
            owners.append(owner)
            cookie = cookie or given
    assert owners[0] == owners[1] == owners[2] != owners[3]


def made(key: Secrets, text: str, purpose: str = "owner 1", version: str = "1") -> str:
    return f"{version}.{key.sign(purpose, text)}"


def test_a_cookie_that_is_not_ours_is_a_new_visitor_and_never_an_error(visitor: TestClient) -> None:
    owner, good = asked(visitor)
    id_ = owner.removeprefix("visitor:")
    assert asked(visitor, made(KEY, f"{id_} 4000000000"))[0] == owner  # so each of these is wrong in one way only
    wrong = [
        made(Secrets("e" * 32), f"{id_} 4000000000"),
        made(KEY, f"{id_} 4000000000", purpose="owner 2"),
        made(KEY, f"{id_} 4000000000", version="2"),
        good.partition(".")[2],
        good[:-5],
        good[: len(good) // 2],
        f"{good}.{good}",
        "x" * 4000,
        "",
        ".",
        "1.",
        "1..",
        "1.%00.%00",
        f"1.{id_}.",
        id_,
    ]
    for cookie in wrong:
        found, given = asked(visitor, cookie)
        assert VISITOR.fullmatch(found), cookie
        assert found != owner, cookie
        assert given, cookie


def test_each_letter_of_a_cookie_matters(visitor: TestClient) -> None:
    owner, good = asked(visitor)
    for at in range(0, len(good) - 1, 3):
        other = "A" if good[at] != "A" else "B"
        cookie = good[:at] + other + good[at + 1 :]
        found = asked(visitor, cookie)[0]
        # Of the last letter of each base64 part, some bits say nothing.
        assert found != owner or good[at + 1] == ".", at


def test_a_visitor_who_comes_again_keeps_the_id_and_gets_a_fresh_cookie_once_a_month(
    there: Shop, visitor: TestClient
) -> None:
    id_, now = "7" * 32, there.queue.clock.now()
    for days, fresh in ((1, False), (29, False), (31, True), (399, True)):
        owner, given = asked(visitor, made(KEY, f"{id_} {now - days * 86400:.0f}"))
        assert owner == f"visitor:{id_}"
        assert bool(given) is fresh, days


def test_who_is_signed_in_owns_by_name_and_gets_no_cookie(there: Shop, ada: str, visitor: TestClient) -> None:
    anonymous, cookie = asked(visitor)
    token = there.queue.store.write(lambda tx: users.add_token(tx, "ci", "viewer", "ada"))
    now = there.queue.clock.now()
    one, other = (
        access.issue_token(JWT, who * 64 + end, Role.POLLER, 600, now) for who, end in (("m", "1"), ("m", "2"))
    )
    assert asked(visitor, authorization=f"Bearer {token}") == ("token:1", "")
    assert asked(visitor, authorization=f"Bearer {one}")[0].startswith("jwt:")
    assert asked(visitor, authorization=f"Bearer {one}") != asked(visitor, authorization=f"Bearer {other}")
    visitor.cookies.set(SESSION, ada)
    visitor.cookies.set(COOKIE, cookie)
    answer = visitor.get("/api/files")
    assert (answer.json(), answer.headers.get("set-cookie")) == ("user:ada", None)
    assert visitor.get("/files").text == "user:ada"
    assert anonymous != "user:ada"


def test_while_nobody_has_a_password_two_browsers_at_the_machine_are_two_owners(there: Shop) -> None:
    with client_of(server(there)) as client:
        owner, cookie = asked(client)
        assert VISITOR.fullmatch(owner)
        assert asked(client, cookie, path="/files") == (owner, "")
        assert asked(client)[0] != owner
        through = asked(client, path="/files", **{"x-forwarded-for": "10.0.0.7"})
        assert VISITOR.fullmatch(through[0])
        assert client.get("/api/files/all").status_code == 200, "rights are as before"


def test_a_visitor_without_a_name_reaches_what_is_for_anyone_and_nothing_else(visitor: TestClient) -> None:
    assert asked(visitor)[1]
    assert visitor.get("/api/files/all").status_code == 401
    assert visitor.get("/api/v1/jobs").status_code == 401
    for path in ("/", "/queue", "/jobs/2", "/settings"):
        assert visitor.get(path, follow_redirects=False).status_code == 303, path
    assert visitor.post("/jobs/2/forget", headers={"origin": HERE}).status_code == 401


def test_a_page_for_anyone_shows_a_visitor_no_menu_and_whoever_signed_in_theirs(ada: str, visitor: TestClient) -> None:
    page = visitor.get("/framed").text
    assert "<nav" not in page
    assert 'href="/sign-in?next=%2Fframed"' in page
    visitor.cookies.set(SESSION, ada)
    page = visitor.get("/framed").text
    assert "<nav" in page
    assert "/sign-in" not in page
