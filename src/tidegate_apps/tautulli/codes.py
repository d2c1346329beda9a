"""The codes that only Tautulli has: they come with the rule pack of the service."""

from __future__ import annotations

from tidegate import Code, rules

TARGET = "tautulli-api"
PACK = rules.tautulli
CODES: tuple[Code, ...] = tuple(PACK.codes)
