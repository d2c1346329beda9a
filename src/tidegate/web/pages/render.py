"""Renders templates into pages: layout, navigation, and the functions that templates call.

The templates of an application are in `templates/` of its package. For the application `weather` a template is named
"weather/forecast.html" and extends "frame.html". Scripts and images are in `static/`: {{ asset("weather/map.js") }}.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup

from tidegate.accounts.access import LOCAL, Permission, Principal
from tidegate.durations import brief
from tidegate.faults.codes import CodeBook
from tidegate.faults.redaction import shown_message
from tidegate.notices import inbox
from tidegate.validation import JsonObject
from tidegate.web.auth import PUBLIC, WHO, permission_for
from tidegate.web.middleware import NEWEST
from tidegate.web.pages import charts, formatters
from tidegate.web.pages.formatters import describe_event
from tidegate.web.pages.forms import CHOICES, COOKIE, QUIETLY, Flash, answer
from tidegate.web.problems import API_CODES
from tidegate.web.site import Site, site_of

STATIC = Path(__file__).parent.parent / "static"
TEMPLATES = Path(__file__).parent.parent / "templates"
THEME_COOKIE = "tidegate_theme"
THEMES = ("auto", "light", "dark")
KEYS_COOKIE = "tidegate_keys"


@dataclass(frozen=True, slots=True)
class NavEntry:
    """One entry of the navigation."""

    path: str
    title: str
    icon: str
    under: tuple[str, ...] = ()  # other paths that belong to it
    right: str = ""  # hidden from users without this permission


CORE = (
    NavEntry("/", "Overview", "overview"),
    NavEntry("/targets", "Targets", "targets"),
    NavEntry("/queue", "Queue", "queue", ("/jobs", "/bulk", "/actions", "/charts")),
    NavEntry("/failures", "Failures", "cross"),
    NavEntry("/workers", "Workers", "workers"),
    NavEntry("/notices", "Notices", "notices", ("/channels",)),
    NavEntry("/activity", "Activity", "clock"),
    NavEntry("/people", "People", "people", ("/tokens",), Permission.MANAGE),
    NavEntry("/settings", "Settings", "settings", (), Permission.SEE_SETTINGS),
    NavEntry("/help", "Help", "help"),
)


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Render the page of a template. Text in *values* is escaped."""
    unread = site_of(request).read(inbox.unread)
    return render_template(request, template, status, {"unread": unread, **values})


def render_template(request: Request, template: str, status: int, values: JsonObject) -> HTMLResponse:
    """Like `page`, but without reading the store: for pages that are shown while it is unreachable."""
    site = site_of(request)
    # A background refresh must not consume the flash message of the next page.
    cookie = None if QUIETLY in request.headers else request.cookies.get(COOKIE)
    frame = _frame(request, site, Flash.load(cookie) if cookie else None)
    html = _environment(_packages(site)).get_template(template).render({"unread": 0, **frame, **values})
    response = HTMLResponse(html, status)
    if cookie:
        response.delete_cookie(COOKIE, path=frame["base"] or "/")
    return response


def theme_of(request: Request) -> str:
    chosen = request.cookies.get(THEME_COOKIE, "auto")
    return chosen if chosen in THEMES else "auto"


def _frame(request: Request, site: Site, flash: Flash | None) -> JsonObject:
    base = str(request.scope.get("root_path", "")).rstrip("/")
    path = request.url.path.removeprefix(base) or "/"
    now = site.queue.clock.now()
    who = request.scope.get(WHO, LOCAL)
    return {
        "site": site,
        "who": who,
        "base": base,
        "said": flash,
        "theme": theme_of(request),
        "now": now,
        "live": request.scope.get(NEWEST) if request.scope.get(WHO) else None,
        "keys": "off" if request.cookies.get(KEYS_COOKIE) == "off" else "on",
        "here": _current_path(request, base),
        "path": path,
        "core": CORE,
        "apps": [app for app in _of_apps(site) if _may_open(who, app)],
        "current": _current_entry(path, site),
        "zone": formatters.zone_name(now),
        "href": partial(_href, base),
        "asset": partial(_asset, base, packages=_packages(site)),
        "icon": partial(_icon, base),
        "when": partial(_when, now),
        "state": partial(_state, base),
        "clock": partial(_clock, now),
        "relative": partial(formatters.relative, now=now),
        "span": formatters.span,
        "strips": site.strips(),
        "shared": bool(site.visitor),
        "barred": partial(_disabled_attributes, who),
        "help_of": partial(_help_of, base, site.codes),
    }


def _disabled_attributes(principal: Principal | None, what: str) -> Markup:
    """Return the attributes that disable a button whose form the user may not send, with the reason.

    *what* is the path of the form, its last segment, or the permission that `requires` declares.
    """
    right = what if what in set(map(str, Permission)) else permission_for("POST", what)
    if right == PUBLIC or (principal is not None and principal.has_permission(Permission(right))):
        return Markup()
    role = "nobody" if principal is None else principal.role
    return Markup(' disabled title="Your role, {}, may not {}."').format(role, Permission(right).words)


def _current_path(request: Request, base: str) -> str:
    """Return the path of this page as requested. A name in it may contain a slash, which must stay quoted."""
    raw = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    path = raw.partition(b"?")[0].decode("ascii", "replace")
    shown = path if path.startswith(base) else base + path
    return f"{shown}?{request.url.query}" if request.url.query else shown


