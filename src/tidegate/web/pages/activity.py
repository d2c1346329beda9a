"""`/activity`: the audit log with a filter, as a page and as an Atom feed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

from tidegate import audit
from tidegate.apps import Installed
from tidegate.audit import ACCOUNTS, ACTIONS, ORIGINS, SUBJECTS, AuditFilter, AuditLine, AuditSubject
from tidegate.durations import seconds
from tidegate.jobs import actions
from tidegate.jobs.bulk import table as bulk_table
from tidegate.store.base import ResultPage, Tx, now_of
from tidegate.targets import table
from tidegate.web.api.events import sees_accounts
from tidegate.web.pages import formatters
from tidegate.web.pages.forms import cursor_of
from tidegate.web.pages.render import page, render_template
from tidegate.web.site import site_of

AGES = (("1h", "the last hour"), ("1d", "the last day"), ("7d", "the last 7 days"), ("30d", "the last 30 days"))
Text = Annotated[str, Query(max_length=300)]
_PATHS: Mapping[str, str] = {
    "queue": "/queue/{}",
    "target": "/targets/{}",
    "job": "/jobs/{}",
    "bulk": "/actions/{}",
    "notice": "/notices",
    "user": "/people/{}",
    "token": "/people",
}


class AuditFilterForm:
    """The filter in the URL. Invalid values are ignored."""

    def __init__(
        self,
        actor: Text = "",
        action: Text = "",
        origin: Text = "",
        subject: Text = "",
        name: Text = "",
        age: Text = "",
    ) -> None:
        self.query = {
            "actor": actor.strip(),
            "action": action if action in ACTIONS else "",
            "origin": origin if origin in ORIGINS else "",
            "subject": subject if subject in SUBJECTS else "",
            "name": name.strip(),
            "age": age if age in dict(AGES) else "",
        }

    def wanted(self, tx: Tx, *, accounts: bool) -> AuditFilter:
        values, age = self.query, self.query["age"]
        return AuditFilter(
            actor=values["actor"],
            action=values["action"],
            origin=values["origin"],
            subject=values["subject"],
            name=values["name"],
            accounts=accounts,
            earliest=now_of(tx) - seconds(age) if age else 0.0,
        )


router = APIRouter()


@router.get("/activity")
def show(
    request: Request,
    actor: Text = "",
    action: Text = "",
    origin: Text = "",
    subject: Text = "",
    name: Text = "",
    age: Text = "",
    cursor: Annotated[str, Query(max_length=40)] = "",
) -> Response:
    site = site_of(request)
    chosen = AuditFilterForm(actor, action, origin, subject, name, age)
    accounts = sees_accounts(request)

    def look(tx: Tx) -> tuple[ResultPage[AuditLine], float, frozenset[tuple[str, str]]]:
        wanted = chosen.wanted(tx, accounts=accounts)
        entries = cursor_of(cursor, lambda at: audit.list_activity(tx, wanted, cursor=at))
        return entries, now_of(tx), without_page(tx, entries.items)

    entries, now, missing = site.read(look)
    path_to = partial(path_of, apps=site.apps, missing=missing)
    hidden = () if accounts else ACCOUNTS
    return page(
        request,
        "activity.html",
        seen=entries,
        query={key: value for key, value in chosen.query.items() if value},
        actions=[kind for kind in ACTIONS if not kind.startswith(hidden or "-")],
        origins=ORIGINS,
        subjects=[kind for kind in SUBJECTS if kind not in hidden],
        ages=AGES,
        path_of=path_to,
        paged=bool(cursor),
        moment=lambda at: formatters.clock(at, now),
        wanted=chosen.query,
    )


@router.get("/activity.atom")
def feed(request: Request) -> Response:
    site = site_of(request)

    def look(tx: Tx) -> tuple[ResultPage[AuditLine], float, frozenset[tuple[str, str]]]:
        entries = audit.list_activity(tx, AuditFilter(accounts=sees_accounts(request)), limit=50)
        return entries, now_of(tx), without_page(tx, entries.items)

    entries, now, missing = site.read(look)
    path_to = partial(path_of, apps=site.apps, missing=missing)
    answer = render_template(
        request,
        "activity.atom",
        200,
        {
            "unread": 0,
            "seen": entries,
            "now": now,
            "machine": formatters.machine,
            "path_of": path_to,
            "home": str(request.base_url).rstrip("/"),
            "moment": formatters.absolute,
        },
    )
    answer.headers["content-type"] = "application/atom+xml; charset=utf-8"
    return answer


# Subjects may be gone: removed, forgotten or pruned. Then they have no page.
_THERE: Mapping[str, Callable[[Tx, str], bool]] = {
    "target": lambda tx, name: table.target(tx, name) is not None,
    "job": lambda tx, name: actions.get(tx, int(name)) is not None,
    "bulk": lambda tx, name: bulk_table.get(tx, int(name)) is not None,
    "user": lambda tx, name: bool(tx.query("user", {"name": name})),
}


def without_page(tx: Tx, lines: Sequence[AuditLine]) -> frozenset[tuple[str, str]]:
    """Return the subjects without a page, as kind and name."""
    places = {(line.deed.place.subject, line.deed.place.name) for line in lines}
    return frozenset(place for place in places if place[0] in _THERE and not _THERE[place[0]](tx, place[1]))


def path_of(
    subject: AuditSubject, apps: Sequence[Installed[Any]] = (), missing: Collection[tuple[str, str]] = ()
) -> str:
    """Return the page of a subject. For a subject of an application, it is the application's page.

    Empty if the subject is in *missing*. A missing target links to its application, or to all targets.
    """
    gone = (subject.subject, subject.name) in missing
    if subject.subject == "target" and (subject.lane or gone):
        own = next((home_of(app) for app in apps if subject.name == app.app.name), "")
        if own:
            return own
    if subject.subject == "target" and gone:
        return next((home_of(app) for app in apps if subject.name in app.app.targets), "") or "/targets"
    return "" if gone else _PATHS.get(subject.subject, "/activity").format(quote(subject.name, safe=""))


def home_of(installed: Installed[Any]) -> str:
    """Return the path of an application's first page. Empty if it has none."""
    return installed.app.home.path if installed.app.home else ""
