"""A template and its values become a page: the frame around it, its navigation, its words for times and numbers.

An application's templates are in `templates/` of its package, are named "weather/forecast.html" for the application
`weather`, and extend "frame.html". Its scripts and pictures are in `static/`: {{ asset("weather/map.js") }}.
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
    """One line of the navigation."""

    path: str
    title: str
    icon: str
    under: tuple[str, ...] = ()  # other paths that belong to it
    right: str = ""  # whoever lacks it would only be refused there


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
    """The page of a template. *values* are what it shows; text among them is escaped."""
    unread = site_of(request).read(inbox.unread)
    return render_template(request, template, status, {"unread": unread, **values})


def render_template(request: Request, template: str, status: int, values: dict[str, Any]) -> HTMLResponse:
    """As `page`, without asking the store: for the pages that are shown when it is away."""
    site = site_of(request)
    # A page that refreshes itself must not take the words that are meant for the next one.
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


def _frame(request: Request, site: Site, flash: Flash | None) -> dict[str, Any]:
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
        "here": _here(request, base),
        "path": path,
        "core": CORE,
        "apps": [app for app in _of_apps(site) if _opens(who, app)],
        "current": _current(path, site),
        "zone": formatters.zone_name(now),
        "href": partial(_href, base),
        "asset": partial(_asset, base, packages=_packages(site)),
        "icon": partial(_icon, base),
        "when": partial(_when, now),
        "state": partial(_state, base),
        "clock": partial(_clock, now),
        "relative": partial(_relative, now),
        "span": formatters.span,
        "strips": site.strips(),
        "shared": bool(site.visitor),
        "barred": partial(_barred, who),
        "help_of": partial(_help_of, base, site.codes),
    }


def _barred(principal: Principal | None, what: str) -> Markup:
    """What a button gets whose form *who* may not send: it is there, and says why it does nothing.

    *what* is the path of the form or its last word, or the right that it needs, as `needs` has it.
    """
    right = what if what in set(map(str, Permission)) else permission_for("POST", what)
    if right == PUBLIC or (principal is not None and principal.has_permission(Permission(right))):
        return Markup()
    role = "nobody" if principal is None else principal.role
    return Markup(' disabled title="Your role, {}, may not {}."').format(role, Permission(right).words)


def _here(request: Request, base: str) -> str:
    """The path of this page as it was asked for: a name in it may have a slash, which must stay quoted."""
    raw = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    path = raw.partition(b"?")[0].decode("ascii", "replace")
    shown = path if path.startswith(base) else base + path
    return f"{shown}?{request.url.query}" if request.url.query else shown


def _of_apps(site: Site) -> Iterator[NavEntry]:
    for app in site.apps:
        for one in app.app.pages:
            if one.title:
                right = permission_for("GET", one.path, one.show)
                yield NavEntry(one.path, one.title, one.icon, right="" if right == PUBLIC else right)


def _opens(principal: Principal | None, entry: NavEntry) -> bool:
    """Whether who looks is let in there."""
    return not entry.right or (principal is not None and principal.has_permission(Permission(entry.right)))


def _current(path: str, site: Site) -> str:
    """The entry that the reader is at."""
    for entry in (*CORE[1:], *_of_apps(site)):
        if any(path == under or path.startswith(under + "/") for under in (entry.path, *entry.under)):
            return entry.path
    return "/" if path == "/" else ""


# -- what templates call -----------------------------------------------------------------------------------------------


def _href(base: str, path: str, *names: object, **query: object) -> str:
    """A path of ours: names are quoted and put behind it, empty parts of the query left out."""
    kept = [(key, str(value)) for key, value in query.items() if value not in ("", None)]
    shown = base + path + "".join("/" + quote(str(name), safe="") for name in names)
    return f"{shown}?{urlencode(kept)}" if kept else shown


def _help_of(base: str, code_book: CodeBook, code: str | None) -> str:
    """The page that explains a code; empty for one that no book here has, such as one of a program of somebody's."""
    return _href(base, "/help/errors", code) if code in code_book or code in API_CODES else ""


def _asset(base: str, name: str, packages: tuple[tuple[str, str], ...] = ()) -> str:
    """Where a static file is: one of ours, or "weather/map.js" for the file `static/map.js` of that application."""
    app, _, rest = name.partition("/")
    package = dict(packages).get(app)
    digest = _digest(name) if package is None else _digest(rest, package)
    return f"{base}/static/{name}?v={digest}"


def _icon(base: str, name: str, label: str = "") -> Markup:
    """A picture of the sprite; hidden from readers aloud unless it has a label."""
    spoken = Markup('role="img" aria-label="{}"').format(label) if label else Markup('aria-hidden="true"')
    known = name if name in icons() else "app"
    return Markup('<svg class="icon" {}><use href="{}#{}"></use></svg>').format(
        spoken, _asset(base, "icons.svg"), known
    )


def _state(base: str, token: str, word: str = "", *, large: bool = False) -> Markup:
    """A state as its icon and its word."""
    look = formatters.of(token)
    size = " large" if large else ""
    return Markup('<span class="state {}{}" data-state="{}">{}{}</span>').format(
        look.tone, size, token, _icon(base, look.icon), word or look.word
    )


def _when(now: float, at: float | None, *, both: bool = False) -> Markup:
    """A moment as people say it, and exactly where one asks; *both*: exactly beside it."""
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
    """The time of day, which stays as it is while the page is open."""
    exact = formatters.absolute(at)
    return Markup('<time datetime="{}" title="{}" data-still>{}</time>').format(
        formatters.machine(at), exact, formatters.to_the_second(at, now) if seconds else formatters.clock(at, now)
    )


def _relative(now: float, at: float) -> str:
    return formatters.relative(at, now)


@cache
def _digest(name: str, package: str = "") -> str:
    home = files(package) / "static" if package else STATIC
    return hashlib.sha256((home / name).read_bytes()).hexdigest()[:10]


@cache
def icons() -> frozenset[str]:
    """The names of the sprite's pictures."""
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


# What a reader likes: light or dark, shortcuts or none. Kept in a cookie, changed by a form.

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
