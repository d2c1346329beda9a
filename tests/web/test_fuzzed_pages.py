"""Pages and forms with whatever a person, a program or a broken browser may send: nothing breaks, nothing leaks."""

from __future__ import annotations

import inspect
import random
import re
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from tests.web.api.building import HERE
from tests.web.api.house import House, house, routes_of
from tests.web.local import LocalClient

PACKAGES = ("tidegate.web", *(f"tidegate_apps.{app}" for app in ("convert", "feeds", "lidarr", "music", "tautulli")))
# As people write them, at the bounds of a type, and as no type has them.
VALUES = [
    "", " ", "0", "1", "2", "-1", "1e309", "nan", "٣", "9" * 30, "true", "on", "null", "1h", "2026-02-30", "failed",
    "retry", "mail", "mailer", "lidarr", "navidrome", "otto", "operator", "http://127.0.0.1:1/", "http://[",
    "//evil.example", "'", '"', "<script>alert(1)</script>", "{{7*7}}", "%", "%00", "\x00", "\r\nX-Y: z", "ﬀ",
    "🙂" * 50, "../../etc/passwd", "{", "[]", "a" * 3000, "' or 1=1 --", "\\",
]  # fmt: skip
LEAKS = ("Traceback", "site-packages", "<script>alert", "sqlite3.", "psycopg")
NOT_PAGES = ("/api", "/health", "/live", "/static")


def names() -> list[str]:
    """What the forms and links of all pages call their values."""
    found: set[str] = set()
    for package in PACKAGES:
        for template in (files(package) / "templates").iterdir():
            text = template.read_text(encoding="utf-8") if template.name.endswith(".html") else ""
            found |= {form or link for form, link in re.findall(r'name="([a-z_]+)"|[?&]([a-z_]+)=', text)}
    return sorted(found)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, TestClient]]:
    with house(tmp_path_factory.mktemp("house")) as there:
        client = LocalClient(there.app, client=("127.0.0.1", 50000), base_url=HERE, raise_server_exceptions=False)
        yield there, client


def sent(dice: random.Random, known: list[str]) -> dict[str, list[str]]:
    """Some names with some values; now and then two of them, or a name that nobody knows."""
    chosen = [dice.choice([*known, "nobody_knows"]) for _ in range(dice.randrange(6))]
    return {name: [_value(dice) for _ in range(dice.choice([1, 1, 1, 2]))] for name in chosen}


def _value(dice: random.Random) -> str:
    return dice.choice([dice.choice(VALUES), "".join(chr(dice.randrange(0x250)) for _ in range(dice.randrange(12)))])


@pytest.mark.parametrize("times", [4, pytest.param(60, marks=pytest.mark.full)])
def test_no_page_and_no_form_breaks_whatever_is_sent(whole: tuple[House, TestClient], times: int) -> None:
    there, client = whole
    known = names()
    assert len(known) > 30
    routes = [each for each in routes_of(there.app) if not each[1].startswith(NOT_PAGES)]
    assert len(routes) > 80
    statuses: Counter[int] = Counter()
    for method, path, endpoint in routes:
        dice = random.Random(f"{method} {path}")
        own = [*inspect.signature(endpoint).parameters, "back", "next"]
        for _ in range(times):
            who = {**there.headers(dice.choice(["ada", "otto", "bob", "nobody"])), "origin": HERE}
            asked = "/".join(quote(_value(dice), safe="") if each.startswith("{") else each for each in path.split("/"))
            query, body = (sent(dice, dice.choice([own, own, known])) for _ in range(2))
            answer = client.request(
                method, asked, params=query, data=body if method == "POST" else None, headers=who,
                follow_redirects=False,
            )  # fmt: skip
            statuses[answer.status_code] += 1
            told = (method, asked, query, body, answer.status_code)
            assert answer.status_code < 500, told
            assert not [each for each in LEAKS if each in answer.text], told
            assert re.match(r"/(?!/)", answer.headers.get("location", "/")), told
    # Many requests must get past the first check, or nothing is shown.
    assert statuses[200] > sum(statuses.values()) / 10, statuses
    assert statuses[303] > 0, statuses
