"""Files in a folder of this machine."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self

if TYPE_CHECKING:
    from typing_extensions import Buffer


# Where the files are: a folder of this machine, or an object store. Nothing half written is ever seen under its key.
#
# A file is written as a draft first, flushed to the disk, and only then gets its key; what a crash leaves behind are
# drafts and files that no job knows, which the sweep removes.

PIECE = 256 * 1024
ID = "storage.id"  # the key of the file that says which storage this is


class StorageError(Exception):
    """The storage could not be read or written."""


class StorageFull(StorageError):
    """There is no space left in it."""


class StorageAway(StorageError):
    """It can be read, and it is not the one that the database knows: its disk is perhaps not mounted."""


class KeyTaken(StorageError):
    """There is a file under that key already."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A file that is there."""

    key: str
    changed_at: float  # UNIX time
    draft: bool = False


class Draft(Protocol):
    """A file that is being written. As a context it is dropped at the end, unless it got its key."""

    @property
    def size(self) -> int: ...

    @property
    def sha256(self) -> str: ...

    def add(self, data: bytes) -> None: ...

    def seal(self) -> None:
        """All of it is on the disk when this returns."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Storage(Protocol):
    """Files by key, such as "pdf/3f….pdf". Every method waits, and raises StorageError."""

    def draft(self) -> Draft: ...

    def put(self, draft: Draft, key: str, *, replace: bool = False) -> None:
        """Gives a sealed draft its key, for good when this returns; Taken when there is such a file."""

    def size(self, key: str) -> int | None:
        """Bytes; None when there is no such file."""

    def check(self, key: str) -> None:
        """Raises when the place itself that would have the file is not there: then nobody knows that the file is gone.

        A disk that is not mounted looks like an empty one.
        """

    def open(self, key: str) -> AbstractContextManager[BinaryIO]: ...

    def remove(self, key: str) -> bool:
        """False when it was not there."""

    def kept(self) -> Iterator[StoredObject]: ...

    def free(self) -> float | None:
        """The share of the disk that is free, 0 to 1; None when nobody knows."""


def pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        yield piece


def digest(storage: Storage, key: str) -> tuple[str, int] | None:
    """The SHA-256 and the size of a file; None when it is not there."""
    if storage.size(key) is None:
        return None
    found, size = hashlib.sha256(), 0
    with storage.open(key) as file:
        for piece in pieces(file):
            found.update(piece)
            size += len(piece)
    return found.hexdigest(), size


DRAFTS = "drafts"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV)


@contextlib.contextmanager
def storage_errors() -> Iterator[None]:
    """What the system says, as a StorageError; its words may hold a path and are for the log."""
    try:
        yield
    except OSError as error:
        kind = StorageFull if error.errno in _FULL else StorageError
        raise kind(f"{errno.errorcode.get(error.errno or 0, 'OSError')}: {error}") from error


class FileDraft:
    """A temporary file in *folder*; readable by nobody else."""

    def __init__(self, folder: Path) -> None:
        self._hash, self.size = hashlib.sha256(), 0
        with storage_errors():
            folder.mkdir(parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(dir=folder)
        self.path = Path(name)
        self._file = os.fdopen(number, "wb")

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def add(self, data: bytes) -> None:
        self._hash.update(data)
        self.size += len(data)
        with storage_errors():
            self._file.write(data)

    def seal(self) -> None:
        with storage_errors():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # the disk may be full: what it holds back is of no use
            self._file.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


class Folder:
    """Keys are paths below one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def draft(self) -> FileDraft:
        return FileDraft(self._root / DRAFTS)

    def put(self, draft: Draft, key: str, *, replace: bool = False) -> None:
        assert isinstance(draft, FileDraft)  # noqa: S101 - its own
        place = self._root / key
        with storage_errors():
            if not place.parent.is_dir() or place.parent == self._root:
                place.parent.mkdir(parents=True, exist_ok=True)
                _flush(self._root)
                _flush(self._root.absolute().parent)
            if replace:
                draft.path.replace(place)
            else:
                _named(draft.path, place)
            _flush(place.parent)

    def size(self, key: str) -> int | None:
        with storage_errors():
            try:
                return (self._root / key).stat().st_size
            except FileNotFoundError:
                return None

    def check(self, key: str) -> None:
        with storage_errors(), os.scandir((self._root / key).parent):
            pass

    @contextlib.contextmanager
    def open(self, key: str) -> Iterator[BinaryIO]:
        with storage_errors():
            number = os.open(self._root / key, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with _FileReader(number, "rb") as raw:
            yield io.BufferedReader(raw, PIECE)

    def remove(self, key: str) -> bool:
        with storage_errors():
            try:
                (self._root / key).unlink()
            except FileNotFoundError:
                return False
        return True

    def kept(self) -> Iterator[StoredObject]:
        for place in sorted(self._root.glob("*/*")):
            with contextlib.suppress(FileNotFoundError):
                key = place.relative_to(self._root).as_posix()
                yield StoredObject(key, place.stat().st_mtime, draft=place.parent.name == DRAFTS)

    def free(self) -> float | None:
        there = next((place for place in (self._root, *self._root.absolute().parents) if place.exists()), None)
        if there is None:
            return None
        with storage_errors():
            usage = shutil.disk_usage(there)
        return usage.free / usage.total if usage.total else None


class _FileReader(io.FileIO):
    """What the disk says while it is read, as a StorageError: to whoever sends the file, it is no fault of the net."""

    def readinto(self, room: Buffer, /) -> int | None:
        with storage_errors():
            return super().readinto(room)


def _named(draft: Path, place: Path) -> None:
    """Gives the draft its name, unless there is such a file. A late worker must not put its own over a newer one."""
    try:
        place.hardlink_to(draft)
    except FileExistsError as error:
        raise KeyTaken(place.name) from error
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if place.exists():
            raise KeyTaken(place.name) from error
        draft.replace(place)
    else:
        draft.unlink()


def _flush(folder: Path) -> None:
    """A new name is on the disk only when its folder is."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
