"""The composition root of the server: settings, queue, applications, web page, workers and simulators."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.accounts import users
from tidegate.accounts.access import Issuer
from tidegate.apps import App, AppSimulator, Installed, install, known, load
from tidegate.apps import simulated as simulated_services
from tidegate.errors import TidegateError
from tidegate.jobs.queue import Queue
from tidegate.jobs.worker import WorkerPolicy
from tidegate.logs import logger
from tidegate.notices.conditions import OWN_QUEUE
from tidegate.notices.deliveries import NoticeRow
from tidegate.notices.dispatcher import NoticeDispatcher
from tidegate.process import Watchdog, on_signals, run_loop
from tidegate.secrets import Secrets
from tidegate.validation import JsonObject

if TYPE_CHECKING:
    from tidegate.settings import Loaded


_log = logger("tidegate.server")

_RESTART_SECONDS = 5.0  # before workers that raised are started again


class WorkerThread:
    """Runs *work* on its own thread and loop until its event is set, and restarts it if it raises.

    The separate loop keeps the page responsive when a handler blocks.
    """

    def __init__(
        self, work: Callable[[asyncio.Event], Awaitable[object]], *, restart_seconds: float = _RESTART_SECONDS
    ) -> None:
        self._work = work
        self._restart_seconds = restart_seconds
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._thread = threading.Thread(target=self._run, name="tidegate-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self) -> None:
        """Requests the end of the work without waiting for it."""
        self._asked.set()
        with self._lock:
            if self._stop is not None:
                loop, stop = self._stop
                loop.call_soon_threadsafe(stop.set)

    def join(self, seconds: float) -> bool:
        """Waits for the end. Returns False if the thread still runs after *seconds*."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._asked.is_set():
            try:
                run_loop(self._main())
            except BaseException:  # even a cancellation or SystemExit must not leave the server without workers
                _log.exception("engine_broke again_in=%s", self._restart_seconds)
                self._asked.wait(self._restart_seconds)

    async def _main(self) -> None:
        stop = asyncio.Event()
        with self._lock:
            self._stop = asyncio.get_running_loop(), stop
        try:
            if not self._asked.is_set():
                await self._work(stop)
        finally:
            with self._lock:  # `ask` must not call a loop that is about to close
                self._stop = None


ALL = "*"  # every application, every queue


@dataclass(slots=True, kw_only=True)
class Assembled:
    """The parts of a server, declared but not running."""

    loaded: Loaded
    queue: Queue
    telling: NoticeDispatcher
    apps: list[Installed[Any]] = field(default_factory=list)
    simulators: dict[str, AppSimulator] = field(default_factory=dict)  # running ones, by application
    uses: dict[str, str] = field(default_factory=dict)  # instructions for users, by application
    visitor: str = ""  # the owner of anonymous uploads; empty: each browser is its own owner

    @property
    def works(self) -> bool:
        """Whether any job is declared."""
        return bool(self.queue.queues())


def there_are() -> tuple[list[App[Any]], dict[str, str]]:
    """The installed applications, and the errors of those that cannot be loaded, by name."""
    apps, broken = list[App[Any]](), dict[str, str]()
    for name in known():
        try:
            apps.append(load(name))
        except Exception as error:  # one broken application must not stop the others
            broken[name] = f"{type(error).__name__}: {error}"
    return apps, broken


@contextlib.contextmanager
def assembled(loaded: Loaded, apps: Sequence[App[Any]], *, simulators: bool | None = None) -> Iterator[Assembled]:
    """Installs the enabled *apps* on one queue. With *simulators*, they call simulated services.

    None means as the settings say, so that no command calls a real service where they enable simulators.
    """
    values = loaded.values
    simulators = values.simulators if simulators is None else simulators
    with contextlib.ExitStack() as stack:
        retention = values.retention.by_queue()
        queue = stack.enter_context(Queue(values.db, listen_url=values.listen_url or None, retention=retention))
        installed_apps: list[Installed[Any]] = []
        parts = Assembled(
            loaded=loaded, queue=queue, telling=_telling(loaded, queue, installed_apps), apps=installed_apps
        )
        key = functools.cache(lambda: secrets_of(loaded))
        for app in (candidate for candidate in apps if candidate.name in loaded.apps):
            settings = loaded.app(app.name)
            if simulators and (simulated := simulated_services(app)) is not None:
                url = simulated.simulator.start()
                stack.callback(simulated.simulator.stop)
                parts.simulators[app.name] = simulated.simulator
                parts.uses[app.name] = simulated.use.replace("{url}", url)
                settings = _changed(settings, simulated.settings(url))
            installed = install(app, queue, settings, key)
            stack.push(installed.closing)
            parts.apps.append(installed)
        yield parts


def _telling(loaded: Loaded, queue: Queue, apps: Sequence[Installed[Any]]) -> NoticeDispatcher:
    """The dispatcher for the channels of the settings, as a background task of every worker."""
    values = loaded.values

    def path(row: NoticeRow) -> str:
        from tidegate.web.pages.notices import place_of

        return place_of(row, apps) or "/notices"

    dispatcher = NoticeDispatcher(
        queue, values.channels.all(), values.notices.policy(), address=values.address, path=path
    )
    queue.add_background_task(dispatcher.run)
    return dispatcher


