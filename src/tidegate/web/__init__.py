"""The server's pages and API, and what applications use of them. Names are loaded when they are first used.

from tidegate.web import ANYONE, Right, Server, body_limit, current_user, form, needs, owner_session, page, problem
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "ANYONE",
    "PortTaken",
    "Problem",
    "Right",
    "Server",
    "Site",
    "body_limit",
    "build",
    "client_network",
    "current_user",
    "form",
    "listening_at",
    "needs",
    "not_signed_in",
    "number_of",
    "owner_session",
    "page",
    "problem",
    "said",
    "url_of",
    "who_asks",
]

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
else:
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.ops.rights": ("Right",),
            "tidegate.web.access": ("ANYONE", "needs"),
            "tidegate.web.for_apps": ("body_limit", "current_user", "form", "not_signed_in", "problem", "who_asks"),
            "tidegate.web.frame": ("build",),
            "tidegate.web.owners": ("owner_session",),
            "tidegate.web.pages.paging": ("number_of",),
            "tidegate.web.pages.rendering": ("page",),
            "tidegate.web.pages.saying": ("said",),
            "tidegate.web.problems": ("Problem",),
            "tidegate.web.proxies": ("client_network",),
            "tidegate.web.serving": ("PortTaken", "Server", "listening_at", "url_of"),
            "tidegate.web.site": ("Site",),
        },
    )
