"""The interface of applications: settings, tables, jobs, routes and pages as values.

from tidegate.apps import App, Page, ScheduledJob

The server finds an application by its entry point in the group `tidegate.apps`. Installing it creates its tables, then
calls `capacity`, `jobs` and `schedules`. `routes` and `pages` are called when the server is built.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from tidegate.db import Db, DbTx, Source
from tidegate.durations import validate_url
from tidegate.errors import NotFound
from tidegate.faults.codes import CORE, Code, CodeBook
from tidegate.guard.capacity import Capacity
from tidegate.jobs.function import Call, JobFunction
from tidegate.jobs.queue import Queue
from tidegate.secrets import Secrets

if TYPE_CHECKING:
    from fastapi import APIRouter, Request, Response
    from prometheus_client.core import Metric

__all__ = [
    "App",
    "Db",
    "DbTx",
    "Installed",
    "Page",
    "ScheduledJob",
    "Simulated",
    "StatusStrip",
    "install",
    "validate_url",
]


_NAME = re.compile(r"[a-z][a-z0-9]{1,19}")
_PATH = re.compile(r"(/[a-z0-9{}_.-]+)+")

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledJob:
    """A job that is inserted at each tick of a cron expression, once over all workers; see `Queue.schedule`."""

    cron: str
    job: JobFunction[..., Any]
    args: Call | Callable[[datetime], Call] = ()
    name: str | None = None
    zone: str = "UTC"


@dataclass(frozen=True, kw_only=True)  # no slots: on Python 3.11 they break `Page[Settings](...)`
class Page(Generic[S]):
    """A page. *show* responds to GET. A page without a title is not in the navigation."""

    path: str
    show: Callable[[Request, Installed[S]], Response]
    title: str = ""
    icon: str = "app"

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise ValueError(f"path: {self.path!r} is not the path of a page; give one such as '/weather'")


class AppSimulator(Protocol):
    """Simulates the services of an application on a loopback port, as `tidegate.testing.Simulator` does."""

    def start(self) -> str:
        """Starts the simulator and returns its URL."""

    def stop(self) -> None: ...

    @property
    def url(self) -> str: ...

    @property
    def control_url(self) -> str:
        """The page on which a user switches outages on and off."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulator, and the settings that make the application call it instead of the real services.

    *use*: instructions that the server prints at start. `{url}` in it is replaced by the simulator's URL.
    """

    simulator: AppSimulator
    settings: Callable[[str], Mapping[str, Any]]  # a function of the simulator's URL
    use: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusStrip:
    """A banner above every page.

    *mark*: one or two words for this server. The title of every page begins with it.
    """

    mark: str
    title: str
    text: str = ""
    links: Sequence[tuple[str, str]] = ()  # path and text of each link
    tone: str = "busy"


@dataclass(frozen=True, kw_only=True)  # no slots: on Python 3.11 they break `App[Settings](...)`
class App(Generic[S]):
    """One application. Only the name is required.

    *settings*: a pydantic model for the section with the application's name. *package*: contains `statements.sql` and
    `migrations/`, unless they are given. *commands*: a click command as "module:attribute", imported on first use. A
    page whose path ends in `/{id}` shows one numeric key of its targets, one that ends in `/{key}` any key. Notices
    link to it.
    """

    name: str
    title: str = ""
    about: str = ""  # one line for users
    settings: type[S] | None = None
    codes: Sequence[Code] = ()
    package: str | None = None
    migrations: Source | None = None
    statements: Source | None = None
    capacity: Callable[[Installed[S]], Mapping[str, Capacity]] | None = None
    jobs: Callable[[Installed[S]], Any] | None = None
    schedules: Callable[[Installed[S]], Iterable[ScheduledJob]] | None = None
    routes: Callable[[Installed[S]], APIRouter] | None = None
    pages: Sequence[Page[S]] = ()
    commands: str | None = None
    simulator: Callable[[], Simulated] | None = None
    metrics: Callable[[Installed[S]], Iterable[Metric]] | None = None  # for `/metrics`; omitted on StoreError
    advice: Callable[[S], Iterable[str]] | None = None  # suggestions for better settings, for `doctor`
    strip: Callable[[Installed[S]], StatusStrip | None] | None = None  # called for every page, so it must be fast
    targets: Sequence[str] = ()  # targets that its pages show; notices of them link there
    help: str = ""  # the path of its troubleshooting page, which the page Help lists

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name: {self.name!r} is not allowed; give 2 to 20 small letters and digits")
        if self.commands is not None and ":" not in self.commands:
            raise ValueError(f"commands: {self.commands!r} is not allowed; give 'module:attribute'")
        if self.help and self.help not in [page.path for page in self.pages]:
            raise ValueError(f"help: {self.help!r} is not allowed; give the path of one of its pages")
        CORE.extend(*self.codes)

    @property
    def shown(self) -> str:
        """Its name for users."""
        return self.title or self.name.capitalize()

    @property
    def home(self) -> Page[S] | None:
        """Its first page in the navigation; None when it has none."""
        return next((page for page in self.pages if page.title), None)


def _passing() -> Callable[[], Secrets]:
    """A random key that is not stored."""
    made = Secrets(secrets.token_bytes(32))
    return lambda: made


@dataclass(slots=True, kw_only=True)
class Installed(Generic[S]):
    """An installed application: the argument of its functions."""

    app: App[S]
    settings: S
    queue: Queue
    db: Db
    codes: CodeBook
    capacity: Mapping[str, Capacity] = field(default_factory=dict)  # by target, for `Target(capacity=...)`
    jobs: Any = None  # the result of its function `jobs`: the job functions for routes and schedules
    closing: ExitStack = field(default_factory=ExitStack)  # resources to close at the end, such as a client
    key: Callable[[], Secrets] = field(default_factory=_passing, repr=False)

    @property
    def secrets(self) -> Secrets:
        """Encrypts and signs with the key of the server, which is created on first use.

        Without a server, each start has a new key.
        """
        return self.key()


def install(
    app: App[S], queue: Queue, settings: S | None = None, key: Callable[[], Secrets] | None = None
) -> Installed[S]:
    """Declares the tables, jobs and schedules of *app* on *queue*. *settings* default to the model's defaults.

    *key*: a function that returns the key for its `secrets`.
    """
    values = settings if settings is not None else app.settings() if app.settings is not None else None
    installed = Installed[S](
        app=app,
        settings=values,  # type: ignore[arg-type]  # None for an application without settings
        queue=queue,
        db=queue.db(app.name, _package(app), statements=app.statements, migrations=app.migrations),
        codes=CORE.extend(*app.codes),
        key=key or _passing(),
    )
    if app.capacity is not None:
        installed.capacity = app.capacity(installed)
    if app.jobs is not None:
        installed.jobs = app.jobs(installed)
    for schedule in app.schedules(installed) if app.schedules is not None else ():
        queue.schedule(schedule.cron, schedule.job, schedule.args, name=schedule.name, zone=schedule.zone)
    return installed


def _package(app: App[Any]) -> str | None:
    return None if app.statements is not None and app.migrations is not None else app.package


# -- entry points ----------------------------------------------------------------------------------------------------

GROUP = "tidegate.apps"
SIMULATORS = "tidegate.simulators"
_PACKAGE = re.compile(r"[A-Za-z0-9._-]+")


def known() -> dict[str, EntryPoint]:
    """The installed applications whose requirements are met, by name. Imports none of them."""
    return {name: point for name, point in _all().items() if not _wants(point)}


def lacking() -> dict[str, str]:
    """The applications with missing requirements, by name, and what to install."""
    return {name: install for name, point in _all().items() if (install := _wants(point))}


def _all() -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def _wants(point: EntryPoint) -> str:
    """The missing extras of an entry point (`feeds = "module:app [feeds]"`), for pip; empty if all are installed."""
    extras = "|".join(map(re.escape, point.extras))
    if point.dist is None or not extras:
        return ""
    wanted = [line for line in point.dist.requires or () if re.search(rf"""extra == ['"]({extras})['"]""", line)]
    names = [match[0] for line in wanted if (match := _PACKAGE.match(line))]
    return "" if all(map(_there, names)) else f"{point.dist.name}[{','.join(point.extras)}]"


def _there(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def load(name: str) -> App[Any]:
    """Imports one application. Raises NotFound, or ValueError if the entry point is not an `App` of that name."""
    apps = known()
    if name not in apps and (install := lacking().get(name)):
        raise NotFound(f"the application {name!r} needs packages that are not installed; run: pip install '{install}'")
    if name not in apps:
        raise NotFound(f"there is no application {name!r}; installed: {', '.join(apps) or 'none'}")
    app = apps[name].load()
    if not isinstance(app, App) or app.name != name:
        raise ValueError(f"the entry point {name!r} must name an App with that name, not {app!r}")
    return app


# -- simulated services ----------------------------------------------------------------------------------------------


def simulated(app: App[Any]) -> Simulated | None:
    """The simulated services of an application, from the application or from an entry point; None without any."""
    if app.simulator is not None:
        return app.simulator()
    point = next(iter(entry_points(group=SIMULATORS, name=app.name)), None)
    return None if point is None else cast("Simulated", point.load()())
