"""Something else answers than the service: a wrong address, a login page, a proxy in between. The same for all."""

from __future__ import annotations

from tidegate.faults.confirm import Confirm
from tidegate.faults.rule import Rule

# Where a status alone says enough (throttled, failed), the form of the body does not matter.
WEB_PAGE = Rule(name="web-page", code="html_answer", status=(200, 201, 203, 400, 401, 403, 404, 405), html=True)

# An address that never led to data is wrong; one that did has a hiccup in front of it.
NEVER_WORKED = Confirm("html_answer", times=1, becomes="bad_address", until_then="html_answer", unless_worked=True)

# What a pack says of a 404 that is none of its service's, beside the words for it and the doubt in it.
NO_SERVICE = (
    "no_service", "transient", "target", "WARN", "Something else answers at the address of this service.",
    "If this stays, the operator must check the address.",
)  # fmt: skip
# A proxy says the same while the service behind it is down.
NEVER_THERE = Confirm(
    "no_service", times=6, apart="5m", becomes="bad_address", until_then="no_service", only_worked=True
)
