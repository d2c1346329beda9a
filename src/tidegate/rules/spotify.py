"""Spotify: the Web API and the token endpoint of its accounts service."""

from __future__ import annotations

import re

from tidegate.faults.codes import from_rows
from tidegate.faults.confirm import Confirm
from tidegate.faults.evidence import Evidence
from tidegate.faults.fault import Reach
from tidegate.faults.rule import Pack, Rule
from tidegate.rules.common import NEVER_THERE, NEVER_WORKED, NO_SERVICE, WEB_PAGE

_FORBIDDEN = {"error.message": "Forbidden"}
_ONE_PLAYLIST = re.compile(r"/v1/playlists/[^/]+(?:/items)?/?\Z")  # a gateway may add a path before it


def _one_playlist(evidence: Evidence) -> bool:
    """The path is that of one playlist or its items."""
    return _ONE_PLAYLIST.search(evidence.path) is not None


spotify = Pack(
    "spotify",
    [
        WEB_PAGE,
        # The standard requires 400 for both. A message may have no status at all.
        Rule(name="grant-revoked", code="grant_revoked", status=(0, 400, 401), text="invalid_grant"),
        Rule(name="client-refused", code="client_refused", status=(0, 400, 401),
             text=("invalid_client", "unauthorized_client")),
        Rule(name="scope-missing", code="scope_missing", status=(0, 403), text="insufficient client scope"),
        Rule(name="not-registered", code="not_registered", status=(0, 403),
             text="user not registered in the developer dashboard"),
        Rule(name="owner-not-premium", code="owner_not_premium", status=403,
             text="premium subscription required for the owner of the app"),
        Rule(name="premium-required", code="premium_required", status=403,
             text=("premium required", "premium_required")),
        Rule(name="foreign-playlist", code="not_shared", status=403, json=_FORBIDDEN, test=_one_playlist),
        Rule(name="endpoint-removed", code="endpoint_removed", status=403, json=_FORBIDDEN),
        # The user's own account always has data. So the call is missing, or this is not the service.
        Rule(name="call-missing", code="not_supported", status=404, path="/v1/me"),
        Rule(name="no-accounts", code="no_service", status=404, path="/api/token"),
        Rule(name="quota-exceeded", code="quota_exhausted", status=429, text="quota_exceeded"),
        # Spotify counts per app, for all users together.
        Rule(name="too-fast", code="rate_limited", status=429, reach=Reach.TARGET),
    ],
    codes=from_rows(
        ("grant_revoked", "auth", "credential", "ERROR",
         "Spotify no longer accepts our access to this account.",
         "Reconnect the account: access ends when it is withdrawn, and some months after it was given."),
        ("scope_missing", "auth", "operation", "ERROR", "Spotify wants your permission for this.",
         "Reconnect the account and allow everything that is asked for."),
        ("not_registered", "config", "credential", "ERROR", "This account is not among the users of our Spotify app.",
         "The operator must add the account to the users of the app; connecting again does not help."),
        ("client_refused", "config", "target", "ERROR", "Spotify does not accept the identity of our app.",
         "The operator must correct the client id and the client secret."),
        ("endpoint_removed", "config", "operation", "ERROR", "Spotify no longer offers this call to our app.",
         "A newer version of this program may be needed; connecting again does not help."),
        ("premium_required", "quota", "operation", "WARN", "Spotify offers this to Premium accounts only.",
         "Use an account with Premium for this."),
        ("owner_not_premium", "quota", "target", "ERROR",
         "Spotify has stopped our app because its owner has no Premium account.",
         "The operator must renew the Premium subscription of the owner of the app."),
        ("not_shared", "item", "item", "WARN", "Spotify does not share this playlist with other programs.",
         "Choose another playlist; the others go on."),
        NO_SERVICE,
    ),
    confirm=[
        NEVER_WORKED,
        NEVER_THERE,
        # Its edge sometimes rejects a token that was issued a moment ago.
        Confirm("unauthorized", times=2, apart="30s"),
        Confirm("not_supported", times=2, apart="5m"),
        # An outage once revoked the access of all users together.
        Confirm("grant_revoked", times=1, fewer_than=3, within="5m"),
    ],
)  # fmt: skip
