"""Requests with an Idempotency-Key: executed once, with a stored response."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.errors import Rejected
from tidegate.store.base import Tx

# Requests with a key, as rows: begun once, their answers kept.

RETENTION = 86_400.0  # seconds that an answer is kept
MAX_BODY = 65_536  # bytes of an answer that are kept


@dataclass(frozen=True, slots=True)
class RequestRow:
    """What is known of a request. *status* is None while it is under way, *body* when it was too long to be kept."""

    digest: str
    status: int | None
    headers: Mapping[str, str]
    body: bytes | None
    left: float  # seconds until its lease ends


def insert_request(tx: Tx, key: str, scope: str, digest: str, lease: float) -> int | None:
    """The fence of a request that may be carried out now; None when another one has the key."""
    place = {"key": key, "scope": scope}
    rows = tx.query("request_begin", {**place, "digest": digest, "lease": lease, "kept": RETENTION})
    return int(rows[0][0]) if rows else None


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
    """Keeps the answer, without a body that is too long; False when the fence is not the newest."""
    kept = body if len(body) <= MAX_BODY else None
    place = {"key": key, "scope": scope, "fence": fence}
    return bool(
        tx.query("request_finish", {**place, "status": status, "headers": json.dumps(dict(headers)), "body": kept})
    )


def delete_request(tx: Tx, key: str, scope: str, fence: int) -> bool:
    """Frees the key; False when the fence is not the newest, or it has ended."""
    return bool(tx.query("request_abandon", {"key": key, "scope": scope, "fence": fence}))


def prune(tx: Tx, before: float, limit: int) -> int:
    """Removes a slice of those that were begun before then."""
    return len(tx.query("requests_prune", {"before": before, "n": limit}))


# Requests that may be sent twice and are carried out once: each has a key, and its answer is kept for a day.
#
# A request that ends without an answer worth keeping is given up with `abandon`. One that nobody ends (a crash) may be
# begun again after a minute.

LEASE = 60.0  # seconds until a request that was begun and never ended may be begun again
MAX_KEY = 255


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The answer that was given to the first of the twins."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class RequestReservation:
    """A request that may now be carried out, by nobody else at the same time."""

    key: str
    scope: str
    fence: int


class OtherBody(Rejected):
    """The key was used for another request (422)."""


class InFlight(Rejected):
    """The same request is being carried out at this moment (409)."""

    def __init__(self, retry_after: float) -> None:
        super().__init__("a request with this Idempotency-Key is under way; ask again in a moment")
        self.retry_after = retry_after  # seconds; by then it has ended, or may be begun again


class AnswerNotKept(Rejected):
    """The request was carried out, but its answer was too long to be kept (409). It is not carried out again."""


def begin(tx: Tx, key: str, scope: str, digest: str) -> StoredResponse | RequestReservation:
    """The answer of the finished twin, or the right to carry it out. OtherBody, InFlight or AnswerNotKept otherwise.

    *scope* says who asks for what: principal, method and path; *digest* is of the body.
    """
    check(key)
    fence = insert_request(tx, key, scope, digest, LEASE)
    if fence is not None:
        return RequestReservation(key, scope, fence)
    kept = load_request(tx, key, scope)
    if kept is None:  # it was given up between the two looks
        raise InFlight(1.0)
    if kept.digest != digest:
        raise OtherBody("this Idempotency-Key was used for another request; give each request a key of its own")
    if kept.status is None:
        raise InFlight(max(1.0, kept.left))
    if kept.body is None:
        raise AnswerNotKept("this was carried out before; its answer was too long to be kept, so look at what it made")
    return StoredResponse(kept.status, kept.headers, kept.body)


def finish(tx: Tx, begun: RequestReservation, status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Keeps the answer for twins; False when the lease ran out and somebody else has begun it again."""
    return store_response(tx, begun.key, begun.scope, begun.fence, status=status, headers=headers, body=body)


def abandon(tx: Tx, begun: RequestReservation) -> bool:
    """Nothing was done: the key is free for another try. False when somebody else has it by now."""
    return delete_request(tx, begun.key, begun.scope, begun.fence)


def check(key: str) -> None:
    """ValueError for a key that is too long, empty, or no plain text."""
    if not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise ValueError(f"Idempotency-Key: {key[:40]!r} is not allowed; give 1 to {MAX_KEY} plain characters")
