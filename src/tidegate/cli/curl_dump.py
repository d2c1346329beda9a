"""Reads an answer as `curl -i` prints it: status line, headers, a blank line, the body."""

from __future__ import annotations

import re

from tidegate.ops.verdicts import ObservedResponse

_STATUS = re.compile(rb"HTTP/[0-9](?:\.[0-9])?[ \t]+([1-5][0-9]{2})(?:[ \t][^\r\n]*)?\r?(?:\n|\Z)")
_END = re.compile(rb"\r?\n\r?\n")


def parse_dump(dump: bytes) -> ObservedResponse | None:
    """The last answer in *dump*: earlier ones are redirects, proxies and "100 Continue". None when there is none."""
    rest = dump.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n \t")
    found: ObservedResponse | None = None
    while (line := _STATUS.match(rest)) is not None:
        status, rest = int(line[1]), rest[line.end() :]
        if rest.startswith((b"\n", b"\r\n")):  # no header at all
            head, rest = b"", rest[2:] if rest.startswith(b"\r\n") else rest[1:]
        else:
            end = _END.search(rest)
            head, rest = (rest, b"") if end is None else (rest[: end.start()], rest[end.end() :])
        found = ObservedResponse(
            status_code=status, headers=headers_of(head.decode("latin-1").splitlines()), content=rest
        )
    return found


def headers_of(lines: list[str]) -> dict[str, str]:
    """Headers by lower-case name; a name that stands twice has its values joined, a line that is none is left out."""
    found: dict[str, str] = {}
    for each in lines:
        name, colon, value = each.partition(":")
        name, value = name.strip().lower(), value.strip()
        if colon and name:
            found[name] = f"{found[name]}, {value}" if name in found else value
    return found
