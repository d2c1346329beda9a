"""A gateway that converts PDF to XML over HTTP. Names load lazily, because its child processes need few.

from tidegate_apps.convert.gateway import MAPPINGS, Embedded, GatewayLimits, Mappings, app
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate_apps.convert.gateway.config import GatewayLimits
    from tidegate_apps.convert.gateway.http import app
    from tidegate_apps.convert.gateway.mappings import NAMES as MAPPINGS
    from tidegate_apps.convert.gateway.mappings import Mappings
    from tidegate_apps.convert.gateway.server import Embedded

_HOMES = {
    "MAPPINGS": ("mappings", "NAMES"),
    "Embedded": ("server", "Embedded"),
    "GatewayLimits": ("config", "GatewayLimits"),
    "Mappings": ("mappings", "Mappings"),
    "app": ("http", "app"),
}

__all__ = ["MAPPINGS", "Embedded", "GatewayLimits", "Mappings", "app"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)
