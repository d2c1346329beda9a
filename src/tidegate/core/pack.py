"""The rules of one service, its own codes and its doubts: asked before the general rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from tidegate.core import heuristics
from tidegate.core.attribution import has_readable_text
from tidegate.core.codes import CORE, Code, CodeBook, wrong_reach
from tidegate.core.evidence import Evidence
from tidegate.core.fault import OWN_BUG
from tidegate.core.policy import Confirm
from tidegate.core.rule import Rule, Said, is_name

Faults = Mapping[type[BaseException], str | None]


class Pack:
    """The rules of one service, its own codes, and what must be confirmed before it is believed.

    *says* reads the service's own word for what went wrong off an answer, once for all rules: a number or a text, None
    when there is none. *codes* join the code book for this pack. *faults* maps classes of exceptions to codes, and is
    asked before the rules: the most specific class decides. None instead of a code means a bug of the program.
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
        # By id: a class whose metaclass has no hash cannot be looked for in a dict of classes.
        self._layers: tuple[dict[int, str | None], ...] = ({id(kind): code for kind, code in self.faults.items()},)
        self.rules = tuple(rules)
        for rule in self.rules:
            if not isinstance(rule, Rule):
                raise TypeError(f"pack {name!r}: {rule!r:.60} is no Rule")
        self.codes = tuple(codes)
        self.confirm = tuple(confirm)
        self.says = says
        try:
            self.code_book: CodeBook = CORE.extend(*self.codes)
        except ValueError as error:
            raise ValueError(f"pack {name!r}: {error}") from error
        # At most one entry for each status there is.
        self._of_status: dict[int, tuple[tuple[Rule, ...], bool]] = {}
        if not is_name(name):
            raise ValueError(f"pack {name!r}: a name has 1 to 64 letters, digits, dots, dashes and underscores")
        _check_once(name, "rule", [rule.name for rule in self.rules])
        _check_once(name, "Confirm", [each.code for each in self.confirm])
        for rule in self.rules:
            self._check(rule)
        for kind, code in self.faults.items():
            _check_fault(name, kind, code, self.code_book)
        for each in self.confirm:
            for code in (each.code, each.becomes, each.until_then):
                if code is not None and code not in self.code_book:
                    raise ValueError(f"pack {name!r}, Confirm: there is no code {code!r} in the book")

    def named(self, what: object, *, broad: bool = True) -> tuple[str, str] | None:
        """The code that *faults* give this exception, and the rule that decided; None when they say nothing.

        Without *broad*, entries for `Exception` and `BaseException` are left out.
        """
        for layer in self._layers:
            for kind in type(what).__mro__:
                if id(kind) in layer and (broad or (kind is not Exception and kind is not BaseException)):
                    code = layer[id(kind)]
                    return ("unexpected", OWN_BUG) if code is None else (code, f"{self.name}:{kind.__name__}")
        return None

    def with_faults(self, faults: Faults) -> Pack:
        """This pack with *faults*, which are asked before its own."""
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
        """Whether a rule must see the body of an answer with this status."""
        return any(rule.needs_body for rule in self._speaking_of(status)[0])

    def first(self, evidence: Evidence) -> Rule | None:
        """The first rule that matches; one that raises does not."""
        status, typed = evidence.status, False
        if not status:
            if evidence.kind is not None or (evidence.error is not None and not has_readable_text(evidence.error)):
                typed = True  # what the exception is outweighs what its message says
            else:
                # A message about a good status is about something else that went wrong.
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
            except Exception:  # noqa: S112 - a user's own test may raise on an answer it never expected
                continue
        return None

    def _speaking_of(self, status: int) -> tuple[tuple[Rule, ...], bool]:
        """The rules for a status, and whether one of them wants to know what the answer says."""
        found = self._of_status.get(status)
        if found is None:
            rules = tuple(rule for rule in self.rules if rule.speaks_of(status))
            found = self._of_status[status] = rules, any(rule.says is not None for rule in rules)
        return found

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
            raise ValueError(f"{where}: there is no code {rule.code!r} in the book")
        code = self.code_book[rule.code]
        if why := wrong_reach(code.reason, rule.reach or code.reach):
            raise ValueError(f"{where}: {why}")

    def __repr__(self) -> str:
        return f"<Pack {self.name!r} of {len(self.rules)} rules>"


def pack_of(rules: object, name: str, faults: Faults | None = None) -> Pack | None:
    """What was given as rules, as a pack; rules of the user's own make one of this *name*, if it may be called so."""
    if faults is not None:
        if not isinstance(faults, Mapping):
            raise TypeError(f"faults must map classes of exceptions to codes, got {faults!r:.60}")
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
        raise ValueError(f"pack {pack!r}: there is no code {code!r} in the book for {kind.__name__}")


def _check_once(pack: str, what: str, names: list[str]) -> None:
    twice = {each for each in names if names.count(each) > 1}
    if twice:
        raise ValueError(f"pack {pack!r}: {what} {min(twice)!r} stands twice")


def _unwrap(evidence: Evidence) -> None:
    """Lets a message that quotes a JSON answer be read as that answer."""
    text = evidence.text
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end and evidence.json is None:
        with suppress(ValueError, RecursionError):
            evidence._json = json.loads(text[start : end + 1])
