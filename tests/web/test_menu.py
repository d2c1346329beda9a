"""The menu: whoever looks is let in wherever it leads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request, Response
from starlette.testclient import TestClient

from tests.web.api.building import Shop, client_of, served, shop
from tidegate.accounts import users
from tidegate.accounts.access import OF_PEOPLE, Permission, Role
from tidegate.apps import App, Installed, Page
from tidegate.web import PUBLIC, requires
from tidegate.web.auth import COOKIE

# Who may open a page that needs this; one that says nothing is for everybody who is known.
WHO: dict[Permission | str | None, tuple[Role, ...]] = {
    None: OF_PEOPLE,
    PUBLIC: OF_PEOPLE,
    Permission.SEE: OF_PEOPLE,
    Permission.PUT_IN: (Role.OPERATOR, Role.ADMIN),
    Permission.MANAGE: (Role.ADMIN,),
}


def path_for(right: Permission | str | None) -> str:
    return f"/for/{right or 'all'}".replace("_", "-")


def pages() -> App[Any]:
    def page(right: Permission | str | None) -> Page[Any]:
        def show(request: Request, there: Installed[Any]) -> Response:
            return Response("here")

        return Page(path=path_for(right), title=f"For {right}", show=show if right is None else requires(right)(show))

    return App[Any](name="paged", pages=[page(right) for right in WHO])


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder: Path = tmp_path_factory.mktemp("menu")
    with shop(folder) as found:
        yield found


@pytest.fixture(scope="module")
def client(there: Shop) -> Iterator[TestClient]:
    def add(tx: Any) -> None:
        for role in reversed(OF_PEOPLE):  # an admin is the first
            users.add_user(tx, f"a-{role}", role, "no password fits")

    there.queue.store.write(add)
    with client_of(served(there, pages())) as found:
        yield found


@pytest.mark.parametrize("role", OF_PEOPLE)
def test_each_role_is_shown_what_it_may_open_and_all_of_it(there: Shop, client: TestClient, role: Role) -> None:
    client.cookies.set(COOKIE, there.queue.store.write(lambda tx: users.begin_session(tx, f"a-{role}")))

    (menu,) = re.findall(r'<nav id="menu".*?</nav>', client.get("/").text, re.DOTALL)
    paths = re.findall(r'href="([^"]+)"', menu)

    assert {path: client.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)
    assert {path for path in paths if path.startswith("/for/")} == {
        path_for(right) for right, roles in WHO.items() if role in roles
    }
    assert ("/people" in paths, "/settings" in paths) == (role is Role.ADMIN, role is not Role.VIEWER)
