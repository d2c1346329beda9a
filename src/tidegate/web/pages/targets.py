"""`/targets` and `/targets/{name}`: the list, one target, and its actions as a table of forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request, Response

from tidegate.admin import overview
from tidegate.apps import Page as AppPage
from tidegate.audit import Actor
from tidegate.guard.breaker_counts import Counts
from tidegate.guard.breaker_state import OPEN
from tidegate.jobs import explain, history, listing
from tidegate.jobs.history import CallCounts, History
from tidegate.labels import TARGETS, opened_because
from tidegate.simulation.outage import LENGTHS
from tidegate.store.base import ResultPage, Tx, now_of
from tidegate.targets import actions, reports, table
from tidegate.targets import breaker as target_breaker
from tidegate.targets.breaker import StoredBreaker
from tidegate.targets.reporter import this_program
from tidegate.targets.reports import TargetDetail, TargetReport
from tidegate.validation import JsonObject
from tidegate.web.pages import charts, formatters, target_policy
from tidegate.web.pages.forms import Flash, act, answer, cursor_of, end_of
from tidegate.web.pages.overview import shown_store
from tidegate.web.pages.render import page
from tidegate.web.site import Site, site_of

# -- /targets ----------------------------------------------------------------------------------------------------------

_PAGE_SIZE = 50


router = APIRouter()


@router.get("/targets")
def show(
    request: Request,
    state: Annotated[str, Query(max_length=20)] = "",
    name: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    site = site_of(request)
    chosen = state if state in TARGETS else ""

    def work(tx: Tx) -> tuple[ResultPage[TargetReport], dict[str, int], dict[str, charts.Chart]]:
        at = cursor_of(
            cursor, lambda position: listing.targets(tx, state=chosen, name=name, cursor=position, limit=_PAGE_SIZE)
        )
        beats, now = history.beats(tx, [item.name for item in at.items]), now_of(tx)
        return at, overview.target_states(tx), {beat: charts.beat_bar(beats[beat], now) for beat in beats}

    listed, states, beats = site.read(work)
    shown = [token for token in TARGETS if states.get(token) or token == chosen]
    return page(
        request,
        "targets.html",
        listed=listed,
        states=states,
        tokens=shown,
        state_now=chosen,
        name=name,
        total=sum(states.values()),
        paged=bool(cursor),
        beats=beats,
        store_url=shown_store(site.queue.url),
    )


# -- /targets/{name} ---------------------------------------------------------------------------------------------------

# Hold of a key -> state that is shown.
_HELD = {"fatal": "action", "cooldown": "disabled", "backoff": "degraded", "retry_after": "limited"}
_ORDER = {reason: rank for rank, reason in enumerate(("fatal", "cooldown", "retry_after", "backoff"))}


@dataclass(frozen=True, slots=True)
class TargetPage:
    """A target as its page shows it."""

    detail: TargetDetail
    counts: Counts
    opened: str  # why the breaker opened, while it is open
    theirs: list[JsonObject]  # breakers that other programs have for it
    good: int  # successful probes while half-open
    buckets: list[tuple[float, float]]
    filling: JsonObject | None
    past: charts.Past
    calls: History[CallCounts]


@router.get("/targets/{name:path}")
def show_target(
    request: Request,
    name: str,
    span: Annotated[str, Query(max_length=20)] = "",
    outage: Annotated[str, Query(max_length=20)] = "",
) -> Response:
    site = site_of(request)
    target_page = site.read(lambda tx: _load_page(tx, name, charts.chosen(span)))
    report, length = target_page.detail.report, target_policy.asked(outage)
    playable = target_policy.possible(report.rules)
    return page(
        request,
        "target.html",
        seen=target_page,
        report=report,
        detail=target_page.detail,
        rules=target_policy.rows(report.rules),
        breaker=target_policy.breaker(report.rules),
        held_token=_HELD.get,
        lengths=LENGTHS,
        playable=playable,
        outage=target_policy.drawn(report.rules, length, target_page.calls) if playable and length else None,
        home=_home(site, name),
        testable=any(key.lane not in target_page.detail.of_programs for key in target_page.detail.keys),
        this_program=this_program(),
    )


def _home(site: Site, name: str) -> AppPage[Any] | None:
    """Return the application's page for its target, where its credentials and work are."""
    return next(
        (installed.app.home for installed in site.apps if name in (installed.app.name, *installed.app.targets)), None
    )


