"""A rule reads one answer; a pack is the rules of one service, asked before the general ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.codes import CORE, Code, CodeBook
from tidegate.core.evidence import Evidence
from tidegate.core.fault import Reach
from tidegate.core.kinds import Kind
from tidegate.core.policy import Confirm

Statuses = int | range | tuple[int, ...]
ANY = object()  # in `json=`: the path exists, with whatever value


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """All the conditions that are given must hold. `code=None` says: this is a good answer.

        Rule(name="quota", code="quota_exhausted", status=429, json={"error.code": "insufficient_quota"})

    *json* maps dotted paths to a value, a set of values or ANY; *text* holds lower-case fragments, one of which is in
    the body; *header* maps names to a lower-case fragment; *path* are fragments of the URL's path; *test* is a function
    of the evidence, for what the rest cannot say.
    """

    name: str
    code: str | None
    status: Statuses | None = None
    kind: Kind | tuple[Kind, ...] | None = None
    json: Mapping[str, Any] = field(default_factory=dict)
    text: str | tuple[str, ...] = ()
    header: Mapping[str, str] = field(default_factory=dict)
    path: str | tuple[str, ...] = ()
    html: bool | None = None
    test: Callable[[Evidence], bool] | None = None
    reach: Reach | None = None

    @property
    def needs_body(self) -> bool:
        return bool(self.json or self.text or self.html or self.test)

    def speaks_of(self, status: int) -> bool:
        """Whether it could match an answer with this status."""
        match self.status:
            case None:
                return True
            case int():
                return status == self.status
            case _:
                return status in self.status

    def matches(self, seen: Evidence) -> bool:
        if not self.speaks_of(seen.status):
            return False
        if self.kind is not None and seen.kind not in (self.kind if isinstance(self.kind, tuple) else (self.kind,)):
            return False
        if self.path and not any(part in seen.path for part in _each(self.path)):
            return False
        for name, fragment in self.header.items():
            value = seen.header(name)
            if value is None or fragment not in value.lower():
                return False
        if self.html is not None and seen.html is not self.html:
            return False
        if self.text and not _contains(seen.body, _each(self.text)):
            return False
        if self.json and not all(_holds(seen.json, path, want) for path, want in self.json.items()):
            return False
        return self.test is None or self.test(seen)


class Pack:
    """The rules of one service, its own codes, and what must be confirmed before it is believed."""

    __slots__ = ("book", "confirm", "name", "rules")

    def __init__(
        self, name: str, rules: Iterable[Rule], *, codes: Iterable[Code] = (), confirm: Iterable[Confirm] = ()
    ) -> None:
        self.name = name
        self.rules = tuple(rules)
        self.confirm = tuple(confirm)
        self.book: CodeBook = CORE.extend(*codes)
        names = [rule.name for rule in self.rules]
        twice = {each for each in names if names.count(each) > 1}
        if twice:
            raise ValueError(f"pack {name!r}: rule {sorted(twice)[0]!r} stands twice")
        for rule in self.rules:
            if rule.code is not None and rule.code not in self.book:
                raise ValueError(f"pack {name!r}, rule {rule.name!r}: there is no code {rule.code!r} in the book")
        for each in self.confirm:
            for code in (each.code, each.becomes, each.until_then):
                if code is not None and code not in self.book:
                    raise ValueError(f"pack {name!r}, Confirm: there is no code {code!r} in the book")

    def needs_body(self, status: int) -> bool:
        """Whether a rule must see the body of an answer with this status."""
        return any(rule.needs_body and rule.speaks_of(status) for rule in self.rules)

    def first(self, seen: Evidence) -> Rule | None:
        """The first rule that matches; one that raises does not."""
        for rule in self.rules:
            try:
                if rule.matches(seen):
                    return rule
            except Exception:  # noqa: S112 - a user's own test may raise on an answer it never expected
                continue
        return None

    def __repr__(self) -> str:
        return f"<Pack {self.name!r} of {len(self.rules)} rules>"


def _each(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


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
