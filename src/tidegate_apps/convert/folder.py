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
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

from tidegate_apps.convert.storage import PIECE, Draft, KeyTaken, StorageError, StorageFull, StoredObject

if TYPE_CHECKING:
    from typing_extensions import Buffer

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
