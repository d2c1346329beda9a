"""Where the files are: a folder of this machine, or an object store. Nothing half written is ever seen under its key.

A file is written as a draft first, flushed to the disk, and only then gets its key; what a crash leaves behind are
drafts and files that no job knows, which the sweep removes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, Self

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


def storage_at(where: str) -> Storage:
    """The storage of a setting: a folder, or a URL; ValueError when there can be none."""
    if "://" in where and not where.startswith("file://"):
        from tidegate_apps.convert.objects import Objects

        return Objects.at(where)
    from tidegate_apps.convert.folder import Folder

    return Folder(Path(where.removeprefix("file://")))
