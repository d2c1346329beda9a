"""Rules and rule packs: conditions on a response, and the code they return."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tidegate.faults import heuristics
from tidegate.faults.attribution import has_readable_text
from tidegate.faults.codes import CORE, Code, CodeBook, wrong_reach
from tidegate.faults.confirm import Confirm
from tidegate.faults.evidence import Evidence
from tidegate.faults.exceptions import ExceptionKind
from tidegate.faults.fault import OWN_BUG, Reach
from tidegate.validation import did_you_mean

# -- rules ----------------------------------------------------------------------------------------------------------

Statuses = int | range | tuple[int, ...]
Said = int | str
ANY: Any = object()  # in `json=` and `says=`: present, with any value

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_CONDITIONS = ("status", "kind", "says", "json", "text", "header", "path", "html", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule matches if all its conditions hold. `code=None` means a good response.

        Rule(name="quota", code="quota_exhausted", status=429, json={"error.code": "insufficient_quota"})

    *status* is 0 for a message without a status. *says* is the result of the pack's `says` function: a value, a set of
    values or ANY. *json* maps dotted paths to a value, a set of values or ANY. *text* has lower-case fragments, one of
    which is in the body. *header* maps names to a lower-case fragment. *path* has fragments of the URL path. *html*
    tells a web page from data, whatever its content type. *test* is a function of the evidence, for all other
    conditions.

    *reach* overrides that of the code. *after* returns the seconds that the service asks to wait if it does not use
    `Retry-After`. The longer of both counts.
    """

    name: str
    code: str | None
    status: Statuses | None = None
    kind: ExceptionKind | tuple[ExceptionKind, ...] | None = None
    says: Said | Collection[Said] | None = None
    json: Mapping[str, object] = field(default_factory=dict)
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
        """Whether it could match a response with this status."""
        match self.status:
            case None:
                return True
            case int():
                return status == self.status
            case _:
                return status in self.status

    def matches(self, evidence: Evidence, said: Said | None = None) -> bool:
        """Whether all conditions except the status hold. *said* is the result of the pack's `says`."""
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
        """Returns the seconds from *after*. None if it returns nothing, an invalid or past value, or raises."""
        if self.after is None:
            return None
        try:
            wait = self.after(evidence)
            return float(wait) if wait is not None and math.isfinite(wait) and wait > 0 else None
        except Exception:  # the user's function may raise anything
            return None

    def _in_json(self, evidence: Evidence) -> bool:
        # Nearly every good response lacks one of the names, and this check is cheaper than parsing.
        body = evidence.body
        if any(needle not in body for needle in self._needles):
            return False
        return all(_holds(evidence.json, path, want) for path, want in self.json.items())


def is_name(text: str) -> bool:
    """Whether the text is a valid name of a rule or a pack."""
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
    value = document
    for name in path.split("."):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return False
    if want is ANY:
        return True
    if isinstance(want, (set, frozenset)):
        return _hashable(value) and value in want
    return bool(type(value) is type(want) and value == want)


def _hashable(value: object) -> bool:
    return isinstance(value, (str, int, float, bool, type(None)))


# -- packs ----------------------------------------------------------------------------------------------------------

Faults = Mapping[type[BaseException], str | None]


