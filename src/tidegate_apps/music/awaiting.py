"""Whoever asks for a call wants to know how it went: it is waited for a little, and said in words."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tidegate.apps import Installed
from tidegate_apps.music.asking import lines_of
from tidegate_apps.music.kind import ProviderKind
from tidegate_apps.music.looks import CALM, ConnectionSummary, OperationSummary
from tidegate_apps.music.settings import MusicSettings

AT_A_PAGE = 3.0  # seconds that somebody waits for a page
_POLL_INTERVAL = 0.1
_STAYS = ("retry_after", "other")  # what holds a call although somebody asks for it, beside refused credentials


def was_served(work: OperationSummary, asked: float, since: float) -> bool:
    """Whether it was called, or is held by what asking does not end, with the credentials that are there *since*."""
    tried = work.state.tried_at or 0.0
    return tried >= asked or ((work.refused or work.state.held in _STAYS) and tried >= since)


def has_called(works: Sequence[OperationSummary], asked: float) -> bool:
    """Whether anything of it was called since."""
    return any((work.state.tried_at or 0.0) >= asked for work in works)


def is_over(works: Sequence[OperationSummary], asked: float, since: float) -> bool:
    """Whether all operations were served; what the failure of one of them holds, too, is not called any more."""
    tried = has_called(works, asked)
    return bool(works) and all(
        was_served(work, asked, since) or (tried and work.state.held is not None) for work in works
    )


def wait_for_sync(
    app: Installed[MusicSettings], user: str, kind: ProviderKind, asked: float, limit: float
) -> ConnectionSummary | None:
    """How a provider is once it was called, or cannot be, since *asked*; None when that takes longer than *most*."""
    end = time.monotonic() + limit
    while True:
        line = next(each for each in lines_of(app, user) if each.kind.name == kind.name)
        if is_over(line.works, asked, 0.0 if line.row is None else line.row.connected_at):
            return line
        if time.monotonic() >= end:
            return None
        time.sleep(_POLL_INTERVAL)


def outcome(kind: ProviderKind, done: str, line: ConnectionSummary | None) -> tuple[str, str]:
    """What is said of it on a page, and in which tone. *done*: what the person did, as in "is connected"."""
    if line is None:
        return f"{kind.title} {done}; its first answer is still to come.", "good"
    if line.look.name in CALM:
        return f"{kind.title} {done}, and works.", "good"
    return f"{kind.title} {done}, but all is not well: {line.look.reason or line.look.word}", "warn"
