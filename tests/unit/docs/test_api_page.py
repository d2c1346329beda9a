"""The pages of the API and of the metrics have every route, every code and every metric, as the code says it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidegate import Breaker, Queue
from tidegate.web.api.routing import document
from tidegate.web.app import build
from tidegate.web.metrics import StoreCollector
from tidegate.web.problems import API_CODES
from tidegate.web.site import Site

DOCS = Path(__file__).parents[3] / "docs" / "reference"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Queue(f"sqlite:///{tmp_path_factory.mktemp('docs') / 'jobs.db'}") as queue:
        yield Site(queue=queue)


def on_the_page(page: str, start: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^\| {start}.*$", text, re.MULTILINE)


def test_every_route_is_on_the_page_with_what_it_does(site: Site) -> None:
    found = [
        f"| `{method.upper()}` | `{path}` | {_first_sentence(route['description'])} |"
        for path, methods in document(build(site))["paths"].items()
        for method, route in methods.items()
    ]
    assert on_the_page("api.md", "`(?:GET|POST|PUT|PATCH|DELETE)`") == found


def test_every_problem_is_on_the_page_with_its_status_and_advice() -> None:
    found = [
        f"| `{row.name}` | {row.status} | {'yes' if row.retriable else 'no'} | {row.title} {row.advice} |"
        for row in API_CODES.values()
    ]
    assert on_the_page("api.md", r"`[a-z_]+` \| \d") == found


def test_every_metric_is_on_the_page_with_its_labels(site: Site) -> None:
    breaker = Breaker("docs")
    found = []
    for family in StoreCollector(site).collect():
        names: Any = getattr(family, "_labelnames", ())
        name = family.name + ("_total" if family.type == "counter" else "")
        shown = ", ".join(f"`{label}`" for label in names)
        found.append(f"| `{name}` | {family.type} | {shown} | {family.documentation} |")
    assert breaker.state == "closed"
    assert on_the_page("metrics.md", "`[a-z_]+`") == found


def _first_sentence(text: str) -> str:
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())
