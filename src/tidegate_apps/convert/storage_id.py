"""Checks that the storage is the one that the database knows: an unmounted disk looks like an empty folder.

A small file in the storage and a row in the database hold the same id. If that file is missing, no file counts as
deleted: uploads, conversions, retention and cleanup wait, and no download is reported as expired.
"""

from __future__ import annotations

import contextlib
import logging
import secrets

from tidegate.apps import DbTx, Installed
from tidegate.events import Notice, NoticeKind
from tidegate_apps.convert.codes import TARGET
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import ID, KeyTaken, Storage, StorageAway

_log = logging.getLogger("tidegate.convert")

_KEY = "storage"  # of the notice
_MAX_ID_LENGTH = 100  # characters
_ADVICE = "Mount it. If convert.storage names a new place on purpose: tidegate convert storage adopt."


class StorageId:
    """Checks the storage of one application, and sends one notice while it is unavailable."""

    def __init__(self, app: Installed[ConvertSettings], storage: Storage) -> None:
        self._app, self._storage = app, storage
        self._away = False

    def require(self) -> None:
        """The same as `check`, but gives an empty storage its id before the first file is written."""
        if not self.check():
            self._begin(self._found())

    def check(self) -> bool:
        """Raise StorageAway unless the storage is the known one; False if none is known yet. Blocks."""
        expected = self._expected()
        current = self._found()
        if expected is None and current is None and not self._files_are_missing():
            return False
        if (expected is not None and current != expected) or current is None:
            self._tell_away()
            raise StorageAway("the storage is not the one that the database knows")
        if self._away:
            self._tell_back()
        return expected is not None

    def adopt(self, by: str) -> None:
        """Accept the current storage, and forget the id of the previous one."""
        current = self._found()

        def forget(tx: DbTx) -> None:
            row = tx.one("storage_id")
            tx.all("storage_forget")
            tx.noted(by, "target_cleared", self._app.app.name, _KEY, was=None if row is None else {"id": row[0]})

        self._app.db.write(forget)
        self._begin(current)
        self._tell_back()

    def _expected(self) -> str | None:
        row = self._app.db.one("storage_id")
        return None if row is None else str(row[0])

    def _found(self) -> str | None:
        if self._storage.size(ID) is None:
            return None
        with self._storage.open(ID) as file:
            return file.read(_MAX_ID_LENGTH).decode("ascii", "replace").strip() or None

    def _files_are_missing(self) -> bool:
        """Return whether the database knows files and the newest are missing: an earlier version wrote no id."""
        sources = [str(source) for (source,) in self._app.db.all("newest_sources", n=5)]
        return bool(sources) and all(self._storage.size(source) is None for source in sources)

    def _begin(self, found: str | None) -> None:
        """Write the file before the row: after a crash in between, the next start reads the id from the file."""
        if found is None:
            self._write_id(secrets.token_hex(8))
            found = self._found()
        self._app.db.all("storage_begin", id=found)

    def _write_id(self, id_: str) -> None:
        with self._storage.draft() as draft:
            draft.add(f"{id_}\n".encode())
            draft.seal()
            with contextlib.suppress(KeyTaken):  # another process was first, and its id counts
                self._storage.put(draft, ID, replace=self._storage.size(ID) == 0)

    def _tell_away(self) -> None:
        if self._away:
            return
        self._away = True
        _log.error("storage_away hint=%s", _ADVICE)
        self._tell(
            NoticeKind.FATAL,
            "The files of convert are not there",
            "The storage is empty or another one. Nothing is converted, removed or taken until it is back.",
            _ADVICE,
        )

    def _tell_back(self) -> None:
        self._away = False
        _log.warning("storage_back")
        self._tell(NoticeKind.RECOVERED, "The files of convert are back", "Uploads and conversions go on.")

    def _tell(self, kind: NoticeKind, title: str, message: str, advice: str = "") -> None:
        now = self._app.queue.clock.now()
        notice = Notice(
            kind=kind,
            target=TARGET,
            key=_KEY,
            episode=now,
            title=title,
            message=message,
            advice=advice,
            code="" if kind is NoticeKind.RECOVERED else "IO_ERROR",
        )

        def write(tx: DbTx) -> None:
            tx.tell(notice)

        self._app.db.write(write)
