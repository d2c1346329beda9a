"""`tidegate classify`: the classification of a response or message, and the rule that matched."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from tidegate.admin.classification import ObservedResponse, packs, verdict
from tidegate.cli.exits import Exit
from tidegate.cli.root import Command, suggestion
from tidegate.clock import SYSTEM
from tidegate.durations import brief, seconds
from tidegate.faults.fault import Fault, Reach, Reason
from tidegate.faults.rule import Pack

# -- curl dump ---------------------------------------------------------------------------------------------------------
#
# Output of `curl -i`: status line, headers, a blank line, the body.

_STATUS = re.compile(rb"HTTP/[0-9](?:\.[0-9])?[ \t]+([1-5][0-9]{2})(?:[ \t][^\r\n]*)?\r?(?:\n|\Z)")
_END = re.compile(rb"\r?\n\r?\n")


def parse_dump(dump: bytes) -> ObservedResponse | None:
    """Return the last response in *dump*. Earlier ones are redirects, proxies and "100 Continue". None without any."""
    rest = dump.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n \t")
    response: ObservedResponse | None = None
    while (line := _STATUS.match(rest)) is not None:
        status, rest = int(line[1]), rest[line.end() :]
        if rest.startswith((b"\n", b"\r\n")):  # without headers
            head, rest = b"", rest[2:] if rest.startswith(b"\r\n") else rest[1:]
        else:
            end = _END.search(rest)
            head, rest = (rest, b"") if end is None else (rest[: end.start()], rest[end.end() :])
        response = ObservedResponse(
            status_code=status, headers=headers_of(head.decode("latin-1").splitlines()), content=rest
        )
    return response


def headers_of(lines: list[str]) -> dict[str, str]:
    """Parse headers by lower-case name. Repeated headers are joined, invalid lines are skipped."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        if colon and name:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


# -- output ------------------------------------------------------------------------------------------------------------

_WIDTH, _LABEL = 80, 16

WHOSE = {
    Reason.TRANSIENT: "the service's, probably for a short time",
    Reason.THROTTLED: "the program's: it called too often",
    Reason.OVERLOADED: "the service's: it is overloaded",
    Reason.CANCELLED: "none: the program cancelled the call",
    Reason.AUTH: "the account's: it must be authorised again",
    Reason.QUOTA: "the account's: its plan or its balance",
    Reason.CONFIG: "the operator's: a setting is wrong",
    Reason.CONTRACT: "the service's or the program's: they do not use the same protocol",
    Reason.ITEM: "this request's",
}
REACHES = {
    Reach.ITEM: "this item only",
    Reach.OPERATION: "this kind of call only",
    Reach.CREDENTIAL: "this account only",
    Reach.TARGET: "the whole service",
    Reach.SELF: "this machine; the service works",
}
_BREAKER = {True: "a failure", False: "a success: the service responded", None: "neither a failure nor a success"}


def lines(fault: Fault | None, evidence: object, rule_pack: Pack | None) -> Iterator[str]:
    """Format the verdict in up to 80 columns."""
    if fault is None:
        status = f" (status {evidence.status_code})" if isinstance(evidence, ObservedResponse) else ""
        yield f"a successful response{status}"
        return
    yield f"{fault.code}: {'fatal, a retry does not help' if fault.fatal else 'retriable'}"
    yield ""
    yield from _row("what happened", fault.message)
    yield from _row("what to do", fault.advice)
    yield from _row("whose fault", WHOSE[fault.reason])
    yield from _row("affects", REACHES[fault.reach])
    if fault.retry_after is not None:
        yield from _row("retry after", f"{brief(fault.retry_after)}, as the service asked")
    yield from _row("for a breaker", _BREAKER[fault.counts_as_failure])
    yield from _row("in the log", str(fault.level))
    yield from _row("decided by", f"{fault.rule}{' (no rule matched)' if fault.unclassified else ''}")
    yield from _unconfirmed_lines(fault, rule_pack)


def _unconfirmed_lines(fault: Fault, rule_pack: Pack | None) -> Iterator[str]:
    for rule in () if rule_pack is None else rule_pack.confirm:
        if rule.code == fault.code and rule.times > 1 and rule.probe is None:
            apart = f", at least {brief(seconds(rule.apart))} apart" if rule.apart else ""
            yield from _row(
                "confirmed", f"by a target after {rule.times} occurrences{apart}; until then {rule.until_then}"
            )


