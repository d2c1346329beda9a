"""Walks an exception and everything that led to it: causes, groups, and what clients hide in attributes."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.reading import HIDDEN, fields_of, is_a, read

MAX_NODES = 64

# Bugs of the program. One that is raised while an answer is being handled is news of its own, so what was being
# handled does not explain it; only what it was explicitly raised from does. Subclasses are somebody's own meaning.
BUGS: frozenset[type[BaseException]] = frozenset({
    TypeError, AttributeError, NameError, UnboundLocalError, KeyError, IndexError, AssertionError, ImportError,
    ModuleNotFoundError, SyntaxError, IndentationError, NotImplementedError, RecursionError, ZeroDivisionError,
})  # fmt: skip
_BUGS = frozenset(map(id, BUGS))  # a class whose metaclass has no hash cannot be looked for in a set of classes


def is_bug(error: object) -> bool:
    """Whether it is of exactly one of the classes that a mistake in a program raises."""
    return id(type(error)) in _BUGS


def causes(error: BaseException) -> Iterator[BaseException]:
    """*error* and what it was explicitly raised from, outermost first; members of a group in their order."""
    return _walk(error, implicit=False)


def contexts(error: BaseException) -> Iterator[BaseException]:
    """The same, and what was being handled when each was raised."""
    return _walk(error, implicit=True)


def ends(error: BaseException) -> Iterator[BaseException]:
    """Those of `causes` that nothing led to."""
    return (node for node in causes(error) if not _below(node, implicit=False))


def _walk(error: BaseException, *, implicit: bool) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < MAX_NODES:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting.extend(reversed(_below(node, implicit=implicit)))


def _below(node: BaseException, *, implicit: bool) -> list[BaseException]:
    fields = fields_of(node)
    cause = read(node, "__cause__")
    found: list[object] = [] if cause is None else [cause]
    if fields:
        found += (fields[name] for name in HIDDEN if name in fields)
        members = fields.get("exceptions")
        if type(members) is tuple or type(members) is list:
            found += members[:MAX_NODES]
    args = read(node, "args")
    if type(args) is tuple:
        found += args[:MAX_NODES]
    if implicit and cause is None and not is_bug(node) and not read(node, "__suppress_context__"):
        found.append(read(node, "__context__"))
    return [each for each in found if is_a(each, BaseException)]
