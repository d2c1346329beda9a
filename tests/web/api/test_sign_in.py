"""Signing in under attack: wrong passwords of others slow down neither a known browser nor another network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from tests.web.api.building import HERE, Shop
from tests.web.local import LocalClient
from tidegate.accounts import users
from tidegate.secrets import Secrets
from tidegate.store.base import Tx
from tidegate.web import auth
from tidegate.web.app import build
from tidegate.web.auth import Authenticator, PasswordChecks

PASSWORD = "correct horse battery"
DIGEST = users.digest_of(PASSWORD)
KEY = Secrets("k" * 32)


@pytest.fixture
def people(there: Shop) -> Shop:
    def add(tx: Tx) -> None:
        users.add_user(tx, "ada", "admin", DIGEST)
        users.add_user(tx, "otto", "operator", DIGEST)

    there.queue.store.write(add)
    return there


@contextmanager
def browser(there: Shop, peer: str = "203.0.113.5", **more: object) -> Iterator[TestClient]:
    app = build(there.site(access=Authenticator((), KEY), **more))
    with LocalClient(app, base_url=HERE, client=(peer, 50000), follow_redirects=False) as client:
        yield client


def tried(client: TestClient, name: str = "ada", password: str = "wrong", **headers: str) -> int:
    form = {"name": name, "password": password}
    return client.post("/sign-in", headers={"origin": HERE, **headers}, data=form).status_code


def out(client: TestClient) -> None:
    """Signs out; the device cookie stays."""
    assert client.post("/sign-out", headers={"origin": HERE}).status_code == 303


def device_cookie(client: TestClient) -> str:
    (found,) = [each.name for each in client.cookies.jar if each.name.startswith(auth.DEVICE_COOKIE)]
    return found


def test_wrong_passwords_of_one_network_do_not_keep_the_user_out_of_another(people: Shop) -> None:
    with browser(people) as client:
        through = {"x-forwarded-for": "198.51.100.7"}
        assert [tried(client) for _ in range(6)] == [403] * 5 + [429]
        # This peer is not a trusted proxy: what it says about the client does not count.
        assert tried(client, password=PASSWORD, **through) == 429
    with browser(people, "127.0.0.1") as proxy:
        assert [tried(proxy, **through) for _ in range(6)] == [403] * 5 + [429]
        assert tried(proxy, password=PASSWORD, **{"x-forwarded-for": "198.51.100.7, 198.51.100.8"}) == 303


def test_a_browser_that_signed_in_before_is_not_affected_by_failures_of_others(people: Shop) -> None:
    with browser(people) as client:
        assert tried(client, password=PASSWORD) == 303
        out(client)
        known = dict(client.cookies)
        client.cookies.clear()
        assert [tried(client) for _ in range(6)] == [403] * 5 + [429]
        assert tried(client, password=PASSWORD) == 429
        client.cookies.update(known)
        assert tried(client, password=PASSWORD) == 303


def test_the_device_cookie_is_for_one_user_and_one_password_and_signs_nobody_in(people: Shop) -> None:
    with browser(people) as client:
        answer = client.post("/sign-in", headers={"origin": HERE}, data={"name": "ada", "password": PASSWORD})
        (said,) = [each for each in answer.headers.get_list("set-cookie") if each.startswith(auth.DEVICE_COOKIE)]
        assert {part.strip().lower() for part in said.split(";")[1:]} == {
            "httponly", "samesite=strict", "path=/sign-in", f"max-age={auth.LIFETIME}",
        }  # fmt: skip
        out(client)
        assert client.get("/api/v1/jobs").status_code == 401
        assert [tried(client, "otto") for _ in range(6)] == [403] * 5 + [429], "it is not otto's"
        assert [tried(client) for _ in range(6)] == [403] * 6
        people.queue.store.write(lambda tx: users.set_password(tx, "ada", users.digest_of("another long one")))
        assert [tried(client, password="another wrong one") for _ in range(6)] == [403] * 5 + [429]


@pytest.mark.parametrize("value", ["", "x", "x.y", "AAAA.AAAA", "x" * 4000, "4pyT.4pyT"])
def test_a_device_cookie_that_is_not_ours_is_none(people: Shop, value: str) -> None:
    with browser(people) as client:
        assert tried(client, password=PASSWORD) == 303
        name = device_cookie(client)
        client.cookies.clear()
        headers = {"cookie": f"{name}={value}"}
        assert [tried(client, **headers) for _ in range(6)] == [403] * 5 + [429]


def test_a_stolen_device_cookie_gives_ten_tries_and_then_counts_as_a_stranger(people: Shop) -> None:
    with browser(people) as client:
        assert tried(client, password=PASSWORD) == 303
        out(client)
        assert [tried(client) for _ in range(16)] == [403] * 15 + [429]


@pytest.mark.parametrize(("proxies", "secure"), [(("203.0.113.5",), True), (("203.0.113.0/24",), True), ((), False)])
def test_cookies_are_secure_where_a_trusted_proxy_speaks_https(
    people: Shop, proxies: tuple[str, ...], secure: bool
) -> None:
    with browser(people, trusted_proxies=proxies) as client:
        headers = {"origin": HERE, "x-forwarded-proto": "https"}
        answer = client.post("/sign-in", headers=headers, data={"name": "ada", "password": PASSWORD})
        cookies = [each.lower() for each in answer.headers.get_list("set-cookie")]
        assert len(cookies) == 2
        assert all(("; secure" in each) is secure for each in cookies)


def test_password_checks_beyond_the_queue_are_refused_at_once_and_known_devices_have_places_of_their_own() -> None:
    async def flood() -> tuple[list[bool | None], list[bool | None]]:
        checks, threads = PasswordChecks(), threading.active_count()
        try:
            strangers = [asyncio.create_task(checks.check("wrong", DIGEST, known_device=False)) for _ in range(30)]
            await asyncio.sleep(0)
            known = [asyncio.create_task(checks.check(PASSWORD, DIGEST, known_device=True)) for _ in range(9)]
            found = await asyncio.gather(*strangers), await asyncio.gather(*known)
            assert threading.active_count() - threads <= 2
            assert await checks.check(PASSWORD, DIGEST, known_device=False) is True
            return found
        finally:
            checks.close()

    strangers, known = asyncio.run(flood())
    assert strangers == [False] * 10 + [None] * 20
    assert known == [True] * 8 + [None]
