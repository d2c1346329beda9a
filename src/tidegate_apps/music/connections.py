"""Connections of users to providers. Credentials are encrypted with the key of the server.

Every change gets the next version under a lock, so a reader that follows versions misses none. New credentials also
start a new generation: saves of an older one are rejected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.apps import Db, DbTx
from tidegate.errors import NotFound
from tidegate.net import Networks
from tidegate.secrets import BadSecret, Secrets
from tidegate_apps.music.provider import ProviderKind
from tidegate_apps.music.registry import (
    WrongValue,
    account,
    asked_for,
    check_value,
    complete,
    enter_values,
    hidden,
    leading,
)
from tidegate_apps.music.transport import HOME, LOOPBACK_REFUSED, is_loopback, server, why_not

_BATCH_SIZE = 500
LOOPBACK = "_loopback"  # encrypted with the values that the user entered

_ON, _OFF = "connected", "not connected"


class Replaced(Exception):
    """The credentials were replaced or removed meanwhile, so nothing was saved."""


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """The fields are the columns."""

    user: str
    provider: str
    shown: str
    kept: str = field(repr=False)
    generation: int
    version: int
    connected_at: float
    asked_at: float
    removed_at: float | None
    declared: str

    @property
    def there(self) -> bool:
        return self.removed_at is None

    def shown_values(self) -> dict[str, str]:
        """Return the entered values that are not secret."""
        values: dict[str, str] = json.loads(self.shown)
        return values


class Connections:
    """Reads and writes connections. Thread-safe."""

    def __init__(
        self,
        db: Db,
        secrets: Callable[[], Secrets],
        now: Callable[[], float],
        wake: Callable[[DbTx], object] = lambda tx: None,
        forget: Callable[[str, str], object] = lambda user, provider: None,
        networks: Iterable[str] = HOME,
    ) -> None:
        """*wake* is called in the transaction of each change, so that a sync job exists.

        *forget* closes the notices of a user at a provider before new credentials are used. *networks*: where servers
        may be whose URLs users enter.
        """
        self._networks = Networks(networks)
        self._db, self._secrets, self._now, self._wake, self._forget = db, secrets, now, wake, forget

    # -- queries -------------------------------------------------------------------------------------------------------

    def of(self, user: str) -> list[ConnectionRow]:
        return self._db.query_as(ConnectionRow, "connections_of", user_id=user)

    def get(self, user: str, provider: str) -> ConnectionRow | None:
        return self._db.first(ConnectionRow, "connection", user_id=user, provider=provider)

    def changed(self, after: int) -> list[ConnectionRow]:
        """Return changes since a version, in order, including removals."""
        changes: list[ConnectionRow] = []
        while True:
            last = changes[-1].version if changes else after
            rows = self._db.query_as(ConnectionRow, "connections", after=last, n=_BATCH_SIZE)
            changes += rows
            if len(rows) < _BATCH_SIZE:
                return changes

    def values(self, row: ConnectionRow) -> dict[str, str]:
        """Return the entered values, decrypted. Raises BadSecret if the key of the server has changed."""
        if not row.kept:
            return {}
        decrypted: dict[str, str] = json.loads(self._secrets().decrypt(_purpose(row.user, row.provider), row.kept))
        return decrypted

    # -- changes -------------------------------------------------------------------------------------------------------

    def loopback(self, row: ConnectionRow) -> bool:
        """Return whether its server may be on this machine: an admin or the settings entered the URL."""
        return LOOPBACK in self.values(row)

    def put(
        self,
        user: str,
        kind: ProviderKind,
        values: Mapping[str, str],
        declared: str = "",
        *,
        loopback: bool = False,
        by: str = "",
    ) -> int:
        """Connect or reconnect, and return the new generation. Raises WrongValue with a field.

        *loopback*: whether its server may be on this machine. *by*: the actor for the audit log.
        """
        checks = {entered_field.name: entered_field for entered_field in kind.fields}
        cleaned = {
            name: check_value(checks[name], value) if name in checks else value
            for name, value in values.items()
            if value
        }
        if loopback:
            cleaned[LOOPBACK] = "yes"
        params = {
            "user_id": user,
            "provider": kind.name,
            "declared": declared,
            "at": self._now(),
            "account": account(kind, cleaned),
            **self._written(user, kind, cleaned),
        }

        def write(tx: DbTx) -> int:
            tx.all("add_user", user_id=user, at=params["at"])
            tx.all("clear_health", user_id=user, provider=kind.name)
            tx.all("forget_marks", user_id=user, provider=kind.name, account=params["account"])
            self._wake(tx)
            if by:
                was = {"state": _ON if row is not None and row.there else _OFF}
                tx.noted(by, "target_connected", kind.name, user, was=was, became={"state": _ON})
            return tx.scalar(int, "put_connection", version=tx.scalar(int, "next_version"), **params)

        row = self.get(user, kind.name)
        if row is not None:
            self._forget(user, kind.name)
        return self._db.write(write)

    def enter(
        self,
        user: str,
        kind: ProviderKind,
        given: Mapping[str, str],
        *,
        blanks_stay: bool = False,
        loopback: bool = False,
        by: str = "",
    ) -> int:
        """Connect with values that a user or a program entered. Raises WrongValue if they are incomplete.

        *loopback*: whether the actor may reach servers on this machine. *blanks_stay*: an empty secret keeps its value,
        because a form does not show it. Values of a login stay too, but a new password ends the session. For another
        URL or account, nothing is carried over.
        """
        row = self.get(user, kind.name)
        try:
            before = {} if row is None or not row.there else self.values(row)
        except BadSecret:
            before = {}
        entered = [(target_field, given.get(target_field.name, "").strip()) for target_field in leading(kind)]
        if any(
            value and check_value(target_field, value) != before.get(target_field.name)
            for target_field, value in entered
        ):
            before = {}
        values = enter_values(kind, given, before if blanks_stay else None)
        hidden = {hidden_field.name for hidden_field in kind.fields if hidden_field.hidden}
        stays = {} if kind.oauth is None else {name: value for name, value in before.items() if name in hidden}
        if kind.oauth is not None and kind.oauth.required and not (stays and asked_for(kind)):
            raise WrongValue(f"{kind.title} is connected by a login in a browser; press Connect on the page Music")
        if not loopback:
            self._refuse_loopback(kind, values)
        return self.put(user, kind, {**stays, **values}, loopback=loopback, by=by)

    def _refuse_loopback(self, kind: ProviderKind, values: Mapping[str, str]) -> None:
        """Raise WrongValue if a URL names this machine and the settings do not allow that for all users."""
        for name in (
            url_field.name for url_field in kind.fields if url_field.check is server and url_field.name in values
        ):
            if is_loopback(values[name]) and why_not("127.0.0.1", self._networks) is not None:
                raise WrongValue(f"it names {LOOPBACK_REFUSED}", name)

    def save(self, row: ConnectionRow, kind: ProviderKind, changes: Mapping[str, str]) -> None:
        """Save credentials that the provider changed. Raises Replaced if the user has entered others."""

        def write(tx: DbTx) -> bool:
            there = tx.first(ConnectionRow, "lock_connection", user_id=row.user, provider=row.provider)
            if there is None or not there.there or there.generation != row.generation:
                return False
            values = {**self.values(there), **changes}
            written = self._written(row.user, kind, values)
            tx.all("save_connection", user_id=row.user, provider=row.provider, generation=row.generation, **written)
            return True

        if not self._db.write(write):
            raise Replaced(f"{row.provider} of {row.user} was connected again")

    def request_sync(self, user: str, provider: str, *, by: str = "") -> None:
        """Request a sync now. Raises NotFound."""

        def write(tx: DbTx) -> bool:
            self._wake(tx)
            version = tx.scalar(int, "next_version")
            if not tx.all("ask_connection", user_id=user, provider=provider, version=version, at=self._now()):
                return False
            if by:
                tx.noted(by, "target_asked", provider, user, became={"state": "synced now"})
            return True

        if not self._db.write(write):
            raise NotFound(f"{user} is not connected to {provider}")

    def remove(self, user: str, provider: str, *, by: str = "") -> None:
        """Disconnect: delete the credentials, keep the library."""

        def write(tx: DbTx) -> None:
            tx.all("add_user", user_id=user, at=self._now())
            version = tx.scalar(int, "next_version")
            tx.all("remove_connection", user_id=user, provider=provider, version=version, at=self._now())
            tx.all("forget_states", user_id=user, provider=provider)
            tx.all("clear_health", user_id=user, provider=provider)
            if by:
                tx.noted(by, "target_disconnected", provider, user, was={"state": _ON}, became={"state": _OFF})

        self._forget(user, provider)
        self._db.write(write)

    def declare(self, user: str, kind: ProviderKind, values: Mapping[str, str]) -> bool:
        """Connect as the settings say, unless that was done before. Later changes by users stay.

        Raises WrongValue if the values can never work.
        """
        complete(kind, values)
        digest, purpose = hidden(json.dumps(dict(sorted(values.items())))), f"declared {_purpose(user, kind.name)}"
        row = self.get(user, kind.name)
        try:
            before = "" if row is None or not row.declared else self._secrets().decrypt(purpose, row.declared)
        except BadSecret:
            before = ""
        if before == digest:
            return False
        # Encrypted, because a plain digest would allow to guess passwords offline.
        self.put(user, kind, values, self._secrets().encrypt(purpose, digest), loopback=True)
        return True

    def _written(self, user: str, kind: ProviderKind, values: Mapping[str, str]) -> dict[str, str]:
        secret = {secret_field.name for secret_field in kind.fields if secret_field.secret or secret_field.hidden}
        known = {known_field.name for known_field in kind.fields}
        shown = {name: value for name, value in values.items() if name in known and name not in secret}
        return {
            "shown": json.dumps(shown),
            "kept": self._secrets().encrypt(_purpose(user, kind.name), json.dumps(dict(values))),
        }


def _purpose(user: str, provider: str) -> str:
    return f"music {provider} of {user}"


# -- OAuth logins in progress ------------------------------------------------------------------------------------------
# A login must end in the session that started it.

_LIFETIME_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class OAuthState:
    """A login that a user has started."""

    user: str
    provider: str
    verifier: str = field(repr=False)


class OAuthStateRow(NamedTuple):
    user_id: str
    provider: str
    kept: str
    began_at: float


class OAuthStates:
    """Stores started logins for some minutes, encrypted. Thread-safe."""

    def __init__(self, db: Db, secrets: Callable[[], Secrets], now: Callable[[], float]) -> None:
        self._db, self._secrets, self._now = db, secrets, now

    def begin(self, state: str, journey: OAuthState) -> None:
        encrypted = self._secrets().encrypt(f"music journey {state}", json.dumps({"verifier": journey.verifier}))
        now = self._now()

        def write(tx: DbTx) -> None:
            tx.all("forget_journeys", before=now - _LIFETIME_SECONDS)
            whose = {"user_id": journey.user, "provider": journey.provider}
            tx.all("begin_journey", state=hidden(state), kept=encrypted, at=now, **whose)

        self._db.write(write)

    def finish(self, state: str, user: str, provider: str) -> OAuthState | None:
        """Return the login of *state*, once; None for another user or provider, or after it expired."""
        row = self._db.first(OAuthStateRow, "end_journey", state=hidden(state))
        if row is None or (row.user_id, row.provider) != (user, provider):
            return None
        if self._now() - row.began_at > _LIFETIME_SECONDS:
            return None
        try:
            decrypted: dict[str, str] = json.loads(self._secrets().decrypt(f"music journey {state}", row.kept))
        except BadSecret:
            return None
        return OAuthState(user, provider, decrypted["verifier"])
