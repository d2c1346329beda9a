"""What an answer or an exception means, asked by a person: the command line, the API and the page say the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tidegate import rules
from tidegate.faults.classification import classify
from tidegate.faults.exceptions import NAMES
from tidegate.faults.fault import Fault
from tidegate.faults.rule import Pack

SCHEMA = "tidegate.verdict/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedResponse:
    """An answer, with the attributes that the classifier looks for; names of headers are in lower case."""

    status_code: int
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Classification:
    """What it means; without a fault it is a good answer."""

    fault: Fault | None

    def as_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "good": self.fault is None, "fault": self.fault and self.fault.as_json()}


@cache
def packs() -> dict[str, Pack]:
    """The rule packs by the name of their service."""
    return {pack.name: pack for pack in rules.PACKS}


def verdict(seen: object, rule_pack: Pack | None, now: float) -> Classification:
    """The verdict on an answer, an exception, or a message."""
    return Classification(classify(seen, rule_pack, now=now))


def exception_named(name: str, message: str) -> Exception:
    """An exception as if one of that name had been caught: 'httpx.ConnectTimeout', 'ConnectionResetError'.

    A name that nobody knows says nothing, and its message is all there is.
    """
    module, _, plain = name.rpartition(".")
    package = module.partition(".")[0] or "builtins"
    return _stand_in(package, plain)(message) if plain in NAMES.get(package, {}) else Exception(message)


@cache
def _stand_in(package: str, name: str) -> type[Exception]:
    # The classifier goes by names, so that it need not import what it knows.
    return type(name, (Exception,), {"__module__": package})