def _of_apps(site: Site) -> Iterator[NavEntry]:
    for app in site.apps:
        for app_page in app.app.pages:
            if app_page.title:
                right = permission_for("GET", app_page.path, app_page.show)
                yield NavEntry(app_page.path, app_page.title, app_page.icon, right="" if right == PUBLIC else right)


def _may_open(principal: Principal | None, entry: NavEntry) -> bool:
    """Whether the user may open the page of an entry."""
    return not entry.right or (principal is not None and principal.has_permission(Permission(entry.right)))


def _current_entry(path: str, site: Site) -> str:
    """Return the navigation entry of this page."""
    for entry in (*CORE[1:], *_of_apps(site)):
        if any(path == under or path.startswith(under + "/") for under in (entry.path, *entry.under)):
            return entry.path
    return "/" if path == "/" else ""


# -- template functions ------------------------------------------------------------------------------------------------


def _href(base: str, path: str, *names: object, **query: object) -> str:
    """Return a path of this server with quoted names. Empty query parameters are dropped."""
    parameters = [(key, str(value)) for key, value in query.items() if value not in ("", None)]
    shown = base + path + "".join("/" + quote(str(name), safe="") for name in names)
    return f"{shown}?{urlencode(parameters)}" if parameters else shown


def _help_of(base: str, code_book: CodeBook, code: str | None) -> str:
    """Return the help page of a code. Empty for an unknown code, such as one that another program defines."""
    return _href(base, "/help/errors", code) if code in code_book or code in API_CODES else ""


def _asset(base: str, name: str, packages: tuple[tuple[str, str], ...] = ()) -> str:
    """Return the URL of a static file of the server, or of an application: "weather/map.js" is its `static/map.js`."""
    app, _, rest = name.partition("/")
    package = dict(packages).get(app)
    digest = _digest(name) if package is None else _digest(rest, package)
    return f"{base}/static/{name}?v={digest}"


def _icon(base: str, name: str, label: str = "") -> Markup:
    """Return an icon of the sprite, hidden from screen readers unless it has a label."""
    spoken = Markup('role="img" aria-label="{}"').format(label) if label else Markup('aria-hidden="true"')
    known = name if name in icons() else "app"
    return Markup('<svg class="icon" {}><use href="{}#{}"></use></svg>').format(
        spoken, _asset(base, "icons.svg"), known
    )


def _state(base: str, token: str, word: str = "", *, large: bool = False) -> Markup:
    """Return a state as icon and label."""
    label = formatters.of(token)
    size = " large" if large else ""
    return Markup('<span class="state {}{}" data-state="{}">{}{}</span>').format(
        label.tone, size, token, _icon(base, label.icon), word or label.word
    )


def _when(now: float, at: float | None, *, both: bool = False) -> Markup:
    """Return a relative time with the exact time on hover. *both*: show both."""
    if at is None:
        return Markup("")
    exact = formatters.absolute(at)
    beside = (
        Markup(' <span class="quiet">at {}</span>').format(formatters.to_the_second(at, now)) if both else Markup("")
    )
    return Markup('<time datetime="{}" title="{}">{}</time>{}').format(
        formatters.machine(at), exact, formatters.relative(at, now), beside
    )


def _clock(now: float, at: float, *, seconds: bool = False) -> Markup:
    """Return the time of day, which does not change while the page is open."""
    exact = formatters.absolute(at)
    return Markup('<time datetime="{}" title="{}" data-still>{}</time>').format(
        formatters.machine(at), exact, formatters.to_the_second(at, now) if seconds else formatters.clock(at, now)
    )


@cache
def _digest(name: str, package: str = "") -> str:
    home = files(package) / "static" if package else STATIC
    return hashlib.sha256((home / name).read_bytes()).hexdigest()[:10]


@cache
def icons() -> frozenset[str]:
    """Return the names of the icons in the sprite."""
    text = (STATIC / "icons.svg").read_text(encoding="utf-8")
    return frozenset(part.partition('"')[0] for part in text.split('<symbol id="')[1:])


def _packages(site: Site) -> tuple[tuple[str, str], ...]:
    return tuple((app.app.name, app.app.package) for app in site.apps if app.app.package)


@lru_cache(maxsize=16)
def _environment(packages: tuple[tuple[str, str], ...]) -> Environment:
    with_templates = {name: where for name, where in packages if files(where).joinpath("templates").is_dir()}
    loader = ChoiceLoader(
        [
            FileSystemLoader(TEMPLATES),
            PrefixLoader({name: PackageLoader(where) for name, where in with_templates.items()}),
        ]
    )
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(number=formatters.number, span=formatters.span, took=formatters.took, brief=brief)
    environment.globals.update(
        many=formatters.many,
        draw=charts,
        look=formatters.of,
        told=describe_event,
        spans=charts.WORDS,
        masked=shown_message,
        pauses=CHOICES,
    )
    return environment


# -- display preferences -----------------------------------------------------------------------------------------------
#
# Theme and shortcuts, stored in a cookie and changed by a form.

_YEAR = 366 * 86400
Field = Annotated[str, Form(max_length=2000)]


router = APIRouter()


@router.post("/preferences")
def prefer(request: Request, back: Field = "", theme: Field = "", keys: Field = "") -> Response:
    response = answer(request, None, back, "/")
    home = site_of(request).base or "/"
    for cookie, value, allowed in ((THEME_COOKIE, theme, THEMES), (KEYS_COOKIE, keys, ("on", "off"))):
        if value in allowed:
            response.set_cookie(cookie, value, max_age=_YEAR, samesite="lax", httponly=True, path=home)
    return response