def _row(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"  {label:<{_LABEL}}",
        subsequent_indent=" " * (_LABEL + 2),
        break_on_hyphens=False,
    )


# The classifier reads 4 kB of the body. Long headers and redirects may precede it.
_MAX_BODY = 1_000_000
_PACKS = packs()


def _pack(ctx: click.Context, param: click.Parameter, value: str | None) -> Pack | None:
    if value is not None and value not in _PACKS:
        raise click.BadParameter(f"unknown rule pack {value!r}; {suggestion(value, list(_PACKS))}", ctx, param)
    return None if value is None else _PACKS[value]


@click.command(
    cls=Command,
    epilog="""
    curl -si https://api.example.org/thing | tidegate classify
    tidegate classify --status 429 --header 'Retry-After: 120' --rules spotify
    tidegate classify --message 'connection reset by peer'
    """,
)
@click.option("--status", type=click.IntRange(100, 599), help="HTTP status of the response.")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Header of the response; repeatable.")
@click.option("--body", help="Body of the response.")
@click.option("--body-file", metavar="FILE", help="File with the body; - for standard input.")
@click.option("--url", default="", help="URL that was called; some rules check its path.")
@click.option("--message", help="Message of an exception, instead of a response.")
@click.option(
    "--rules", callback=_pack, metavar="PACK", help=f"Rules of one service, checked first: {', '.join(_PACKS)}."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.argument("dump", required=False, metavar="[DUMP]")
def classify(
    status: int | None,
    headers: tuple[str, ...],
    body: str | None,
    body_file: str | None,
    url: str,
    message: str | None,
    rules: Pack | None,
    as_json: bool,
    dump: str | None,
) -> int:
    """Classify a response or an error message, and name the rule that decided.

    DUMP is the output of `curl -i`: a file, or - for standard input, which is also read without any argument. With
    --status, - is the body on standard input.

    Exit code 0: a successful response; 1: a fault.
    """
    _check_headers(headers)
    if message is not None:
        if status is not None or headers or url or dump is not None or body is not None or body_file is not None:
            raise click.UsageError(
                "--message was combined with parts of a response; give only the message, or only the response"
            )
        evidence: object = message
    elif status is not None:
        content = _body(body, body_file, dump)
        evidence = ObservedResponse(status_code=status, headers=headers_of(list(headers)), content=content, url=url)
    else:
        if headers or body is not None or body_file is not None:
            raise click.UsageError("a header or a body was given without a status; add one, such as --status 200")
        evidence = _dumped(dump, url)
    result = verdict(evidence, rules, SYSTEM.now())
    if as_json:
        click.echo(json.dumps(result.as_json(), indent=2))
    else:
        for line in lines(result.fault, evidence, rules):
            click.echo(line)
    return Exit.OK if result.fault is None else Exit.NEGATIVE


def _check_headers(headers: tuple[str, ...]) -> None:
    for header in headers:
        if ":" not in header.strip(": "):
            raise click.UsageError(f"--header: {header!r} is not a header; write it as 'Retry-After: 120'")


def _body(body: str | None, body_file: str | None, dump: str | None) -> bytes:
    if sum(value is not None for value in (body, body_file, dump)) > 1:
        raise click.UsageError("more than one body was given; give one of --body, --body-file and -")
    if body is not None:
        return os.fsencode(body)  # the exact bytes from the shell, valid text or not
    source = body_file if body_file is not None else dump
    return b"" if source is None else _read(source)


def _dumped(dump: str | None, url: str) -> ObservedResponse:
    if dump is None and sys.stdin.isatty():
        raise click.UsageError(
            "nothing to classify was given; give --status, --message, or the output of `curl -i` on standard input"
        )
    response = parse_dump(_read(dump or "-"))
    if response is None:
        raise click.UsageError(
            "the input is not the output of `curl -i`; its first line must be like 'HTTP/1.1 503 Service Unavailable'"
        )
    return ObservedResponse(
        status_code=response.status_code, headers=response.headers, content=response.content, url=url
    )


def _read(source: str) -> bytes:
    if source == "-":
        return sys.stdin.buffer.read(_MAX_BODY)
    try:
        with Path(source).open("rb") as file:
            return file.read(_MAX_BODY)
    except OSError as error:
        raise click.UsageError(
            f"{source} cannot be read ({error.strerror or type(error).__name__}); give an existing file, or -"
        ) from error
