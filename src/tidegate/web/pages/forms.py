"""What happened, said on the next page: a form answers with a redirect, and a cookie, read once, carries the words.

What the cookie says is shown as text, and what can be undone is named by a table: a cookie that somebody else has put
there can neither bring markup nor lead anywhere.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from tidegate.durations import seconds
from tidegate.errors import NotFound, Rejected, UniqueTaken

if TYPE_CHECKING:
    from tidegate.store.base import Tx
    from tidegate.web.site import Site

COOKIE = "tidegate_said"
QUIETLY = "tidegate-refresh"  # a header: the page itself asks, and nobody is to be told
_SECONDS = 60
_MAX_COOKIE_BYTES = 2700  # bytes: a browser keeps no cookie of more than 4096, and Base64 takes a third more
_MIN_TEXT_BYTES = 500  # bytes of them for the text; if what can be undone leaves less, it cannot be undone from there
TONES = ("good", "warn", "bad")
UNDO = {
    "resume_target": "/targets/{}/resume",
    "resume_queue": "/queue/{}/resume",
    "enable_key": "/targets/{}/enable",
    "retry_job": "/jobs/{}/retry",
    "role_of": "/people/{}/role",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flash:
    """One message. *undo* names a row of the table, *of* what it is about, and *key* a part of that."""

    text: str
    tone: str = "good"
    undo: str = ""
    of: str = ""
    key: str = ""

    @property
    def undo_path(self) -> str:
        """Where the undoing is asked for; empty when nothing can be undone."""
        return UNDO[self.undo].format(quote(self.of, safe="")) if self.undo in UNDO and self.of else ""

    def dump(self) -> str:
        """As a cookie holds it: a text that is too long for one is cut."""
        kept = {"text": "", "tone": self.tone, "undo": self.undo, "of": self.of, "key": self.key}
        if len(_packed(kept)) > _MAX_COOKIE_BYTES - _MIN_TEXT_BYTES:
            kept |= {"undo": "", "of": "", "key": ""}
        kept["text"] = self.text
        while len(_packed(kept)) > _MAX_COOKIE_BYTES:
            kept["text"] = f"{kept['text'][: len(kept['text']) * 9 // 10 - 1]}…"
        return base64.urlsafe_b64encode(_packed(kept)).decode()

    @classmethod
    def load(cls, cookie: str) -> Flash | None:
        """None when the cookie is not one of ours."""
        try:
            kept = json.loads(base64.urlsafe_b64decode(cookie.encode()))
            values = {name: kept[name] for name in ("text", "tone", "undo", "of", "key")}
        except (binascii.Error, ValueError, KeyError, TypeError):
            return None
        if not all(isinstance(value, str) for value in values.values()) or values["tone"] not in TONES:
            return None
        return cls(**values)


def _packed(kept: dict[str, str]) -> bytes:
    return json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace")


def local_path(back: str, otherwise: str) -> str:
    """*back* when it leads to a page of ours, else *otherwise*."""
    fine = back.startswith("/") and not back.startswith("//") and "\\" not in back and back.isprintable()
    return back if fine and len(back) < 2000 else otherwise


def answer(request: Request, flash: Flash | None, back: str, otherwise: str, *names: str) -> Response:
    """Back to where it was asked, or to the page *otherwise* of these names, with what is to be said there."""
    if QUIETLY in request.headers:
        return Response(status_code=204)
    base = str(request.scope.get("root_path", ""))
    place = base + otherwise + "".join("/" + quote(name, safe="") for name in names)
    response = RedirectResponse(local_path(back, place), status_code=303)
    if flash is not None:
        response.set_cookie(COOKIE, flash.dump(), max_age=_SECONDS, httponly=True, samesite="lax", path=base or "/")
    return response


def redirect_with_flash(request: Request, path: str, text: str = "", *, tone: str = "good") -> Response:
    """The answer to a form of an application: back to its page at *path*, where *text* is said once.

    *tone* is good, warn or bad.

    return said(request, "/weather", "Oslo was asked for.")
    """
    if tone not in TONES:
        raise ValueError(f"tone: {tone!r} is not allowed; give one of: {', '.join(TONES)}")
    return answer(request, Flash(text=text, tone=tone) if text else None, "", path)


def attempt(work: Callable[[], Flash]) -> Flash:
    """What *work* says, or why it was not done."""
    try:
        return work()
    except UniqueTaken:
        return Flash(text="Nothing was changed: another job of the same kind has taken its place.", tone="warn")
    except Rejected as error:
        return Flash(text=f"Nothing was changed: {error}.", tone="warn")
    except NotFound as error:
        return Flash(text=f"Nothing was changed: {error}.", tone="bad")
    except ValueError as error:
        return Flash(text=f"Nothing was changed: {error}.", tone="bad")


def act(site: Site, work: Callable[[Tx], T], say: Callable[[T], Flash]) -> Flash:
    """Runs *work* in a transaction and wakes the workers; says what came of it."""
    return attempt(lambda: say(site.write(work)))


# Until when a person pauses something: a choice, or a date; there is no pause without an end.

CHOICES = (("15m", "15 min"), ("1h", "1 h"), ("4h", "4 h"), ("1d", "1 day"))
MAX_PAUSE_SECONDS = 366 * 86400.0


def end_of(lasts: str, until: str, now: float) -> float:
    """UNIX time; ValueError says what to give instead."""
    if lasts:
        end = now + seconds(lasts, field="lasts", minimum=1.0)
    elif until:
        try:
            end = datetime.fromisoformat(until).astimezone().timestamp()
        except (ValueError, OverflowError):
            raise ValueError(f"until: {until!r:.40} is no date and time; give one such as 2026-11-20T14:30") from None
    else:
        raise ValueError("lasts: a pause has an end; choose how long, or until when")
    if end <= now:
        raise ValueError("until: that is over already; give a time ahead of now")
    if end - now > MAX_PAUSE_SECONDS:
        raise ValueError("until: that is more than a year ahead; give a time within a year")
    return end


# Places in lists that go on, as addresses say them: one that is no longer good begins anew instead of failing.

_MAX_DIGITS = 15  # every JSON reader holds such a number, and every database


def cursor_of(given: str, ask: Callable[[str | None], T]) -> T:
    """What *ask* finds at this place; at the beginning when there is no such place."""
    try:
        return ask(given or None)
    except ValueError:
        if not given:
            raise
        return ask(None)


def number_of(text: str) -> int | None:
    """The number that a part of an address says; None when it says none, or one that no table has.

    Python reads digits of other scripts too, and refuses what has thousands of them.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None
