"""OAuth routes: the browser goes to the service and returns with an authorization."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from secrets import token_urlsafe

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from tidegate import classify
from tidegate.apps import Installed
from tidegate.secrets import BadSecret
from tidegate.web import Permission, redirect_with_flash, requires
from tidegate_apps.music.client import Limiters
from tidegate_apps.music.connections import Connections, OAuthState, OAuthStates
from tidegate_apps.music.jobs import user_agent
from tidegate_apps.music.pages import told
from tidegate_apps.music.provider import LoginRefused, ProviderContext, ProviderKind, Returned
from tidegate_apps.music.service import kind_of, offer_of, user_of
from tidegate_apps.music.settings import MusicSettings, addresses
from tidegate_apps.music.transport import AddressCheckedTransport

_log = logging.getLogger("tidegate.music")
PAGE = "/music"
_MAX_RESPONSE = 4000  # characters


async def _nobody(changes: Mapping[str, str]) -> None:
    """Save nothing before a login is complete."""


def oauth_router(app: Installed[MusicSettings]) -> APIRouter:
    router = APIRouter()
    connections: Connections = app.jobs.connections
    journeys: OAuthStates = app.jobs.journeys

    def around(kind: ProviderKind) -> ProviderContext:
        clock, settings = app.queue.clock, app.settings
        return ProviderContext(
            transport=AddressCheckedTransport(settings.server_networks),
            clock=clock,
            paces=Limiters(clock),
            save=_nobody,
            agent=user_agent(settings),
            addresses=addresses(settings, kind),
        )

    def redirect(request: Request, kind: ProviderKind) -> str:
        base = app.settings.public_url.rstrip("/") or str(request.base_url).rstrip("/")
        return f"{base}/music/back/{kind.name}"

    def values_of(user: str, kind: ProviderKind) -> dict[str, str]:
        row = connections.get(user, kind.name)
        try:
            mine = {} if row is None or not row.there else connections.values(row)
        except BadSecret:
            mine = {}
        return {**offer_of(app, kind).operator, **mine}

    # A GET: after a form, browsers do not follow redirects to another host if the page's policy forbids it.
    @router.get("/music/login/{provider}")
    @requires(Permission.PUT_IN)
    def login(request: Request, provider: str) -> Response:
        kind, user = kind_of(app, provider), user_of(request)
        offer = offer_of(app, kind)
        lacking = [missing_field for missing_field in kind.missing(offer.operator) if missing_field.operator]
        if kind.oauth is None or lacking or not offer.enabled:
            return redirect_with_flash(
                request, PAGE, f"{kind.title} is not set up for logins on this server.", tone="bad"
            )
        state = token_urlsafe(32)
        values = values_of(user, kind)
        try:
            begun = kind.oauth.begin(values, redirect=redirect(request, kind), state=state, context=around(kind))
        except LoginRefused as error:
            return redirect_with_flash(request, PAGE, str(error), tone="bad")
        journeys.begin(state, OAuthState(user, kind.name, begun.verifier))
        return RedirectResponse(begun.url, status_code=303)

    @router.get("/music/back/{provider}")
    @requires(Permission.PUT_IN)
    async def back(request: Request, provider: str) -> Response:
        kind, user = kind_of(app, provider), user_of(request)
        answer = {name: value[:_MAX_RESPONSE] for name, value in request.query_params.items()}
        journey = await asyncio.to_thread(journeys.finish, answer.get("state", ""), user, kind.name)
        if journey is None or kind.oauth is None:
            return redirect_with_flash(
                request, PAGE, f"That login at {kind.title} was not begun here. Connect once more.", tone="bad"
            )
        values = await asyncio.to_thread(values_of, user, kind)
        surroundings = around(kind)
        try:
            returned = Returned(
                answer=answer, redirect=redirect(request, kind), verifier=journey.verifier, context=surroundings
            )
            brought = await kind.oauth.finish(values, returned)
        except LoginRefused as error:
            return redirect_with_flash(request, PAGE, str(error), tone="warn")
        except Exception as error:  # any failure of the service is shown to the user
            fault = classify(error, kind.rules)
            _log.warning("music_login_failed provider=%s code=%s", kind.name, fault.code if fault else "unknown")
            why = fault.message if fault is not None else "It gave no permission."
            return redirect_with_flash(request, PAGE, f"{kind.title} is not connected. {why}", tone="bad")
        finally:
            await surroundings.transport.aclose()
        operator = {field.name for field in kind.fields if field.operator}
        stored = {name: value for name, value in {**values, **brought}.items() if name not in operator}
        asked = app.queue.clock.now()
        await asyncio.to_thread(connections.put, user, kind, stored, by=user)
        return await asyncio.to_thread(told, request, app, kind, "is connected", asked)

    return router
