"""Password checks in threads of their own: each takes 64 MB and much CPU, and anyone may ask for one."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from tidegate.ops import accounts

_THREADS = 2
_MAX_WAITING = 8


class PasswordChecks:
    """Checks two passwords at a time. Eight more may wait; browsers that signed in before have eight places besides.

    Use it on one event loop.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._pending = 0

    async def check(self, password: str, digest: str | None, *, known_device: bool) -> bool | None:
        """Whether the password has that digest; None at once when too many checks are pending."""
        places = _THREADS + _MAX_WAITING * (2 if known_device else 1)
        if self._pending >= places:
            return None
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="tidegate-password")
        self._pending += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, accounts.fits, password, digest)
        finally:
            self._pending -= 1

    def close(self) -> None:
        """Ends the threads; the next check starts new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)
