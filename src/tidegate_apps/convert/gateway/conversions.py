"""Running and cached conversions: in limited child processes, a few at a time, each job_id only once."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tidegate import children
from tidegate_apps.convert.gateway.child import ConversionOrder, ConversionReport
from tidegate_apps.convert.gateway.config import GatewayLimits, GatewayRefusal
from tidegate_apps.convert.gateway.uploads import ConversionUpload

_CONVERT = "tidegate_apps.convert.gateway.child:convert"
_ENDED = {"child_time": "too_hard", "child_memory": "too_much_memory", "child_died": "crashed", "cancelled": "stopping"}
# Refusals that only depend on the document. A crash may have another cause, so the next request tries again.
_CACHED_CODES = frozenset({"encrypted", "broken", "no_pages", "result_too_large"})
_log = logging.getLogger("tidegate.convert.gateway")


@dataclass(frozen=True, slots=True)
class Result:
    """XML in a file."""

    path: Path
    made: ConversionReport


@dataclass(slots=True)
class _Kept:
    fingerprint: tuple[str, str, bool]
    task: asyncio.Task[Result | GatewayRefusal]
    ended: float | None = None  # None: still running
    asking: int = 0  # requests that are about to open its file


class Conversions:
    """Conversions of one event loop.

    *folder* is its own, *mappings* holds additional mappings, *now* is monotonic time.
    """

    def __init__(
        self,
        folder: Path,
        limits: GatewayLimits,
        now: Callable[[], float] = time.monotonic,
        mappings: Path | None = None,
    ) -> None:
        self._folder, self._limits, self._now = folder, limits, now
        self._mappings = None if mappings is None else str(mappings.absolute())
        self._turns = asyncio.Semaphore(limits.conversions)
        self._pool = children.Children(limits.conversions)
        self._kept: dict[str, _Kept] = {}
        self.active = self.waiting = 0

    @property
    def processes(self) -> frozenset[int]:
        return self._pool.pids

    @property
    def kept(self) -> int:
        return len(self._kept)

    async def result(self, asked: ConversionUpload) -> tuple[Result, bool]:
        """Return the result, and whether the caller must delete its file. Raises GatewayRefusal.

        A second request with the same job_id gets the result of the first, even while that is still running.
        """
        if not asked.job_id:
            return _xml(await self._converted(asked)), True
        self.sweep()
        entry = self._kept.get(asked.job_id)
        if entry is not None:
            asked.path.unlink()
            if entry.fingerprint != asked.fingerprint:
                raise GatewayRefusal(
                    "job_id_reused", "job_id: it was used for another file or mapping; give a new one."
                )
        else:
            # A task: the conversion continues if the client disconnects, because the client will retry.
            entry = _Kept(asked.fingerprint, asyncio.create_task(self._converted(asked)))
            self._kept[asked.job_id] = entry
            entry.task.add_done_callback(lambda _: self._ended(asked.job_id))
        entry.asking += 1
        try:
            result = await asyncio.shield(entry.task)
        finally:
            entry.asking -= 1  # no other task runs until the file is open
        return _xml(result), False

    def sweep(self) -> None:
        """Drop cached results that are too old, too many or too large; oldest first."""
        now, limits = self._now(), self._limits
        done = sorted(
            (entry.ended, job_id)
            for job_id, entry in self._kept.items()
            if entry.ended is not None and not entry.asking
        )
        results = [self._kept[job_id].task.result() for _, job_id in done]
        size = sum(result.made.size for result in results if isinstance(result, Result))
        for index, (ended, job_id) in enumerate(done):
            if now - ended <= limits.kept_for and len(done) - index <= limits.kept and size <= limits.kept_bytes:
                return
            del self._kept[job_id]
            result = results[index]
            if isinstance(result, Result):
                size -= result.made.size
                result.path.unlink(missing_ok=True)

    async def close(self) -> None:
        """Cancel everything that is running."""
        tasks = [entry.task for entry in self._kept.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._pool.close)

    def _ended(self, job_id: str) -> None:
        entry = self._kept.get(job_id)
        if entry is None:
            return
        if entry.task.cancelled() or entry.task.exception() is not None:
            del self._kept[job_id]  # the next request tries again
        else:
            entry.ended = self._now()
            self.sweep()

    async def _converted(self, asked: ConversionUpload) -> Result | GatewayRefusal:
        """Return a result or a refusal to cache. Other refusals are raised."""
        try:
            if self._turns.locked() and self.waiting >= self._limits.waiting:
                raise GatewayRefusal("busy")
            self.waiting += 1
            try:
                await self._turns.acquire()
            finally:
                self.waiting -= 1
            self.active += 1
            try:
                try:
                    return await self._once(asked)
                except GatewayRefusal as error:
                    if error.code != "crashed":
                        raise
                # Another process may have killed the child, so one crash does not reject the document.
                return await self._once(asked)
            except GatewayRefusal as error:
                if error.code in _CACHED_CODES:
                    return error
                raise
            finally:
                self.active -= 1
                self._turns.release()
        finally:
            asked.path.unlink(missing_ok=True)

    async def _once(self, asked: ConversionUpload) -> Result:
        limits, path = self._limits, self._folder / f"result-{uuid4().hex}.xml"
        order = ConversionOrder(
            source=str(asked.path),
            result=str(path),
            mapping=asked.mapping,
            mappings=self._mappings,
            pretty=asked.pretty,
            most=limits.xml_bytes,
        )
        # The parent limits wall-clock time and the child limits CPU time, so it is known which limit was hit.
        bounds = children.Limits(memory_mb=limits.memory_mb, cpu=limits.cpu, time=None)
        with _removed_unless_well(path):
            try:
                async with asyncio.timeout(limits.time):
                    made = ConversionReport(**await children.run(_CONVERT, order, bounds, among=self._pool))
            except TimeoutError:
                raise GatewayRefusal("took_too_long") from None
            except children.ChildError as error:
                detail = error.fault.detail
                _log.warning("conversion_ended code=%s sha256=%s detail=%s", error.code, asked.sha256, detail)
                raise GatewayRefusal(_ENDED.get(error.code, "internal")) from error
            if made.refused:
                raise GatewayRefusal(made.refused)
        return Result(path, made)


@contextmanager
def _removed_unless_well(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _xml(found: Result | GatewayRefusal) -> Result:
    if isinstance(found, GatewayRefusal):
        # A new exception each time: raising one again extends its traceback.
        raise GatewayRefusal(found.code, found.detail)
    return found


# -- working folder, locked by its gateway -----------------------------------------------------------------------------
# The next gateway removes it if its owner was killed.

_PREFIX = "tidegate-gateway-"
_LOCK = "lock"


@contextlib.contextmanager
def own_folder(inside: Path | None) -> Iterator[Path]:
    """Create and lock a new folder in *inside*, or in the system's temporary folder."""
    home = Path(tempfile.gettempdir()) if inside is None else inside
    _sweep(home)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
    try:
        with (folder / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel releases it when this process ends
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(home: Path) -> None:
    """Remove the folders of killed gateways: their locks are free."""
    for folder in home.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it belongs to another user, or is in use
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
