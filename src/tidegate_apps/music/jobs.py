"""The sync job, which runs as long as its worker."""

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
from tidegate.errors import NotFound
from tidegate.jobs import JobFunction
from tidegate_apps.music.client import Limiters
from tidegate_apps.music.connections import Connections, OAuthStates
from tidegate_apps.music.health import Healths, OperationStates, SyncDependencies
from tidegate_apps.music.library_writer import LibraryWriter
from tidegate_apps.music.provider import ProviderKind
from tidegate_apps.music.settings import MusicSettings
from tidegate_apps.music.sync import SyncSupervisor
from tidegate_apps.music.sync_loop import SyncContext
from tidegate_apps.music.transport import AddressCheckedTransport

Opened = Callable[[MusicSettings], AbstractAsyncContextManager[httpx2.AsyncBaseTransport]]

_log = logging.getLogger("tidegate.music")
QUEUE = "music"


@dataclass(slots=True, kw_only=True)
class MusicJobs:
    """The parts of the application that jobs, routes and pages share."""

    kinds: Mapping[str, ProviderKind]
    connections: Connections
    journeys: OAuthStates
    context: Callable[[], SyncContext]  # created in the process that syncs, because its targets report to the store
    sync: JobFunction[[], None] | None = None
    contact_asked_for: bool = False  # log the advice only once


def declare(
    app: Installed[MusicSettings],
    kinds: Mapping[str, ProviderKind],
    outside: SyncDependencies | None = None,
    way_out: Opened | None = None,
) -> MusicJobs:
    """Declare the job of this server; none if it only shows the library. *way_out* replaces sockets in tests."""
    clock = app.queue.clock
    outside, opened = (
        outside or SyncDependencies(clock=clock, store=app.queue.url),
        way_out or (lambda settings: AddressCheckedTransport(settings.server_networks)),
    )
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # httpx2 logs every request

    def wake(tx: DbTx) -> None:
        if parts.sync is not None:
            parts.sync.options(connection=tx).enqueue()

    parts = MusicJobs(
        kinds=kinds,
        connections=Connections(
            app.db, lambda: app.secrets, clock.now, wake, forgetting(app), app.settings.server_networks
        ),
        journeys=OAuthStates(app.db, lambda: app.secrets, clock.now),
        contact_asked_for=bool(app.settings.contact),
        context=cache(lambda: sync_context(app, kinds, outside)),
    )
    if app.settings.sync:

        @app.queue.job(queue=QUEUE, name="music.sync", unique=True, attempts=1000)
        async def sync(job: Context) -> None:
            end = job.end_of_turn(clock.now())
            await ask_for_contact(app, parts)
            async with opened(app.settings) as way:
                await SyncSupervisor(parts.context(), way).run(
                    lambda: job.stopping or job.cancelled or clock.now() >= end
                )
            if job.stopping:
                raise Again(keep_attempt=True)

        parts.sync = sync
    return parts


def forgetting(app: Installed[MusicSettings]) -> Callable[[str, str], None]:
    """Return a function that closes the notices of a user at a provider, so that the next failure creates a new one."""

    def forget(user: str, provider: str) -> None:
        with contextlib.suppress(NotFound):  # there was no notice
            app.queue.target(provider).key(user).clear(by=user, noted=False)

    return forget


async def ask_for_contact(app: Installed[MusicSettings], jobs: MusicJobs) -> None:
    """Log once that the User-Agent has no contact, as soon as there is a connection."""
    if not jobs.contact_asked_for and await app.db.aall("connections", after=0, n=1):
        jobs.contact_asked_for = True
        _log.warning("no_contact setting=%s", "music.contact")


def sync_context(
    app: Installed[MusicSettings], kinds: Mapping[str, ProviderKind], outside: SyncDependencies
) -> SyncContext:
    """Return what the sync loops of this process share."""
    now = outside.clock.now
    return SyncContext(
        db=app.db,
        settings=app.settings,
        kinds=kinds,
        connections=Connections(app.db, lambda: app.secrets, now, forget=forgetting(app)),
        healths=Healths(kinds, app.settings, outside),
        clock=outside.clock,
        agent=user_agent(app.settings),
        keeping=LibraryWriter(app.db, now, app.queue.older_than),
        states=OperationStates(app.db, now),
        limiters=Limiters(outside.clock),
    )


def user_agent(settings: MusicSettings) -> str:
    """Return a User-Agent with a contact for complaints. MusicBrainz may reject requests without one."""
    return net.user_agent(contact=settings.contact)
