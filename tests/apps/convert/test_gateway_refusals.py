"""What the gateway refuses, over real HTTP: each with a status, a code, and nothing left behind."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.apps.convert import pdfs
from tests.apps.convert.asking import process, refusal, valid
from tests.apps.convert.waiting import until
from tests.text import names
from tidegate_apps.convert.gateway import Embedded, GatewayLimits
from tidegate_apps.convert.gateway.config import ROWS

LIMIT = 100_000
BOUNDARY = {"Content-Type": "multipart/form-data; boundary=b", "Accept": "application/xml"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    with Embedded(GatewayLimits(pdf_bytes=LIMIT, xml_bytes=200_000, folder=home)) as found:
        yield found


@pytest.fixture(autouse=True)
def _nothing_is_left(home: Path, url: str) -> Iterator[None]:
    yield
    assert [each.name for each in home.rglob("*") if each.is_file()] == ["lock"]


@pytest.mark.parametrize(
    ("pdf", "status", "code"),
    [
        (pdfs.ZERO, 400, "not_pdf"),
        (pdfs.zip_renamed(), 400, "not_pdf"),
        (pdfs.hidden_pdf(), 400, "not_pdf"),
        (b"%PDF", 400, "not_pdf"),
        (pdfs.BROKEN, 422, "broken"),
        (pdfs.truncated(), 422, "broken"),
        (pdfs.encrypted(), 422, "encrypted"),
        (pdfs.text(20), 422, "result_too_large"),
        (pdfs.text() + b" " * LIMIT, 413, "too_large"),
    ],
    ids=["zero", "zip", "hidden", "short", "broken", "truncated", "encrypted", "long", "large"],
)
def test_a_file_that_cannot_be_converted_is_refused_with_a_code(url: str, pdf: bytes, status: int, code: str) -> None:
    assert refusal(process(url, pdf)) == (status, code)
    valid(process(url, pdfs.text()))


@pytest.mark.parametrize("mapping", ["none", "", "Layout", "../layout", "_frame", "layout\0", "x" * 5000])
def test_an_unknown_mapping_is_refused_with_those_that_there_are(url: str, mapping: str) -> None:
    answer = process(url, pdfs.text(), mapping)

    assert refusal(answer) == (400, "unknown_mapping")
    assert names(answer.json()["detail"], "layout", "text")


@pytest.mark.parametrize("accept", ["application/json", "text/html", "application/xml;q=0", "image/*, text/plain"])
def test_a_client_that_takes_no_xml_gets_406(url: str, accept: str) -> None:
    assert refusal(process(url, pdfs.text(), accept=accept)) == (406, "not_acceptable")


@pytest.mark.parametrize("kind", ["image/png", "application/zip", "text/plain; charset=utf-8"])
def test_a_file_of_another_type_gets_415(url: str, kind: str) -> None:
    assert refusal(process(url, pdfs.text(), kind=kind)) == (415, "media_type")


def test_a_request_that_is_no_form_gets_415(url: str) -> None:
    for headers in ({"Content-Type": "application/pdf"}, {}):
        assert refusal(httpx2.post(f"{url}/process", content=pdfs.text(), headers=headers, timeout=60)) == (
            415,
            "media_type",
        )


@pytest.mark.parametrize(
    "fields",
    [{"pretty": "maybe"}, {"job_id": "a b"}, {"job_id": "x" * 129}, {"note": "x" * 20_000}],
    ids=["pretty", "job_id", "long job_id", "long field"],
)
def test_a_field_that_is_not_allowed_gets_400(url: str, fields: dict[str, str]) -> None:
    assert refusal(process(url, pdfs.text(), **fields)) == (400, "malformed")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nothing like a form",
        b'--b\r\nContent-Disposition: form-data; name="mapping"\r\n\r\nlayout\r\n--b--\r\n',
        b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n%PDF-1.7 and then it en',
        b'--b\r\nContent-Disposition: form-data; name="mapping"\r\n\r\nlayout\r\n' * 2 + b"--b--\r\n",
        b"".join(b'--b\r\nContent-Disposition: form-data; name="%d"\r\n\r\n\r\n' % each for each in range(20)),
        b"--b\r\n" + b"X-Header: y\r\n" * 5000,
    ],
    ids=["empty", "no form", "no file", "cut off", "twice", "many parts", "many headers"],
)
def test_a_form_that_is_not_in_order_gets_400(url: str, body: bytes) -> None:
    assert refusal(httpx2.post(f"{url}/process", content=body, headers=BOUNDARY, timeout=60)) == (400, "malformed")


def test_a_boundary_that_is_too_long_gets_400(url: str) -> None:
    headers = {**BOUNDARY, "Content-Type": f"multipart/form-data; boundary={'b' * 500}"}
    assert refusal(httpx2.post(f"{url}/process", content=b"--b", headers=headers, timeout=60)) == (400, "malformed")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large_is_refused_while_it_arrives(url: str, chunked: bool) -> None:
    head = b'--b\r\nContent-Disposition: form-data; name="file"\r\nContent-Type: application/pdf\r\n\r\n%PDF-1.7\n'

    def pieces() -> Iterator[bytes]:
        yield head
        for _ in range(8):
            yield b"x" * 32_768

    content = pieces() if chunked else b"".join(pieces())  # of which neither has an end
    answer = httpx2.post(f"{url}/process", content=content, headers=BOUNDARY, timeout=60)

    assert refusal(answer) == (413, "too_large")
    assert answer.json()["most_bytes"] == LIMIT
    assert f"{LIMIT:,} bytes" in answer.json()["detail"]


def test_other_addresses_and_methods_are_refused_as_problems(url: str) -> None:
    assert refusal(httpx2.get(f"{url}/", timeout=60)) == (404, "not_there")
    wrong = httpx2.get(f"{url}/process", timeout=60)
    assert refusal(wrong) == (405, "method")
    assert wrong.headers["allow"] == "POST"


def test_a_client_that_goes_away_leaves_nothing_behind(url: str, home: Path) -> None:
    with connected(url) as client:
        client.sendall(
            b"POST /process HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n"
            b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
            b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n%PDF-1.7\n'
        )
        until(lambda: len(list(home.rglob("upload-*"))) == 1)
    until(lambda: not list(home.rglob("upload-*")))


def test_only_so_many_bodies_arrive_at_a_time(tmp_path: Path) -> None:
    with Embedded(GatewayLimits(uploads=1, folder=tmp_path)) as url:
        with connected(url) as client:
            client.sendall(
                b"POST /process HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n"
                b"Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n"
            )
            until(lambda: list(tmp_path.rglob("upload-*")))
            answer = process(url, pdfs.text())
            assert refusal(answer) == (503, "busy")
            assert answer.headers["retry-after"] == "5"
        until(lambda: not list(tmp_path.rglob("upload-*")))
        until(lambda: process(url, pdfs.text()).status_code == 200)


def test_a_body_that_takes_too_long_is_refused(tmp_path: Path) -> None:
    with Embedded(GatewayLimits(body_time=0.05, folder=tmp_path)) as url, connected(url) as client:
        client.sendall(
            b"POST /process HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n"
            b"Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n"
        )
        assert client.recv(1000).startswith(b"HTTP/1.1 408 ")


def connected(url: str) -> socket.socket:
    where = urlsplit(url)
    return socket.create_connection((where.hostname or "", where.port or 0), timeout=60)


def test_every_row_of_the_table_has_a_status_and_a_sentence() -> None:
    for code, row in ROWS.items():
        assert 400 <= row.status < 600, code
        assert row.title.endswith("."), code
