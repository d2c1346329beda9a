"""SQLite's files: whether a database is expected at a path, and whether the open one is still there and complete.

SQLite creates an empty database where there is none, and keeps writing to a removed file. Both would lose acknowledged
jobs. So a marker file (`jobs.db.id`) names the expected database, and each transaction checks that the files are still
the opened ones.

This module never opens the database file: closing it would drop the locks that SQLite holds in this process.
"""

from __future__ import annotations

import logging
import os
import secrets
import struct
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate.errors import StoreDamaged, StoreError, StoreMissing

_log = logging.getLogger("tidegate.store")

_DAMAGED, _RESTORING = "damaged", "restoring"
_CHECK_EVERY = 0.05  # seconds between two checks of readers
_PENDING_BYTE = 0x40000000  # SQLite never writes the page with this byte
_WAL_HEADER, _FRAME_HEADER = struct.Struct(">8xI4x8s8x"), struct.Struct(">II8s8x")
_WAY_OUT = "To use what is there now, or to start with an empty database: tidegate db migrate --new"


# -- the marker ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marker:
    """The expected database."""

    id: str
    damaged: bool = False  # the next process that opens it checks the whole file first
    restoring: str = ""  # the id of a copy that replaces it at this moment: either of both is expected


def marker_file(path: str) -> Path:
    return Path(f"{path}.id")


def read_marker(path: str) -> Marker | None:
    """Returns None if no database is expected. An unreadable marker has an empty id."""
    try:
        words = marker_file(path).read_text(encoding="ascii", errors="replace").split()
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(f"{marker_file(path)} cannot be read ({reason.lower()}); give this user the right") from error
    id_, *flags = words or [""]
    return Marker(id_, damaged=_DAMAGED in flags, restoring=flags[-1] if _RESTORING in flags[:-1] else "")


def write_marker(path: str, marker: Marker) -> None:
    """Writes the marker. A failure is only logged: everything works without it, but is not protected."""
    draft = Path(f"{marker_file(path)}.{secrets.token_hex(4)}")
    try:
        number = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o660)
        try:
            flags = [_DAMAGED] * marker.damaged + [_RESTORING, marker.restoring] * bool(marker.restoring)
            os.write(number, f"{' '.join([marker.id, *flags])}\n".encode())
            os.fsync(number)
        finally:
            os.close(number)
        draft.replace(marker_file(path))
    except OSError as error:
        _log.warning("database_marker_not_written file=%s error=%s", marker_file(path).name, type(error).__name__)
        draft.unlink(missing_ok=True)


def remove_marker(path: str) -> None:
    """Removes the marker. The next process that opens the path takes the existing file or creates a new one."""
    marker_file(path).unlink(missing_ok=True)


def require_expected(path: str) -> None:
    """Raises StoreMissing if a database is expected, and the file is missing or empty."""
    try:
        if os.stat(path).st_size:  # noqa: PTH116 - as below
            return
        what = "is empty"
    except OSError:
        what = "is missing"
    if read_marker(path) is not None:
        raise StoreMissing(
            f"the database file {path} {what}, and {marker_file(path).name} beside it says that there was one. "
            f"Put the file back, or restore a copy: tidegate db restore FILE --yes. {_WAY_OUT}"
        )


def require_id(path: str, store_id: str | None) -> None:
    """Raises StoreMissing if the database is not the expected one."""
    marker = read_marker(path)
    if marker is not None and marker.id and store_id not in (marker.id, marker.restoring or marker.id):
        raise StoreMissing(
            f"{path} is not the database that belongs here: its id is {store_id or 'missing'}, "
            f"{marker_file(path).name} says {marker.id}. Put the right file back, or restore a copy: "
            f"tidegate db restore FILE --yes. {_WAY_OUT}"
        )


# -- the open files --------------------------------------------------------------------------------------------------


