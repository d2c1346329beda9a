"""When our own connections are all in use, that is our fault and nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import aiohttp
import httpx
import httpx2
import openai
import pytest
import urllib3

from tests.unit.faults.clients import SOON
from tests.unit.faults.wire import answer, hangs, serving
from tidegate.faults.classification import classify


@pytest.fixture
def url() -> Iterator[str]:
    with serving(hangs(answer(200, b"[", missing=9))) as url:
        yield url


def with_httpx(url: str) -> None:
    made = httpx.Client(timeout=httpx.Timeout(60, pool=SOON), limits=httpx.Limits(max_connections=1), trust_env=False)
    with made as client, client.stream("GET", url):
        client.get(url)


def with_httpx2(url: str) -> None:
    limits = httpx2.Limits(max_connections=1)
    made = httpx2.Client(timeout=httpx2.Timeout(60, pool=SOON), limits=limits, trust_env=False)
    with made as client, client.stream("GET", url):
        client.get(url)


def with_openai(url: str) -> None:
    made = httpx2.Client(limits=httpx2.Limits(max_connections=1), trust_env=False)
    timeout = httpx2.Timeout(60, pool=SOON)
    with made as transport, transport.stream("GET", url):
        openai.OpenAI(
            api_key="sk-test", base_url=url, timeout=timeout, max_retries=0, http_client=transport
        ).models.list()


def with_urllib3(url: str) -> None:
    with urllib3.PoolManager(maxsize=1, block=True) as manager:
        pool = manager.connection_from_url(url)
        first = pool.urlopen("GET", url, preload_content=False, retries=False)
        try:
            # The stubs want whole seconds.
            pool.urlopen("GET", url, pool_timeout=SOON, retries=False)  # type: ignore[arg-type]
        finally:
            first.close()


@pytest.mark.req("SYNC-02")
@pytest.mark.parametrize("fill", [with_httpx, with_httpx2, with_openai, with_urllib3])
def test_a_full_pool_is_a_fault_of_our_own(fill: Callable[[str], None], url: str) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each library has its own
        fill(url)

    fault = classify(raised.value)

    assert fault is not None
    assert (fault.code, fault.rule, fault.reach, fault.retriable) == ("own_pool", "kind:pool", "self", True)
    assert fault.counts_as_failure is None


def test_aiohttp_calls_a_full_pool_a_slow_connection_and_so_do_we(url: str) -> None:
    async def fill() -> None:
        timeout = aiohttp.ClientTimeout(connect=SOON)
        made = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1), timeout=timeout)
        async with made as session, session.get(url), session.get(url):
            pass

    with pytest.raises(aiohttp.ClientError) as raised:
        asyncio.run(fill())

    assert (fault := classify(raised.value)) is not None
    assert fault.code == "timeout"
