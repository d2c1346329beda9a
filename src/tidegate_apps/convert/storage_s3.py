"""Files in an object store such as S3, with obstore. Needs the extra `s3`."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, cast

from tidegate_apps.convert.storage import (
    ID,
    PIECE,
    Draft,
    FileDraft,
    KeyTaken,
    StorageError,
    StoredObject,
    storage_errors,
)

# The queue retries jobs. Retries of obstore would only hide failures.
_CONNECT_TIMEOUT = timedelta(seconds=10)
_LOCAL = "drafts/"  # no object has such a key
# Limits memory: concurrent uploads times parts of 5 MB, or whole files.
_MAX_CONCURRENT = 4
_PARTS = 2


class Objects:
    """Keys are object keys. A draft is a local file until `put`, so an object appears whole or not at all."""

    def __init__(self, store: Any, drafts: Path | None = None) -> None:
        self._store = store
        self._turns = threading.BoundedSemaphore(_MAX_CONCURRENT)
        self._drafts = drafts or Path(tempfile.gettempdir()) / f"tidegate-convert-drafts-{os.getuid()}"

    @classmethod
    def at(cls, url: str) -> Objects:
        """Return the store of a URL. Other options come from environment variables such as AWS_REGION."""
        try:
            from obstore.store import from_url
        except ModuleNotFoundError as error:
            raise ValueError(
                "convert.storage: an object store needs one more package; install it with: pip install 'tidegate[s3]'"
            ) from error
        try:
            return cls(from_url(url, retry_config={"max_retries": 1, "retry_timeout": _CONNECT_TIMEOUT}))
        except Exception as error:  # each kind of store raises its own errors
            raise ValueError(
                f"convert.storage: {type(error).__name__}: this URL cannot be used; give one such as s3://bucket/prefix"
            ) from error

    def draft(self) -> FileDraft:
        with storage_errors():
            self._drafts.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._drafts.stat().st_uid != os.getuid():
                raise StorageError(f"{self._drafts.name}: it belongs to another user; choose another folder")
        return FileDraft(self._drafts)

    def put(self, draft: Draft, key: str, *, replace: bool = False) -> None:
        import obstore

        assert isinstance(draft, FileDraft)  # noqa: S101 - its own
        with self._turns, _storage_errors():
            if replace:
                obstore.put(self._store, key, draft.path, max_concurrency=_PARTS)
            else:  # one request, so no parts: S3 accepts 5 GB in one
                obstore.put(self._store, key, draft.path, mode="create", use_multipart=False)
        draft.path.unlink(missing_ok=True)

    def size(self, key: str) -> int | None:
        import obstore

        with _storage_errors():
            try:
                return int(obstore.head(self._store, key)["size"])
            except FileNotFoundError:
                return None

    def check(self, key: str) -> None:
        import obstore

        with _storage_errors():  # a missing bucket and a missing key return the same response
            next(iter(obstore.list(self._store, prefix=key.rpartition("/")[0], chunk_size=1)), None)

    @contextlib.contextmanager
    def open(self, key: str) -> Iterator[BinaryIO]:
        import obstore

        with _storage_errors():
            pieces = iter(obstore.get(self._store, key).stream(min_chunk_size=PIECE))
        yield cast("BinaryIO", io.BufferedReader(_ObjectReader(pieces), PIECE))

    def remove(self, key: str) -> bool:
        import obstore

        if key.startswith(_LOCAL):
            with storage_errors():
                return _gone(self._drafts / key.removeprefix(_LOCAL))
        there = self.size(key) is not None
        with _storage_errors():
            if there:
                obstore.delete(self._store, key)
        return there

    def kept(self) -> Iterator[StoredObject]:
        """Yield all objects, and the local drafts that killed processes left."""
        import obstore

        for place in sorted(self._drafts.glob("*")):
            with contextlib.suppress(FileNotFoundError):
                yield StoredObject(_LOCAL + place.name, place.stat().st_mtime, draft=True)
        with _storage_errors():
            for page in obstore.list(self._store):
                for meta in page:
                    if meta["path"] == ID:
                        continue
                    yield StoredObject(str(meta["path"]), meta["last_modified"].timestamp())

    def free(self) -> float | None:
        return None


def _gone(place: Path) -> bool:
    try:
        place.unlink()
    except FileNotFoundError:
        return False
    return True


class _ObjectReader(io.RawIOBase):
    """A response body as a Python file."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        if not self._rest:
            with _storage_errors():
                self._rest = memoryview(bytes(next(self._pieces, b"")))
        n = min(len(room), len(self._rest))
        room[:n], self._rest = self._rest[:n], self._rest[n:]
        return n


@contextlib.contextmanager
def _storage_errors() -> Iterator[None]:
    """Convert all errors to StorageError. The message may hold a URL and is only for the log."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        kind = KeyTaken if type(error).__name__ in ("AlreadyExistsError", "PreconditionError") else StorageError
        said, *_ = str(error).splitlines() or [""]  # later lines are internals of obstore
        raise kind(f"{type(error).__name__}: {said}") from error
