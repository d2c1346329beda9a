"""Builds the ASGI application: middleware, API, health, metrics, pages, and the routes of the applications."""

from __future__ import annotations

import html
import logging
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Iterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import HTMLResponse
from starlette.routing import BaseRoute, Match, Route, compile_path
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from tidegate.accounts.access import Principal
from tidegate.apps import Installed, Page
from tidegate.errors import StoreError, TidegateError
from tidegate.web import metrics, problems
from tidegate.web.api import routers as api_routers
from tidegate.web.api import routing
from tidegate.web.auth import NOT_SIGNED_IN, WHO, PasswordChecks, check_permission, required_permission, requires
from tidegate.web.bulk_runner import BulkRunner
from tidegate.web.extension import MAX_BODY
from tidegate.web.middleware import SecurityMiddleware, path_of, places
from tidegate.web.pages import users
from tidegate.web.pages.users import to_sign_in
from tidegate.web.problems import Problem, problem_of_validation
from tidegate.web.site import Site

_log = logging.getLogger("tidegate.web")

STATIC = Path(__file__).parent / "static"
_FOR_PROGRAMS = ("/api", "/health", "/metrics")
_STREAM = "/live"  # only live.js requests it, and it cannot read an HTML error page


def build(site: Site) -> FastAPI:
    """Return the server for *site*. It opens no connection before the first request."""
    from tidegate.web.live import stream
    from tidegate.web.live.hub import LiveHub
    from tidegate.web.pages import routers as page_routers

    bulks = BulkRunner(site)
    checks = PasswordChecks()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        app.state.closing.clear()
        bulks.begin()
        yield
        app.state.closing.set()
        await app.state.live.stop()
        await run_in_threadpool(bulks.stop)
        checks.close()

    app = FastAPI(
        title="Tidegate",
        version=site.version,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        dependencies=[Depends(check_permission)],
    )
    app.state.site = site
    app.state.bulks = bulks
    app.state.waiting = set()  # one token per long poll
    app.state.closing = threading.Event()  # set on shutdown, so that open streams end
    app.state.live = LiveHub(site, app.state.closing)
    app.include_router(stream.router())
    for resource in api_routers():
        app.include_router(resource)
    app.include_router(routing.router())
    app.include_router(metrics.health_router())
    app.include_router(metrics.metrics_router())
    large = [limit for installed in site.apps for limit in _install(app, installed)]
    for page in page_routers():
        app.include_router(page, include_in_schema=False)
    app.include_router(users.sign_in_router(site, checks))
    for installed in site.apps:
        if (own := _static(installed)) is not None:
            app.mount(
                f"/static/{installed.app.name}", StaticFiles(directory=own), name=f"static of {installed.app.name}"
            )
    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False), name="static")
    for kind in (StarletteHTTPException, RequestValidationError, TidegateError):
        app.add_exception_handler(kind, _error_handler(site))
    app.add_middleware(
        SecurityMiddleware,
        site=site,
        fail=lambda problem, scope: shown(problem, scope, site),
        large=_body_limit_for(large),
        newest=lambda: app.state.live.newest,
    )
    return app


Limit = tuple[re.Pattern[str], Container[str], int]  # path and methods of a route, and its body limit in bytes


def _install(app: FastAPI, installed: Installed[Any]) -> list[Limit]:
    """Add the routes and pages of one application. Return the body limits that its routes declare."""
    limits: list[Limit] = []
    if installed.app.routes is not None:
        router = installed.app.routes(installed)
        app.include_router(router, tags=[installed.app.name])
        limits = list(_limits(router))
    pages = APIRouter(include_in_schema=False)
    for page in installed.app.pages:
        pages.add_api_route(
            page.path, _page_endpoint(page, installed), methods=["GET"], name=f"{installed.app.name} {page.path}"
        )
    app.include_router(pages)
    return limits


