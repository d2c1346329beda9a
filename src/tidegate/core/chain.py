"""Walks an exception and everything that led to it: causes, groups, and what clients hide in attributes."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.evidence import read

MOST_NODES = 64

# Where libraries put the exception below, when they do not (or not only) chain it.
_HIDDEN = ("reason", "os_error", "original_error")


def causes(error: BaseException) -> Iterator[BaseException]:
    """*error* and what it was explicitly raised from, outermost first; members of a group in their order."""
    yield from _walk(error, implicit=False)


def contexts(error: BaseException) -> Iterator[BaseException]:
    """The same, and what was being handled when each was raised."""
    yield from _walk(error, implicit=True)


def _walk(error: BaseException, *, implicit: bool) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting.extend(reversed(_below(node, implicit=implicit)))


def _below(node: BaseException, *, implicit: bool) -> list[BaseException]:
    found: list[BaseException] = []
    if isinstance(node, BaseExceptionGroup):
        found += list(node.exceptions[:MOST_NODES])
    if isinstance(node.__cause__, BaseException):
        found.append(node.__cause__)
    for name in _HIDDEN:
        hidden = read(node, name)
        if isinstance(hidden, BaseException):
            found.append(hidden)
    if node.args and isinstance(node.args[0], BaseException):
        found.append(node.args[0])
    if implicit and node.__cause__ is None and not node.__suppress_context__ and node.__context__ is not None:
        found.append(node.__context__)
    return found
