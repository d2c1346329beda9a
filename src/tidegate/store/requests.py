"""Requests with a key, as rows: begun once, their answers kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.store.tx import Tx

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
) -> bool:  # fmt: skip
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
