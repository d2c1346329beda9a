"""A code on a page leads to what it means, if the server knows that; one that only a program knows is a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import Request, Response
from starlette.testclient import TestClient

from tests.web.local import LocalClient
from tidegate import Fail, Queue, Target, outbox
from tidegate.apps import App, Installed, Page, install
from tidegate.clock import VirtualClock
from tidegate.faults.codes import Code
from tidegate.faults.fault import Reach, Reason
from tidegate.outbox import NewNotice, NoticeSubject
from tidegate.web.app import build
from tidegate.web.problems import Problem
from tidegate.web.site import Site

HERE = "http://127.0.0.1"
OWN = Code(name="no_stamp", reason=Reason.AUTH, reach=Reach.CREDENTIAL, message="No stamp.", advice="Buy one.")


def _refuses(request: Request, _: Installed[None]) -> Response:
    raise Problem("no_stamp", "There is no stamp on it.", status=409)


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[TestClient]:
    """A job that gave up with a code of the server's book, one with a code of its program, and a notice of each."""
    app: App[None] = App(name="post", pages=[Page(path="/post", title="Post", show=_refuses)])
    with Queue(f"sqlite:///{tmp_path / 'codes.db'}", clock=VirtualClock(), inline=True) as q:

        @q.job(queue="mail", target=Target("pigeons"), key=str, attempts=1)
        def send(code: str) -> None:
            raise Fail(code, "It did not work.", fault=OWN.fault("test") if code == OWN.name else None)

        for code in ("not_found", "no_stamp"):
            send.enqueue(code)
            told = NewNotice(
                kind="fatal",
                level="error",
                place=NoticeSubject(subject="target", name="pigeons", lane=code),
                episode=1.0,
                title=f"Pigeons: {code}",
                message="They do not fly.",
                code=code,
            )
            q.store.write(lambda tx, told=told: outbox.raise_notice(tx, told))  # type: ignore[misc]
        q.drain()
        with LocalClient(
            build(Site(queue=q, apps=[install(app, q)])), client=("127.0.0.1", 50000), base_url=HERE
        ) as found:
            yield found


@pytest.mark.parametrize(
    ("path", "known"),
    [("/jobs/1", True), ("/jobs/2", False), ("/failures", True), ("/notices", True), ("/targets/pigeons", False),
     ("/post", False)],
)  # fmt: skip
def test_a_code_is_a_link_where_the_server_knows_it_and_a_word_where_it_does_not(
    pages: TestClient, path: str, known: bool
) -> None:
    text = pages.get(path).text
    links = re.findall(r'href="(/help/errors/[^"]+)"', text)

    assert ("/help/errors/not_found" in links) is known
    assert [link for link in links if pages.get(link).status_code != 200] == []
    assert "no_stamp" in text or path == "/jobs/1"
