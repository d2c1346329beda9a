"""Requests with an Idempotency-Key: executed once, with a stored response."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.errors import Rejected
from tidegate.store.base import Tx

# -- rows --------------------------------------------------------------------------------------------------------------

RETENTION = 86_400.0  # seconds that a response is stored
MAX_BODY = 65_536  # bytes of a stored body


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A stored request. *status* is None while it is in flight. *body* is None if it was too long to store."""

    digest: str
    status: int | None
    headers: Mapping[str, str]
    body: bytes | None
    left: float  # seconds until its lease ends


def insert_request(tx: Tx, key: str, scope: str, digest: str, lease: float) -> int | None:
    """Returns the fence of a request that may be executed now, or None if the key is taken."""
    request = {"key": key, "scope": scope, "digest": digest, "lease": lease, "kept": RETENTION}
    return tx.scalar_or_none(int, "request_begin", request)


def load_request(tx: Tx, key: str, scope: str) -> RequestRow | None:
    rows = tx.query("request_seen", {"key": key, "scope": scope})
    if not rows:
        return None
    digest, status, headers, body, left = rows[0]
    return RequestRow(
        digest, status, json.loads(headers or "{}"), None if body is None else bytes(body), float(left or 0)
    )


def store_response(
    tx: Tx, key: str, scope: str, fence: int, *, status: int, headers: Mapping[str, str], body: bytes
) -> bool:
    """Stores the response, without a body that is too long. Returns False if the fence is outdated."""
    stored = body if len(body) <= MAX_BODY else None
    place = {"key": key, "scope": scope, "fence": fence}
    return bool(
        tx.query("request_finish", {**place, "status": status, "headers": json.dumps(dict(headers)), "body": stored})
    )


def delete_request(tx: Tx, key: str, scope: str, fence: int) -> bool:
    """Frees the key. Returns False if the fence is outdated or the request has finished."""
    return bool(tx.query("request_abandon", {"key": key, "scope": scope, "fence": fence}))


def prune(tx: Tx, before: float, limit: int) -> int:
    """Deletes up to *limit* requests that began before *before*."""
    return len(tx.query("requests_prune", {"before": before, "n": limit}))


# -- requests ----------------------------------------------------------------------------------------------------------
# A client may repeat a request with the same key. It is executed once, and its response is stored for a day. A request
# without a response worth storing ends with `abandon`. After a crash it may begin again when its lease ends.

LEASE = 60.0  # seconds until an unfinished request may begin again
MAX_KEY = 255


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The response to the first request with the key."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class RequestReservation:
    """The exclusive right to execute a request."""

    key: str
    scope: str
    fence: int


class OtherBody(Rejected):
    """The key was used for another request (422)."""


class InFlight(Rejected):
    """The same request is in flight (409)."""

    def __init__(self, retry_after: float) -> None:
        super().__init__("a request with this Idempotency-Key is under way; ask again in a moment")
        self.retry_after = retry_after  # seconds until it has finished or may begin again


class AnswerNotKept(Rejected):
    """The request was executed, but its response was too long to store (409). It is not executed again."""


def begin(tx: Tx, key: str, scope: str, digest: str) -> StoredResponse | RequestReservation:
    """Returns the stored response, or the right to execute the request. Raises OtherBody, InFlight or AnswerNotKept.

    *scope* is principal, method and path. *digest* is the hash of the body.
    """
    check(key)
    fence = insert_request(tx, key, scope, digest, LEASE)
    if fence is not None:
        return RequestReservation(key, scope, fence)
    row = load_request(tx, key, scope)
    if row is None:  # abandoned between the two statements
        raise InFlight(1.0)
    if row.digest != digest:
        raise OtherBody("this Idempotency-Key was used for another request; give each request a key of its own")
    if row.status is None:
        raise InFlight(max(1.0, row.left))
    if row.body is None:
        raise AnswerNotKept(
            "this request was carried out before, and its response is not stored; read the result with a GET request"
        )
    return StoredResponse(row.status, row.headers, row.body)


def finish(tx: Tx, begun: RequestReservation, status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Stores the response. Returns False if the lease expired and another request has taken the key."""
    return store_response(tx, begun.key, begun.scope, begun.fence, status=status, headers=headers, body=body)


def abandon(tx: Tx, begun: RequestReservation) -> bool:
    """Frees the key after nothing was done. Returns False if another request has taken it."""
    return delete_request(tx, begun.key, begun.scope, begun.fence)


def check(key: str) -> None:
    """Raises ValueError for a key that is too long, empty or not printable ASCII."""
    if not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise ValueError(f"Idempotency-Key: {key[:40]!r} is not allowed; give 1 to {MAX_KEY} plain characters")
