"""Classifies a response or an exception for a user. Command line, API and page share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from tidegate import rules
from tidegate.faults.classification import classify
from tidegate.faults.exceptions import NAMES
from tidegate.faults.fault import Fault
from tidegate.faults.rule import Pack

SCHEMA = "tidegate.verdict/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedResponse:
    """A response with the attributes that the classifier reads. Header names are lower case."""

    status_code: int
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Classification:
    """The result. Without a fault the response is a success."""

    fault: Fault | None

    def as_json(self) -> dict[str, object]:
        return {"schema": SCHEMA, "good": self.fault is None, "fault": self.fault and self.fault.as_json()}


@cache
def packs() -> dict[str, Pack]:
    """Returns the rule packs by service name."""
    return {pack.name: pack for pack in rules.PACKS}


def verdict(seen: object, rule_pack: Pack | None, now: float) -> Classification:
    """Classifies a response, an exception or a message."""
    return Classification(classify(seen, rule_pack, now=now))


def exception_named(name: str, message: str) -> Exception:
    """Builds an exception with a given type name: 'httpx.ConnectTimeout', 'ConnectionResetError'.

    For an unknown name only the message is classified.
    """
    module, _, plain = name.rpartition(".")
    package = module.partition(".")[0] or "builtins"
    return _stand_in(package, plain)(message) if plain in NAMES.get(package, {}) else Exception(message)


@cache
def _stand_in(package: str, name: str) -> type[Exception]:
    # The classifier matches names, so that it need not import the libraries.
    return type(name, (Exception,), {"__module__": package})
