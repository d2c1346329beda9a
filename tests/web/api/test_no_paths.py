"""No page and no answer says where something is on this machine, whatever is asked and whatever goes wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from tests.web.api.building import Shop, app_with, client_of, filled, shop
from tests.web.api.test_access import filled_in, routes_of
from tidegate.apps import install
from tidegate.settings import load
from tidegate.web.app import build
from tidegate.web.site import Site

WRONG = [
    "/nothing",
    "/api/v1/nothing",
    "/jobs/999",
    "/api/v1/jobs/999",
    "/api/v1/jobs/x",
    "/targets/none",
    "/queue/none",
]


def broken() -> None:
    raise OSError(2, "No such file", str(Path.home() / "precious" / "file"))


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "jobs.db").write_bytes(filled())
    with shop(tmp_path) as found:
        yield found


@pytest.fixture
def app(there: Shop, tmp_path: Path) -> FastAPI:
    """A server whose settings are full of paths, and whose application breaks with one."""
    (tmp_path / "key").write_text("0123456789abcdef0123456789abcdef")
    (tmp_path / "tidegate.toml").write_text(
        f'db = "{there.queue.url}"\nsecret_key = "file:{tmp_path}/key"\nsecret_key_file = "{tmp_path}/other.key"\n'
    )
    loaded = load(file=tmp_path / "tidegate.toml", environ={})
    apps = [install(app_with(broken=broken), there.queue)]
    return build(Site(queue=there.queue, apps=apps, config=lambda: [each.as_json() for each in loaded.effective()]))


@pytest.mark.parametrize("away", [False, True], ids=["well", "database away"])
def test_no_address_tells_where_the_database_or_the_home_folder_is(
    there: Shop, app: FastAPI, tmp_path: Path, away: bool, caplog: pytest.LogCaptureFixture
) -> None:
    hidden = (str(tmp_path), str(Path.home()), "Traceback")
    asked = [filled_in(path) for method, path, _ in routes_of(app) if method == "GET" and "live" not in path]
    with client_of(app) as client, caplog.at_level(logging.INFO, "tidegate.web"):
        there.queue.away = away
        for path in [*asked, *WRONG, "/health/live", "/broken", "/api/broken"]:
            if path != "/api/v1/events":
                answer = client.get(path)
                assert not [each for each in hidden if each in answer.text], path
                assert not [each for each in hidden if each in str(answer.headers)], path
        there.queue.away = False
    assert not [line for line in caplog.messages if any(each in line for each in hidden)]


def test_the_first_steps_of_an_empty_server_name_the_database_without_its_folder(tmp_path: Path) -> None:
    with shop(tmp_path) as empty, client_of(build(Site(queue=empty.queue))) as client:
        text = client.get("/").text
    assert "sqlite:///jobs.db" in text
    assert str(tmp_path) not in text


def test_settings_say_what_they_are_without_where(app: FastAPI, tmp_path: Path) -> None:
    with client_of(app) as client:
        values: dict[str, Any] = {each["key"]: each for each in client.get("/api/v1/config").json()["items"]}
    assert values["db"]["value"] == "sqlite:///…/jobs.db"
    assert values["db"]["origin"] == "…/tidegate.toml"
    assert values["secret_key_file"]["value"] == "…/other.key"


def test_no_page_has_the_text_or_the_traceback_of_an_exception_in_a_job(there: Shop, app: FastAPI) -> None:
    job = there.queue.job(queue="mail", name="breaks", attempts=1)(broken).enqueue()
    there.queue.drain("mail")
    assert (job.state(), there.queue.get(job.id).error_code) == ("failed", "unexpected")
    with client_of(app) as client:
        for path in (
            f"/jobs/{job.id}",
            f"/api/v1/jobs/{job.id}",
            "/failures",
            "/api/v1/failures",
            "/queue",
            "/notices",
        ):
            answer = client.get(path)
            assert answer.status_code == 200, path
            assert not [each for each in ("precious", "No such file", "Traceback") if each in answer.text], path