def _limits(router: APIRouter, before: str = "") -> Iterator[Limit]:
    """Yield the routes that declare a body limit. *before* is the path prefix of the router."""
    for route in router.routes:
        # Recent versions of FastAPI keep a nested router as one object. Older versions copy its routes.
        inner, around = getattr(route, "original_router", None), getattr(route, "include_context", None)
        limit = getattr(getattr(route, "endpoint", None), MAX_BODY, None)
        if inner is not None and around is not None:
            yield from _limits(inner, before + around.prefix)
        elif isinstance(route, Route) and isinstance(limit, int):
            yield compile_path(before + route.path)[0], route.methods or (), limit


def _static(installed: Installed[Any]) -> str | None:
    """Return the folder of an application's static files, or None."""
    home = None if installed.app.package is None else files(installed.app.package) / "static"
    return str(home) if home is not None and home.is_dir() else None


def _page_endpoint(page: Page[Any], installed: Installed[Any]) -> Callable[[Request], Response]:
    def show(request: Request) -> Response:
        return page.show(request, installed)

    right = required_permission(page.show)
    return show if right is None else requires(right)(show)


# -- errors ------------------------------------------------------------------------------------------------------------


def _error_handler(site: Site) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def failed(request: Request, error: Exception) -> Response:
        if "route" not in request.scope and not _is_for_programs(request.scope):
            # No route matched, so `check_permission` has not run. The page must not offer actions that the reader may
            # not do.
            request.scope[WHO] = await run_in_threadpool(_find_principal, request, site)
        return shown(_problem_of(request, error, site), request.scope, site)

    return failed


def _find_principal(request: Request, site: Site) -> Principal | None:
    try:
        return site.access.who(site, request)
    except (StoreError, Problem):
        return None


def _is_for_programs(scope: Scope) -> bool:
    path = path_of(scope)
    return path.startswith(_FOR_PROGRAMS) or path == _STREAM


def _problem_of(request: Request, error: Exception, site: Site) -> Problem:
    if isinstance(error, RequestValidationError):
        return problem_of_validation(request, error)
    if isinstance(error, StarletteHTTPException) and error.status_code == 405:
        allow = ", ".join(sorted(_methods_at(request.app.routes, request.scope)))
        return Problem("method", headers={"Allow": allow})
    # from the router or the static files: its detail is only the reason phrase
    if type(error) is StarletteHTTPException:
        missing = error.status_code == 404
        error = Problem("no_such_path") if missing else HTTPException(error.status_code, "", error.headers)
    return problems.problem_of(error, site)


def shown(problem: Problem, scope: Scope, site: Site) -> Response:
    """Render a problem: JSON for programs, an HTML page for browsers."""
    if _is_for_programs(scope):
        return problems.problem_response(problem, scope, site.codes)
    if problem.code in NOT_SIGNED_IN and scope["method"] == "GET":
        return to_sign_in(scope)
    about = problems.document(problem, scope, site.codes)
    headers = problems.headers_of(problem)
    try:
        from tidegate.web.pages.overview import failure

        return failure(scope, about, headers)
    except Exception as error:  # the page failed too, and the browser still needs a response
        about_it = (about["request_id"], type(error).__name__, places(error))
        _log.error("failure_page_failed id=%s error=%s where=%s", *about_it)
    title, detail = (html.escape(str(about[name] or "")) for name in ("title", "detail"))
    text = f'<!doctype html><html lang="en"><title>{title}</title><h1>{title}</h1><p>{detail}</p>'
    return HTMLResponse(text, problem.status_code, headers)


# -- routes ----------------------------------------------------------------------------------------------------------


def _methods_at(routes: Iterable[BaseRoute], scope: Scope) -> set[str]:
    """Return every method that a route accepts at this path."""
    methods: set[str] = set()
    for route in routes:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            if route.matches({**scope, "method": method})[0] is Match.FULL:
                methods.add(method)
    return methods | ({"HEAD"} if "GET" in methods else set())


def _body_limit_for(limits: list[Limit]) -> Callable[[Scope], int | None]:
    """Return a function that looks up the `body_limit` of the route that a request matches."""

    def large(scope: Scope) -> int | None:
        path, method = path_of(scope), scope["method"]
        return next((limit for pattern, methods, limit in limits if method in methods and pattern.match(path)), None)

    return large
