"""The server's pages and API, and what applications use of them. Names are loaded when they are first used.

from tidegate.web import ANYONE, Right, Server, body_limit, current_user, form, needs, owner_session, page, problem
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.ops.rights import Right
    from tidegate.web.access import ANYONE, needs
    from tidegate.web.for_apps import body_limit, current_user, form, not_signed_in, problem, who_asks
    from tidegate.web.frame import build
    from tidegate.web.owners import owner_session
    from tidegate.web.pages.paging import number_of
    from tidegate.web.pages.rendering import page
    from tidegate.web.pages.saying import said
    from tidegate.web.problems import Problem
    from tidegate.web.proxies import client_network
    from tidegate.web.serving import PortTaken, Server, listening_at, url_of
    from tidegate.web.site import Site

_HOMES = {
    "ANYONE": "tidegate.web.access",
    "PortTaken": "tidegate.web.serving",
    "Problem": "tidegate.web.problems",
    "Right": "tidegate.ops.rights",
    "Server": "tidegate.web.serving",
    "Site": "tidegate.web.site",
    "body_limit": "tidegate.web.for_apps",
    "build": "tidegate.web.frame",
    "client_network": "tidegate.web.proxies",
    "current_user": "tidegate.web.for_apps",
    "form": "tidegate.web.for_apps",
    "listening_at": "tidegate.web.serving",
    "needs": "tidegate.web.access",
    "not_signed_in": "tidegate.web.for_apps",
    "number_of": "tidegate.web.pages.paging",
    "owner_session": "tidegate.web.owners",
    "page": "tidegate.web.pages.rendering",
    "problem": "tidegate.web.for_apps",
    "said": "tidegate.web.pages.saying",
    "url_of": "tidegate.web.serving",
    "who_asks": "tidegate.web.for_apps",
}

__all__ = [
    "ANYONE", "PortTaken", "Problem", "Right", "Server", "Site", "body_limit", "build", "client_network",
    "current_user", "form", "listening_at", "needs", "not_signed_in", "number_of", "owner_session", "page", "problem",
    "said", "url_of", "who_asks",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
