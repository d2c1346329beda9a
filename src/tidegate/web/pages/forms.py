"""Form handling: redirects with a flash message, pause ends, and cursors in URLs.

A form responds with a redirect. A cookie carries the flash message to the next page, which shows it once. The message
is shown as text, and the undo action comes from a table: a forged cookie can neither inject markup nor lead to another
site.
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
QUIETLY = "tidegate-refresh"  # header of a background refresh, which shows no flash message
_SECONDS = 60
_MAX_COOKIE_BYTES = 2700  # bytes; browsers cap a cookie at 4096, and Base64 adds a third
_MIN_TEXT_BYTES = 500  # bytes reserved for the text; if the undo data leaves less, the undo is dropped
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
    """A flash message. *undo* names a row of the table, *of* its subject, and *key* a key of the subject."""

    text: str
    tone: str = "good"
    undo: str = ""
    of: str = ""
    key: str = ""

    @property
    def undo_path(self) -> str:
        """Return the path that undoes the action. Empty if it cannot be undone."""
        return UNDO[self.undo].format(quote(self.of, safe="")) if self.undo in UNDO and self.of else ""

    def dump(self) -> str:
        """Encode for a cookie. A text that is too long is cut."""
        fields = {"text": "", "tone": self.tone, "undo": self.undo, "of": self.of, "key": self.key}
        if len(_packed(fields)) > _MAX_COOKIE_BYTES - _MIN_TEXT_BYTES:
            fields |= {"undo": "", "of": "", "key": ""}
        fields["text"] = self.text
        while len(_packed(fields)) > _MAX_COOKIE_BYTES:
            fields["text"] = f"{fields['text'][: len(fields['text']) * 9 // 10 - 1]}…"
        return base64.urlsafe_b64encode(_packed(fields)).decode()

    @classmethod
    def load(cls, cookie: str) -> Flash | None:
        """Decode a cookie. None if it is invalid."""
        try:
            fields = json.loads(base64.urlsafe_b64decode(cookie.encode()))
            values = {name: fields[name] for name in ("text", "tone", "undo", "of", "key")}
        except (binascii.Error, ValueError, KeyError, TypeError):
            return None
        if not all(isinstance(value, str) for value in values.values()) or values["tone"] not in TONES:
            return None
        return cls(**values)


def _packed(fields: dict[str, str]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")


def local_path(back: str, otherwise: str) -> str:
    """Return *back* if it is a page of this server, else *otherwise*."""
    fine = back.startswith("/") and not back.startswith("//") and "\\" not in back and back.isprintable()
    return back if fine and len(back) < 2000 else otherwise


def answer(request: Request, flash: Flash | None, back: str, otherwise: str, *names: str) -> Response:
    """Redirect back to the page of the form, or to the path *otherwise* with these names, with a flash message."""
    if QUIETLY in request.headers:
        return Response(status_code=204)
    base = str(request.scope.get("root_path", ""))
    place = base + otherwise + "".join("/" + quote(name, safe="") for name in names)
    response = RedirectResponse(local_path(back, place), status_code=303)
    if flash is not None:
        response.set_cookie(COOKIE, flash.dump(), max_age=_SECONDS, httponly=True, samesite="lax", path=base or "/")
    return response


def redirect_with_flash(request: Request, path: str, text: str = "", *, tone: str = "good") -> Response:
    """Return the response to a form of an application: a redirect to *path*, which shows *text* once.

    *tone* is good, warn or bad.

    return redirect_with_flash(request, "/weather", "Requested the weather of Oslo.")
    """
    if tone not in TONES:
        raise ValueError(f"tone: {tone!r} is not allowed; give one of: {', '.join(TONES)}")
    return answer(request, Flash(text=text, tone=tone) if text else None, "", path)


def attempt(work: Callable[[], Flash]) -> Flash:
    """Run *work* and return its flash message, or one with the reason why it was rejected."""
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


def act(site: Site, work: Callable[[Tx], Flash]) -> Flash:
    """Run *work* in a transaction, wake the workers, and return its flash message as `attempt` does."""
    return attempt(lambda: site.write(work))


# -- end of a pause ----------------------------------------------------------------------------------------------------
#
# A choice or a date. There is no pause without an end.

CHOICES = (("15m", "15 min"), ("1h", "1 h"), ("4h", "4 h"), ("1d", "1 day"))
MAX_PAUSE_SECONDS = 366 * 86400.0


def end_of(lasts: str, until: str, now: float) -> float:
    """Return the end as UNIX time. ValueError says what to enter instead."""
    if lasts:
        end = now + seconds(lasts, field="lasts", minimum=1.0)
    elif until:
        try:
            end = datetime.fromisoformat(until).astimezone().timestamp()
        except (ValueError, OverflowError):
            raise ValueError(
                f"until: {until!r:.40} is not a date and time; give one such as 2026-11-20T14:30"
            ) from None
    else:
        raise ValueError("lasts: a pause has an end; choose how long, or until when")
    if end <= now:
        raise ValueError("until: that is over already; give a time ahead of now")
    if end - now > MAX_PAUSE_SECONDS:
        raise ValueError("until: that is more than a year ahead; give a time within a year")
    return end


# -- cursors -----------------------------------------------------------------------------------------------------------
#
# An outdated cursor in a URL restarts the list instead of failing.

_MAX_DIGITS = 15  # fits every JSON parser and every database


def cursor_of(cursor: str, load: Callable[[str | None], T]) -> T:
    """Return what *load* returns for this cursor, or for the start of the list if the cursor is invalid."""
    try:
        return load(cursor or None)
    except ValueError:
        if not cursor:
            raise
        return load(None)


def number_of(text: str) -> int | None:
    """Parse a number in a URL. None if it is not a number, or larger than any id.

    `int` also accepts digits of other scripts, and raises for thousands of digits.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None
