"""A web page where data was expected: a wrong path, a login page, a proxy in between. The same for every service."""

from __future__ import annotations

from tidegate.core.policy import Confirm
from tidegate.core.rule import Rule

# Where a status alone says enough (throttled, failed), the form of the body does not matter.
WEB_PAGE = Rule(name="web-page", code="html_answer", status=(200, 201, 203, 400, 401, 403, 404, 405), html=True)

# An address that never led to data is wrong; one that did has a hiccup in front of it.
NEVER_WORKED = Confirm("html_answer", times=1, becomes="bad_address", until_then="html_answer", unless_worked=True)
