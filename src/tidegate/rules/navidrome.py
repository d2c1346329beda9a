"""Navidrome and other Subsonic servers: failures arrive inside a good HTTP response."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.faults.codes import from_rows
from tidegate.faults.confirm import Confirm
from tidegate.faults.evidence import Evidence
from tidegate.faults.fault import Reach
from tidegate.faults.rule import ANY, Pack, Rule
from tidegate.rules.common import NEVER_WORKED, WEB_PAGE

# Navidrome always responds with 200. Other Subsonic servers put the envelope into a 4xx.
_ENVELOPE = (0, 200, 400, 401, 403, 404)
_ERROR = re.compile(rb'<error\b[^>]{0,200}?\bcode="([0-9]{1,3})"')
_NO_NUMBER = -1


def _number(evidence: Evidence) -> int | None:
    """Returns the error number in a failed Subsonic envelope."""
    body = evidence.body
    if b"subsonic-response" not in body or b'"failed"' not in body:
        return None
    document = evidence.json
    if isinstance(document, Mapping):
        envelope = document["subsonic-response"]
        return _of_envelope(envelope) if envelope["status"] == "failed" else None
    found = _ERROR.search(body)
    return int(found[1]) if found else None


def _of_envelope(envelope: Mapping[str, object]) -> int:
    error = envelope.get("error")
    number = error.get("code") if isinstance(error, Mapping) else None
    return number if isinstance(number, int) else _NO_NUMBER


navidrome = Pack(
    "navidrome",
    [
        WEB_PAGE,
        Rule(name="internal-error", code="upstream_failure", status=_ENVELOPE, says=0, text='"internal server error:'),
        Rule(name="generic-error", code="call_failed", status=_ENVELOPE, says=0),
        Rule(name="missing-parameter", code="bad_request", status=_ENVELOPE, says=10, reach=Reach.OPERATION),
        Rule(name="version-mismatch", code="wrong_version", status=_ENVELOPE, says={20, 30}),
        Rule(name="wrong-credentials", code="unauthorized", status=_ENVELOPE, says=40),
        Rule(name="login-method", code="login_method", status=_ENVELOPE, says={41, 42, 43, 44}),
        Rule(name="not-permitted", code="forbidden", status=_ENVELOPE, says=50),
        Rule(name="trial-over", code="trial_over", status=_ENVELOPE, says=60),
        Rule(name="not-found", code="not_found", status=_ENVELOPE, says=70),
        Rule(name="other-error", code="call_failed", status=_ENVELOPE, says=ANY),
        Rule(name="login-refused", code="wrong_password", status=401, path="/auth/login"),
        Rule(name="too-many-logins", code="rate_limited", status=429, path="/auth/login", reach=Reach.TARGET),
        Rule(name="withdrawn", code="not_supported", status=410),
        # Every server has these. If they are missing, another server responds.
        Rule(name="no-server", code="no_server", status=404, path=("/rest/", "/auth/login", "/api/song")),
    ],
    says=_number,
    codes=from_rows(
        ("wrong_password", "auth", "credential", "ERROR", "The music server refuses the user name or the password.",
         "Enter the user name and the password again."),
        ("login_method", "auth", "credential", "ERROR", "The music server does not accept this way of logging in.",
         "Use a user name and a password that the server itself knows, or a new API key."),
        ("call_failed", "transient", "operation", "WARN", "The music server could not carry out this call.",
         "Nothing to do: it is retried automatically."),
        ("wrong_version", "config", "target", "ERROR", "The music server speaks another version than we do.",
         "Update the music server, or this program."),
        ("no_server", "transient", "target", "WARN", "There is no music server at this address.",
         "If this stays, check the address: a part of its path may be missing."),
        ("trial_over", "config", "target", "ERROR", "The trial period of the music server is over.",
         "The operator of the music server must renew its licence."),
    ),
    confirm=[
        NEVER_WORKED,
        # A proxy responds the same way while the server behind it is down. Each user has a separate URL.
        Confirm("no_server", times=6, apart="5m", becomes="bad_address", until_then="no_server", only_worked=True),
        # The server reports the same if it cannot read its own table of users.
        Confirm("unauthorized", times=2, apart="30s"),
        # A wrong parameter and a temporary fault look alike. Only the fault goes away.
        Confirm("call_failed", times=3, apart=0, becomes="bad_request", until_then="call_failed"),
    ],
)  # fmt: skip
