"""Checks that the storage and the database belong together: an unmounted disk looks like an empty folder.

A small file in the storage and a row in the database hold the same id. If they differ, no file counts as deleted:
uploads, conversions, retention and cleanup wait, and no download is reported as expired. A new database knows no file,
so it must not remove those of another one: an operator adopts a storage that has files.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from dataclasses import dataclass

from tidegate.apps import DbTx, Installed
from tidegate.events import Notice, NoticeKind
from tidegate_apps.convert.codes import TARGET
from tidegate_apps.convert.settings import ConvertSettings
from tidegate_apps.convert.storage import ID, KeyTaken, Storage, StorageAway, is_upload

_log = logging.getLogger("tidegate.convert")

_KEY = "storage"  # of the notice
_MAX_ID_LENGTH = 100  # characters
_ADOPT = "tidegate convert storage adopt"


@dataclass(frozen=True, slots=True)
class _Mismatch:
    """Why the storage cannot be used, for the notice and the log."""

    state: str
    title: str
    message: str
    advice: str


_AWAY = _Mismatch(
    "away",
    "The files of convert are not there",
    "The storage is empty or another one. Nothing is converted, removed or taken until it is back.",
    f"Mount it. If convert.storage names a new place on purpose: {_ADOPT}.",
)
_UNKNOWN = _Mismatch(
    "unknown",
    "The database does not know the files of convert",
    "The storage has files, and the database is new. Nothing is converted, removed or taken until you decide.",
    f"Restore the database that knows them: tidegate db restore FILE --yes. If they are not needed: {_ADOPT}.",
)


class StorageId:
    """Checks the storage of one application, and sends one notice while it cannot be used."""

    def __init__(self, app: Installed[ConvertSettings], storage: Storage) -> None:
        self._app, self._storage = app, storage
        self._reported: _Mismatch | None = None
        self._is_first = True  # an earlier process may have reported a mismatch

    def require(self) -> None:
        """The same as `check`, but gives an empty storage its id before the first file is written."""
        if not self.check():
            self._begin(self._found())

    def check(self) -> bool:
        """Raise StorageAway unless the storage is the known one; False if it is empty and none is known. Blocks."""
        expected, current = self._ids()
        if expected is None:
            if not any(is_upload(stored.key) for stored in self._storage.kept()):
                return False
            expected, current = self._ids()  # another process may have stored the first file since
        if expected is None or current != expected:
            self._tell_mismatch(_UNKNOWN if expected is None else _AWAY)
            raise StorageAway(
                "the storage is not the one used before; mount that one, or run: tidegate convert storage adopt"
            )
        if self._reported or self._is_first:
            self._tell_back()
        return True

    def adopt(self, by: str) -> None:
        """Accept the current storage, and forget the id of the previous one."""
        current = self._found()

        def forget(tx: DbTx) -> None:
            was = tx.scalar_or_none(str, "storage_id")
            tx.all("storage_forget")
            tx.noted(by, "target_cleared", self._app.app.name, _KEY, was=None if was is None else {"id": was})

        self._app.db.write(forget)
        self._begin(current)
        self._tell_back()

    def _ids(self) -> tuple[str | None, str | None]:
        """Return the id in the database, and that in the storage."""
        return self._app.db.scalar_or_none(str, "storage_id"), self._found()

    def _found(self) -> str | None:
        if self._storage.size(ID) is None:
            return None
        with self._storage.open(ID) as file:
            return file.read(_MAX_ID_LENGTH).decode("ascii", "replace").strip() or None

    def _begin(self, found: str | None) -> None:
        """Write the file before the row: after a crash in between, the next start reads the id from the file."""
        if found is None:
            with self._storage.draft() as draft:
                draft.add(f"{secrets.token_hex(8)}\n".encode())
                draft.seal()
                with contextlib.suppress(KeyTaken):  # another process was first, and its id counts
                    self._storage.put(draft, ID, replace=self._storage.size(ID) == 0)
            found = self._found()
        self._app.db.all("storage_begin", id=found)

    def _tell_mismatch(self, mismatch: _Mismatch) -> None:
        if self._reported is mismatch:
            return
        self._reported = mismatch
        _log.error("storage_mismatch state=%s hint=%s", mismatch.state, mismatch.advice)
        self._tell(NoticeKind.FATAL, mismatch.title, mismatch.message, mismatch.advice)

    def _tell_back(self) -> None:
        if self._reported:
            _log.warning("storage_back")
        self._reported, self._is_first = None, False
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
