"""Four clients that people use, each as a function that gets JSON; None where the answer is empty."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable

import aiohttp
import httpx2
import requests

# A busy machine is slow; only a test that waits for a timeout has less of it.
PATIENCE = 60.0


def with_httpx2(url: str, timeout: float = PATIENCE) -> object:
    with httpx2.Client(timeout=timeout, follow_redirects=True) as client:
        answer = client.get(url)
        answer.raise_for_status()
        return answer.json()


def with_requests(url: str, timeout: float = PATIENCE) -> object:
    with requests.Session() as session:
        answer = session.get(url, timeout=timeout)
        answer.raise_for_status()
        return answer.json()


def with_urllib(url: str, timeout: float = PATIENCE) -> object:
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return json.loads(answer.read())


def with_aiohttp(url: str, timeout: float = PATIENCE) -> object:
    async def get() -> object:
        patience = aiohttp.ClientTimeout(sock_read=timeout)
        async with (
            aiohttp.ClientSession(timeout=patience, raise_for_status=True) as session,
            session.get(url) as answer,
        ):
            return await answer.json()

    return asyncio.run(get())


CLIENTS: dict[str, Callable[..., object]] = {
    "httpx2": with_httpx2,
    "requests": with_requests,
    "urllib": with_urllib,
    "aiohttp": with_aiohttp,
}
