"""Entries of the library that are asked for one after the other; what one of them meets does not stop the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from tidegate_apps.music.calls import Calls
from tidegate_apps.music.contract import Bad, Batch, Found, Wanted
from tidegate_apps.music.reading import BadRow


async def one_by_one(
    calls: Calls, wanted: Sequence[Wanted], look: Callable[[Wanted], Awaitable[Found]]
) -> AsyncIterator[Batch[Found]]:
    """A batch for each of *wanted*: what *look* found, or why the service, or BadRow, refuses this one."""
    for each in wanted:
        try:
            found = await look(each)
        except BadRow as error:
            yield Batch(bad=(refused(each, str(error)),))
        except Exception as error:
            fault = calls.of_one_item(error)
            if fault is None:
                raise
            yield Batch(bad=(refused(each, fault.message),))
        else:
            yield Batch(items=(found,))


def refused(wanted: Wanted, why: str) -> Bad:
    return Bad(row=wanted.name[:80], why=why, id=wanted.id)
