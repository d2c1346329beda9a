"""The job that syncs for as long as its worker lives."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache

import httpx2

from tidegate import Again, Context, net
from tidegate.apps import DbTx, Installed
from tidegate.errors import NotThere
from tidegate.jobs import JobFunction
from tidegate_apps.music.connections import Connections
from tidegate_apps.music.health import Healths, Outside
from tidegate_apps.music.journeys import Journeys
from tidegate_apps.music.keeping import Keeping
from tidegate_apps.music.kind import Kind
from tidegate_apps.music.pacing import Limiters
from tidegate_apps.music.settings import Settings
from tidegate_apps.music.states import States
from tidegate_apps.music.syncing import Syncer
from tidegate_apps.music.way_out import WayOut
from tidegate_apps.music.workshop import Workshop

Opened = Callable[[Settings], AbstractAsyncContextManager[httpx2.AsyncBaseTransport]]

_log = logging.getLogger("tidegate.music")
QUEUE = "music"


@dataclass(slots=True, kw_only=True)
class Jobs:
    """What the application has at work."""

    kinds: Mapping[str, Kind]
    connections: Connections
    journeys: Journeys
    shop: Callable[[], Workshop]  # made by whoever syncs: its targets tell the store of themselves
    sync: JobFunction[[], None] | None = None
    contact_asked_for: bool = False  # once is enough


def declare(
    there: Installed[Settings], kinds: Mapping[str, Kind], outside: Outside | None = None, way_out: Opened | None = None
) -> Jobs:
    """The job of this server; none when it only shows the library. *way_out* opens what calls without sockets."""
    clock = there.queue.clock
    outside, opened = outside or Outside(clock=clock, store=there.queue.url), way_out or transport
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it says every request

    def wake(tx: DbTx) -> None:
        if found.sync is not None:
            found.sync.options(connection=tx).enqueue()

    found = Jobs(
        kinds=kinds,
        connections=Connections(
            there.db, lambda: there.secrets, clock.now, wake, forgetting(there), there.settings.server_networks
        ),
        journeys=Journeys(there.db, lambda: there.secrets, clock.now),
        contact_asked_for=bool(there.settings.contact),
        shop=cache(lambda: workshop(there, kinds, outside)),
    )
    if there.settings.sync:

        @there.queue.job(queue=QUEUE, name="music.sync", unique=True, attempts=1000)
        async def sync(job: Context) -> None:
            end = job.end_of_turn(clock.now())
            await ask_for_contact(there, found)
            async with opened(there.settings) as way:
                await Syncer(found.shop(), way).run(lambda: job.stopping or job.cancelled or clock.now() >= end)
            if job.stopping:
                raise Again(keep_attempt=True)

        found.sync = sync
    return found


def forgetting(there: Installed[Settings]) -> Callable[[str, str], None]:
    """Ends what is open of a user at a provider, also while nobody syncs: the next trouble is told as a new one."""

    def forget(user: str, provider: str) -> None:
        with contextlib.suppress(NotThere):  # nobody was ever told of it
            there.queue.target(provider).key(user).clear(by=user, noted=False)

    return forget


async def ask_for_contact(there: Installed[Settings], jobs: Jobs) -> None:
    """Says once in the log that services are not told whom to write to, as soon as there is somebody to call for."""
    if not jobs.contact_asked_for and await there.db.aall("connections", after=0, n=1):
        jobs.contact_asked_for = True
        _log.warning("no_contact setting=%s", "music.contact")


def workshop(there: Installed[Settings], kinds: Mapping[str, Kind], outside: Outside) -> Workshop:
    """What the loops of this process share."""
    now = outside.clock.now
    return Workshop(
        db=there.db,
        settings=there.settings,
        kinds=kinds,
        connections=Connections(there.db, lambda: there.secrets, now, forget=forgetting(there)),
        healths=Healths(kinds, there.settings, outside),
        clock=outside.clock,
        agent=user_agent(there.settings),
        keeping=Keeping(there.db, now, there.queue.older_than),
        states=States(there.db, now),
        limiters=Limiters(outside.clock),
    )


def transport(settings: Settings) -> WayOut:
    return WayOut(settings.server_networks)


def user_agent(settings: Settings) -> str:
    """Who we are, and where somebody can complain; MusicBrainz may refuse those who do not say so."""
    return net.user_agent(contact=settings.contact)
