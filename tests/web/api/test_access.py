"""Who gets in, and how far: every route with every role, ten wrong ways to sign in, and nothing for anybody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from starlette.testclient import TestClient

from tests.web.api.building import HERE, Shop, client_of
from tidegate.accounts import access, users
from tidegate.accounts.access import RIGHTS, Issuer, Permission, Role
from tidegate.apps import App, install
from tidegate.web.app import build
from tidegate.web.auth import COOKIE, PUBLIC, Authenticator, permission_for, requires

PASSWORD = "correct horse battery"
DIGEST = users.digest_of(PASSWORD)
KEY = Issuer.own(b"k" * 32)
PEOPLE = {"ada": "admin", "otto": "operator", "vera": "viewer"}
FORM = {"origin": HERE}


def routes_of(app: Any) -> Iterator[tuple[str, str, object]]:
    """Method, path and function of every route there is."""
    for route in app.routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from routes_of(inner)
        elif getattr(route, "methods", None):
            for method in sorted(route.methods - {"HEAD"}):
                yield method, route.path, route.endpoint


def crew(there: Shop) -> FastAPI:
    """A server where three people and one program may sign in."""

    def add(tx: Any) -> None:
        for name, role in PEOPLE.items():
            users.add_user(tx, name, role, DIGEST)

    there.queue.store.write(add)
    return build(there.site(access=Authenticator([KEY])))


@pytest.fixture
def app(there: Shop) -> FastAPI:
    return crew(there)


@pytest.fixture
def stranger(app: FastAPI) -> Iterator[TestClient]:
    with client_of(app) as client:
        yield client


def signed_in(there: Shop, client: TestClient, name: str) -> TestClient:
    client.cookies.set(COOKIE, there.queue.store.write(lambda tx: users.begin_session(tx, name)))
    return client


def filled_in(path: str) -> str:
    for part, value in (
        ("{name:path}", "mailer"), ("{name:target}", "mailer"), ("{id}", "2"), ("{id_}", "2"), ("{code}", "network"),
        ("{name}", "vera"),
    ):  # fmt: skip
        path = path.replace(part, value)
    return path


def test_every_route_has_a_right_and_none_that_changes_something_is_for_viewers(app: FastAPI) -> None:
    found = {(method, path): permission_for(method, path, endpoint) for method, path, endpoint in routes_of(app)}
    assert len(found) > 60
    free = {path for (_, path), right in found.items() if right == PUBLIC}
    assert free == {
        "/sign-in", "/sign-out", "/health/live", "/health/ready", "/api/openapi.json", "/preferences",
    }  # fmt: skip
    harmless = {path for (method, path), right in found.items() if method != "GET" and right == Permission.SEE}
    # Where oneself is mailed is nobody else's business.
    assert harmless == {"/api/v1/classify", "/api/v1/bulk-actions", "/bulk", "/channels/address"}
    for_admins = {path for (method, path), right in found.items() if right == Permission.MANAGE}
    unsaid = {path for path in for_admins if not path.startswith(("/people", "/tokens"))}
    assert unsaid == set()
    assert {"/people", "/people/{name}", "/people/{name}/remove", "/tokens/add"} <= for_admins


@pytest.mark.parametrize("role", ["nobody", *map(str, Role)])
def test_each_role_reaches_what_its_rights_allow_and_nothing_else(there: Shop, app: FastAPI, role: str) -> None:
    token = None if role == "nobody" else there.queue.store.write(lambda tx: users.add_token(tx, "t", role, "ada"))
    seen: dict[str, set[int]] = {"let in": set(), "kept out": set()}
    with client_of(app) as client:
        for method, path, endpoint in routes_of(app):
            if path == "/api/v1/events" or (method, path) in (("POST", "/sign-in"), ("POST", "/bulk")):
                continue  # a stream has no end, and is read like everything else; the forms have tests of their own
            right = permission_for(method, path, endpoint)
            headers = {"authorization": f"Bearer {token}"} if token else {}
            body: dict[str, Any] | None = {} if method == "POST" and path.startswith("/api") else None
            answer = client.request(
                method, filled_in(path), headers={**FORM, **headers}, follow_redirects=False, json=body
            )
            allowed = right == PUBLIC or (token is not None and Permission(right) in RIGHTS[Role(role)])
            seen["let in" if allowed else "kept out"].add(answer.status_code)
            if allowed:
                assert answer.status_code not in (401, 403), (method, path)
            elif token is None and method == "GET" and not path.startswith(("/api", "/health", "/metrics", "/live")):
                assert answer.status_code == 303
                assert answer.headers["location"].startswith("/sign-in?next=")
            else:
                assert answer.status_code == (401 if token is None else 403), (method, path)
    if role != "admin":
        assert seen["kept out"]


@pytest.mark.parametrize("action", ["retry", "cancel", "forget"])
@pytest.mark.parametrize("name", [*PEOPLE])
def test_a_bulk_action_needs_the_right_to_that_action(
    there: Shop, stranger: TestClient, name: str, action: str
) -> None:
    client = signed_in(there, stranger, name)
    may = Permission(action) in RIGHTS[Role(PEOPLE[name])]
    state = {"retry": "failed", "cancel": "queued", "forget": "failed"}[action]
    answer = client.post(
        "/api/v1/bulk-actions", headers=FORM, json={"action": action, "filter": {"state": state}, "dry_run": True}
    )
    assert (answer.status_code == 200) is may, answer.text
    form = {"action": action, "expected": "0", "state": state}
    assert (client.post("/bulk", headers=FORM, data=form, follow_redirects=False).status_code == 303) is may


def test_while_nobody_has_a_password_whoever_is_here_may_do_everything(there: Shop) -> None:
    with client_of(build(there.site())) as client:
        assert client.post("/api/v1/jobs/2/forget", headers=FORM).status_code == 200
        events = client.get("/api/v1/events").json()["items"]
        assert events[-1]["actor"] == "local"


def test_a_button_that_would_be_refused_is_there_and_says_why(there: Shop, stranger: TestClient) -> None:
    for name, barred in {"vera": {"pause", "reset"}, "otto": set[str](), "ada": set[str]()}.items():
        page = signed_in(there, stranger, name).get("/targets/mailer").text
        assert {word for word in ("pause", "reset") if f"may not {word}." in page} == barred
    page = signed_in(there, stranger, "otto").get("/jobs/2/forget").text
    assert re.search(r' disabled title="[^"]*operator[^"]*"', page)
    assert " disabled" not in signed_in(there, stranger, "ada").get("/jobs/2/forget").text


def test_signing_in_and_out(there: Shop, stranger: TestClient) -> None:
    page = stranger.get("/jobs/2", follow_redirects=True)
    assert page.url.path == "/sign-in"
    assert 'value="/jobs/2"' in page.text
    assert "<nav" not in page.text

    form = {"name": "otto", "password": PASSWORD, "next": "/jobs/2"}
    answer = stranger.post("/sign-in", headers=FORM, data=form, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs/2")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    page = stranger.get("/jobs/2")
    assert page.status_code == 200
    assert "otto (operator)" in page.text

    assert stranger.post("/jobs/2/retry", headers=FORM).status_code == 200
    assert there.queue.events(2)[-1].actor == "otto"
    assert stranger.post("/jobs/4/forget", headers=FORM).status_code == 403

    secret = stranger.cookies[COOKIE]
    stranger.post("/sign-out", headers=FORM)
    stranger.cookies.set(COOKIE, secret)
    assert stranger.get("/jobs/2", follow_redirects=False).status_code == 303


@pytest.mark.parametrize(
    "back", ["https://evil.example", "//evil.example", "/\\\\evil.example", "javascript:alert(1)", "\n/x"]
)
def test_signing_in_leads_nowhere_else(stranger: TestClient, back: str) -> None:
    form = {"name": "otto", "password": PASSWORD, "next": back}
    answer = stranger.post("/sign-in", headers=FORM, data=form, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize(("name", "password"), [("otto", "wrong"), ("eve", PASSWORD), ("", ""), ("otto", "x" * 1999)])
def test_a_wrong_password_and_an_unknown_name_are_told_alike(stranger: TestClient, name: str, password: str) -> None:
    answer = stranger.post("/sign-in", headers=FORM, data={"name": name, "password": password})
    assert answer.status_code == 403
    assert 'role="alert"' in answer.text
    assert COOKIE not in answer.headers.get("set-cookie", "")
    assert not password or password not in answer.text


def test_after_five_wrong_passwords_even_the_right_one_waits(stranger: TestClient) -> None:
    for _ in range(5):
        assert stranger.post("/sign-in", headers=FORM, data={"name": "otto", "password": "wrong"}).status_code == 403
    answer = stranger.post("/sign-in", headers=FORM, data={"name": "otto", "password": PASSWORD})
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 2
    assert 'role="alert"' in answer.text


def test_another_site_cannot_sign_anybody_in_or_out(there: Shop, stranger: TestClient) -> None:
    client = signed_in(there, stranger, "ada")
    for path in ("/sign-in", "/sign-out"):
        assert client.post(path, headers={"origin": "https://evil.example"}).status_code == 403
    assert client.get("/", follow_redirects=False).status_code == 200


@pytest.mark.parametrize(
    "shown",
    [
        "", "Bearer", "Bearer ", "Basic YWRhOmFkYQ==", "Bearer tg_", "Bearer tg_" + "A" * 43, "Bearer x.y.z",
        "Bearer " + "A" * 5000, "bearer\ttg_x", "Token tg_x",
        "Bearer " + access.issue_token(Issuer.own(b"j" * 32), "m", Role.ADMIN, 60, 4e9),
        "Bearer " + access.issue_token(KEY, "m", Role.ADMIN, 60, 1e9),
    ],
)  # fmt: skip
def test_a_token_that_is_not_good_opens_nothing_even_beside_a_session(
    there: Shop, stranger: TestClient, shown: str
) -> None:
    client = signed_in(there, stranger, "ada")
    answer = client.get("/api/v1/jobs", headers={"authorization": shown})
    assert (answer.status_code, answer.json()["code"]) == (401, "not_signed_in")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_json_web_token_acts_under_its_own_name(there: Shop, stranger: TestClient) -> None:
    made = access.issue_token(KEY, "watcher", Role.OPERATOR, 600, there.queue.clock.now())
    answer = stranger.post("/api/v1/jobs/2/retry", headers={"authorization": f"Bearer {made}"})
    assert answer.status_code == 200
    assert there.queue.events(2)[-1].actor == "jwt watcher"


def test_a_route_of_an_application_says_what_it_needs_or_is_for_admins(there: Shop) -> None:
    def routes(_: object) -> APIRouter:
        router = APIRouter()

        @router.post("/api/shop/order")
        @requires(Permission.PUT_IN)
        def order() -> str:
            return "ordered"

        @router.post("/api/shop/close")
        def close() -> str:
            return "closed"

        @router.get("/api/shop/open")
        @requires(PUBLIC)
        def hours() -> str:
            return "always"

        return router

    installed = install(App[None](name="shop", routes=routes), there.queue)
    crew(there)
    app = build(there.site(apps=(installed,), access=Authenticator()))
    with client_of(app) as client:
        assert client.get("/api/shop/open").status_code == 200
        for name, statuses in {"vera": (403, 403), "otto": (200, 403), "ada": (200, 200)}.items():
            signed_in(there, client, name)
            found = tuple(client.post(f"/api/shop/{what}", headers=FORM).status_code for what in ("order", "close"))
            assert (name, found) == (name, statuses)


def test_a_session_that_was_used_lasts_on(there: Shop, stranger: TestClient) -> None:
    client = signed_in(there, stranger, "vera")
    there.queue.store.write(
        lambda tx: tx.execute("update tg_session set seen_at = seen_at - 400, ends_at = ends_at - 400")
    )
    (before,) = there.queue.store.read(lambda tx: tx.query("session", {"digest": digest(client)}))
    assert client.get("/api/v1/jobs").status_code == 200
    (after,) = there.queue.store.read(lambda tx: tx.query("session", {"digest": digest(client)}))
    assert after[2] - before[2] >= 399


def digest(client: TestClient) -> str:
    import hashlib

    return hashlib.sha256(client.cookies[COOKIE].encode()).hexdigest()
