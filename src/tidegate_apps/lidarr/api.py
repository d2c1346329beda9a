"""The API: status of the submission queue, entries, events, and the actions retry, cancel, wake and scan."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Path, Query, Request

from tidegate.apps import Installed
from tidegate.errors import NotFound, Rejected
from tidegate.web import Permission, Problem, current_user, requires
from tidegate_apps.lidarr import pages, service
from tidegate_apps.lidarr.models import STAGES, TABS
from tidegate_apps.lidarr.settings import LidarrSettings

JobId = Annotated[int, Path(ge=1, le=service.NEWEST)]


class SubmitEvent(NamedTuple):
    id: int
    at: float
    kind: str
    entity_id: int
    user: str
    lidarr_id: int
    job: int


def api_router(app: Installed[LidarrSettings]) -> APIRouter:
    router = APIRouter(tags=["lidarr"])

    @router.get("")
    @requires(Permission.SEE)
    def status() -> dict[str, object]:
        """How many entries there are in which state, how full Lidarr is, the last wake and the next."""
        return service.submit_status(app).as_json()

    @router.get("/queue")
    @requires(Permission.SEE)
    def queue(
        state: Annotated[
            str, Query(description=f"Only these: {', '.join(STAGES)}.", json_schema_extra={"enum": [*TABS]})
        ] = "",
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        cursor: Annotated[str, Query(max_length=80, description="`next_cursor` of the answer before.")] = "",
    ) -> dict[str, object]:
        """The entries, the newest first; those that are queued or retried, the next one first."""
        if state not in TABS:
            raise Problem("invalid", f"state: give one of {', '.join(STAGES)}.", field="state")
        try:
            entries, following = app.db.read(lambda tx: service.list_entries(tx, state, cursor, limit))
        except ValueError as error:
            raise Problem("invalid", f"{error}.", field="cursor") from error
        return {"items": [item.as_json() for item in entries], "next_cursor": following}

    @router.get("/queue/{id}")
    @requires(Permission.SEE)
    def entry(id: JobId) -> dict[str, object]:  # noqa: A002 - the name of the parameter is part of the path
        """One entry, by the number of its job."""
        with _asked():
            return service.entry_at(app, id).as_json()

    @router.post("/queue/{id}/retry")
    @requires(Permission.RETRY)
    def retry(request: Request, id: JobId) -> dict[str, object]:  # noqa: A002
        """Puts an entry that was given up or cancelled back into the queue."""
        with _asked():
            return service.retry(app, id, current_user(request)).as_json()

    @router.post("/queue/{id}/cancel")
    @requires(Permission.CANCEL)
    def cancel(request: Request, id: JobId) -> dict[str, object]:  # noqa: A002
        """Takes an entry out of the queue, until somebody puts it back."""
        with _asked():
            return service.cancel(app, id, current_user(request)).as_json()

    @router.post("/retry")
    @requires(Permission.RETRY)
    def retry_all(request: Request) -> dict[str, int]:
        """Puts all that were given up back."""
        return {"retried": service.retry_all(app, current_user(request))}

    @router.post("/wake", status_code=202)
    @requires(Permission.PUT_IN)
    def wake(request: Request) -> dict[str, object]:
        """Wakes the sender now; the job says what came of it."""
        with _asked():
            made = service.wake_now(app, current_user(request))
        return {"job": made.id, "created": made.created}

    @router.post("/look", status_code=202)
    @requires(Permission.PUT_IN)
    def look(request: Request) -> dict[str, object]:
        """Looks for everything in the library once more."""
        with _asked():
            made = service.look_now(app, current_user(request))
        return {"job": made.id, "created": made.created}

    @router.get("/events")
    @requires(Permission.SEE)
    def events(
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        before: Annotated[int, Query(ge=1, le=service.NEWEST)] = service.NEWEST,
    ) -> dict[str, object]:
        """What was sent, the newest first."""
        return {"items": [row._asdict() for row in app.db.query_as(SubmitEvent, "events", below=before, n=limit)]}

    return router


class _asked:  # noqa: N801 - it reads as a statement
    """Converts errors of the service to problem responses."""

    def __enter__(self) -> None: ...

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if isinstance(error, NotFound):
            raise Problem("not_there", f"{str(error).capitalize()}.", status=404) from error
        if isinstance(error, Rejected):
            raise Problem("refused", str(error), status=409) from error


# -- routes of the application -----------------------------------------------------------------------------------------


def routes(app: Installed[LidarrSettings]) -> APIRouter:
    """Return all routes."""
    router = APIRouter()
    router.include_router(api_router(app), prefix="/api/v1/lidarr")
    router.include_router(pages.forms_router(app), include_in_schema=False)
    return router
