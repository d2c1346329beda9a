"""What the library has no more, because it was merged into something else, is not kept here either."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidegate.apps import DbTx, Installed
from tidegate.errors import NotFound
from tidegate_apps.lidarr.codes import PARENT_FAILED
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_apps.lidarr.states import OPEN
from tidegate_apps.music.library import EntityKind, Library

_MAX_ID = 2**53


@dataclass(frozen=True, slots=True)
class LibraryShelf:
    """All of one kind that a user has. *read* is the library's: it takes user, after and most."""

    kind: EntityKind
    user: str
    read: Callable[..., Sequence[Any]]

    def has(self, entity_id: int) -> bool:
        return any(each.id == entity_id for each in self.read(self.user, after=entity_id - 1, limit=1))


def clear(
    app: Installed[LidarrSettings], library: Library, cache: LibraryShelf, page: Sequence[Any], after: int
) -> int:
    """Removes what is known of entities that a page behind *after* should have, and has not; returns how many."""
    last = page[-1].id if page else _MAX_ID
    known = app.db.all("known_of_user", kind=cache.kind, user_id=cache.user, after=after, last=last)
    present = {each.id for each in page}
    gone = 0
    for entity_id, job, state in known:
        # Asked for itself: what came while the page was read is not gone.
        if entity_id in present or cache.has(entity_id) or not _ended(app, job, state):
            continue
        gone += app.db.write(partial(_remove, app, library, (cache.kind, entity_id), job))
    return gone


def _ended(app: Installed[LidarrSettings], job: int | None, state: str | None) -> bool:
    """Whether its job has ended; one that waits is cancelled. A later look comes for the others."""
    if job is None:
        return True
    if any(child in OPEN and child != "blocked" for _, child, _ in app.db.all("children_of", job=job)):
        return False  # albums that are sent next need the Lidarr id of this artist
    try:
        return state not in OPEN or app.queue.cancel(job, by=app.app.name) == "cancelled"
    except NotFound:
        return False  # another look is at it


def _remove(
    app: Installed[LidarrSettings], library: Library, entity: tuple[EntityKind, int], job: int | None, tx: DbTx
) -> int:
    """Albums that have failed with an artist are looked for again: they have another one now."""
    if job is not None:
        for child, _, code in tx.all("children_of", job=job):
            if code == PARENT_FAILED:
                app.queue.forget(child, by=app.app.name, connection=tx)
                tx.all("look_again", job=child)
        app.queue.forget(job, by=app.app.name, connection=tx)
    tx.run(library.badge(*entity, None))
    return len(tx.all("remove_entity", kind=entity[0], entity_id=entity[1]))
