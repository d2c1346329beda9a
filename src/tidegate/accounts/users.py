"""Users, sessions and tokens, and the events of their changes."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tidegate import audit
from tidegate.accounts.access import LOCAL, OF_PEOPLE, AuthMethod, Principal, Role
from tidegate.audit import SYSTEM_ACTORS, AuditSubject, user_actor
from tidegate.durations import Duration, seconds
from tidegate.errors import NotFound, Rejected
from tidegate.store.base import Tx

if TYPE_CHECKING:
    from argon2 import PasswordHasher


# -- events ------------------------------------------------------------------------------------------------------------
# Stored apart from other events, because only user administrators may see them.

_MAX_EVENTS = 5000  # the newest are kept


@dataclass(frozen=True, slots=True)
class AccountEvent:
    """A change of a user or a token. *name* is its name, *kind* one of KINDS."""

    id: int
    at: float
    kind: str
    name: str
    actor: str
    fields: Mapping[str, object]

    @property
    def text(self) -> str:
        """The event as the rest of a sentence after the name."""
        return KINDS[self.kind].format_map({"role": "", "was": "", "sessions": "", **self.fields})

    def as_json(self) -> dict[str, object]:
        return asdict(self)


KINDS: Mapping[str, str] = {
    "user_added": "was added as {role}",
    "user_role_changed": "was {was} and is {role} now",
    "user_password_set": "has a new password",
    "user_signed_out": "was signed out everywhere",
    "user_removed": "was removed",
    "token_made": "was made, with the role {role}",
    "token_removed": "was removed",
}


def note(tx: Tx, kind: str, name: str, actor: str, **fields: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind: {kind!r} is unknown; choose one of: {', '.join(KINDS)}")
    event = {"kind": kind, "name": name, "actor": str(actor), "fields": json.dumps(fields)}
    newest_id = tx.scalar(int, "account_event", event)
    place = AuditSubject(subject=kind.partition("_")[0], name=name)
    was, became = ({"role": fields[name]} if fields.get(name) else {} for name in ("was", "role"))
    audit.append_entry(tx, actor, kind, place, was=was, became=became)
    tx.query("account_events_prune", {"before": newest_id - _MAX_EVENTS})


def newest(tx: Tx, limit: int = 20) -> list[AccountEvent]:
    rows = tx.query("account_events", {"n": limit})
    return [AccountEvent(id_, at, kind, name, by, json.loads(fields)) for id_, at, kind, name, by, fields in rows]


# -- accounts ----------------------------------------------------------------------------------------------------------
# Only digests are stored: argon2 for passwords, SHA-256 for sessions and tokens, which are random. Functions with a
# `Tx` run in the caller's transaction.

SESSION = 14 * 86400.0  # seconds of inactivity after which a session ends
MAX_SESSION_SECONDS = 60 * 86400.0  # a session ends in any case
TOKEN = "tg_"  # noqa: S105 - the prefix of tokens, so that secret scanners find them
MIN_PASSWORD_LENGTH = 10  # characters
_MAX_PASSWORD_LENGTH = 200
_SEEN_EVERY = 300.0  # seconds between two updates of the last use
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


@dataclass(frozen=True, slots=True)
class User:
    name: str
    role: str
    made_at: float
    changed_at: float
    seen_at: float | None
    sessions: int

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a program. The secret itself is not stored."""

    id: int
    name: str
    role: str
    made_by: str
    made_at: float
    ends_at: float | None
    used_at: float | None

    def as_json(self) -> dict[str, object]:
        return asdict(self)


class _Credentials(NamedTuple):
    role: str
    password: str  # its digest


# -- users -----------------------------------------------------------------------------------------------------------


def users(tx: Tx) -> list[User]:
    return tx.query_as(User, "users")


def anybody(tx: Tx) -> bool:
    """Whether a user exists: from then on everyone must sign in."""
    return bool(tx.query("any_user"))


def add_user(tx: Tx, name: str, role: str, digest: str, by: str = LOCAL.name) -> None:
    """Adds a user. *digest* comes from `digest_of`, which is slow and must run outside of the transaction."""
    wanted = check_new(name, role)
    check_first(wanted, somebody=anybody(tx))
    if not tx.query("user_add", {"name": name, "role": wanted, "password": digest}):
        raise Rejected(f"there is a user {name!r} already; change the password or the role instead")
    note(tx, "user_added", name, by, role=wanted)


def check_new(name: str, role: str) -> Role:
    """Returns the role of a new user. Raises ValueError for a name or a role that is not allowed."""
    _check_name(name)
    if name.casefold() in SYSTEM_ACTORS:
        raise ValueError(f"name: {name!r} is what Tidegate calls a part of itself; give another one")
    return _role(role, OF_PEOPLE)


def check_first(role: str, *, somebody: bool) -> None:
    """Raises Rejected if the first user is not an admin. *somebody*: whether a user exists."""
    if role != Role.ADMIN and not somebody:
        raise Rejected("the first user must be an admin, who can add the others; give the role admin")


def set_password(tx: Tx, name: str, digest: str, by: str = LOCAL.name) -> None:
    """Sets a password and ends all sessions of the user."""
    role_of(tx, name)
    tx.query("user_change", {"name": name, "role": None, "password": digest})
    tx.query("sessions_end", {"who": name})
    note(tx, "user_password_set", name, by)


def set_role(tx: Tx, name: str, role: str, by: str = LOCAL.name) -> str:
    """Sets a role, ends all sessions of the user, and returns the old role. The last admin stays one."""
    wanted, was = _role(role, OF_PEOPLE), role_of(tx, name)
    if wanted == was:
        return was
    if wanted != Role.ADMIN:
        _keep_an_admin(tx, name)
    tx.query("user_change", {"name": name, "role": wanted, "password": None})
    tx.query("sessions_end", {"who": name})
    note(tx, "user_role_changed", name, by, role=wanted, was=was)
    return was


