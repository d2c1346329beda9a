"""Every route of the whole server against its own description, asked by its people, by another one, and by nobody.

What it promises to take it takes, what it does not promise it refuses; nothing breaks, nobody gets in who may not, and
nobody reads what another one put in.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import (
    allow_header_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    unsupported_method,
)
from schemathesis.config import SchemathesisConfig
from starlette.types import Receive, Scope, Send

from tests.web.api.house import HERS, House, house, routes_of
from tidegate.web.auth import PUBLIC, permission_for

SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large]
# Those whose function asks for the right itself, since a token of a poller is enough.
ASKS_ITSELF = frozenset({
    ("GET", "/api/v1/sources"), ("GET", "/api/v1/sources/{id}"), ("PATCH", "/api/v1/sources/{id}"),
    ("PATCH", "/api/v1/sources/{id}/feed-disable"), ("PATCH", "/api/v1/sources/{id}/feed-enable"),
})  # fmt: skip
# What a description cannot say, or says more strictly than is asked for.
UNSAID = {
    "/api/upload": [positive_data_acceptance],  # not every file is a PDF
    "/api/v1/sources": [positive_data_acceptance],  # not every text is an address
    "/api/v1/sources/{id}": [positive_data_acceptance],
    # A PATCH there is of a source whose number is no number.
    "/api/v1/sources/opml": [positive_data_acceptance, unsupported_method, allow_header_conformance],
    "/api/v1/music/connections/{provider}": [positive_data_acceptance],  # each takes values of its own, or a login
    "/api/v1/tautulli/history": [negative_data_rejection],  # seconds are a moment, too
}
PATIENCE = 300.0  # seconds for an answer, on a machine that does much else
REFUSED = {400, 401, 404, 405, 406, 411, 413, 415, 422, 431}
OF_JOBS = ("/api/v1/jobs/", "/api/v1/explain/jobs/")
OF_UPLOADS = "/api/jobs/"
# Each asks in turn; the fourth is a token that nobody has.
ASKING = itertools.cycle(["ada", "otto", "bob", "somebody"])


class Door:
    """Leads to the server that is there now: one to read the description from, and later one to ask."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as folder, house(Path(folder), "testserver", simulators=False) as there:
            self.app = there.app
            self.some, self.every = self._described(edges=False), self._described(edges=True)

    def _described(self, *, edges: bool) -> Any:
        """The description; with *edges*, each is asked for at the bounds of what it takes, too."""
        config = SchemathesisConfig.from_dict({"seed": 1, "phases": {"coverage": {"enabled": edges}}})
        return schemathesis.openapi.from_asgi("/api/openapi.json", self, config=config)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


door = Door()


class Strangers:
    """The house, who may ask for what there, and how often it was asked."""

    def __init__(self, there: House) -> None:
        self.house = there
        self.free = {
            (method, path.replace(":path}", "}").replace(":target}", "}").replace(":queue}", "}"))
            for method, path, endpoint in routes_of(there.app)
            if permission_for(method, path, endpoint) == PUBLIC
        } - ASKS_ITSELF
        self.asked = 0
        self.keys = itertools.count()
        self.hers = there.put_in()

    def fitted(self, case: schemathesis.Case[Any]) -> None:
        """What is valid only for one who has talked with the server before."""
        self.asked += 1
        if self.asked % 100 == 0:
            self.hers = self.house.put_in()  # the one before may have been removed by somebody who may
        if case.meta is None or not case.meta.generation.mode.is_positive:
            return
        if "wait" in case.query:
            case.query["wait"] = min(float(case.query["wait"]), 0.01)  # nobody changes the job meanwhile
        case.query.pop("cursor", None)  # only the server can make one
        if "Idempotency-Key" in case.headers:
            case.headers["Idempotency-Key"] = f"k{next(self.keys)}"  # one that was used for another body is refused
        if self.asked % 2 and case.path.startswith(OF_JOBS):
            name = "job" if "job" in case.path_parameters else "id"
            case.path_parameters[name] = self.hers[0]
        if self.asked % 2 and case.path.startswith(OF_UPLOADS):
            case.path_parameters["id"] = self.hers[1]

    def ask(self, case: schemathesis.Case[Any]) -> None:
        self.fitted(case)
        who = next(ASKING)
        shown = self.house.headers(who) or {"authorization": "Bearer tg_nobody-has-this"}
        answer = case.call_and_validate(headers=shown, excluded_checks=UNSAID.get(case.path), timeout=PATIENCE)
        nobody = case.call(headers={"x-forwarded-for": "203.0.113.7"}, timeout=PATIENCE)
        assert HERS not in answer.text, f"{who} reads what ann put in"
        assert HERS not in nobody.text, "nobody reads what ann put in"
        assert nobody.status_code < 500, nobody.text
        route = (case.method.upper(), case.path)
        if route in self.free:
            return
        valid = case.meta is not None and case.meta.generation.mode.is_positive
        # What is no request at all may be refused before anybody asks who sent it.
        refused = {401} if valid and route not in ASKS_ITSELF else REFUSED
        assert nobody.status_code in refused, nobody.text
        if who == "somebody":
            assert answer.status_code in refused, answer.text


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    folder: Path = tmp_path_factory.mktemp("house")
    with house(folder, "testserver") as there:
        door.app = there.app
        yield Strangers(there)


def tried(examples: int) -> settings:
    """The same examples in every run."""
    return settings(
        max_examples=examples, derandomize=True, deadline=None, suppress_health_check=SLOW, database=None,
        phases=[Phase.explicit, Phase.generate],
    )  # fmt: skip


def test_every_route_under_api_is_in_the_description(strangers: Strangers) -> None:
    paths = strangers.house.app.openapi()["paths"]
    described = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    there = {
        (method, path.replace(":path}", "}").replace(":target}", "}").replace(":queue}", "}"))
        for method, path, _ in routes_of(strangers.house.app)
        if path.startswith("/api/") and path != "/api/openapi.json"
    }
    assert described == there
    assert len(described) > 80


@door.some.parametrize()  # type: ignore[untyped-decorator]
@tried(6)
def test_every_route_keeps_its_description(case: schemathesis.Case[Any], strangers: Strangers) -> None:
    strangers.ask(case)


@pytest.mark.long
@pytest.mark.one_process
@door.every.parametrize()  # type: ignore[untyped-decorator]
@tried(280)
def test_every_route_keeps_its_description_in_20_000_cases(case: schemathesis.Case[Any], strangers: Strangers) -> None:
    strangers.ask(case)


@pytest.mark.long
@pytest.mark.one_process
def test_those_were_20_000_cases(strangers: Strangers) -> None:
    assert strangers.asked >= 20_000
