"""SQLite's files: whether a database is expected in this place, and whether the open one is still there and whole.

SQLite creates an empty database where it finds none, and goes on writing to a file that was removed. Both would lose
jobs that were acknowledged. So a marker beside the database (`jobs.db.id`) says which one belongs there, and each
transaction looks whether the files are still the ones that were opened.

Nothing here opens the database file itself: closing it again would drop the locks that SQLite holds in this process.
"""

from __future__ import annotations

import logging
import os
import secrets
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import StoreDamaged, StoreError, StoreMissing

_log = logging.getLogger("tidegate.store")

_DAMAGED = "damaged"
_CHECK_EVERY = 0.05  # seconds between two checks by those who only read
_PENDING_BYTE = 0x40000000  # SQLite never writes the page with this byte
_WAL_HEADER, _FRAME_HEADER = struct.Struct(">8xI4x8s8x"), struct.Struct(">II8s8x")
_WAY_OUT = "To use what is there now, or to start with an empty database: tidegate db migrate --new"


# -- the marker ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Marker:
    """What is known of the database that belongs here."""

    id: str
    damaged: bool = False  # damage was found; the next one who opens it checks all of it first


def marker_file(path: str) -> Path:
    return Path(f"{path}.id")


def read_marker(path: str) -> Marker | None:
    """None where no database is expected. A marker that cannot be understood has an empty id."""
    try:
        words = marker_file(path).read_text(encoding="ascii", errors="replace").split()
    except FileNotFoundError:
        return None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise StoreError(f"{marker_file(path)} cannot be read ({why.lower()}); give this user the right") from error
    return Marker(words[0] if words else "", damaged=_DAMAGED in words[1:])


def write_marker(path: str, marker: Marker) -> None:
    """Without a marker nothing is protected, and everything works: a failure is logged and no more."""
    draft = Path(f"{marker_file(path)}.{secrets.token_hex(4)}")
    try:
        number = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o660)
        try:
            os.write(number, f"{marker.id}{f' {_DAMAGED}' if marker.damaged else ''}\n".encode())
        finally:
            os.close(number)
        draft.replace(marker_file(path))
    except OSError as error:
        _log.warning("database_marker_not_written file=%s error=%s", marker_file(path).name, type(error).__name__)
        draft.unlink(missing_ok=True)


def remove_marker(path: str) -> None:
    """From now on no database is expected: the next one who opens it takes what is there, or makes a new one."""
    marker_file(path).unlink(missing_ok=True)


def require_expected(path: str) -> None:
    """StoreMissing when a database belongs here, and there is none or an empty file."""
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


def require_id(path: str, found: str | None) -> None:
    """StoreMissing when another database is in the place of the one that belongs here."""
    marker = read_marker(path)
    if marker is not None and marker.id and marker.id != found:
        raise StoreMissing(
            f"{path} is not the database that belongs here: its id is {found or 'missing'}, "
            f"{marker_file(path).name} says {marker.id}. Put the right file back, or restore a copy: "
            f"tidegate db restore FILE --yes. {_WAY_OUT}"
        )


# -- the open files --------------------------------------------------------------------------------------------------


