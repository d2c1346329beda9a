"""What applications bring: routes, pages, larger bodies, forms."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from tests.web.api.building import HERE, Shop, app_with, client_of, served
from tidegate.apps import App, Installed, Page
from tidegate.faults.codes import Code
from tidegate.faults.fault import Reach, Reason
from tidegate.web import Problem, body_limit, current_user, form, page, redirect_with_flash

OURS = {"Origin": HERE}


def routes(there: Installed[Any]) -> APIRouter:
    made = APIRouter()

    @made.post("/api/upload")
    @body_limit(3_000_000)
    async def upload(request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    inner, innermost = APIRouter(prefix="/maps"), APIRouter()

    @innermost.post("/{city}/picture")
    @body_limit(2_000_000)
    async def picture(request: Request, city: str) -> Response:
        return PlainTextResponse(f"{city} {len(await request.body())}")

    inner.include_router(innermost, prefix="/of")
    made.include_router(inner, prefix="/api")

    @made.post("/weather/save")
    async def save(request: Request) -> Response:
        fields = await form(request)
        return PlainTextResponse(f"{current_user(request)} {sorted(fields.items())}")

    @made.get("/api/weather/{city}")
    def weather(city: str) -> dict[str, str]:
        if city == "atlantis":
            raise Problem("NO_CITY", "No city has that name.", status=404)
        return {"city": city, "app": there.app.name}

    return made


def show(request: Request, there: Installed[Any]) -> Response:
    return PlainTextResponse(f"page of {there.app.shown}")


WEATHER: App[Any] = App(
    name="weather",
    codes=[
        Code(
            name="NO_CITY",
            reason=Reason.ITEM,
            reach=Reach.ITEM,
            message="No city has that name.",
            advice="Check its name.",
        )
    ],
    routes=routes,
    pages=[Page(path="/weather", title="Weather", show=show)],
)


@pytest.fixture
def weather(there: Shop) -> Any:
    with client_of(served(there, WEATHER)) as client:
        yield client


def test_routes_and_pages_of_an_application_are_served(weather: TestClient) -> None:
    assert weather.get("/api/weather/oslo").json() == {"city": "oslo", "app": "weather"}
    assert weather.get("/weather").text == "page of Weather"
    assert "/api/weather/{city}" in weather.get("/api/openapi.json").json()["paths"]
    assert 'href="/weather"' in weather.get("/").text


def test_what_goes_wrong_in_an_application_is_described_as_a_problem(weather: TestClient) -> None:
    described = weather.get("/api/openapi.json").json()
    for operation in described["paths"]["/api/weather/{city}"].values():
        for status in ("422", "default"):
            assert list(operation["responses"][status]["content"]) == ["application/problem+json"]
    assert "HTTPValidationError" not in str(described)


def test_codes_of_an_application_are_problems_with_their_own_words(weather: TestClient) -> None:
    about = weather.get("/api/weather/atlantis").json()
    assert (about["status"], about["code"], about["class"]) == (404, "NO_CITY", "fatal")
    assert about["title"] == "No city has that name."
    assert weather.get("/api/v1/codes/NO_CITY").json()["advice"] == "Check its name."
    assert weather.get(about["type"]).status_code == 200


def test_a_route_may_take_more_than_others_and_not_without_bound(weather: TestClient) -> None:
    kind = {"Content-Type": "application/octet-stream"}
    assert weather.post("/api/upload", content=b"x" * 2_500_000, headers=kind).text == "2500000"
    assert weather.post("/api/upload", content=iter([b"x" * 1_250_000] * 2), headers=kind).text == "2500000"
    refused = weather.post("/api/upload", content=iter([b"x" * 1_250_000] * 3), headers=kind)
    assert (refused.status_code, refused.json()["most_bytes"]) == (413, 3_000_000)
    assert weather.post("/weather/save", content=b"x" * 2_500_000, headers=OURS).status_code == 413


def test_so_may_a_route_of_a_router_in_a_router(weather: TestClient) -> None:
    kind = {"Content-Type": "application/octet-stream"}
    assert weather.post("/api/maps/of/oslo/picture", content=b"x" * 1_500_000, headers=kind).text == "oslo 1500000"
    refused = weather.post("/api/maps/of/oslo/picture", content=b"x" * 2_500_000, headers=kind)
    assert (refused.status_code, refused.json()["most_bytes"]) == (413, 2_000_000)


def test_a_form_has_each_field_once(weather: TestClient) -> None:
    good = weather.post("/weather/save", data={"city": "oslo", "unit": "c"}, headers=OURS)
    assert good.text == "local [('city', 'oslo'), ('unit', 'c')]"
    twice = weather.post("/weather/save", data={"city": ["oslo", "rome"]}, headers=OURS)
    assert twice.status_code == 422
    file = weather.post("/weather/save", files={"city": ("a.txt", b"x")}, headers=OURS)
    assert file.status_code in (400, 422)
    assert weather.post("/weather/save", data={"city": "oslo"}).status_code == 403


def test_an_application_behind_a_base_path_is_found_there(there: Shop) -> None:
    app = served(there, app_with(hello=lambda: PlainTextResponse("hello")), base="/tide")
    with client_of(app) as client:
        assert client.get("/tide/hello").text == "hello"
        about = client.get("/tide/api/v1/jobs/99").json()
        assert about["type"] == "/tide/help/errors/not_there"
        link = client.get("/tide/api/v1/jobs?limit=2").headers["link"]
        assert link.startswith("</tide/api/v1/jobs?limit=2&cursor=")
        assert client.post("/tide/jobs/2/retry", data={}).status_code == 403
        assert client.post("/tide/api/v1/classify", json={"status": 200}).status_code == 200


def test_nothing_of_the_server_is_loaded_before_it_is_used() -> None:
    said = "import sys, tidegate.web; assert 'fastapi' not in sys.modules; tidegate.web.problem"
    subprocess.run([sys.executable, "-c", said], check=True)


def test_an_application_brings_static_files_and_a_page_for_help(
    there: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shopfront" / "static").mkdir(parents=True)
    (tmp_path / "shopfront" / "templates").mkdir()
    (tmp_path / "shopfront" / "__init__.py").write_text("")
    (tmp_path / "shopfront" / "statements.sql").write_text("")
    (tmp_path / "shopfront" / "migrations").mkdir()
    (tmp_path / "shopfront" / "static" / "front.js").write_text("'use strict'")
    (tmp_path / "shopfront" / "templates" / "front.html").write_text("{{ asset('shop/front.js') }}")
    monkeypatch.syspath_prepend(tmp_path)

    def front(request: Request, there: Installed[Any]) -> Response:
        return page(request, "shop/front.html")

    shop: App[Any] = App(
        name="shop", package="shopfront", help="/shop/help", about="Sells things.",
        pages=[Page(path="/shop", title="Shop", show=front), Page(path="/shop/help", show=show)],
    )  # fmt: skip
    with client_of(served(there, shop)) as client:
        where = client.get("/shop").text
        assert where.startswith("/static/shop/front.js?v=")
        got = client.get(where)
        assert (got.text, got.headers["content-type"].partition(";")[0]) == ("'use strict'", "text/javascript")
        assert client.get("/static/shop/../../statements.sql").status_code == 404
        assert client.get("/static/tidegate.css").status_code == 200
        assert 'href="/shop/help"' in client.get("/help").text


def test_help_is_a_page_of_the_application() -> None:
    with pytest.raises(ValueError, match="help: "):
        App(name="shop", help="/elsewhere")


def test_what_a_form_says_stands_on_the_next_page_once(there: Shop) -> None:
    def sell(there: Installed[Any]) -> APIRouter:
        made = APIRouter()

        @made.post("/shop/sell")
        def sold(request: Request) -> Response:
            return redirect_with_flash(request, "/help", "Sold <b>three</b>.", tone="warn")

        return made

    with client_of(served(there, App(name="shop", routes=sell))) as client:
        answer = client.post("/shop/sell", headers=OURS, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/help")
        assert "Sold &lt;b&gt;three&lt;/b&gt;." in client.get("/help").text
        assert "Sold" not in client.get("/help").text
