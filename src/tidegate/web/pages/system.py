"""`/help`, `/settings` and `/workers`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from fastapi import APIRouter, Request, Response

from tidegate.errors import NotFound
from tidegate.faults.codes import CORE, Code
from tidegate.jobs import actions, listing, reports
from tidegate.jobs.job import Job
from tidegate.jobs.listing import Filter
from tidegate.jobs.reports import WorkerReport
from tidegate.labels import JOBS, TARGETS
from tidegate.store.base import Tx
from tidegate.validation import JsonObject
from tidegate.web.masking import shown_setting
from tidegate.web.pages.render import page
from tidegate.web.problems import API_CODES
from tidegate.web.site import Site, site_of

# -- /settings ---------------------------------------------------------------------------------------------------------

router = APIRouter()


@router.get("/settings")
def show_settings(request: Request) -> Response:
    site = site_of(request)
    return page(
        request,
        "settings.html",
        sections=list(_sections(site.config())),
        apps_there=list(site.apps),
        simulated=site.simulated,
    )


def _sections(values: Iterable[JsonObject]) -> Iterable[tuple[str, list[JsonObject]]]:
    """Group settings by the part of their key before the first dot. Keys without a dot come first."""
    rows = sorted(values, key=lambda row: ("." in row["key"], row["key"].split(".")[0]))
    for name, of in groupby(rows, key=lambda row: row["key"].split(".")[0] if "." in row["key"] else ""):
        yield name, [shown_setting(row) for row in of]


# -- /workers ----------------------------------------------------------------------------------------------------------

_MAX_SHOWN = 50
LATE = 15.0  # seconds without a heartbeat, which is due every ten


@dataclass(frozen=True, slots=True)
class WorkersPage:
    workers: list[WorkerReport]
    leases: list[Job]
    more: bool
    waiting: int


@router.get("/workers")
def show_workers(request: Request) -> Response:
    return page(request, "workers.html", seen=site_of(request).read(_load_page), token=_token)


def _load_page(tx: Tx) -> WorkersPage:
    running = listing.jobs(tx, Filter(state="running"), limit=_MAX_SHOWN)
    # A job list has no leases. There are few, so they are read one by one.
    jobs = [job for line in running.items if (job := actions.get(tx, line.id)) is not None]
    leases = sorted((job for job in jobs if job.lease_until is not None), key=lambda job: job.lease_until or 0.0)
    waiting = sum(queue.jobs.get("ready", 0) for queue in reports.queues(tx))
    return WorkersPage(reports.workers(tx), leases, running.next is not None, waiting)


def _token(worker: WorkerReport, now: float) -> str:
    if not worker.there:
        return "gone"
    if worker.outdated:
        return "outdated"
    if worker.stopping:
        return "stopping"
    return "late" if now - worker.seen_at > LATE else "there"


# What each state means, without context.
MEANINGS = {
    "action": "A service refused us for good: a password, a key or a plan. Nothing is sent until a person acts.",
    "paused": "A person stopped it for a time. It goes on by itself when the time is over.",
    "open": "Too many calls failed, or its health probe did, so no call is made for a while. Its jobs lose no attempt.",
    "probing": "After a pause a few calls go through. If they are good, everything goes again.",
    "disabled": "One part of it failed too often in a row and rests. One job tries it when the rest is over.",
    "limited": "It asked us to slow down and said until when.",
    "degraded": "Its last calls failed; they are tried again, with longer and longer waits.",
    "silent": "The program that reports it has said nothing for a while.",
    "full": "It said that it has no room for more. Jobs wait until it has, and lose no attempt.",
    "ok": "Calls go through.",
    "new": "Nobody has called it yet.",
    "blocked": "It waits for another job to be done.",
    "scheduled": "It is due at a later time.",
    "retrying": "An attempt failed; the next one is due later.",
    "queued": "It is in line.",
    "running": "A worker has it under a lease.",
    "done": "It ended well.",
    "failed": "It ended in a fault that is final, or its attempts are used up. Its page says if it can be retried.",
    "expired": "It waited until it was of no use.",
    "cancelled": "A person stopped it.",
}
SHORTCUTS = (
    ("g then o", "Overview"),
    ("g then t", "Targets"),
    ("g then q", "Queue"),
    ("g then w", "Workers"),
    ("g then n", "Notices"),
    ("g then p", "People"),
    ("g then s", "Settings"),
    ("g then h", "Help"),
    ("/", "Find a job, a target or a queue"),
    ("?", "This page"),
)
DOCS = (
    ("First page", "docs/tutorial/first-page.md", "from nothing to a guarded call on this page"),
    ("First queue", "docs/tutorial/first-queue.md", "durable jobs in ten minutes"),
    ("Why is it not running?", "docs/explanation/why-is-it-not-running.md", "every reason, and who ends it"),
    ("Write an application", "docs/how-to/write-an-application.md", "jobs, pages and an API of your own"),
    ("Command line", "docs/reference/cli.md", "every command, also for scripts"),
    ("Codes", "docs/reference/codes.md", "the table above, with what a breaker counts"),
)


@dataclass(frozen=True, slots=True)
class CodeHelp:
    """One code for users."""

    name: str
    message: str
    advice: str
    fatal: bool
    reason: str = ""
    reach: str = ""
    status: int | None = None
    app: str = ""

    @property
    def will(self) -> str:
        if self.status:  # a problem of the API: the client decides whether to retry
            return "The same request fails again." if self.fatal else "The same request may work later."
        return "A person must act." if self.fatal else "It is tried again by itself."


@router.get("/help")
def show_help(request: Request) -> Response:
    site = site_of(request)
    return page(
        request,
        "help.html",
        targets=list(TARGETS),
        jobs=list(JOBS),
        meanings=MEANINGS,
        shortcuts=SHORTCUTS,
        docs=DOCS,
        runbooks=[installed.app for installed in site.apps if installed.app.help],
        faults=_of_book(site),
        answers=_of_api(),
    )


@router.get("/help/errors/{code}")
def one(request: Request, code: str) -> Response:
    site = site_of(request)
    known = {entry.name: entry for entry in (*_of_api(), *_of_book(site))}
    if code not in known:
        raise NotFound(f"there is no code {code!r}")
    return page(request, "help_code.html", entry=known[code], counts=_counts(site, code))


def _of_book(site: Site) -> list[CodeHelp]:
    apps = {code.name: installed.app.shown for installed in site.apps for code in installed.app.codes}
    return [
        CodeHelp(
            code.name, code.message, code.advice, code.fatal, str(code.reason), str(code.reach), app=apps.get(name, "")
        )
        for name, code in site.codes.items()
    ]


def _of_api() -> list[CodeHelp]:
    """Return the codes of the API that are not in the code book."""
    return [
        CodeHelp(row.name, row.title, row.advice, not row.retriable, status=row.status)
        for row in API_CODES.values()
        if row.name not in CORE
    ]


def _counts(site: Site, code: str) -> str:
    """Return how a breaker counts the code."""
    known: Code | None = site.codes.get(code)
    if known is None:
        return ""
    verdicts = {True: "It counts as a failure.", None: "It does not count."}
    return verdicts.get(known.counts_as_failure, "It counts as a success: the service answered.")
