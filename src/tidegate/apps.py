"""Applications: what one adds to a server, and how it reads the server's database.

from tidegate.apps import App, Every, Page
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


# What an application is: its settings, tables, jobs, routes and pages, as values that the server puts together.
#
# The server finds it by its entry point in the group `tidegate.apps`. Nothing of an application runs before it is
# installed: first its tables, then `capacity`, `jobs` and `schedules`; `routes` and `pages` when the server is built.

_NAME = re.compile(r"[a-z][a-z0-9]{1,19}")
_PATH = re.compile(r"(/[a-z0-9{}_.-]+)+")

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledJob:
    """A job that is put in at each tick of a cron expression, once over all workers; see `Queue.schedule`."""

    cron: str
    job: JobFunction[..., Any]
    args: Call | Callable[[datetime], Call] = ()
    name: str | None = None
    zone: str = "UTC"


@dataclass(frozen=True, kw_only=True)  # no slots: `Page[Settings](...)` could not be called on Python 3.11
class Page(Generic[S]):
    """A page in the navigation. *show* answers a GET; a page without a title is reachable, and not listed."""

    path: str
    show: Callable[[Request, Installed[S]], Response]
    title: str = ""
    icon: str = "app"

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise ValueError(f"path: {self.path!r} is no path of a page; give one such as '/weather'")


class AppSimulator(Protocol):
    """Stands in for the services of an application on a loopback port, as `tidegate.testing.Simulator` does."""

    def start(self) -> str:
        """The address that it listens on."""

    def stop(self) -> None: ...

    @property
    def url(self) -> str: ...

    @property
    def control_url(self) -> str:
        """Where a person makes its weather, while it runs."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """A simulator, and the settings that make the application call it instead of the real services.

    *use* says what a person can do with it, for the start of the server; `{url}` in it is its address.
    """

    simulator: AppSimulator
    settings: Callable[[str], Mapping[str, Any]]  # of the address
    use: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusStrip:
    """A line above every page, for what everybody must know who looks at any of them.

    *mark* says in a word or two what this server is; the title of every page begins with it.
    """

    mark: str
    title: str
    text: str = ""
    links: Sequence[tuple[str, str]] = ()  # paths of pages, each with the words that lead there
    tone: str = "busy"


@dataclass(frozen=True, kw_only=True)  # no slots: `App[Settings](...)` could not be called on Python 3.11
class App(Generic[S]):
    """One application. Every field but the name may be left out.

    *settings* is a pydantic model; its fields are the section of that name in the settings. *package* is where
    `statements.sql` and `migrations/` are found, unless they are given. *commands* names a click command as
    "module:attribute", so that it is imported only when it is called. A page whose path ends in `/{id}` is that of one
    key of its targets, where these are numbers, and one that ends in `/{key}` that of any key: notices lead there.
    """

    name: str
    title: str = ""
    about: str = ""  # one line, for people
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
    metrics: Callable[[Installed[S]], Iterable[Metric]] | None = None  # for `/metrics`; StoreError: without them
    advice: Callable[[S], Iterable[str]] | None = None  # what could be set better, in sentences, for `doctor`
    strip: Callable[[Installed[S]], StatusStrip | None] | None = (
        None  # above every page; asked for each, so it must be quick
    )
    targets: Sequence[str] = ()  # those that its pages tell of: a notice of one leads there
    help: str = ""  # the path of its page that says what to do when something is wrong; listed on the page Help

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
        """Its name for people."""
        return self.title or self.name.capitalize()

    @property
    def home(self) -> Page[S] | None:
        """The first page of it that the menu names; None when it has none."""
        return next((page for page in self.pages if page.title), None)


def _passing() -> Callable[[], Secrets]:
    """A key that is gone with the process."""
    made = Secrets(secrets.token_bytes(32))
    return lambda: made


@dataclass(slots=True, kw_only=True)
class Installed(Generic[S]):
    """An application at work: what its functions are given."""

    app: App[S]
    settings: S
    queue: Queue
    db: Db
    codes: CodeBook
    capacity: Mapping[str, Capacity] = field(default_factory=dict)  # by target, for `Target(capacity=...)`
    jobs: Any = None  # what its function `jobs` returned: the kinds of job that routes and schedules put in
    closing: ExitStack = field(default_factory=ExitStack)  # takes what is to be closed at the end, such as a client
    key: Callable[[], Secrets] = field(default_factory=_passing, repr=False)

    @property
    def secrets(self) -> Secrets:
        """What encrypts and signs with the key of the server, which is made when it is first needed.

        Without a server, each start has a key of its own.
        """
        return self.key()


def install(
    app: App[S], queue: Queue, settings: S | None = None, key: Callable[[], Secrets] | None = None
) -> Installed[S]:
    """Declares the tables, jobs and schedules of *app* on *queue*; without *settings*, it has its defaults.

    *key* gives what its `secrets` are made with.
    """
    values = settings if settings is not None else app.settings() if app.settings is not None else None
    there = Installed[S](
        app=app,
        settings=values,  # type: ignore[arg-type]  # None is what an application without settings has
        queue=queue,
        db=queue.db(app.name, _package(app), statements=app.statements, migrations=app.migrations),
        codes=CORE.extend(*app.codes),
        key=key or _passing(),
    )
    if app.capacity is not None:
        there.capacity = app.capacity(there)
    if app.jobs is not None:
        there.jobs = app.jobs(there)
    for schedule in app.schedules(there) if app.schedules is not None else ():
        queue.schedule(schedule.cron, schedule.job, schedule.args, name=schedule.name, zone=schedule.zone)
    return there


def _package(app: App[Any]) -> str | None:
    return None if app.statements is not None and app.migrations is not None else app.package


# The applications that are installed, found by their entry points.

GROUP = "tidegate.apps"
SIMULATORS = "tidegate.simulators"
_PACKAGE = re.compile(r"[A-Za-z0-9._-]+")


def known() -> dict[str, EntryPoint]:
    """The applications that can be used, by name; none is imported."""
    return {name: each for name, each in _all().items() if not _wants(each)}


def lacking() -> dict[str, str]:
    """The applications that need more than is installed, by name, and what to install."""
    return {name: install for name, each in _all().items() if (install := _wants(each))}


def _all() -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda each: each.name)}


def _wants(each: EntryPoint) -> str:
    """The extras that an entry point names (`feeds = "module:app [feeds]"`), for pip; empty when all is there."""
    extras = "|".join(map(re.escape, each.extras))
    if each.dist is None or not extras:
        return ""
    wanted = [line for line in each.dist.requires or () if re.search(rf"""extra == ['"]({extras})['"]""", line)]
    names = [found[0] for line in wanted if (found := _PACKAGE.match(line))]
    return "" if all(map(_there, names)) else f"{each.dist.name}[{','.join(each.extras)}]"


def _there(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def load(name: str) -> App[Any]:
    """One application; NotFound when there is none of that name, ValueError when it is none."""
    found = known()
    if name not in found and (install := lacking().get(name)):
        raise NotFound(f"the application {name!r} needs more than is installed: pip install '{install}'")
    if name not in found:
        raise NotFound(f"there is no application {name!r}; there are: {', '.join(found) or 'none'}")
    app = found[name].load()
    if not isinstance(app, App) or app.name != name:
        raise ValueError(f"the entry point {name!r} must name an App with that name, not {app!r}")
    return app


# -- simulated services ----------------------------------------------------------------------------------------------


def simulated(app: App[Any]) -> Simulated | None:
    """The simulated services of an application: its own, or those of an entry point; None where there are none."""
    if app.simulator is not None:
        return app.simulator()
    found = next(iter(entry_points(group=SIMULATORS, name=app.name)), None)
    return None if found is None else cast("Simulated", found.load()())
