"""Every route against its own description: what it promises to take it takes, what it does not promise it refuses."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.config import SchemathesisConfig

from tests.web.api.building import Shop, served

_FOLDER = tempfile.TemporaryDirectory()
_SHOP = Shop(Path(_FOLDER.name))
_APP = served(_SHOP, hosts=["testserver"])
_CONFIG = SchemathesisConfig(seed=1)
schema = schemathesis.openapi.from_asgi("/api/openapi.json", _APP, config=_CONFIG)
_keys = itertools.count()

SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.fixture(scope="module", autouse=True)
def shop_with_jobs() -> Iterator[None]:
    with _SHOP.queue:
        _SHOP.fill()
        yield
    _FOLDER.cleanup()


def tried(examples: int) -> settings:
    """The same examples in every run."""
    return settings(
        max_examples=examples, derandomize=True, deadline=None, suppress_health_check=SLOW, database=None,
        phases=[Phase.explicit, Phase.generate],
    )  # fmt: skip


@pytest.mark.long
@schema.parametrize()
@tried(200)
def test_every_route_keeps_its_description_whatever_is_sent(case: schemathesis.Case[Any]) -> None:
    _fitted(case)
    case.call_and_validate()


@schema.parametrize()
@tried(12)
def test_every_route_keeps_its_description(case: schemathesis.Case[Any]) -> None:
    _fitted(case)
    case.call_and_validate()


def _fitted(case: schemathesis.Case[Any]) -> None:
    """What is valid only for one who has talked with the server before."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if "wait" in case.query:
        case.query["wait"] = min(float(case.query["wait"]), 0.01)  # nobody changes the job meanwhile
    if case.path == "/api/v1/targets":
        case.query.pop("cursor", None)  # only the server can make one
    if "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = f"k{next(_keys)}"  # one that was used for another body is refused
