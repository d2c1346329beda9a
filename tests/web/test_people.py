"""`/people`: admins add, change and remove people and tokens with forms, by the same rules as the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.text import message, names, numbers
from tests.web.api.building import HERE, client_of
from tests.web.api.building import Shop as Place
from tidegate.accounts import users
from tidegate.web.app import build
from tidegate.web.auth import COOKIE

GOOD = "correct horse battery"
DIGEST = users.digest_of(GOOD)
FORM = {"origin": HERE}


@pytest.fixture
def nobody(there: Place) -> Iterator[TestClient]:
    """A browser at the machine of a server that nobody has a password for."""
    with client_of(build(there.site())) as client:
        yield client


@pytest.fixture
def ada(there: Place, nobody: TestClient) -> TestClient:
    """Ada, the one admin, is signed in; otto and vera are there, too."""

    def add(tx: Any) -> str:
        for name, role in (("ada", "admin"), ("otto", "operator"), ("vera", "viewer")):
            users.add_user(tx, name, role, DIGEST)
        return users.begin_session(tx, "ada")

    nobody.cookies.set(COOKIE, there.queue.store.write(add))
    return nobody


def send(client: TestClient, path: str, **form: str) -> str:
    """What the next page says of it, after the tone of that: "good bob …"."""
    page = client.post(path, headers=FORM, data=form, follow_redirects=True).text
    return " ".join(message(page))


def roles(there: Place) -> dict[str, str]:
    return {each.name: each.role for each in there.queue.store.read(users.users)}


def last(there: Place) -> str:
    event = there.queue.store.read(users.newest)[0]
    return f"{event.kind} {event.name} by {event.actor}"


def test_the_first_person_is_an_admin_and_then_everybody_signs_in(there: Place, nobody: TestClient) -> None:
    assert "/people/ada" not in nobody.get("/people").text
    said = send(nobody, "/people/add", name="vera", role="viewer", password=GOOD)
    assert "admin" in said
    answer = nobody.post(
        "/people/add", headers=FORM, data={"name": "ada", "role": "admin", "password": GOOD}, follow_redirects=True
    )
    assert answer.url.path == "/sign-in"
    assert re.search(r"ada .*admin", answer.text)
    assert last(there) == "user_added ada by local"
    form = {"name": "ada", "password": GOOD, "next": "/people"}
    answer = nobody.post("/sign-in", headers=FORM, data=form, follow_redirects=True)
    assert answer.url.path == "/people"
    assert "1 person" in answer.text


def test_somebody_is_added_changed_signed_out_and_removed(there: Place, ada: TestClient) -> None:
    assert send(ada, "/people/add", name=" bob ", role="viewer", password=GOOD).startswith("good bob ")
    assert roles(there)["bob"] == "viewer"
    assert users.fits(GOOD, there.queue.store.read(lambda tx: users.kept_of(tx, "bob")))
    assert names(send(ada, "/people/bob/role", role="operator"), "good", "bob", "viewer", "operator")
    assert roles(there)["bob"] == "operator"
    assert last(there) == "user_role_changed bob by ada"
    assert numbers(send(ada, "/people/bob/sign-out")) == []
    there.queue.store.write(lambda tx: users.begin_session(tx, "bob"))
    assert numbers(send(ada, "/people/bob/sign-out")) == [1]
    assert send(ada, "/people/bob/password", password="another good one").startswith("good bob ")
    assert users.fits("another good one", there.queue.store.read(lambda tx: users.kept_of(tx, "bob")))
    assert 'action="/people/bob/remove"' in ada.get("/people/bob/remove").text
    assert "bob" in roles(there)  # asking removes nobody
    assert send(ada, "/people/bob/remove").startswith("good bob ")
    assert "bob" not in roles(there)
    assert last(there) == "user_removed bob by ada"


def test_a_new_role_is_undone_with_one_button(there: Place, ada: TestClient) -> None:
    page = ada.post("/people/otto/role", headers=FORM, data={"role": "viewer"}, follow_redirects=True).text
    form = re.search(r'action="(/people/otto/role)".*?name="key" value="(\w+)"', page, re.DOTALL)
    assert form is not None
    assert send(ada, form[1], key=form[2]).startswith("good otto ")
    assert roles(there)["otto"] == "operator"


@pytest.mark.parametrize(("path", "form"), [("/people/ada/role", {"role": "viewer"}), ("/people/ada/remove", {})])
def test_the_last_admin_is_neither_lowered_nor_removed(
    there: Place, ada: TestClient, path: str, form: dict[str, str]
) -> None:
    assert "last admin" in send(ada, path, **form)
    assert roles(there)["ada"] == "admin"
    assert ada.get("/people").status_code == 200  # and is still signed in


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"name": "b b", "role": "viewer", "password": GOOD}, "64"),
        ({"name": "bob", "role": "poller", "password": GOOD}, "role: &#39;poller&#39; is not allowed"),
        ({"name": "bob", "role": "viewer", "password": "short"}, "give 10 to 200 characters"),
        ({"name": "otto", "role": "viewer", "password": GOOD}, "&#39;otto&#39;"),
        ({}, "10 to 200"),
    ],
)
def test_a_form_that_is_wrong_says_why_and_keeps_all_but_the_password(
    there: Place, ada: TestClient, form: dict[str, str], why: str
) -> None:
    answer = ada.post("/people/add", headers=FORM, data=form)
    assert answer.status_code == 422
    assert why in answer.text
    assert f'value="{form.get("name", "")}"' in answer.text
    assert form.get("password", GOOD) not in answer.text
    assert len(roles(there)) == 3


def test_a_token_is_shown_once_works_and_is_removed(there: Place, ada: TestClient) -> None:
    form = {"name": "ci", "role": "operator", "lasts": "30d"}
    answer = ada.post("/tokens/add", headers=FORM, data=form)
    found = re.search(r"tg_[\w-]{43}", answer.text)
    assert found is not None
    assert answer.headers["cache-control"] == "no-store"
    assert "data-live" not in answer.text  # refreshed, it would ask for a page that is not there
    assert last(there) == "token_made ci by ada"
    listed = ada.get("/people").text
    assert found[0] not in listed
    assert "/tokens/ci/remove" in listed
    bearer = {"authorization": f"Bearer {found[0]}"}
    assert ada.post("/api/v1/jobs/2/retry", headers=bearer).status_code == 200
    assert there.queue.events(2)[-1].actor == "token ci"
    assert send(ada, "/tokens/add", **form).startswith("bad ")

    assert 'action="/tokens/ci/remove"' in ada.get("/tokens/ci/remove").text
    assert names(send(ada, "/tokens/ci/remove"), "good", "ci")
    assert ada.get("/api/v1/jobs", headers=bearer).status_code == 401
    assert last(there) == "token_removed ci by ada"


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"name": "ci", "role": "king"}, "role: &#39;king&#39; is not allowed"),
        ({"name": "", "role": "viewer"}, "&#39;&#39;"),
        ({"name": "ci", "role": "viewer", "lasts": "soon"}, "lasts: "),
    ],
)
def test_a_token_that_cannot_be_made_says_why(ada: TestClient, form: dict[str, str], why: str) -> None:
    answer = ada.post("/tokens/add", headers=FORM, data=form)
    assert answer.status_code == 422
    assert why in answer.text


@pytest.mark.parametrize("path", ["/people/eve", "/people/eve/remove", "/tokens/eve/remove"])
def test_who_is_not_there_has_a_page_that_says_so(ada: TestClient, path: str) -> None:
    answer = ada.get(path)
    assert answer.status_code == 404
    assert "There is no" in answer.text


@pytest.mark.parametrize(
    "path", ["/people/eve/role", "/people/eve/sign-out", "/people/eve/remove", "/tokens/eve/remove"]
)
def test_what_is_asked_of_nobody_changes_nothing(there: Place, ada: TestClient, path: str) -> None:
    assert send(ada, path, role="viewer").startswith("bad ")
    assert len(roles(there)) == 3


def test_only_admins_find_people_in_the_menu(there: Place, ada: TestClient) -> None:
    for name, seen in {"ada": (True, True), "otto": (False, True), "vera": (False, False)}.items():
        ada.cookies.set(COOKIE, there.queue.store.write(lambda tx, name=name: users.begin_session(tx, name)))  # type: ignore[misc]
        page = ada.get("/").text
        assert ('href="/people"' in page, 'href="/settings"' in page) == seen, name
        assert f"Signed in as {name} (" in page


def test_another_site_changes_nobody(there: Place, ada: TestClient) -> None:
    for path, form in (("/people/otto/remove", {}), ("/tokens/add", {"name": "evil", "role": "admin"})):
        answer = ada.post(path, headers={"origin": "https://evil.example"}, data=form)
        assert answer.status_code == 403
    assert "otto" in roles(there)
    assert there.queue.store.read(users.tokens) == []
