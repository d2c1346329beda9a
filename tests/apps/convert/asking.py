"""How tests ask a gateway, and read what it says."""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

from functools import cache
from typing import Any

import httpx2
from lxml import etree

from tidegate_apps.convert.gateway import Mappings

XML = {"Accept": "application/xml"}


def process(
    url: str,
    pdf: bytes,
    mapping: str = "layout",
    *,
    kind: str = "application/pdf",
    accept: str = "application/xml",
    **fields: str,
) -> httpx2.Response:
    """One conversion over HTTP."""
    return httpx2.post(
        f"{url}/process", files={"file": ("document.pdf", pdf, kind)}, data={"mapping": mapping, **fields},
        headers={"Accept": accept}, timeout=60,
    )  # fmt: skip


def valid(answer: httpx2.Response, mapping: str = "layout") -> Any:
    """The root of the XML in an answer that is as it should be, which the published schema says, too."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/xml"
    root = etree.fromstring(answer.content)
    schema_of(mapping).assertValid(root)
    return root


def refusal(answer: httpx2.Response) -> tuple[int, str]:
    """Status and code of an answer that is a problem."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    said = answer.json()
    assert said["status"] == answer.status_code
    assert said["retriable"] is (answer.status_code >= 500)
    return answer.status_code, said["code"]


@cache
def schema_of(mapping: str) -> Any:
    return etree.XMLSchema(etree.fromstring(Mappings().schema(mapping)))
