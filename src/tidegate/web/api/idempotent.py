"""Idempotent POST requests: with an Idempotency-Key, the response is stored for a day and replayed.

The key, the change and the response are one transaction, so a crash leaves all of them or none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Request, Response
from pydantic import BaseModel, WithJsonSchema

from tidegate import idempotency
from tidegate.audit import Actor
from tidegate.idempotency import RequestReservation, StoredResponse
from tidegate.store.base import Tx
from tidegate.web.api.routing import encode, shown
from tidegate.web.problems import Problem
from tidegate.web.site import Site, site_of

_KEY = re.compile(r"[!-~]{1,255}")
_STORED_HEADERS = ("location", "retry-after")
Put = Callable[[Callable[[Tx], Response]], Response]
KeyHeader = Annotated[
    str | None,
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}),
    Header(alias="Idempotency-Key", description="Makes it happen once, however often it is sent; kept for a day."),
]


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """The principal of a change and its idempotency key."""

    site: Site
    by: str
    key: str | None
    scope: str
    digest: str

    def because(self, reason: str) -> Actor:
        """Return the actor with the stated reason."""
        return Actor.of(self.by).because(reason)


async def _asking(request: Request, key: KeyHeader = None) -> IdempotentRequest:
    site = site_of(request)
    by = site.actor_of(request)
    bare = None if key is None else key.strip()
    if bare is not None and len(bare) > 2 and bare[0] == bare[-1] == '"':
        bare = bare[1:-1]
    if bare is not None and not _KEY.fullmatch(bare):
        raise Problem("key_malformed")
    scope = f"{by} {request.method} {request.scope['path']}"
    return IdempotentRequest(site, by, bare, scope, hashlib.sha256(await request.body()).hexdigest())


Acting = Annotated[IdempotentRequest, Depends(_asking)]


def idempotent(asking: IdempotentRequest, work: Callable[[Tx], BaseModel], put: Put | None = None) -> Response:
    """Run *work* and return its response, or the stored response of the first request."""

    def both(tx: Tx) -> Response:
        if asking.key is None:
            return shown(work(tx))
        stored = idempotency.begin(tx, asking.key, asking.scope, asking.digest)
        if isinstance(stored, StoredResponse):
            return again(stored)
        document = encode(work(tx))
        idempotency.finish(tx, stored, 200, {}, document)
        return Response(document, 200, media_type="application/json")

    return (put or asking.site.write)(both)


def idempotent_later(asking: IdempotentRequest, work: Callable[[], Response]) -> Response:
    """The same for *work* with several transactions. A concurrent duplicate must wait."""
    key = asking.key
    if key is None:
        return work()
    stored = asking.site.write(lambda tx: idempotency.begin(tx, key, asking.scope, asking.digest))
    if isinstance(stored, StoredResponse):
        return again(stored)
    return _finished(asking.site, stored, work)


def _finished(site: Site, begun: RequestReservation, work: Callable[[], Response]) -> Response:
    try:
        answer = work()
    except BaseException:
        site.write(lambda tx: idempotency.abandon(tx, begun))
        raise
    headers = {name: answer.headers[name] for name in _STORED_HEADERS if name in answer.headers}
    site.write(lambda tx: idempotency.finish(tx, begun, answer.status_code, headers, bytes(answer.body)))
    return answer


def again(stored: StoredResponse) -> Response:
    """Return the stored response with a header that marks the replay."""
    headers = {**stored.headers, "Idempotency-Replayed": "true"}
    return Response(stored.body, stored.status, headers, media_type="application/json")
