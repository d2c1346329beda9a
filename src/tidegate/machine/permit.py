"""What a breaker hands to a call that it admits."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tidegate.machine.breaker import Breaker
    from tidegate.machine.states import AdmitToken


class Permit:
    """The right to make one call. Settled once: by `done`, or by leaving the `with` block.

    if (permit := breaker.allow()) is not None:
        permit.done(ping())
    """

    __slots__ = ("_breaker", "_ticket")

    def __init__(self, breaker: Breaker, ticket: AdmitToken | None = None) -> None:
        self._breaker = breaker
        self._ticket = ticket

    def done(self, ok: bool | None) -> None:
        """The call succeeded (True), failed (False), or proved nothing (None). A second word changes nothing."""
        ticket, self._ticket = self._ticket, None
        if ticket is None:
            return
        if ok:
            ticket.ok()
        elif ok is None:
            self._breaker.exclude(ticket)
        else:
            self._breaker.fail(ticket)

    def __enter__(self) -> Self:
        if self._ticket is None:
            self._ticket = self._breaker.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        ticket, self._ticket = self._ticket, None
        if ticket is None:
            return  # settled inside the block
        if error is None:
            ticket.ok()
        else:
            self._breaker.left(ticket, error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
