"""The same GET through each client library; each function raises what its library raises."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.client
import json
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
import httpx2
import openai
import requests
import urllib3

from tests.unit.faults.wire import CERTIFICATE

SOON = 0.1
RETRIES = urllib3.Retry(2, status_forcelist=range(400, 600), respect_retry_after_header=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What to get: where, how long to wait, whether the body is JSON and the test certificate trusted."""

    url: str
    timeout: float = 30.0
    json: bool = False
    trusting: bool = False

    @property
    def tls(self) -> ssl.SSLContext:
        return _tls(self.trusting)


@functools.cache
def _tls(trusting: bool) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(CERTIFICATE) if trusting else None)


def via_socket(ask: Ask) -> None:
    """HTTP by hand, as far as a socket can know it."""
    parts = urlsplit(ask.url)
    with contextlib.ExitStack() as stack:
        wire = stack.enter_context(socket.create_connection((parts.hostname, parts.port), timeout=ask.timeout))
        if parts.scheme == "https":
            wire = stack.enter_context(ask.tls.wrap_socket(wire, server_hostname=parts.hostname))
        wire.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        while wire.recv(65536):
            pass


def via_asyncio(ask: Ask) -> None:
    async def get() -> None:
        parts = urlsplit(ask.url)
        tls = ask.tls if parts.scheme == "https" else None
        async with asyncio.timeout(ask.timeout):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls)
            try:
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
                await reader.readexactly(int(length.partition(b":")[2]))
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    asyncio.run(get())


def via_http_client(ask: Ask) -> None:
    parts = urlsplit(ask.url)
    made = (
        http.client.HTTPSConnection(parts.netloc, timeout=ask.timeout, context=ask.tls)
        if parts.scheme == "https"
        else http.client.HTTPConnection(parts.netloc, timeout=ask.timeout)
    )
    with contextlib.closing(made) as connection:
        connection.request("GET", parts.path)
        with connection.getresponse() as response:
            _decode(ask, response.read())


def via_urllib(ask: Ask) -> None:
    tls = urllib.request.HTTPSHandler(context=ask.tls)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), tls)
    try:
        with opener.open(ask.url, timeout=ask.timeout) as response:
            _decode(ask, response.read())
    except urllib.error.HTTPError as error:
        error.close()  # it is the answer as well
        raise


def via_urllib3(ask: Ask) -> None:
    with urllib3.PoolManager(timeout=ask.timeout, ssl_context=ask.tls) as pool:
        response = pool.request("GET", ask.url, retries=RETRIES)
        _decode(ask, response.data)


def via_urllib3_without_retries(ask: Ask) -> None:
    with urllib3.PoolManager(timeout=ask.timeout, ssl_context=ask.tls) as pool:
        response = pool.request("GET", ask.url, retries=urllib3.Retry(0, redirect=3, raise_on_redirect=True))
        _decode(ask, response.data)


def via_requests(ask: Ask) -> None:
    with requests.Session() as session:
        session.trust_env = False
        verify = str(CERTIFICATE) if ask.trusting else True
        with session.get(ask.url, timeout=ask.timeout, verify=verify) as response:
            response.raise_for_status()
            if ask.json:
                response.json()


def via_httpx(ask: Ask) -> None:
    with httpx.Client(timeout=ask.timeout, trust_env=False, verify=ask.tls, follow_redirects=True) as client:
        _finish(ask, client.get(ask.url))


def via_httpx2(ask: Ask) -> None:
    with httpx2.Client(timeout=ask.timeout, trust_env=False, verify=ask.tls, follow_redirects=True) as client:
        _finish(ask, client.get(ask.url))


def via_httpx_async(ask: Ask) -> None:
    async def get() -> None:
        made = httpx.AsyncClient(timeout=ask.timeout, trust_env=False, verify=ask.tls, follow_redirects=True)
        async with made as client:
            _finish(ask, await client.get(ask.url))

    asyncio.run(get())


def via_httpx2_async(ask: Ask) -> None:
    async def get() -> None:
        made = httpx2.AsyncClient(timeout=ask.timeout, trust_env=False, verify=ask.tls, follow_redirects=True)
        async with made as client:
            _finish(ask, await client.get(ask.url))

    asyncio.run(get())


def via_aiohttp(ask: Ask) -> None:
    async def get() -> None:
        timeout = aiohttp.ClientTimeout(connect=ask.timeout, sock_read=ask.timeout)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(ask.url, ssl=ask.tls, raise_for_status=True) as response,
        ):
            await (response.json() if ask.json else response.read())

    asyncio.run(get())


def via_openai(ask: Ask) -> None:
    with (
        httpx2.Client(timeout=ask.timeout, trust_env=False, verify=ask.tls, follow_redirects=True) as transport,
        openai.OpenAI(
            api_key="sk-test", base_url=ask.url, timeout=ask.timeout, max_retries=0, http_client=transport
        ) as client,
    ):
        client.models.list()


def via_openai_async(ask: Ask) -> None:
    async def get() -> None:
        made = httpx2.AsyncClient(timeout=ask.timeout, trust_env=False, verify=ask.tls, follow_redirects=True)
        async with (
            made as transport,
            openai.AsyncOpenAI(
                api_key="sk-test", base_url=ask.url, timeout=ask.timeout, max_retries=0, http_client=transport
            ) as client,
        ):
            await client.models.list()

    asyncio.run(get())


CLIENTS: dict[str, Callable[[Ask], None]] = {
    name.removeprefix("via_"): made for name, made in list(globals().items()) if name.startswith("via_")
}


def failure(client: str, ask: Ask) -> BaseException:
    """What the client raises; AssertionError when it raises nothing."""
    try:
        CLIENTS[client](ask)
    except Exception as error:
        return error
    raise AssertionError(f"{client} got a good answer from {ask.url}")


def _finish(ask: Ask, response: Any) -> None:
    response.raise_for_status()
    if ask.json:
        response.json()


def _decode(ask: Ask, body: bytes) -> None:
    if ask.json:
        json.loads(body)
