"""What `curl -i` prints, read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.admin.classification import ObservedResponse
from tidegate.cli.classify import headers_of, parse_dump

HEAD = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 30\r\nContent-Type: text/plain\r\n\r\nbusy\r\n\r\nvery"


@pytest.mark.parametrize(
    "dump", [HEAD, HEAD.replace(b"\r\n", b"\n"), b"\xef\xbb\xbf\r\n" + HEAD], ids=["crlf", "lf", "bom"]
)
def test_status_headers_and_body_are_told_apart(dump: bytes) -> None:
    found = parse_dump(dump)

    assert found is not None
    assert (found.status_code, found.headers["retry-after"]) == (503, "30")
    assert found.content.split() == [b"busy", b"very"]


@pytest.mark.parametrize(
    "line", [b"HTTP/2 404 \r\n", b"HTTP/2 404\n", b"HTTP/3 404\r\n", b"HTTP/1.0 404 Not Found\n", b"HTTP/2 404"]
)
def test_every_form_of_the_status_line_is_known(line: bytes) -> None:
    found = parse_dump(line + b"server: x\n\nbody" if line.endswith(b"\n") else line)

    assert found is not None
    assert found.status_code == 404


def test_of_several_answers_the_last_one_counts() -> None:
    proxy = b"HTTP/1.1 200 Connection established\r\n\r\n"
    moved = b"HTTP/1.1 301 Moved\r\nLocation: /there\r\n\r\n"
    go_on = b"HTTP/1.1 100 Continue\r\n\r\n"

    assert parse_dump(proxy + moved + go_on + HEAD) == parse_dump(HEAD)


def test_an_answer_without_headers_has_a_body_all_the_same() -> None:
    assert parse_dump(b"HTTP/1.1 500 No\n\nbody: not a header\n") == ObservedResponse(
        status_code=500, content=b"body: not a header\n"
    )


@pytest.mark.parametrize(
    "dump", [b"", b"\n\n", b"<html>", b"http/1.1 200", b"HTTP/1.1 999 No", b"HTTP/1.1 OK", b"\x00\xff"]
)
def test_what_is_no_answer_is_none(dump: bytes) -> None:
    assert parse_dump(dump) is None


def test_a_header_that_stands_twice_is_joined_and_a_broken_line_left_out() -> None:
    assert headers_of(["Via: a", "via: b", "nonsense", ": empty", "X-Time: 10:30"]) == {
        "via": "a, b",
        "x-time": "10:30",
    }


@given(
    st.binary(max_size=300)
    | st.lists(st.sampled_from([b"HTTP/1.1 200 OK", b"HTTP/2 429", b"a: b", b"\r\n", b"\n", b":", b" ", b"\xff"])).map(
        b"".join
    )
)
def test_nothing_that_is_read_raises(dump: bytes) -> None:
    found = parse_dump(dump)

    assert found is None or 100 <= found.status_code <= 599
