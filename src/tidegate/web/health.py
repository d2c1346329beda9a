"""/health: is the process alive, can it do its part, and will somebody do the work? Three questions, three answers.

A service that is down makes none of them red: that is what this program is for.
"""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response

from tidegate.ops import reports
from tidegate.ops.reports import QueueReport
from tidegate.store.migrate import CORE, applied, core_migrations
from tidegate.store.tx import Tx
from tidegate.web.problems import Problem
from tidegate.web.site import Site, site_of

_WAITING = ("waiting", "ready")


def router() -> APIRouter:
    found = APIRouter(prefix="/health", include_in_schema=False)
    found.add_api_route("/live", live, methods=["GET"])
    found.add_api_route("/ready", ready, methods=["GET"])
    found.add_api_route("/workers", workers, methods=["GET"])
    return found


async def live(request: Request) -> Response:
    """The process answers."""
    return _well(version=site_of(request).version)


def ready(request: Request) -> Response:
    """The database is there, and up to date."""
    site = site_of(request)
    site.read(lambda tx: tx.query("clock"))
    missing = _missing(site)
    if missing:
        said = f"The schema of the database lacks {len(missing)} steps; run: tidegate db migrate."
        raise Problem("not_ready", said, missing=missing)
    return _well()


def _missing(site: Site) -> list[str]:
    there = {each.number for each in applied(site.queue.store) if each.app == CORE}
    return [
        f"{migration.number:04} {migration.name}" for migration in core_migrations() if migration.number not in there
    ]


def workers(request: Request) -> Response:
    """Somebody takes the jobs of every queue that has some."""
    queues, there = site_of(request).read(_looked)
    alone = [queue for queue in queues if _left_alone(queue)]
    if alone:
        names = ", ".join(each.name for each in alone[:5])
        reasons = [
            {"queue": each.name, "waiting": sum(each.jobs.get(stage, 0) for stage in _WAITING), "workers": 0}
            for each in alone[:50]
        ]
        raise Problem("no_workers", f"No worker is there for: {names}.", reasons=reasons)
    return _well(workers=there)


def _looked(tx: Tx) -> tuple[list[QueueReport], int]:
    return reports.queues(tx), sum(
        worker.there and not worker.stopping and not worker.outdated for worker in reports.workers(tx)
    )


def _left_alone(queue: QueueReport) -> bool:
    # A queue that a person has paused waits for that person.
    waits = any(queue.jobs.get(stage, 0) > 0 for stage in _WAITING)
    return waits and not queue.workers and queue.paused_until is None


def _well(**more: Any) -> Response:
    return Response(json.dumps({"status": "ok", **more}), media_type="application/json")
