"""Fetching as a user's program uses it. It is never run: mypy reads it, in strict mode."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import timedelta
from typing import assert_type

from tidegate import net


async def resolver(host: str, port: int) -> Sequence[str]:
    return [f"{host}:{port}"]


async def fetch(tls: ssl.SSLContext) -> None:
    async with net.Client(
        user_agent="Example/1", allow=("10.0.0.0/8",), total="30s", body=5_000_000, redirects=5
    ) as client:
        assert_type(client, net.Client)
        answer = await client.get("https://example.com/", headers={"If-None-Match": '"7"'}, total=timedelta(seconds=5))
        assert_type(answer, net.FetchResponse)
        assert_type((answer.status, answer.body, answer.url), tuple[int, bytes, str])
        assert_type(answer.headers["ETag"], str)
        assert_type(answer.history, tuple[tuple[int, str], ...])
        assert_type(answer.moved_to, str | None)
    named: net.Resolver = resolver
    await net.Client(user_agent="Example/1", ports=None, resolver=named, tls=tls, per_host=2).aclose()
    assert_type(net.why_blocked("10.0.0.1", net.Networks(["10.0.0.0/8"])), str | None)


def failed(error: net.FetchError) -> None:
    assert_type(error.url, str)
    if isinstance(error, net.BlockedAddress):
        assert_type((error.host, error.address, error.why), tuple[str, str, str])
