"""Who may do what: one table of roles and rights, which page, API and command line ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Permission(StrEnum):
    """What a person or a program may be allowed to do."""

    SEE = "see"  # every page, every answer that only reads
    RETRY = "retry"
    CANCEL = "cancel"
    FORGET = "forget"  # cannot be undone: a job goes with its history
    PAUSE = "pause"  # and resume: a queue, a target
    RESET = "reset"  # a breaker: reset, or forced
    CLEAR = "clear"  # a key, as after new credentials
    SWITCH = "switch"  # enable or disable a key
    READ_NOTICE = "read_notice"
    PUT_IN = "put_in"  # new work: uploads, sources, submissions
    SEE_SETTINGS = "see_settings"
    MANAGE = "manage"  # people, tokens, whatever has no right of its own
    SWITCH_FEEDS = "switch_feeds"  # list sources, enable and disable feeds

    @property
    def words(self) -> str:
        """What it allows, after "may" or "may not"."""
        return _WORDS.get(self, str(self))


_WORDS: Mapping[str, str] = {
    "see": "see this",
    "switch": "enable or disable",
    "read_notice": "mark notices as read",
    "put_in": "put in work",
    "see_settings": "see the settings",
    "manage": "do what only admins do",
    "switch_feeds": "list sources and switch feeds",
}


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    POLLER = "poller"  # a program that watches feeds


_OPERATOR = frozenset(Permission) - {Permission.FORGET, Permission.MANAGE}
RIGHTS: Mapping[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset({Permission.SEE}),
    Role.OPERATOR: _OPERATOR,
    Role.ADMIN: frozenset(Permission),
    Role.POLLER: frozenset({Permission.SWITCH_FEEDS}),
}
# People have passwords, and a poller is no person.
OF_PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


class AuthMethod(StrEnum):
    """How somebody was recognised."""

    LOCAL = "local"  # at this machine, while nobody has a password
    SESSION = "session"
    TOKEN = "token"  # noqa: S105 - the word, not one
    JWT = "jwt"


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who was recognised. Events name them so; what they put in belongs to *owner*."""

    name: str
    role: Role
    via: AuthMethod
    owner: str

    def has_permission(self, right: Permission) -> bool:
        return right in RIGHTS[self.role]


LOCAL = Principal("local", Role.ADMIN, AuthMethod.LOCAL, "local")
