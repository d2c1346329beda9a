"""Responses that do not come from the service: a wrong URL, a login page, a proxy. Shared by all packs."""

from __future__ import annotations

from tidegate.faults.confirm import Confirm
from tidegate.faults.rule import Rule

# For other statuses (throttled, failed) the status is enough, whatever the body.
WEB_PAGE = Rule(name="web-page", code="html_answer", status=(200, 201, 203, 400, 401, 403, 404, 405), html=True)

# A URL that never returned data is wrong. One that did has a temporary problem in front of it.
NEVER_WORKED = Confirm("html_answer", times=1, becomes="bad_address", until_then="html_answer", unless_worked=True)

# The code of a 404 that does not come from the service.
NO_SERVICE = (
    "no_service",
    "transient",
    "target",
    "WARN",
    "Something else answers at the address of this service.",
    "If this stays, the operator must check the address.",
)
# A proxy responds the same way while the service behind it is down.
NEVER_THERE = Confirm(
    "no_service", times=6, apart="5m", becomes="bad_address", until_then="no_service", only_worked=True
)
