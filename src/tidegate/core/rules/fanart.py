"""Fanart.tv: to have no pictures is the normal case."""

from __future__ import annotations

from tidegate.core.evidence import Evidence
from tidegate.core.rule import Pack, Rule
from tidegate.core.rules.own_codes import own_codes
from tidegate.core.rules.web_page import NEVER_WORKED, WEB_PAGE

_FAILED = {"status": "error"}


def _without_id(seen: Evidence) -> bool:
    """The path ends where an id should follow."""
    return seen.path.rstrip("/").endswith(("/music", "/music/albums", "/music/labels"))


fanart = Pack(
    "fanart",
    [
        WEB_PAGE,
        Rule(name="key-refused", code="key_invalid", status=401),
        Rule(name="key-missing", code="key_invalid", status=200, text="api key", json=_FAILED),
        Rule(name="key-in-text", code="key_invalid", status=(0, 400, 403, 404), text="api key"),
        Rule(name="empty-id", code="bad_request", status=404, test=_without_id),
        Rule(name="no-art", code=None, status=404),
        Rule(name="no-art-in-200", code=None, status=200, text='"not found"', json=_FAILED),
        Rule(name="error-in-200", code="upstream_failure", status=200, json=_FAILED),
    ],
    codes=own_codes(
        ("key_invalid", "config", "target", "ERROR", "Fanart.tv does not accept the API key of this program.",
         "The operator must enter a valid API key."),
    ),
    confirm=[NEVER_WORKED],
)  # fmt: skip
