"""Fanart.tv: having no pictures is the normal case."""

from __future__ import annotations

from tidegate.faults.codes import from_rows
from tidegate.faults.evidence import Evidence
from tidegate.faults.rule import ANY, Pack, Rule
from tidegate.rules.common import NEVER_THERE, NEVER_WORKED, NO_SERVICE, WEB_PAGE

_FAILED = {"status": "error"}


def _without_id(evidence: Evidence) -> bool:
    """The path ends where an id should follow."""
    return evidence.path.rstrip("/").endswith(("/music", "/music/albums", "/music/labels"))


def _no_answer(evidence: Evidence) -> bool:
    """There is only a message, and no response."""
    return evidence.response is None


fanart = Pack(
    "fanart",
    [
        WEB_PAGE,
        Rule(name="key-refused", code="key_invalid", status=401),
        Rule(name="key-missing", code="key_invalid", status=200, text="api key", json=_FAILED),
        Rule(name="key-in-text", code="key_invalid", status=(0, 400, 403, 404), text="api key"),
        Rule(name="empty-id", code="bad_request", status=404, test=_without_id),
        Rule(name="no-art", code=None, status=404, json={"error message": ANY}),
        Rule(name="no-art-in-words", code=None, status=404, test=_no_answer),
        Rule(name="not-the-service", code="no_service", status=404),
        Rule(name="no-art-in-200", code=None, status=200, text='"not found"', json=_FAILED),
        Rule(name="error-in-200", code="upstream_failure", status=200, json=_FAILED),
    ],
    codes=from_rows(
        ("key_invalid", "config", "target", "ERROR", "Fanart.tv does not accept the API key of this program.",
         "The operator must enter a valid API key."),
        NO_SERVICE,
    ),
    confirm=[NEVER_WORKED, NEVER_THERE],
)  # fmt: skip
