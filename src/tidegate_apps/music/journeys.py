"""Logins at a service that were begun here: whoever comes back from one must have gone there from here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.apps import Db, DbTx
from tidegate.secrets import BadSecret, Secrets
from tidegate_apps.music.entering import hidden

_LIFETIME_SECONDS = 600.0  # seconds


@dataclass(frozen=True, slots=True)
class OAuthState:
    """A login that somebody has begun."""

    user: str
    provider: str
    verifier: str = field(repr=False)


class OAuthStates:
    """Keeps what each was begun with, encrypted, for a few minutes; safe under threads."""

    def __init__(self, db: Db, secrets: Callable[[], Secrets], now: Callable[[], float]) -> None:
        self._db, self._secrets, self._now = db, secrets, now

    def begin(self, state: str, journey: OAuthState) -> None:
        kept = self._secrets().encrypt(f"music journey {state}", json.dumps({"verifier": journey.verifier}))
        now = self._now()

        def write(tx: DbTx) -> None:
            tx.all("forget_journeys", before=now - _LIFETIME_SECONDS)
            whose = {"user_id": journey.user, "provider": journey.provider}
            tx.all("begin_journey", state=hidden(state), kept=kept, at=now, **whose)

        self._db.write(write)

    def finish(self, state: str, user: str, provider: str) -> OAuthState | None:
        """The login that *state* belongs to, once; None when it is another user's, another provider's, or too old."""
        row = self._db.one("end_journey", state=hidden(state))
        if row is None or (row[0], row[1]) != (user, provider) or self._now() - row[3] > _LIFETIME_SECONDS:
            return None
        try:
            kept: dict[str, str] = json.loads(self._secrets().decrypt(f"music journey {state}", row[2]))
        except BadSecret:
            return None
        return OAuthState(user, provider, kept["verifier"])
