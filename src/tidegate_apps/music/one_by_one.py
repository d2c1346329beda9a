"""Entries of the library that are asked for one after the other; what one of them meets does not stop the others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from tidegate_apps.music.calls import ProviderClient
from tidegate_apps.music.contract import Batch, Enrichment, EnrichmentRequest, RejectedRow
from tidegate_apps.music.reading import BadRow


async def one_by_one(
    client: ProviderClient,
    requests: Sequence[EnrichmentRequest],
    look: Callable[[EnrichmentRequest], Awaitable[Enrichment]],
) -> AsyncIterator[Batch[Enrichment]]:
    """A batch for each of *wanted*: what *look* found, or why the service, or BadRow, refuses this one."""
    for request in requests:
        try:
            found = await look(request)
        except BadRow as error:
            yield Batch(bad=(refused(request, str(error)),))
        except Exception as error:
            fault = client.of_one_item(error)
            if fault is None:
                raise
            yield Batch(bad=(refused(request, fault.message),))
        else:
            yield Batch(items=(found,))


def refused(request: EnrichmentRequest, why: str) -> RejectedRow:
    return RejectedRow(row=request.name[:80], why=why, id=request.id)
