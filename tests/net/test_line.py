"""What comes on a connection that was kept is an answer only if it was asked for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.net.serving import OK, PUBLIC, client
from tidegate.net.http1 import SocketStream

pytestmark = pytest.mark.req("FEED-13")

FORGED = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("comes", [lambda theirs: theirs.send(b"x"), socket.socket.close], ids=["a byte", "the end"])
def test_what_the_loop_has_not_seen_yet_counts_as_well(
    pair: tuple[socket.socket, socket.socket], comes: Callable[[socket.socket], object]
) -> None:
    ours, theirs = pair
    line = SocketStream(ours)
    assert line.quiet
    comes(theirs)
    assert not line.quiet


@asynccontextmanager
async def writing() -> AsyncIterator[tuple[str, list[asyncio.StreamWriter], asyncio.Event]]:
    """A server's address, its ends of the connections, which it may write to unasked, and whether one has ended."""
    ends: list[asyncio.StreamWriter] = []
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(writer)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(OK)
        except (OSError, asyncio.IncompleteReadError):
            ended.set()
        finally:
            writer.close()

    server = await asyncio.start_server(talk, PUBLIC, 0)
    async with server:
        yield f"http://{PUBLIC}:{server.sockets[0].getsockname()[1]}/", ends, ended


async def test_an_answer_that_nobody_asked_for_is_never_taken_for_one_however_late_it_comes() -> None:
    async with writing() as (url, ends, _), client() as fetching:
        assert (await fetching.get(url)).body == b"ok"
        ends[0].write(FORGED)  # it is sent at once, and the loop gets no turn to see it come
        assert (await fetching.get(url)).body == b"ok"
        assert len(ends) == 2


async def test_a_kept_connection_ends_as_soon_as_something_comes_on_it() -> None:
    async with writing() as (url, ends, ended), client() as fetching:
        await fetching.get(url)
        ends[0].write(FORGED)
        await asyncio.wait_for(ended.wait(), 60)


def test_a_line_that_rests_ends_with_the_first_byte_and_keeps_none() -> None:
    line, transport = SocketStream(), Ended()
    line.connection_made(transport)
    line.rest()
    assert (line.quiet, transport.ended) == (True, False)
    line.data_received(FORGED)
    assert (line.quiet, transport.ended) == (False, True)
    line.expect(1000)
    line.data_received(b"more")  # while it ends
    assert not line.quiet


class Ended(asyncio.Transport):
    ended = False

    def abort(self) -> None:
        self.ended = True
