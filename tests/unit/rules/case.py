"""One row of a table: what a service answered, and what that means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx2
import requests

from tidegate.faults.classification import classify
from tidegate.faults.evidence import collect_evidence
from tidegate.faults.fault import Fault
from tidegate.faults.rule import Pack

GOOD = "good"


@dataclass(frozen=True, slots=True)
class Answer:
    """The least that a response object of any library has."""

    status_code: int
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    url: str = "https://service.test/"


class Refused(Exception):
    """An exception that holds the answer it is about, as those of most clients do."""

    def __init__(self, response: object) -> None:
        super().__init__("refused")
        self.response = response


def answer(status: int, body: object = b"", url: str = "https://service.test/", **headers: str) -> Answer:
    """An answer with *body* as JSON unless it is text or bytes; headers are given with underscores."""
    if isinstance(body, str):
        body = body.encode()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(status, content, {name.replace("_", "-"): value for name, value in headers.items()}, url)


def page(status: int = 200, url: str = "https://service.test/") -> Answer:
    return answer(status, "<!DOCTYPE html>\n<html><body>Sign in</body></html>", url, content_type="text/html")


@dataclass(frozen=True, slots=True)
class Case:
    """*row* cites what the service is known to say; *verdict* is class/reason/reach, or good."""

    row: str
    given: object
    verdict: str
    code: str | None = None
    rule: str = ""  # of the pack, or of the general table as "status:404"
    retry_after: float | None = None

    def __str__(self) -> str:
        return self.row


def check(case: Case, pack: Pack) -> None:
    fault = classify(case.given, pack)
    assert verdict_of(fault) == case.verdict
    assert (fault.code if fault else None) == case.code
    assert (fault.retry_after if fault else None) == case.retry_after
    if ":" in case.rule:
        assert fault is not None
        assert fault.rule == case.rule
    else:
        assert decided_by(case, pack) == case.rule


def verdict_of(fault: Fault | None) -> str:
    if fault is None:
        return GOOD
    assert fault.fatal is not fault.retriable
    return f"{'fatal' if fault.fatal else 'retriable'}/{fault.reason}/{fault.reach}"


def decided_by(case: Case, pack: Pack) -> str:
    """The rule of the pack that decides; empty when none does."""
    rule = pack.first(collect_evidence(case.given))
    return "" if rule is None else rule.name


def as_httpx2(given: Answer) -> httpx2.Response:
    request = httpx2.Request("GET", given.url)
    return httpx2.Response(given.status_code, headers=dict(given.headers), content=given.content, request=request)


def as_requests(given: Answer) -> requests.Response:
    found = requests.Response()
    found.status_code = given.status_code
    found.headers.update(given.headers)
    found.url = given.url
    found._content = given.content  # noqa: SLF001 - the library offers no other way to make one
    return found
