"""The web server: pages, JSON API, and the names that applications import. Each name loads on first use.

from tidegate.web import PUBLIC, Permission, Site, body_limit, current_user, form, owner_session, page, requires
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = [
    "PUBLIC",
    "FormError",
    "FormErrorKind",
    "FormLimits",
    "FormPart",
    "HttpServer",
    "Permission",
    "PortTaken",
    "Problem",
    "Site",
    "body_limit",
    "build",
    "client_networks",
    "current_principal",
    "current_user",
    "form",
    "listening_at",
    "not_signed_in",
    "number_of",
    "owner_session",
    "page",
    "parse_boundary",
    "problem",
    "read_form",
    "redirect_with_flash",
    "require",
    "requires",
    "url_of",
]

if TYPE_CHECKING:
    from tidegate.accounts.access import Permission
    from tidegate.web.app import build
    from tidegate.web.auth import PUBLIC, current_principal, require, requires
    from tidegate.web.connections import HttpServer, PortTaken, listening_at, url_of
    from tidegate.web.extension import (
        body_limit,
        current_user,
        form,
        not_signed_in,
        owner_session,
        problem,
    )
    from tidegate.web.multipart import FormError, FormErrorKind, FormLimits, FormPart, parse_boundary, read_form
    from tidegate.web.pages.forms import number_of, redirect_with_flash
    from tidegate.web.pages.render import page
    from tidegate.web.problems import Problem
    from tidegate.web.proxies import client_networks
    from tidegate.web.site import Site
else:
    from tidegate._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "tidegate.accounts.access": ("Permission",),
            "tidegate.web.app": ("build",),
            "tidegate.web.auth": ("PUBLIC", "current_principal", "require", "requires"),
            "tidegate.web.connections": ("HttpServer", "PortTaken", "listening_at", "url_of"),
            "tidegate.web.extension": (
                "body_limit",
                "current_user",
                "form",
                "not_signed_in",
                "owner_session",
                "problem",
            ),
            "tidegate.web.multipart": (
                "FormError",
                "FormErrorKind",
                "FormLimits",
                "FormPart",
                "parse_boundary",
                "read_form",
            ),
            "tidegate.web.pages.forms": ("number_of", "redirect_with_flash"),
            "tidegate.web.pages.render": ("page",),
            "tidegate.web.problems": ("Problem",),
            "tidegate.web.proxies": ("client_networks",),
            "tidegate.web.site": ("Site",),
        },
    )