def _load_page(tx: Tx, name: str, span: str) -> TargetPage:
    detail = reports.one(tx, name)
    row = table.target(tx, name)
    if row is None:  # cannot happen: the report is from the same transaction
        raise AssertionError(name)
    keys = sorted(detail.keys, key=lambda key: (_ORDER.get(key.reason, 9), key.lane))
    detail = replace(detail, keys=keys)
    buckets = [(float(n), float(bad)) for _, n, bad in row.breaker.buckets]
    filling = target_policy.filling(row.capacity, detail.report.rules.get("capacity"), now_of(tx))
    calls = history.of_target(tx, name, span)
    past = charts.of_target(calls, span, now_of(tx))
    counts, opened = target_breaker.counts(row.breaker), _opened(row.breaker)
    theirs = list(_program_breakers(detail.report.programs))
    return TargetPage(detail, counts, opened, theirs, row.breaker.good, buckets, filling, past, calls)


def _program_breakers(programs: JsonObject) -> Iterator[JsonObject]:
    for program, report in sorted(programs.items()):
        for breaker in report.get("breakers", {}).values():
            run, calls = (
                int(breaker.get("consecutive_failures", 0)),
                int(breaker.get("calls", breaker.get("requests", 0))),
            )
            where = "this server" if program == this_program() else program
            yield {"program": where, "state": breaker.get("state", "closed"), "run": run, "calls": calls}


def _opened(breaker: StoredBreaker) -> str:
    if breaker.state != OPEN:
        return ""
    return f"{breaker.by} ordered it" if breaker.by else opened_because(breaker.opened, breaker.run)


Field = Annotated[str, Form(max_length=2000)]
Reason = Annotated[str, Form(max_length=300)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionForm:
    """The fields of an action form."""

    by: str
    name: str
    key: str = ""
    lasts: str = ""
    until: str = ""

    @property
    def who(self) -> str:
        return f"Key {self.key} of {self.name}" if self.key else self.name

    def ends(self, tx: Tx) -> tuple[float, str]:
        """Return the end, and how a message shows it."""
        now = now_of(tx)
        end = end_of(self.lasts, self.until, now)
        return end, formatters.clock(end, now)


def pause(form: ActionForm, tx: Tx) -> Flash:
    end, shown = form.ends(tx)
    actions.pause_target(tx, form.name, end, form.by)
    return Flash(text=f"{form.name} is paused until {shown}.", undo="resume_target", of=form.name)


def resume(form: ActionForm, tx: Tx) -> Flash:
    if actions.resume_target(tx, form.name, form.by):
        return Flash(text=f"{form.name} goes on.")
    return Flash(text=f"{form.name} was not paused.", tone="warn")


def test(form: ActionForm, tx: Tx) -> Flash:
    trial = explain.begin(tx, form.name, form.by, form.key or None)
    return Flash(text=trial.says, tone="warn" if trial.waits else "good")


def reset(form: ActionForm, tx: Tx) -> Flash:
    was = actions.reset_breaker(tx, form.name, form.by)
    if was == "closed":
        return Flash(text=f"The breaker of {form.name} was closed already; its counts are forgotten.")
    return Flash(text=f"The breaker of {form.name} was {was} and is closed; its jobs go at once.")


def hold(form: ActionForm, tx: Tx) -> Flash:
    end, shown = form.ends(tx)
    actions.force_breaker(tx, form.name, "open", form.by, end)
    return Flash(text=f"The breaker of {form.name} is held open until {shown}.")


def clear(form: ActionForm, tx: Tx) -> Flash:
    if actions.clear_key(tx, form.name, form.key, form.by):
        return Flash(text=f"{form.who} is cleared; its jobs go at once.")
    return Flash(text=f"There was nothing to clear of {form.who}.", tone="warn")


def enable(form: ActionForm, tx: Tx) -> Flash:
    if actions.enable_key(tx, form.name, form.key, form.by):
        return Flash(text=f"{form.who} is enabled.")
    return Flash(text=f"{form.who} was not disabled.", tone="warn")


def disable(form: ActionForm, tx: Tx) -> Flash:
    end, shown = form.ends(tx)
    actions.disable_key(tx, form.name, form.key, form.by, end)
    return Flash(text=f"{form.who} rests until {shown}.", undo="enable_key", of=form.name, key=form.key)


ACTIONS: Mapping[str, Callable[[ActionForm, Tx], Flash]] = {
    "pause": pause,
    "resume": resume,
    "test": test,
    "reset": reset,
    "hold": hold,
    "clear": clear,
    "enable": enable,
    "disable": disable,
}


def _action_endpoint(action: Callable[[ActionForm, Tx], Flash]) -> Callable[..., Response]:
    def doing(
        request: Request,
        name: str,
        back: Field = "",
        key: Field = "",
        lasts: Field = "",
        until: Field = "",
        reason: Reason = "",
    ) -> Response:
        site = site_of(request)
        by = Actor.of(site.actor_of(request)).because(reason.strip())
        form = ActionForm(by=by, name=name, key=key, lasts=lasts, until=until)
        return answer(request, act(site, lambda tx: action(form, tx)), back, "/targets", name)

    return doing


for path, action in ACTIONS.items():
    router.post(f"/targets/{{name:path}}/{path}")(_action_endpoint(action))
