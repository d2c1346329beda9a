"""What a fetch gives back, what it sends, and how it follows redirects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.net.serving import OK, PUBLIC, client, names, redirect, serving
from tidegate import classify, net
from tidegate.net.http1 import SocketStream


def page(body: bytes, *headers: str) -> bytes:
    lines = "".join(f"{each}\r\n" for each in headers)
    return f"HTTP/1.1 200 OK\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body


async def test_an_answer_has_status_headers_body_and_address() -> None:
    async with serving(page(b"<rss/>", 'ETag: W/"a b"', "Content-Type: text/xml")) as server, client() as fetching:
        answer = await fetching.get(f"http://{PUBLIC}:{server.port}/feed?x=1#top")

    assert answer.status == 200
    assert answer.headers["etag"] == 'W/"a b"'
    assert answer.body == b"<rss/>"
    assert answer.url == f"http://{PUBLIC}:{server.port}/feed?x=1"
    assert answer.history == ()
    assert classify(answer) is None
    assert server.requests[0].startswith(b"GET /feed?x=1 HTTP/1.1\r\n")
    assert b"User-Agent: Test/1\r\n" in server.requests[0]


@pytest.mark.req("FEED-13")
@pytest.mark.parametrize(
    "etag", ['"plain"', 'W/"weak"', "no quotes", '"caf\xe9"', '"\xc3\xa9"', '"a,b", "c"', "''", '"']
)
async def test_validators_go_back_byte_for_byte(etag: str) -> None:
    when = "Sun, 06 Nov 1994 08:49:37 gmt (about)"
    async with serving(page(b"x", f"ETag: {etag}", f"Last-Modified: {when}")) as server, client() as fetching:
        first = (await fetching.get(f"http://{PUBLIC}:{server.port}/")).headers
        given = {"If-None-Match": first["ETag"], "If-Modified-Since": first["Last-Modified"]}
        await fetching.get(f"http://{PUBLIC}:{server.port}/", headers=given)

    assert f"If-None-Match: {etag}\r\n".encode("latin-1") in server.requests[1]
    assert f"If-Modified-Since: {when}\r\n".encode() in server.requests[1]


@pytest.mark.parametrize(
    ("status", "code"), [(304, None), (404, "not_found"), (410, "gone"), (500, "upstream_failure")]
)
async def test_every_status_is_an_answer(status: int, code: str | None) -> None:
    told = f"HTTP/1.1 {status} So\r\nContent-Length: {0 if status == 304 else 4}\r\n\r\n".encode()
    async with serving(told + (b"" if status == 304 else b"text")) as server, client() as fetching:
        answer = await fetching.get(f"http://{PUBLIC}:{server.port}/")
        again = await fetching.get(f"http://{PUBLIC}:{server.port}/")
    assert answer.status == again.status == status
    assert server.connections == 1
    fault = classify(answer)
    assert (fault and fault.code) == code


async def test_a_refusal_keeps_its_status_when_its_body_is_endless_or_broken() -> None:
    bodies = {
        b"/long": b"HTTP/1.1 503 No\r\nContent-Length: 9000000\r\nConnection: close\r\n\r\n" + b"x" * 9_000_000,
        b"/cut": b"HTTP/1.1 404 No\r\nContent-Length: 100\r\nConnection: close\r\n\r\nshort",
        b"/odd": b"HTTP/1.1 403 No\r\nContent-Encoding: odd\r\nContent-Length: 3\r\n\r\nodd",
        b"/bad": b"HTTP/1.1 429 No\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nbad",
    }
    async with serving(lambda request: bodies[request.split()[1]]) as server, client() as fetching:
        got = {path: await fetching.get(f"http://{PUBLIC}:{server.port}{path.decode()}") for path in bodies}

    assert [each.status for each in got.values()] == [503, 404, 403, 429]
    assert len(got[b"/long"].body) <= 65_536
    assert [got[path].body for path in (b"/cut", b"/odd", b"/bad")] == [b"short", b"odd", b""]


async def test_redirects_are_followed_and_told() -> None:
    told = {b"/a": redirect("b", 301), b"/b": redirect("/c", 308), b"/c": OK}
    async with serving(lambda request: told[request.split()[1]]) as server, client() as fetching:
        base = f"http://{PUBLIC}:{server.port}"
        answer = await fetching.get(f"{base}/a")
        assert answer.history == ((301, f"{base}/a"), (308, f"{base}/b"))
        assert answer.url == answer.moved_to == f"{base}/c"
        assert (await fetching.get(f"{base}/c")).moved_to is None
        assert server.connections == 1


@pytest.mark.parametrize("status", [302, 303, 307])
async def test_a_move_counts_only_if_every_redirect_was_permanent(status: int) -> None:
    told = {b"/a": redirect("/b", 301), b"/b": redirect("/c", status), b"/c": OK}
    async with serving(lambda request: told[request.split()[1]]) as server, client() as fetching:
        assert (await fetching.get(f"http://{PUBLIC}:{server.port}/a")).moved_to is None


@pytest.mark.req("FEED-13")
async def test_five_redirects_are_followed_and_not_a_sixth() -> None:
    def answer(request: bytes) -> bytes:
        left = int(request.split()[1][1:])
        return redirect(f"/{left - 1}") if left else OK

    async with serving(answer) as server, client() as fetching:
        assert len((await fetching.get(f"http://{PUBLIC}:{server.port}/5")).history) == 5
        before = len(server.requests)
        with pytest.raises(net.TooManyRedirects, match="after 5 redirects"):
            await fetching.get(f"http://{PUBLIC}:{server.port}/6")
        assert len(server.requests) == before + 6


@pytest.mark.parametrize("to", ["/", "", "#again"])
async def test_a_circle_is_seen_at_its_first_turn(to: str) -> None:
    async with serving(redirect(to)) as server, client() as fetching:
        with pytest.raises(net.TooManyRedirects, match="circle") as caught:
            await fetching.get(f"http://{PUBLIC}:{server.port}/")
    assert len(server.requests) == 1
    fault = classify(caught.value)
    assert fault is not None
    assert fault.code == "redirected"


@pytest.mark.parametrize("location", ["ftp://feed.example/", "javascript:alert(1)", "http://[bad/", "data:,x"])
async def test_a_redirect_to_what_is_no_address_is_refused(location: str) -> None:
    async with serving(redirect(location)) as server, client() as fetching:
        with pytest.raises(net.BadUrl):
            await fetching.get(f"http://{PUBLIC}:{server.port}/")


async def test_a_redirect_without_a_location_is_an_answer() -> None:
    async with serving(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n") as server, client() as fetching:
        assert (await fetching.get(f"http://{PUBLIC}:{server.port}/")).status == 302


async def test_credentials_stay_with_the_host_they_were_meant_for() -> None:
    def answer(request: bytes) -> bytes:
        path = request.split()[1]
        if path == b"/start":
            return redirect("/same")
        return redirect(f"http://other.example:{server.port}/end") if path == b"/same" else OK

    async with serving(answer) as server, client(resolver=names(feed=[PUBLIC], other=[PUBLIC])) as fetching:
        given = {"Cookie": "secret=1", "If-None-Match": '"v"', "Proxy-Authorization": "Basic x"}
        await fetching.get(f"http://me:word@feed.example:{server.port}/start", headers=given)

    first, same, other = server.requests
    for kept in (first, same):
        assert b"Authorization: Basic bWU6d29yZA==\r\n" in kept
        assert b"Cookie: secret=1\r\n" in kept
    assert b"uthorization" not in other
    assert b"Cookie" not in other
    assert b'If-None-Match: "v"\r\n' in other


async def test_cookies_of_an_answer_are_forgotten() -> None:
    async with serving(page(b"x", "Set-Cookie: a=b")) as server, client() as fetching:
        for _ in range(2):
            await fetching.get(f"http://{PUBLIC}:{server.port}/")
    assert b"Cookie" not in server.requests[1]


@pytest.mark.parametrize(
    "headers", [{"X-A": "b\r\nX-C: d"}, {"X-A": "\0"}, {"X A": "b"}, {"Host": "evil"}, {"X": "☃"}, {"": ""}]
)
async def test_a_header_that_cannot_be_sent_is_a_mistake_of_the_caller(headers: dict[str, str]) -> None:
    async with client() as fetching:
        with pytest.raises(ValueError, match=r"^headers: "):
            await fetching.get(f"http://{PUBLIC}/", headers=headers)


async def test_one_host_has_one_connection_and_many_hosts_are_asked_at_once() -> None:
    answered = asyncio.Event()
    waiting: list[str] = []

    async def slow(host: str, _: int) -> list[str]:
        waiting.append(host)
        if len(waiting) == 20:
            answered.set()  # all twenty were looked up before any of them got on
        await answered.wait()
        return [PUBLIC]

    async with serving(OK) as server, client(resolver=slow) as fetching:
        urls = [f"http://h{n}.example:{server.port}/{m}" for n in range(20) for m in range(5)]
        answers = await asyncio.gather(*map(fetching.get, urls))
    assert [each.url for each in answers] == urls
    assert server.connections == 20


async def test_who_waits_for_our_own_connections_all_the_time_is_told_so() -> None:
    asked = asyncio.Event()

    def never_complete(_: bytes) -> bytes:
        asked.set()
        return b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"

    async with serving(never_complete) as server, client() as fetching:
        url = f"http://{PUBLIC}:{server.port}/"
        first = asyncio.ensure_future(fetching.get(url))
        await asked.wait()
        with pytest.raises(net.Busy, match="50ms") as caught:
            await fetching.get(url, total="50ms")
        first.cancel()
        await asyncio.wait([first])
    assert len(server.requests) == 1
    fault = classify(caught.value)
    assert fault is not None
    assert fault.code == "own_pool"


async def test_a_kept_connection_that_ends_as_it_is_used_again_is_made_anew() -> None:
    told = [OK, b"", OK]
    async with serving(lambda _: told.pop(0)) as server, client() as fetching:
        for _ in range(2):
            assert (await fetching.get(f"http://{PUBLIC}:{server.port}/")).status == 200
    assert (len(server.requests), server.connections) == (3, 2)


async def test_a_new_connection_that_ends_without_an_answer_is_broken() -> None:
    async with serving(b"") as server, client() as fetching:
        with pytest.raises(net.Broken) as caught:
            await fetching.get(f"http://{PUBLIC}:{server.port}/")
    assert len(server.requests) == 1
    fault = classify(caught.value)
    assert fault is not None
    assert fault.code == "network"


async def test_idle_connections_are_bounded_and_end_with_the_client() -> None:
    async with serving(OK) as server:
        hosts = {f"h{n}": [PUBLIC] for n in range(6)}
        async with client(resolver=names(**hosts), keep=2) as fetching:
            for host in (*hosts, "h5", "h4", "h0"):
                await fetching.get(f"http://{host}.example:{server.port}/")
        assert server.connections == 7  # h5 and h4 were kept, h0 was not


async def test_what_came_beyond_an_answer_is_never_taken_for_the_next_one() -> None:
    told = [OK + page(b"forged"), OK]
    async with serving(lambda _: told.pop(0)) as server, client() as fetching:
        for _ in range(2):
            assert (await fetching.get(f"http://{PUBLIC}:{server.port}/")).body == b"ok"
    assert (len(server.requests), server.connections) == (2, 2)


def test_a_kept_connection_on_which_something_comes_unasked_is_not_used_again() -> None:
    line = SocketStream()
    assert line.quiet
    line.data_received(b"HTTP/1.1 200 OK")
    assert not line.quiet


@pytest.mark.parametrize(
    "closed", [SocketStream.eof_received, lambda line: line.connection_lost(None), SocketStream.close]
)
def test_a_kept_connection_that_has_ended_is_not_used_again(closed: Callable[[SocketStream], None]) -> None:
    line = SocketStream()
    closed(line)
    assert not line.quiet


async def test_an_answer_in_another_protocol_is_broken() -> None:
    switched = b"HTTP/1.1 101 Switching\r\nUpgrade: odd\r\nConnection: Upgrade\r\n\r\n"
    async with serving(switched) as server, client() as fetching:
        with pytest.raises(net.Broken):
            await fetching.get(f"http://{PUBLIC}:{server.port}/")


async def test_one_who_sends_faster_than_we_read_has_to_wait() -> None:
    transport = Held()
    line = SocketStream()
    line.connection_made(transport)
    line.expect(10_000_000)
    while not transport.waits:
        line.data_received(bytes(100_000))
    assert len(await line.read()) <= 500_000
    assert not transport.waits


class Held(asyncio.Transport):
    """Notes whether the other side may send."""

    waits = False

    def pause_reading(self) -> None:
        self.waits = True

    def resume_reading(self) -> None:
        self.waits = False
