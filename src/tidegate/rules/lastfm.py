"""Last.fm: a number in JSON or XML decides, whatever the HTTP status."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.faults.codes import from_rows
from tidegate.faults.confirm import Confirm
from tidegate.faults.evidence import Evidence
from tidegate.faults.exceptions import ExceptionKind
from tidegate.faults.fault import Reach
from tidegate.faults.rule import ANY, Pack, Rule
from tidegate.rules.common import WEB_PAGE

_XML = re.compile(rb'<lfm\b[^>]{0,100}\bstatus="failed"[^>]{0,100}>\s{0,20}<error\b[^>]{0,100}\bcode="([0-9]{1,3})"')


def _number(evidence: Evidence) -> int | None:
    """Returns the error number from JSON or XML."""
    body = evidence.body
    if b'"error"' in body:
        document = evidence.json
        number = document.get("error") if isinstance(document, Mapping) else None
        if isinstance(number, int) and not isinstance(number, bool):
            return number
    found = _XML.search(body) if b"<lfm" in body else None
    return int(found[1]) if found else None


def _of_a_user(evidence: Evidence) -> bool:
    """It was asked about a user."""
    return b"user not found" in evidence.body.lower() or "method=user." in evidence.url.lower()


def _without_number(evidence: Evidence) -> bool:
    """It has no number of an error."""
    return _number(evidence) is None


def _garbled(evidence: Evidence) -> bool:
    """The body is neither JSON nor XML."""
    head = evidence.body[:64].lstrip()
    return bool(head) and not head.startswith((b"{", b"[", b"<", b"\xef\xbb\xbf"))


lastfm = Pack(
    "lastfm",
    [
        Rule(name="our-mistake", code="bad_request", says={2, 3, 5}, reach=Reach.OPERATION),
        Rule(name="4-authentication", code="unauthorized", says=4),
        Rule(name="6-parameter", code="bad_request", says=6, text="missing a required parameter"),
        Rule(name="6-user", code="unknown_user", says=6, test=_of_a_user),
        Rule(name="6-no-such-music", code=None, says=6),
        Rule(name="7-resource", code="bad_request", says=7),
        Rule(name="passing-fault", code="upstream_failure", says={8, 16}),
        Rule(name="9-session", code="session_revoked", says=9),
        Rule(name="10-key", code="key_invalid", says=10),
        Rule(name="11-offline", code="overloaded", says=11),
        Rule(name="13-signature", code="signature_refused", says=13),
        Rule(name="login-unfinished", code="login_unfinished", says={14, 15}),
        Rule(name="17-hidden", code="listening_hidden", says=17),
        Rule(name="26-suspended", code="key_suspended", says=26),
        Rule(name="27-deprecated", code="not_supported", says=27),
        # Last.fm counts per address, so for all users together.
        Rule(name="29-too-fast", code="rate_limited", says=29, reach=Reach.TARGET),
        Rule(name="other-number", code="unexpected", status=(0, 200), says=ANY),
        WEB_PAGE,
        # For missing data it sends an error number.
        Rule(name="call-missing", code="not_supported", status=404, test=_without_number),
        Rule(name="garbled", code="upstream_failure", status=200, test=_garbled),
        Rule(name="not-json", code="upstream_failure", kind=ExceptionKind.NOT_JSON),
    ],
    says=_number,
    codes=from_rows(
        ("session_revoked", "auth", "credential", "ERROR", "Last.fm no longer accepts our access to this account.",
         "Reconnect the account."),
        ("login_unfinished", "auth", "credential", "ERROR", "The login at Last.fm was not finished, or not in time.",
         "Connect the account once more and allow the access."),
        ("listening_hidden", "config", "operation", "WARN", "This account hides its recent listening on Last.fm.",
         "Allow it in the privacy settings at Last.fm, or let us sign the calls; reconnecting does not help."),
        ("unknown_user", "config", "credential", "ERROR", "Last.fm does not know this user name.",
         "Check the spelling of the user name, or connect the account again."),
        ("key_invalid", "config", "target", "ERROR", "Last.fm does not accept the API key of this program.",
         "The operator must enter a valid API key."),
        ("signature_refused", "item", "item", "WARN",
         "Last.fm does not accept how this call was signed with the shared secret.",
         "If this stays, the operator must check the shared secret."),
        ("secret_refused", "config", "operation", "ERROR",
         "Last.fm does not accept how any call was signed with the shared secret.",
         "The operator must correct the shared secret; connecting again does not help."),
        ("key_suspended", "config", "target", "ERROR", "Last.fm has suspended the API key of this program.",
         "The operator must ask Last.fm why, and slow the calls down."),
    ),
    # A web page never means a wrong URL: the URL is fixed.
    confirm=[
        # It also reports this temporarily, in the middle of a long history.
        Confirm("unknown_user", times=2, apart="30s"),
        Confirm("not_supported", times=2, apart="5m"),
        # One call may be signed wrongly. If no call is signed correctly, the secret is wrong.
        Confirm("signature_refused", times=2, apart="30s", becomes="secret_refused", until_then="signature_refused"),
    ],
)  # fmt: skip
