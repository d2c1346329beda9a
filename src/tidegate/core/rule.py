"""A rule reads one answer: the conditions under which it speaks, and the code that it gives."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.evidence import Evidence
from tidegate.core.fault import Reach
from tidegate.core.kinds import ExceptionKind

Statuses = int | range | tuple[int, ...]
Said = int | str
ANY: Any = object()  # in `json=` and `says=`: it is there, with whatever value

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_CONDITIONS = ("status", "kind", "says", "json", "text", "header", "path", "html", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """All the conditions that are given must hold. `code=None` says: this is a good answer.

        Rule(name="quota", code="quota_exhausted", status=429, json={"error.code": "insufficient_quota"})

    *status* is 0 for a bare message that names none. *says* is what the pack's own `says` reads off an answer: a value,
    a set of them or ANY; *json* maps dotted paths to a value, a set of values or ANY; *text* holds lower-case
    fragments, one of which is in the body; *header* maps names to a lower-case fragment; *path* are fragments of the
    URL's path; *html* tells a web page from data, whatever its label; *test* is a function of the evidence, for what
    the rest cannot say.
    *reach* overrides that of the code. *after* reads how many seconds the service asks to wait where it does not use
    `Retry-After`; the longer of the two counts.
    """

    name: str
    code: str | None
    status: Statuses | None = None
    kind: ExceptionKind | tuple[ExceptionKind, ...] | None = None
    says: Said | Collection[Said] | None = None
    json: Mapping[str, Any] = field(default_factory=dict)
    text: str | tuple[str, ...] = ()
    header: Mapping[str, str] = field(default_factory=dict)
    path: str | tuple[str, ...] = ()
    html: bool | None = None
    test: Callable[[Evidence], bool] | None = None
    reach: Reach | None = None
    after: Callable[[Evidence], float | None] | None = None
    _needles: tuple[bytes, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise ValueError(f"rule {self.name!r}: a name has 1 to 64 letters, digits, dots, dashes and underscores")
        if all(getattr(self, condition) in (None, (), "", {}) for condition in _CONDITIONS):
            raise ValueError(f"rule {self.name!r}: give at least one condition, or it speaks of everything")
        statuses = (self.status,) if isinstance(self.status, int) else self.status or ()
        if any(status and not 100 <= status <= 599 for status in statuses):
            raise ValueError(
                f"rule {self.name!r}: status {self.status!r} is not allowed; give 100 to 599, or 0 for none"
            )
        for fragment in (*_each(self.text), *self.header.values()):
            if not fragment or fragment != fragment.lower():
                raise ValueError(f"rule {self.name!r}: {fragment!r} never matches; give a lower-case fragment")
        names = [path.rpartition(".")[2] for path in self.json]
        needles = tuple(f'"{name}"'.encode() for name in names if name.isascii() and not name.isdigit())
        object.__setattr__(self, "_needles", needles)

    @property
    def needs_body(self) -> bool:
        return bool(self.reads_body or self.test or self.after)

    @property
    def reads_body(self) -> bool:
        return bool(self.json or self.text) or self.html is not None or self.says is not None

    def speaks_of(self, status: int) -> bool:
        """Whether it could match an answer with this status."""
        match self.status:
            case None:
                return True
            case int():
                return status == self.status
            case _:
                return status in self.status

    def matches(self, evidence: Evidence, said: Said | None = None) -> bool:
        """Whether all conditions but the status hold; *said* is what the pack's `says` gave."""
        if self.says is not None and not _is_said(said, self.says):
            return False
        if self.kind is not None and evidence.kind not in (self.kind if isinstance(self.kind, tuple) else (self.kind,)):
            return False
        if self.html is not None and _is_page(evidence) is not self.html:
            return False
        if self.json and not self._in_json(evidence):
            return False
        if self.text and not _contains(evidence.body, _each(self.text)):
            return False
        if self.path and not any(part in evidence.path for part in _each(self.path)):
            return False
        for name, fragment in self.header.items():
            value = evidence.header(name)
            if value is None or fragment not in value.lower():
                return False
        return self.test is None or bool(self.test(evidence))

    def asks_to_wait(self, evidence: Evidence) -> float | None:
        """Seconds from *after*; None when it says nothing, nonsense or nothing ahead, or raises."""
        if self.after is None:
            return None
        try:
            found = self.after(evidence)
            return float(found) if found is not None and math.isfinite(found) and found > 0 else None
        except Exception:  # total, whatever a user's own function does
            return None

    def _in_json(self, evidence: Evidence) -> bool:
        # Nearly every good answer lacks one of the names, and finding that out costs less than parsing it.
        body = evidence.body
        if any(needle not in body for needle in self._needles):
            return False
        return all(_holds(evidence.json, path, want) for path, want in self.json.items())


def is_name(text: str) -> bool:
    """Whether a rule or a pack may be called so."""
    return _NAME.fullmatch(text) is not None


def _each(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


def _is_said(said: Said | None, want: Said | Collection[Said]) -> bool:
    if said is None or want is ANY:
        return said is not None
    return said == want if isinstance(want, (int, str)) else said in want


def _is_page(evidence: Evidence) -> bool:
    # Some services label their JSON as HTML.
    return not evidence.body[:64].lstrip().startswith((b"{", b"[")) and evidence.html


def _contains(body: bytes, fragments: tuple[str, ...]) -> bool:
    lowered = body.lower()
    return any(fragment.encode() in lowered for fragment in fragments)


def _holds(document: object, path: str, want: object) -> bool:
    found = document
    for name in path.split("."):
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return False
    if want is ANY:
        return True
    if isinstance(want, (set, frozenset)):
        return _hashable(found) and found in want
    return bool(type(found) is type(want) and found == want)


def _hashable(found: object) -> bool:
    return isinstance(found, (str, int, float, bool, type(None)))
