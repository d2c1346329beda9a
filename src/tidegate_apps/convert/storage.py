"""Storage of files by key, and its implementation in a local folder."""

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


# A file is written as a draft, flushed to disk, and only then gets its key. So no key ever shows a partial file. A
# crash leaves drafts and files without a job, which a job deletes.

PIECE = 256 * 1024
ID = "storage.id"  # the key of the file that identifies this storage


class StorageError(Exception):
    """The storage could not be read or written."""


class StorageFull(StorageError):
    """The storage has no space left."""


class StorageAway(StorageError):
    """The storage is readable, but not the one that the database knows: its disk may not be mounted."""


class KeyTaken(StorageError):
    """A file with that key exists."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A stored file."""

    key: str
    changed_at: float  # UNIX time
    draft: bool = False


class Draft(Protocol):
    """A file that is being written. The context manager drops it at the end unless it got its key."""

    @property
    def size(self) -> int: ...

    @property
    def sha256(self) -> str: ...

    def add(self, data: bytes) -> None: ...

    def seal(self) -> None:
        """Flush the file to disk."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Storage(Protocol):
    """Files by key, such as "pdf/3f….pdf". Every method blocks and raises StorageError."""

    def draft(self) -> Draft: ...

    def put(self, draft: Draft, key: str, *, replace: bool = False) -> None:
        """Give a sealed draft its key, durably. Raises KeyTaken if the key exists."""

    def size(self, key: str) -> int | None:
        """Return the size in bytes; None if there is no such file."""

    def check(self, key: str) -> None:
        """Raise if the folder or bucket of the file is missing, because then the file may still exist.

        A disk that is not mounted looks like an empty one.
        """

    def open(self, key: str) -> AbstractContextManager[BinaryIO]: ...

    def remove(self, key: str) -> bool:
        """Delete a file; False if it did not exist."""

    def kept(self) -> Iterator[StoredObject]: ...

    def free(self) -> float | None:
        """Return the free share of the disk, 0 to 1; None if unknown."""


def is_upload(key: str) -> bool:
    """Whether convert wrote this file for a job. It never deletes other files."""
    folder, _, name = key.rpartition("/")
    return (folder, name.rpartition(".")[2]) in (("pdf", "pdf"), ("xml", "xml"))


def pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(PIECE):
        yield piece


def digest(storage: Storage, key: str) -> tuple[str, int] | None:
    """Return the SHA-256 and the size of a file; None if it does not exist."""
    if storage.size(key) is None:
        return None
    sha256, size = hashlib.sha256(), 0
    with storage.open(key) as file:
        for piece in pieces(file):
            sha256.update(piece)
            size += len(piece)
    return sha256.hexdigest(), size


DRAFTS = "drafts"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV)


@contextlib.contextmanager
def storage_errors() -> Iterator[None]:
    """Convert OSError to StorageError. Its message may hold a path and is only for the log."""
    try:
        yield
    except OSError as error:
        kind = StorageFull if error.errno in _FULL else StorageError
        raise kind(f"{errno.errorcode.get(error.errno or 0, 'OSError')}: {error}") from error


class FileDraft:
    """A temporary file in *folder*, readable only by its owner."""

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
        with contextlib.suppress(OSError):  # the disk may be full, and the data is discarded anyway
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
    """Raises StorageError for disk errors, so that the sender does not take them for network errors."""

    def readinto(self, room: Buffer, /) -> int | None:
        with storage_errors():
            return super().readinto(room)


def _named(draft: Path, place: Path) -> None:
    """Link the draft to its name unless that exists. A late worker must not overwrite a newer file."""
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
    """Flush a folder: a new name is only durable after that."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
