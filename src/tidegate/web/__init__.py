"""The server's pages and API, and what applications use of them. Names are loaded when they are first used.

from tidegate.web import ANYONE, Right, Server, body_limit, current_user, form, needs, owner_session, page, problem
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "PUBLIC",
    "HttpServer",
    "Permission",
    "PortTaken",
    "Problem",
    "Site",
    "body_limit",
    "build",
    "client_network",
    "current_principal",
    "current_user",
    "form",
    "listening_at",
    "not_signed_in",
    "number_of",
    "owner_session",
    "page",
    "problem",
    "redirect_with_flash",
    "requires",
    "url_of",
]

if TYPE_CHECKING:
    from tidegate.ops.rights import Permission
    from tidegate.web.access import PUBLIC, requires
    from tidegate.web.for_apps import body_limit, current_principal, current_user, form, not_signed_in, problem
    from tidegate.web.frame import build
    from tidegate.web.owners import owner_session
    from tidegate.web.pages.paging import number_of
    from tidegate.web.pages.rendering import page
    from tidegate.web.pages.saying import redirect_with_flash
    from tidegate.web.problems import Problem
    from tidegate.web.proxies import client_network
    from tidegate.web.serving import HttpServer, PortTaken, listening_at, url_of
    from tidegate.web.site import Site
else:
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.ops.rights": ("Permission",),
            "tidegate.web.access": ("PUBLIC", "requires"),
            "tidegate.web.for_apps": (
                "body_limit",
                "current_user",
                "form",
                "not_signed_in",
                "problem",
                "current_principal",
            ),
            "tidegate.web.frame": ("build",),
            "tidegate.web.owners": ("owner_session",),
            "tidegate.web.pages.paging": ("number_of",),
            "tidegate.web.pages.rendering": ("page",),
            "tidegate.web.pages.saying": ("redirect_with_flash",),
            "tidegate.web.problems": ("Problem",),
            "tidegate.web.proxies": ("client_network",),
            "tidegate.web.serving": ("PortTaken", "HttpServer", "listening_at", "url_of"),
            "tidegate.web.site": ("Site",),
        },
    )
