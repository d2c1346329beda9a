"""Tautulli: nearly every error is a 400, in older versions a 200. A broken database looks like an empty one."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.faults.codes import from_rows
from tidegate.faults.confirm import Confirm
from tidegate.faults.evidence import Evidence
from tidegate.faults.fault import Reach
from tidegate.faults.rule import ANY, Pack, Rule
from tidegate.rules.common import NEVER_WORKED, WEB_PAGE

_ERRORS = (0, 200, 400)
_NOTHING = "no message"
_OTHER = "another message"
# Other fields differ between versions. A successful query has another draw.
_NO_ROWS = {"response.result": "success", "response.data.recordsTotal": 0, "response.data.draw": 0}
_MESSAGES = (
    "invalid apikey",
    "parameter apikey is required",
    "api not enabled",
    "api key not generated",
    "parameter cmd is required",
    "unknown command",
    "please use the /api/v2 endpoint",
)


def _message(evidence: Evidence) -> str | None:
    """Returns the message of a failed call, reduced to the known words."""
    body = evidence.body
    if evidence.status == 200 and b'"error"' not in body:
        return None
    document = evidence.json
    if not isinstance(document, Mapping):
        # The list of all commands may be longer than the part of the body that is read.
        lowered = body.lower()
        return (
            next((known for known in _MESSAGES if known.encode() in lowered), None) if evidence.status != 200 else None
        )
    response = document["response"]
    if response["result"] != "error":
        return None
    message = response.get("message")
    if not message:
        return _NOTHING
    return next((known for known in _MESSAGES if message.lower().startswith(known)), _OTHER)


tautulli = Pack(
    "tautulli",
    [
        WEB_PAGE,
        Rule(name="key-refused", code="unauthorized", status=_ERRORS, reach=Reach.TARGET,
             says={"invalid apikey", "parameter apikey is required"}),
        Rule(name="api-off", code="api_off", status=_ERRORS, says={"api not enabled", "api key not generated"}),
        Rule(name="wrong-endpoint", code="bad_address", status=_ERRORS, says="please use the /api/v2 endpoint"),
        Rule(name="unknown-command", code="bad_request", status=_ERRORS, reach=Reach.OPERATION,
             says={"parameter cmd is required", "unknown command"}),
        Rule(name="nothing-produced", code="upstream_failure", status=_ERRORS, says=_NOTHING, reach=Reach.OPERATION),
        Rule(name="error-in-200", code="upstream_failure", status=200, says=ANY, reach=Reach.OPERATION),
        Rule(name="no-rows", code="empty_history", status=200, json=_NO_ROWS),
    ],
    says=_message,
    codes=from_rows(
        ("api_off", "config", "target", "ERROR", "The API of Tautulli is switched off or has no key.",
         "The operator must switch the API on in the settings of Tautulli and enter its key here."),
        ("empty_history", "transient", "operation", "WARN", "Tautulli sent an empty history.",
         "It is asked again; if this stays although there were plays, check the database of Tautulli."),
    ),
    confirm=[
        NEVER_WORKED,
        # It hides a failed query behind a success without rows. A server that never had rows is just new.
        Confirm("empty_history", times=2, apart="30s", good=True, until_then="empty_history", only_worked=True),
    ],
)  # fmt: skip
