"""`/settings`: every value in force, where it comes from, secrets masked; and the applications that are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from fastapi import APIRouter, Request, Response

from tidegate.web.masking import shown_setting
from tidegate.web.pages.rendering import page
from tidegate.web.site import site_of

router = APIRouter()


@router.get("/settings")
def show_settings(request: Request) -> Response:
    site = site_of(request)
    return page(
        request, "settings.html", sections=list(_sections(site.config())), apps_there=list(site.apps),
        simulated=site.simulated,
    )  # fmt: skip


def _sections(values: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    """Values by the part of their key before the first dot; those without one come first."""
    rows = sorted(values, key=lambda row: ("." in row["key"], row["key"].split(".")[0]))
    for name, of in groupby(rows, key=lambda row: row["key"].split(".")[0] if "." in row["key"] else ""):
        yield name, [shown_setting(row) for row in of]
