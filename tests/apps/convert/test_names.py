"""Two hundred names that a stranger may give to a file: none says where it is kept, none leaves its header."""

from __future__ import annotations

import re
from itertools import product

import pytest

from tests.apps.convert.building import Place, pdf

STEMS = (
    "..",
    "../../../../etc/passwd",
    "..\\..\\windows\\win.ini",
    "%2e%2e%2fetc%2fpasswd",
    "%00",
    "a\0b",
    "a\r\nX-Evil: 1",
    "a\nSet-Cookie: a=b",
    "\\\\server\\share\\a",
    "//server/share/a",
    "C:a",
    "CON",
    "NUL",
    "COM1",
    "/dev/null",
    "~/.ssh/id",
    "file:///etc/passwd",
    "x" * 300,
    "\u202efdp",
    "\u2066a\u2069",
    "a\u2028b",
    "\U0001f30a" * 90,
    "\ufeffa",
    'a\\"; filename=b',
    "a'b",
    "a;b",
    "a%0d%0ab",
    "$(id)",
    "`id`",
    "|id",
    "-rf",
    "<script>",
    "{{7*7}}",
    "a\tb",
    " ",
    ".",
    "a\x7fb",
    "\xad",
    "e\u0301",
    "\ud7ff\ue000",
)
ENDS = ("", ".pdf", "/", "\\", ".pdf\0.xml")
HEADER = re.compile(r"""attachment; filename="[ !#-$&-\[\]-~]*"; filename\*=UTF-8''[A-Za-z0-9%._~-]+""")


def upload(place: Place, name: str) -> str:
    head = b'--B\r\nContent-Disposition: form-data; name="file"; filename="' + name.encode() + b'"\r\n'
    body = head + b"Content-Type: application/pdf\r\n\r\n" + pdf() + b"\r\n--B--\r\n"
    answer = place.client.post("/api/upload", content=body, headers={"content-type": "multipart/form-data; boundary=B"})
    assert answer.status_code in (202, 400, 422), (name, answer.text)
    return str(answer.json().get("id", ""))


@pytest.mark.long
def test_no_name_says_where_a_file_is_kept_and_none_leaves_its_header(place: Place) -> None:
    names = [stem + end for stem, end in product(STEMS, ENDS)]
    assert len(names) == 200
    jobs = [job for name in names if (job := upload(place, name))]
    assert len(jobs) > 150
    place.work(3600.0)
    for job in jobs:
        got = place.client.get(f"/api/jobs/{job}/download")
        assert got.status_code == 200, got.text
        assert HEADER.fullmatch(got.headers["content-disposition"]), got.headers["content-disposition"]
        assert {"x-evil", "set-cookie"}.isdisjoint(got.headers)
        shown = place.get(job)["original_filename"]
        assert shown.isprintable()
        assert not {"/", "\\"} & {*shown}
    kept = [path for path in place.folder.rglob("*") if path.is_file()]
    assert len(kept) >= 2 * len(jobs)
    assert [path.name for path in kept if not re.fullmatch(r"[0-9a-z-]+(\.[a-z]+)?", path.name)] == []
