"""A form is read piece by piece: nothing of it is held as a whole, and what is wrong with it is said."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import pytest
from starlette.requests import Request

from tidegate.web import Problem
from tidegate_apps.convert.storage import PIECE
from tidegate_apps.convert.uploads import UploadReceiver, check_length, name_of, receive

KIND = b"multipart/form-data; boundary=b"
FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\nContent-Type: application/pdf\r\n\r\n'
END = b"\r\n--b--\r\n"


@dataclass
class Heard:
    """A draft that only listens."""

    pieces: list[int] = field(default_factory=list)
    hash: Any = field(default_factory=hashlib.sha256)

    @property
    def size(self) -> int:
        return sum(self.pieces)

    @property
    def sha256(self) -> str:
        return str(self.hash.hexdigest())

    def add(self, data: bytes) -> None:
        self.pieces.append(len(data))
        self.hash.update(data)

    def seal(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class Sent:
    """A request, and how much of it was asked for."""

    def __init__(self, pieces: Iterable[bytes], kind: bytes = KIND, *, breaks: bool = False, length: str = "") -> None:
        self._pieces, self._breaks = list(pieces), breaks
        self.taken = 0
        given = [(b"content-type", kind), (b"content-length", length.encode("latin-1"))]
        self.request = Request({"type": "http", "method": "POST", "path": "/", "headers": given}, self._receive)

    async def _receive(self) -> dict[str, Any]:
        if self.taken == len(self._pieces):
            return {"type": "http.disconnect"}
        piece = self._pieces[self.taken]
        self.taken += 1
        more = self._breaks or self.taken < len(self._pieces)
        return {"type": "http.request", "body": piece, "more_body": more}


def got(sent: Sent, draft: Heard | None = None, most: int = 10_000_000) -> UploadReceiver:
    found = UploadReceiver(draft or Heard(), most)
    asyncio.run(receive(sent.request, found, 30))
    return found


def refused(sent: Sent, **more: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as told:
        got(sent, **more)
    return told.value.status_code, str(told.value.detail)


def test_a_file_comes_in_pieces_and_is_the_same_however_it_was_cut() -> None:
    content = b"%PDF-1.7 " + bytes(range(256)) * 4000 + b"\r\n--"
    whole = FILE + content + END
    for size in (1_000_000, 65_536, 4093):
        draft = Heard()
        found = got(Sent(whole[n : n + size] for n in range(0, len(whole), size)), draft)
        assert (found.name, found.bytes, found.is_pdf) == ("a.pdf", len(content), True)
        assert draft.sha256 == hashlib.sha256(content).hexdigest()
        assert max(draft.pieces) <= PIECE + size
    assert got(Sent([*(whole[n : n + 1] for n in range(200)), whole[200:]])).bytes == len(content)


@pytest.mark.req("CNV-02")
def test_what_is_too_large_is_not_read_to_its_end() -> None:
    sent = Sent([FILE + b"%PDF-", *[b"x" * 65_536] * 1000, END])
    draft = Heard()
    assert refused(sent, draft=draft, most=1_000_000)[0] == 413
    assert sent.taken < 30, "about a megabyte of 65"
    assert draft.size <= 1_000_000


def test_fields_may_stand_before_and_behind_the_file() -> None:
    field_ = b'--b\r\nContent-Disposition: form-data; name="mapping"\r\n\r\nlayout\r\n'
    assert got(Sent([field_ + FILE + b"%PDF-" + END])).fields == {"mapping": "layout"}
    assert got(Sent([FILE + b"%PDF-\r\n" + field_ + b"--b--\r\n"])).fields == {"mapping": "layout"}


@pytest.mark.parametrize(
    ("pieces", "kind", "says"),
    [
        ([b"{}"], b"application/json", "multipart/form-data"),
        ([b""], b"multipart/form-data", "multipart/form-data"),
        ([b"no form"], KIND, "cannot be read"),
        ([b"--" + b"b" * 500 + b"\r\n"], b"multipart/form-data; boundary=" + b"b" * 500, "cannot be read"),
        ([FILE + b"%PDF-1.7"], KIND, "cannot be read"),
        ([FILE + b"%PDF-\r\n" + FILE + b"%PDF-" + END], KIND, "file"),
        ([FILE.replace(b'"file"', b'"other"') + b"%PDF-" + END], KIND, "field file"),
        ([b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"x" * 2000 + END], KIND, "too long"),
        ([b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n' * 2 + b"--b--\r\n"], KIND, "give it once"),
        ([b"--b\r\nX-Long: " + b"x" * 20_000 + b"\r\n\r\n" + END], KIND, "cannot be read"),
        ([b"--b\r\n", *[b"X-%d: y\r\n" % n * 100 for n in range(1000)], b"\r\n" + END], KIND, "cannot be read"),
        ([FILE + b"%PDF-" + END, *[b"more " * 1000] * 1000], KIND, "cannot be read"),
        (
            [b'--b\r\nContent-Disposition: form-data; name="%d"\r\n\r\nx\r\n' % n for n in range(30)],
            KIND, "At most 20",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_form_is_said(pieces: list[bytes], kind: bytes, says: str) -> None:
    status, detail = refused(Sent(pieces, kind))
    assert 400 <= status < 500
    assert says in detail


def test_a_client_that_goes_away_is_no_upload() -> None:
    assert refused(Sent([FILE + b"%PDF-"], breaks=True))[0] == 400


def test_an_upload_that_takes_too_long_ends() -> None:
    async def never() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    headers = [(b"content-type", KIND)]
    request = Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, never)
    with pytest.raises(Problem) as told:
        asyncio.run(receive(request, UploadReceiver(Heard(), 1000), 0.05))
    assert told.value.status_code == 408


@pytest.mark.parametrize("stated", ["52428801", "52494337", "99999999999"])
def test_what_says_itself_that_it_is_too_large_is_refused_at_once(stated: str) -> None:
    sent = Sent([], length=stated)
    if int(stated) <= 52428800 + 64 * 1024:
        check_length(sent.request, 52428800)  # the form around the file has a size, too
    else:
        with pytest.raises(Problem) as told:
            check_length(sent.request, 52428800)
        assert told.value.code == "TOO_LARGE"


def test_a_length_that_is_no_number_is_no_length() -> None:
    check_length(Sent([], length="\xb2").request, 1000)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (b"a.pdf", "a.pdf"),
        (b"../../etc/passwd", "passwd"),
        (b"C:\\Users\\ada\\a.pdf", "a.pdf"),
        (b"", "document.pdf"),
        (b"a\x00\x1b[31m\r\nb.pdf", "a[31mb.pdf"),
        ("ü\u202e.pdf".encode(), "ü.pdf"),
        (b"x" * 500, "x" * 200),
        (b"\xff\xfe", "��"),
    ],
)
def test_a_name_is_one_line_without_folders(given: bytes, name: str) -> None:
    assert name_of(given) == name