class Pack:
    """The rules of one service, its codes, and the verdicts that need confirmation.

    *says* reads the service's own error number or text from a response, once for all rules. It returns None without
    one. *codes* extend the code book for this pack. *faults* maps exception classes to codes and comes before the
    rules: the most specific class decides. None instead of a code means a bug of the program.
    """

    __slots__ = ("_layers", "_of_status", "code_book", "codes", "confirm", "faults", "name", "rules", "says")

    def __init__(
        self,
        name: str,
        rules: Iterable[Rule],
        *,
        codes: Iterable[Code] = (),
        confirm: Iterable[Confirm] = (),
        says: Callable[[Evidence], Said | None] | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.name = name
        self.faults: Faults = dict(faults or {})
        # By id: a metaclass may make a class unhashable.
        self._layers: tuple[dict[int, str | None], ...] = ({id(kind): code for kind, code in self.faults.items()},)
        self.rules = tuple(rules)
        for rule in self.rules:
            if not isinstance(rule, Rule):
                raise TypeError(f"pack {name!r}: rules must be a list of Rule, got {rule!r:.60} in it; give Rule(...)")
        self.codes = tuple(codes)
        self.confirm = tuple(confirm)
        self.says = says
        try:
            self.code_book: CodeBook = CORE.extend(*self.codes)
        except ValueError as error:
            raise ValueError(f"pack {name!r}: {error}") from error
        # Up to one entry per HTTP status.
        self._of_status: dict[int, tuple[tuple[Rule, ...], bool]] = {}
        if not is_name(name):
            raise ValueError(f"pack {name!r}: a name has 1 to 64 letters, digits, dots, dashes and underscores")
        _check_once(name, "rule", [rule.name for rule in self.rules])
        _check_once(name, "Confirm", [each.code for each in self.confirm])
        for rule in self.rules:
            self._check(rule)
        for kind, code in self.faults.items():
            _check_fault(name, kind, code, self.code_book)
        for policy in self.confirm:
            for code in (policy.code, policy.becomes, policy.until_then):
                if code is not None and code not in self.code_book:
                    raise ValueError(
                        f"pack {name!r}, Confirm: the code book has no {code!r}{did_you_mean(code, self.code_book)}"
                    )

    def named(self, what: object, *, broad: bool = True) -> tuple[str, str] | None:
        """Returns the code that *faults* give this exception, and the rule that decided, or None.

        Without *broad*, entries for `Exception` and `BaseException` are ignored.
        """
        for layer in self._layers:
            for kind in type(what).__mro__:
                if id(kind) in layer and (broad or (kind is not Exception and kind is not BaseException)):
                    code = layer[id(kind)]
                    return ("unexpected", OWN_BUG) if code is None else (code, f"{self.name}:{kind.__name__}")
        return None

    def with_faults(self, faults: Faults) -> Pack:
        """Returns this pack with *faults*, which come before its own."""
        pack = Pack(
            self.name,
            self.rules,
            codes=self.codes,
            confirm=self.confirm,
            says=self.says,
            faults={**self.faults, **faults},
        )
        pack._layers = ({id(kind): code for kind, code in faults.items()}, *self._layers)
        return pack

    def needs_body(self, status: int) -> bool:
        """Whether a rule needs the body of a response with this status."""
        return any(rule.needs_body for rule in self._speaking_of(status)[0])

    def first(self, evidence: Evidence) -> Rule | None:
        """Returns the first rule that matches. A rule that raises does not match."""
        status, typed = evidence.status, False
        if not status:
            if evidence.kind is not None or (evidence.error is not None and not has_readable_text(evidence.error)):
                typed = True  # the exception type is more reliable than its message
            else:
                # A message with a good status is about something else.
                named = heuristics.status_in(evidence.text)
                status = named if named >= 400 else 0
                _unwrap(evidence)
        rules, asked = self._speaking_of(status)
        said = self._said(evidence) if asked and not typed else None
        for rule in rules:
            if typed and rule.reads_body:
                continue
            try:
                if rule.matches(evidence, said):
                    return rule
            except Exception:  # noqa: S112 - a user's test may raise on an unexpected response
                continue
        return None

    def _speaking_of(self, status: int) -> tuple[tuple[Rule, ...], bool]:
        """Returns the rules for a status, and whether one of them needs `says`."""
        entry = self._of_status.get(status)
        if entry is None:
            rules = tuple(rule for rule in self.rules if rule.speaks_of(status))
            entry = self._of_status[status] = rules, any(rule.says is not None for rule in rules)
        return entry

    def _said(self, evidence: Evidence) -> Said | None:
        try:
            return None if self.says is None else self.says(evidence)
        except Exception:  # as above
            return None

    def _check(self, rule: Rule) -> None:
        where = f"pack {self.name!r}, rule {rule.name!r}"
        if rule.says is not None and self.says is None:
            raise ValueError(f"{where}: it has says=, but the pack has no function for that")
        if rule.code is None:
            return
        if rule.code not in self.code_book:
            hint = did_you_mean(rule.code, self.code_book)
            raise ValueError(f"{where}: the code book has no {rule.code!r}{hint}")
        code = self.code_book[rule.code]
        if why := wrong_reach(code.reason, rule.reach or code.reach):
            raise ValueError(f"{where}: {why}")

    def __repr__(self) -> str:
        return f"<Pack {self.name!r} of {len(self.rules)} rules>"


def pack_of(rules: object, name: str, faults: Faults | None = None) -> Pack | None:
    """Converts rules to a pack. A list of rules becomes a pack with this *name*, if it is valid."""
    if faults is not None:
        if not isinstance(faults, Mapping):
            raise TypeError(
                f"faults must map classes of exceptions to codes, got {faults!r:.60}; give {{KeyError: 'bad_answer'}}"
            )
        return (pack_of(rules, name) or Pack(name if is_name(name) else "own", ())).with_faults(faults)
    if rules is None or isinstance(rules, Pack):
        return rules
    if isinstance(rules, str) or not isinstance(rules, Iterable):
        raise TypeError(
            f"rules: {rules!r:.60} is no pack of rules; give one, such as tidegate.rules.spotify, or a list of Rule"
        )
    return Pack(name if is_name(name) else "own", rules)


def _check_fault(pack: str, kind: object, code: object, code_book: CodeBook) -> None:
    if not isinstance(kind, type) or not issubclass(kind, BaseException):
        raise TypeError(f"pack {pack!r}: faults must map classes of exceptions to codes, got {kind!r:.60}")
    if code is not None and code not in code_book:
        hint = did_you_mean(code, code_book)
        raise ValueError(f"pack {pack!r}: the code book has no {code!r}, given for {kind.__name__}{hint}")


def _check_once(pack: str, what: str, names: list[str]) -> None:
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"pack {pack!r}: {what} {min(twice)!r} stands twice")


def _unwrap(evidence: Evidence) -> None:
    """Lets a message that quotes a JSON response be read as that response."""
    text = evidence.text
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end and evidence.json is None:
        with suppress(ValueError, RecursionError):
            evidence._json = json.loads(text[start : end + 1])