class OpenFiles:
    """The files of one store: the database, and its log and index where it has them."""

    def __init__(self, path: str) -> None:
        self._path = path
        found = os.stat(path)  # noqa: PTH116 - once per transaction, and a Path costs as much as the call
        self._file = found.st_ino, found.st_dev
        self._size = found.st_size
        self._beside: dict[str, tuple[int, int] | None] = {f"{path}-wal": None, f"{path}-shm": None}
        self._lock = threading.Lock()
        self._missing = False
        self._damage = ""
        self._next_check = 0.0  # monotonic time

    @classmethod
    def opened(cls, path: str) -> OpenFiles:
        """StoreMissing when the file was removed a moment ago: nothing may be created in its place."""
        try:
            return cls(path)
        except FileNotFoundError as error:
            require_expected(path)
            raise StoreMissing(f"the database file {path} was not there a moment ago; try again") from error

    @property
    def damaged(self) -> bool:
        return bool(self._damage)

    def check_often(self) -> bool:
        """As `check`, unless that was done a moment ago. Nothing is acknowledged by this alone."""
        if not self._missing and not self._damage and time.monotonic() < self._next_check:
            return False
        return self.check()

    def check(self) -> bool:
        """StoreMissing or StoreDamaged when they cannot be trusted; True when the database file became shorter.

        That is well only when the database did, too; `accept_size` then says so.
        """
        if self._damage:
            raise StoreDamaged(self._damage)
        try:
            found = os.stat(self._path)  # noqa: PTH116
            if (found.st_ino, found.st_dev) != self._file or not self._same_beside():
                raise self.is_missing()
        except OSError as error:
            raise self.is_missing() from error
        if self._missing:
            self._is_back()
        self._next_check = time.monotonic() + _CHECK_EVERY
        if found.st_size < self._size:
            if not found.st_size:  # to SQLite that is a new database, and no damage
                raise self.is_damaged("it was cut to nothing")
            return True
        self._size = found.st_size
        return False

    def accept_size(self) -> None:
        self._size = os.stat(self._path).st_size  # noqa: PTH116

    def is_damaged(self, why: str) -> StoreDamaged:
        """From now on nothing is read or written: that would make it worse. Returns what is to be raised."""
        with self._lock:
            first, self._damage = (
                not self._damage,
                self._damage
                or (
                    f"the database file {self._path} is damaged ({why}). "
                    "Stop Tidegate and restore a copy: tidegate db restore FILE --yes"
                ),
            )
        if first:
            _log.error("database_damaged file=%s why=%s hint=restore a copy", Path(self._path).name, why)
            marker = read_marker(self._path)
            if marker is not None:
                write_marker(self._path, Marker(marker.id, damaged=True))
        return StoreDamaged(self._damage)

    def _same_beside(self) -> bool:
        for name, known in self._beside.items():
            try:
                found = os.stat(name)  # noqa: PTH116
            except FileNotFoundError:
                if known is not None:
                    return False
                continue
            if known is None:
                self._beside[name] = found.st_ino, found.st_dev  # SQLite has just made it
            elif (found.st_ino, found.st_dev) != known:
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
    """Whether the file was cut: pages behind its end must all be in its log."""
    logged = _logged_pages(f"{path}-wal")
    there = os.stat(path).st_size // page_size  # noqa: PTH116
    never = _PENDING_BYTE // page_size + 1
    return there == 0 or any(page not in logged and page != never for page in range(there + 1, pages + 1))


def _logged_pages(log: str) -> set[int]:
    """The pages that a write-ahead log has, as its frames say; those of an earlier round do not count."""
    found: set[int] = set()
    try:
        with Path(log).open("rb") as file:
            head = file.read(_WAL_HEADER.size)
            if len(head) < _WAL_HEADER.size:
                return found
            page_size, salt = _WAL_HEADER.unpack(head)
            while len(frame := file.read(_FRAME_HEADER.size)) == _FRAME_HEADER.size:
                page, _, its_salt = _FRAME_HEADER.unpack(frame)
                if its_salt != salt:
                    break
                found.add(page)
                file.seek(page_size, os.SEEK_CUR)
    except FileNotFoundError:
        pass  # it has none: all pages must be in the file
    return found


# SQLite needs a local disk, since its locks do not hold on network file systems; and it must be allowed to write.

# fmt: off
_NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.davfs2", "fuse.glusterfs", "fuse.rclone",
    "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs",
})
# fmt: on


def require(path: str, mounts: str = "/proc/self/mounts") -> None:
    """StoreError when *path* lies on a network file system; says nothing where that cannot be found out."""
    kind = _file_system(Path(path).resolve().parent, Path(mounts))
    if kind in _NETWORK:
        raise StoreError(f"the database lies on a network file system ({kind}); SQLite needs a local disk")


def require_writable(path: str) -> None:
    """Makes the folder of *path* where there is none; StoreError when either may not be written."""
    folder = Path(path).absolute().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"the database cannot be opened: its folder {folder} cannot be made ({why})") from error
    why = refusal(Path(path))
    if why:
        raise StoreError(f"the database cannot be opened: {why}")


def refusal(path: Path) -> str:
    """Why a file cannot be written; its folder counts, too: the journal lies beside it."""
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