def sign_out(tx: Tx, name: str, by: str = LOCAL.name) -> int:
    """Ends all sessions of a user. Returns how many there were."""
    role_of(tx, name)
    ended = len(tx.query("sessions_end", {"who": name}))
    if ended:
        note(tx, "user_signed_out", name, by)
    return ended


def remove_user(tx: Tx, name: str, by: str = LOCAL.name) -> None:
    """Removes a user and their sessions. The last admin stays while other users exist."""
    role_of(tx, name)
    if len(tx.query("users")) > 1:
        _keep_an_admin(tx, name)
    tx.query("sessions_end", {"who": name})
    tx.query("user_remove", {"name": name})
    note(tx, "user_removed", name, by)


def role_of(tx: Tx, name: str) -> str:
    """Returns the role of a user. Raises NotFound for an unknown user."""
    user = tx.first(_Credentials, "user", {"name": name})
    if user is None:
        raise NotFound(f"there is no user {name!r}; list them with: tidegate user list")
    return user.role


def _keep_an_admin(tx: Tx, name: str) -> None:
    if tx.scalars(str, "admins") == [name]:
        raise Rejected(f"{name!r} is the last admin; make another user admin first")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"name: {name!r} is not allowed; give up to 64 letters, digits and . _ @ -")


def _role(role: str, allowed: tuple[Role, ...]) -> Role:
    if role not in set(map(str, allowed)):
        raise ValueError(f"role: {role!r} is not allowed; give one of: {', '.join(allowed)}")
    return Role(role)


# -- passwords -------------------------------------------------------------------------------------------------------


def digest_of(password: str) -> str:
    """Returns the digest of a password. Raises ValueError if it is too short or too long."""
    if not MIN_PASSWORD_LENGTH <= len(password) <= _MAX_PASSWORD_LENGTH:
        raise ValueError(
            f"password: give {MIN_PASSWORD_LENGTH} to {_MAX_PASSWORD_LENGTH} characters; "
            "a few words are easy to keep in mind"
        )
    return _hasher().hash(password)


def fits(password: str, digest: str | None) -> bool:
    """Whether a password matches. Takes equally long for an unknown user, to hide which names exist."""
    from argon2.exceptions import Argon2Error, InvalidHashError

    try:
        _hasher().verify(digest or _nobody(), password[: _MAX_PASSWORD_LENGTH + 1])
    except (Argon2Error, InvalidHashError):
        return False
    return digest is not None


def kept_of(tx: Tx, name: str) -> str | None:
    """Returns the stored digest of a user's password."""
    user = tx.first(_Credentials, "user", {"name": name})
    return None if user is None else user.password


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _nobody() -> str:
    return _hasher().hash(secrets.token_hex())


# -- sessions --------------------------------------------------------------------------------------------------------


def begin_session(tx: Tx, name: str) -> str:
    """Starts a session of a user and returns its secret. The caller has checked the password."""
    made = secrets.token_urlsafe(32)
    tx.query("sessions_prune", {"n": 100})
    tx.query("session_add", {"digest": _digest(made), "who": name, "lasts": SESSION})
    tx.query("user_seen", {"name": name})
    return made


def of_session(tx: Tx, secret: str) -> tuple[Principal, bool] | None:
    """Returns the principal of a session, and whether its last use should be recorded (`session_used`)."""
    for name, role, seen_at, now in tx.query("session", {"digest": _digest(secret)}):
        return Principal(user_actor(name), Role(role), AuthMethod.SESSION, f"user:{name}"), now - seen_at >= _SEEN_EVERY
    return None


def session_used(tx: Tx, secret: str) -> None:
    for (name,) in tx.query(
        "session_seen", {"digest": _digest(secret), "lasts": SESSION, "longest": MAX_SESSION_SECONDS}
    ):
        tx.query("user_seen", {"name": name})


def end_session(tx: Tx, secret: str) -> bool:
    return bool(tx.query("session_end", {"digest": _digest(secret)}))


# -- tokens ----------------------------------------------------------------------------------------------------------


def add_token(tx: Tx, name: str, role: str, by: str, lasts: Duration | None = None) -> str:
    """Adds a token and returns its secret. It cannot be read again."""
    _check_name(name)
    made = TOKEN + secrets.token_urlsafe(32)
    how_long = None if lasts is None else seconds(lasts, field="lasts", minimum=1)
    wanted = _role(role, tuple(Role))
    params = {"name": name, "role": wanted, "made_by": by, "lasts": how_long, "digest": _digest(made)}
    if not tx.query("token_add", params):
        raise Rejected(f"there is a token {name!r} already; remove it first")
    note(tx, "token_made", name, by, role=wanted)
    return made


def tokens(tx: Tx) -> list[Token]:
    return tx.query_as(Token, "tokens")


def remove_token(tx: Tx, name: str, by: str = LOCAL.name) -> None:
    if not tx.query("token_remove", {"name": name}):
        raise NotFound(f"there is no token {name!r}; list them with: tidegate token list")
    note(tx, "token_removed", name, by)


def of_token(tx: Tx, secret: str) -> tuple[Principal, int | None] | None:
    """Returns the principal of a token, and its id if its last use should be recorded (`token_used`)."""
    for id_, name, role, used_at, now in tx.query("token", {"digest": _digest(secret)}):
        due = used_at is None or now - used_at >= _SEEN_EVERY
        return Principal(f"token {name}", Role(role), AuthMethod.TOKEN, f"token:{id_}"), id_ if due else None
    return None


def token_used(tx: Tx, id_: int) -> None:
    tx.query("token_used", {"id": id_})


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
