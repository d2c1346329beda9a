"""Whoever types an address: a number in it that no table has finds nothing, and breaks nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.web.api.house import routes_of
from tests.web.local import LocalClient
from tidegate import server
from tidegate.settings import load
from tidegate.web import number_of
from tidegate.web.app import build
from tidegate.web.site import Site

HERE = "http://127.0.0.1"
TOO_LARGE = ("9" * 30, "9" * 5000)  # for a database, and for Python


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("7", 7),
        ("9" * 15, 10**15 - 1),
        ("9" * 16, None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
    ],
)
def test_a_number_of_an_address_is_one_that_every_table_can_have(text: str, number: int | None) -> None:
    assert number_of(text) == number


@pytest.mark.full
def test_no_page_of_the_server_or_of_an_application_breaks_at_a_number_that_is_too_large(tmp_path: Path) -> None:
    apps, broken = server.there_are()
    flags = {"db": f"sqlite:///{tmp_path / 'tidegate.db'}", "secret_key_file": str(tmp_path / "key")}
    loaded = load(flags=flags, environ={}, apps=apps, broken=broken)
    with server.assembled(loaded, apps) as there:
        app = build(Site(queue=there.queue, apps=tuple(there.apps)))
        client = LocalClient(app, client=("127.0.0.1", 50000), base_url=HERE, raise_server_exceptions=False)
        paths = {path for method, path, _ in routes_of(app) if method == "GET"}
        assert {"/feeds", "/music/library", "/lidarr/tracks", "/convert", "/tautulli", "/actions/{id_}"} <= paths
        # What the API takes is described, and tried by those who read the description.
        for path in sorted(path for path in paths if not path.startswith("/api")):
            for digits in TOO_LARGE:
                query = f"shelf=playlists&after={digits}&before={digits}&page={digits}"
                assert client.get(f"{re.sub('{[^}]+}', digits, path)}?{query}").status_code < 500, path
