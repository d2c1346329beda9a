"""Roles, permissions and JSON Web Tokens."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Permission(StrEnum):
    """An action that a user or a program may be allowed to do."""

    SEE = "see"  # every page, every read-only request
    RETRY = "retry"
    CANCEL = "cancel"
    FORGET = "forget"  # delete a job with its history, irreversibly
    PAUSE = "pause"  # and resume: a queue, a target
    RESET = "reset"  # a breaker: reset, or forced
    CLEAR = "clear"  # a key, as after new credentials
    SWITCH = "switch"  # enable or disable a key
    READ_NOTICE = "read_notice"
    PUT_IN = "put_in"  # new jobs: uploads, sources, submissions
    SEE_SETTINGS = "see_settings"
    MANAGE = "manage"  # users, tokens, everything without its own permission
    SWITCH_FEEDS = "switch_feeds"  # list sources, enable and disable feeds

    @property
    def words(self) -> str:
        """The permission in a sentence, after "may" or "may not"."""
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
# Roles of users with passwords. A poller is a program.
OF_PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


class AuthMethod(StrEnum):
    """How a principal was authenticated."""

    LOCAL = "local"  # on this host, while no user exists
    SESSION = "session"
    TOKEN = "token"  # noqa: S105 - the word, not a token
    JWT = "jwt"


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated user or program. Events record the *name*. Its jobs belong to *owner*."""

    name: str
    role: Role
    via: AuthMethod
    owner: str

    def has_permission(self, right: Permission) -> bool:
        return right in RIGHTS[self.role]


LOCAL = Principal("local", Role.ADMIN, AuthMethod.LOCAL, "local")


# -- JSON Web Tokens ---------------------------------------------------------------------------------------------------
# Signed by this server, or by an issuer whose public key is in the settings.

ISSUER = AUDIENCE = "tidegate"
_LEEWAY = 10.0  # seconds of clock skew
_NOT_SUPPORTED = "this kind of public key is not supported; give an RSA, an EC (P-256) or an Ed25519 key"
_REQUIRED = ("exp", "aud", "iss", "sub", "role")


class BadToken(ValueError):
    """The token is not valid. The text is for the log, not for the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """A trusted issuer: its key, the allowed algorithms, and the required issuer name."""

    key: Any
    algorithms: Sequence[str]
    name: str = ISSUER
    audience: str = AUDIENCE

    @classmethod
    def own(cls, key: bytes) -> Issuer:
        return cls(key=key, algorithms=("HS256",))

    @classmethod
    def of_public_key(cls, pem: str, name: str = ISSUER, audience: str = AUDIENCE) -> Issuer:
        """Raises ValueError for an invalid public key. The key type decides the algorithm, never the token."""
        from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            key = load_pem_public_key(pem.encode())
        except ValueError as error:
            raise ValueError(
                "it is not a public key in PEM form; give the text between BEGIN and END PUBLIC KEY"
            ) from error
        match key:
            case RSAPublicKey():
                algorithm = "RS256"
            case EllipticCurvePublicKey(curve=SECP256R1()):  # with another curve every token would be rejected
                algorithm = "ES256"
            case Ed25519PublicKey():
                algorithm = "EdDSA"
            case _:
                raise ValueError(_NOT_SUPPORTED)
        return cls(key=key, algorithms=(algorithm,), name=name, audience=audience)


def issue_token(issuer: Issuer, subject: str, role: Role, lasts: float, now: float) -> str:
    """Issues a token."""
    import jwt

    claims = {
        "sub": subject,
        "role": str(role),
        "iss": issuer.name,
        "aud": issuer.audience,
        "iat": int(now),
        "exp": int(now + lasts),
    }
    return jwt.encode(claims, issuer.key, algorithm=issuer.algorithms[0])


def verify_token(issuer: Issuer, token: str, now: float) -> Principal:
    """Returns the principal of a token. Raises BadToken unless it is valid. All claims are required."""
    import jwt

    try:
        claims = jwt.decode(
            token,
            issuer.key,
            algorithms=list(issuer.algorithms),
            audience=issuer.audience,
            issuer=issuer.name,
            # Times are checked below, against *now*.
            options={"require": list(_REQUIRED), "verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )
    except (jwt.InvalidTokenError, ValueError, TypeError, RecursionError) as error:
        raise BadToken(f"{type(error).__name__}") from error
    for name, late in (("exp", True), ("nbf", False)):
        moment = _moment(claims.get(name, now))
        if moment is None:
            raise BadToken(f"{name} is not a time")
        if (moment + _LEEWAY < now) if late else (moment - _LEEWAY > now):
            raise BadToken("it has expired" if late else "it is not valid yet")
    if claims["role"] not in [*map(str, Role)] or not isinstance(claims["sub"], str) or not claims["sub"]:
        raise BadToken("its role or its subject is not known")
    if not claims["sub"].isprintable():  # no control characters or surrogates
        raise BadToken("its subject is not printable")
    return Principal(
        f"jwt {claims['sub'][:64]}", Role(claims["role"]), AuthMethod.JWT, _owner(claims["iss"], claims["sub"])
    )


def _moment(value: object) -> float | None:
    """Returns a time claim as UNIX time, or None if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        moment = float(value)
    except OverflowError:
        return None
    return moment if math.isfinite(moment) else None


def _owner(issuer: str, subject: str) -> str:
    """Returns the owner of a subject's jobs: a digest, because subjects may be long and issuers may share them."""
    return f"jwt:{hashlib.sha256(f'{issuer} {subject}'.encode()).hexdigest()[:32]}"