def _changed(settings: Any, values: Any) -> Any:
    return None if settings is None else type(settings).model_validate(_merged(settings.model_dump(), values))


def _merged(settings: JsonObject, values: JsonObject) -> JsonObject:
    """Merges *values* over *settings*, table by table. A setting that the simulator does not name stays."""
    tables = {
        name: _merged(settings[name], value)
        for name, value in values.items()
        if isinstance(value, Mapping) and isinstance(settings.get(name), Mapping)
    }
    return {**settings, **values, **tables}


def secrets_of(loaded: Loaded) -> Secrets:
    """The secret key of this server, created at the first start."""
    given = loaded.values.secret_key.get_secret_value()
    return Secrets(given) if given else Secrets.in_file(Path(loaded.values.secret_key_file))


class NobodyYet(TidegateError):
    """The server is reachable from other machines, and no user has a password."""


class WrongQueues(TidegateError):
    """The settings name queues that no worker could serve."""


def check_reach(parts: Assembled) -> None:
    """Raises NobodyYet when the server would be open to strangers."""
    host = parts.loaded.values.server.host
    if host != "localhost" and not ip_address(host).is_loopback and not parts.queue.store.read(users.anybody):
        raise NobodyYet(
            f"server.host: {host} can be reached from other machines, and no user exists yet; "
            "add one first: tidegate user add NAME --role admin"
        )


def worked_on(parts: Assembled) -> frozenset[str] | None:
    """The queues of the settings and the queue of notices; None for all. Raises WrongQueues."""
    names = parts.loaded.values.worker.queues
    if ALL in names:
        return None
    queues = frozenset(names) | ({OWN_QUEUE} & parts.queue.queues())
    try:
        parts.queue.check_queues(queues)
    except ValueError as error:
        raise WrongQueues(f"worker.queues: {str(error).partition(': ')[2]}") from error
    return queues


def serve(parts: Assembled, at: socket.socket, *, work: bool = True, ready: Callable[[str], None]) -> None:
    """Serves page and API on the socket, and runs workers, until SIGTERM or SIGINT. Then it shuts down gracefully."""
    from tidegate.web.app import build
    from tidegate.web.connections import LAST_ANSWERS, HttpServer, url_of

    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # its INFO lines duplicate ours
    app = build(_site(parts))
    server, engine = HttpServer(app), _engine(parts, work=work)
    longest = WorkerPolicy(grace=parts.loaded.values.worker.grace).longest_stop
    watchdog = Watchdog(longest + LAST_ANSWERS)

    async def main() -> None:
        stop = asyncio.Event()
        with on_signals(stop, watchdog):
            answering = asyncio.create_task(server.serve(sockets=[at]))
            engine.start()
            while not server.started and not answering.done():  # noqa: ASYNC110 - it has only a flag
                await asyncio.sleep(0.01)
            if server.started:
                ready(url_of(at))
                _log.info("server_started address=%s", url_of(at).removeprefix("http://"))
            asked = asyncio.create_task(stop.wait())
            await asyncio.wait({answering, asked}, return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
            _log.info("server_stopping")
            engine.ask()
            app.state.closing.set()  # makes event streams end; nothing else would
            server.should_exit = True
            await answering
            if not await asyncio.to_thread(engine.join, longest):
                _log.error("workers_did_not_end seconds=%s", longest)

    try:
        asyncio.run(main())
    finally:
        watchdog.disarm()


def _engine(parts: Assembled, *, work: bool) -> WorkerThread:
    """The workers. If they run in another process, only notices, so that an operator hears when no worker runs."""
    worker, own = parts.loaded.values.worker, frozenset({OWN_QUEUE} & parts.queue.queues())
    if not parts.works or (not work and not own):
        return WorkerThread(parts.telling.run)
    queues = worked_on(parts) if work else own
    return WorkerThread(
        lambda stop: parts.queue.arun_worker(worker.concurrency, queues=queues, stop=stop, grace=worker.grace)
    )


def _site(parts: Assembled) -> Any:
    from tidegate import __version__
    from tidegate.web.auth import Authenticator
    from tidegate.web.site import Site

    return Site(
        queue=parts.queue,
        telling=parts.telling,
        apps=tuple(parts.apps),
        version=__version__,
        config=lambda: [setting.as_json() for setting in parts.loaded.effective()],
        simulated={name: simulator.url for name, simulator in parts.simulators.items()},
        hosts=(*parts.loaded.values.server.names, parts.loaded.values.server.host),
        trusted_proxies=parts.loaded.values.server.trusted_proxies,
        access=Authenticator(_issuers(parts.loaded), secrets_of(parts.loaded)),
        visitor=parts.visitor,
    )


def _issuers(loaded: Loaded) -> list[Issuer]:
    """The trusted issuers of tokens: this server, and the owner of the public key in the settings."""
    jwt = loaded.values.jwt
    own = [Issuer.own(secrets_of(loaded).derived("jwt"))]
    if not jwt.public_key:
        return own
    return [*own, Issuer.of_public_key(jwt.public_key, jwt.issuer, jwt.audience)]
