"""MusicBrainz: one status for our own excess rate and for failures on its side."""

from __future__ import annotations

import re

from tidegate.faults.codes import from_rows
from tidegate.faults.evidence import Evidence
from tidegate.faults.fault import Reach
from tidegate.faults.heuristics import http_date
from tidegate.faults.rule import Pack, Rule
from tidegate.rules.common import NEVER_THERE, NEVER_WORKED, NO_SERVICE, WEB_PAGE

_ID = re.compile(r"/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def _until_reset(evidence: Evidence) -> float | None:
    """Seconds from the date of the response to the reset it announces."""
    reset, date = evidence.header("x-ratelimit-reset"), http_date(evidence.header("date"))
    return None if reset is None or date is None else float(reset) - date


def _not_of_an_id(evidence: Evidence) -> bool:
    """The path names no id: every search has a result, even if it is empty."""
    return bool(evidence.path) and _ID.search(evidence.path) is None


musicbrainz = Pack(
    "musicbrainz",
    [
        WEB_PAGE,
        Rule(name="not-the-service", code="no_service", status=404, test=_not_of_an_id),
        Rule(name="unknown-id", code=None, status=404),
        Rule(name="user-data", code="misconfigured", status=401, reach=Reach.OPERATION),
        # MusicBrainz counts per address, so for all users together.
        Rule(
            name="too-fast",
            code="rate_limited",
            status=(0, 503),
            text="exceeding the allowable rate limit",
            reach=Reach.TARGET,
            after=_until_reset,
        ),
        Rule(name="shedding", code="overloaded", status=503, header={"x-ratelimit-who": "shed"}),
        Rule(name="global-limit", code="overloaded", status=503, header={"x-ratelimit-zone": "global"}),
        Rule(name="busy", code="overloaded", status=(0, 503), text="server is currently busy"),
        Rule(name="read-only", code="overloaded", status=503, text=("read-only", "read only", "readonly")),
        # An unnecessary slowdown is the cheaper mistake.
        Rule(name="unexplained", code="rate_limited", status=503, reach=Reach.TARGET, after=_until_reset),
    ],
    codes=from_rows(NO_SERVICE),
    confirm=[NEVER_WORKED, NEVER_THERE],
)