class OpenFiles:
    """The files of one store: the database, its write-ahead log and its index."""

    def __init__(self, path: str) -> None:
        self._path = path
        stat = os.stat(path)  # noqa: PTH116 - runs once per transaction, and a Path costs as much as the call
        self._file = stat.st_ino, stat.st_dev
        self._size = stat.st_size
        self._beside: dict[str, tuple[int, int] | None] = {f"{path}-wal": None, f"{path}-shm": None}
        self._lock = threading.Lock()
        self._missing = False
        self._damage = ""
        self._next_check = 0.0  # monotonic time

    @classmethod
    def opened(cls, path: str) -> OpenFiles:
        """Raises StoreMissing if the file was just removed. Never creates one."""
        try:
            return cls(path)
        except FileNotFoundError as error:
            require_expected(path)
            raise StoreMissing(f"the database file {path} was not there a moment ago; try again") from error

    @property
    def damaged(self) -> bool:
        return bool(self._damage)

    def check_often(self) -> bool:
        """Runs `check`, unless it ran a moment ago. Not enough to acknowledge a write."""
        if not self._missing and not self._damage and time.monotonic() < self._next_check:
            return False
        return self.check()

    def check(self) -> bool:
        """Raises StoreMissing or StoreDamaged if the files cannot be trusted. Returns True if the database file shrank.

        Shrinking is correct only if the database shrank too. `accept_size` confirms that.
        """
        if self._damage:
            raise StoreDamaged(self._damage)
        try:
            stat = os.stat(self._path)  # noqa: PTH116
            if (stat.st_ino, stat.st_dev) != self._file or not self._side_files_match():
                raise self.is_missing()
        except OSError as error:
            raise self.is_missing() from error
        if self._missing:
            self._is_back()
        self._next_check = time.monotonic() + _CHECK_EVERY
        if stat.st_size < self._size:
            if not stat.st_size:  # to SQLite an empty file is a new database, not damage
                raise self.is_damaged("it was cut to nothing")
            return True
        self._size = stat.st_size
        return False

    def accept_size(self) -> None:
        self._size = os.stat(self._path).st_size  # noqa: PTH116

    def is_damaged(self, reason: str) -> StoreDamaged:
        """Marks the database as damaged: no more reads or writes, which could make it worse. Returns the exception."""
        with self._lock:
            first, self._damage = (
                not self._damage,
                self._damage
                or (
                    f"the database file {self._path} is damaged ({reason}). "
                    "Stop Tidegate and restore a copy: tidegate db restore FILE --yes"
                ),
            )
        if first:
            _log.error("database_damaged file=%s why=%s hint=restore a copy", Path(self._path).name, reason)
            marker = read_marker(self._path)
            if marker is not None:
                write_marker(self._path, replace(marker, damaged=True))
        return StoreDamaged(self._damage)

    def _side_files_match(self) -> bool:
        for name, known in self._beside.items():
            try:
                stat = os.stat(name)  # noqa: PTH116
            except FileNotFoundError:
                if known is not None:
                    return False
                continue
            if known is None:
                self._beside[name] = stat.st_ino, stat.st_dev  # SQLite has just created it
            elif (stat.st_ino, stat.st_dev) != known:
                return False
        return True

    def is_missing(self) -> StoreMissing:
        with self._lock:
            first, self._missing = not self._missing, True
        if first:
            hint = "put it back, or restore a copy and start again"
            _log.error("database_missing file=%s hint=%s", Path(self._path).name, hint)
        return StoreMissing(
            f"the database file {self._path} was removed or replaced while it was open; nothing is accepted. "
            "Put it back, or stop Tidegate, restore a copy (tidegate db restore FILE --yes) and start it again"
        )

    def _is_back(self) -> None:
        with self._lock:
            was, self._missing = self._missing, False
        if was:
            _log.warning("database_back file=%s", Path(self._path).name)


def lacks_pages(path: str, pages: int, page_size: int) -> bool:
    """Whether the file is truncated: pages after its end must all be in its log."""
    logged = _logged_pages(f"{path}-wal")
    page_count = os.stat(path).st_size // page_size  # noqa: PTH116
    never = _PENDING_BYTE // page_size + 1
    return page_count == 0 or any(page not in logged and page != never for page in range(page_count + 1, pages + 1))


def _logged_pages(log: str) -> set[int]:
    """Returns the pages in the frames of a write-ahead log. Frames of an earlier cycle do not count."""
    pages: set[int] = set()
    try:
        with Path(log).open("rb") as file:
            head = file.read(_WAL_HEADER.size)
            if len(head) < _WAL_HEADER.size:
                return pages
            page_size, salt = _WAL_HEADER.unpack(head)
            while len(frame := file.read(_FRAME_HEADER.size)) == _FRAME_HEADER.size:
                page, _, its_salt = _FRAME_HEADER.unpack(frame)
                if its_salt != salt:
                    break
                pages.add(page)
                file.seek(page_size, os.SEEK_CUR)
    except FileNotFoundError:
        pass  # without a log all pages must be in the file
    return pages


# -- file system -------------------------------------------------------------------------------------------------------
# SQLite's locks do not work on network file systems.

# fmt: off
_NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.davfs2", "fuse.glusterfs", "fuse.rclone",
    "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
})
# fmt: on


def require(path: str, mounts: str = "/proc/self/mounts") -> None:
    """Raises StoreError if *path* is on a network file system. Does nothing where that is unknown."""
    kind = _file_system(Path(path).resolve().parent, Path(mounts))
    if kind in _NETWORK:
        raise StoreError(f"the database lies on a network file system ({kind}); SQLite needs a local disk")


def require_writable(path: str) -> None:
    """Creates the folder of *path*. Raises StoreError if the folder or the file is not writable."""
    folder = Path(path).absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"the database cannot be opened: its folder {folder} cannot be made ({reason})") from error
    reason = refusal(Path(path))
    if reason:
        raise StoreError(f"the database cannot be opened: {reason}")


def refusal(path: Path) -> str:
    """Returns why a file cannot be written, or an empty string. The journal needs a writable folder too."""
    folder = path.absolute().parent
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"its folder {folder} may not be written by this user"
    if path.exists() and not os.access(path, os.W_OK):
        return f"the file {path} may not be written by this user"
    return ""


def _file_system(folder: Path, mounts: Path) -> str:
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        fields = line.split()
        point = fields[1].replace("\\040", " ") if len(fields) > 2 else ""
        if point and (str(folder) + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind
