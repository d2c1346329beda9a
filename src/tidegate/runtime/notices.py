"""What people are told of a target, in whole sentences. One place for the words."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from tidegate.core.events import Notice, NoticeKind
from tidegate.core.fault import Fault


@dataclass(frozen=True, slots=True)
class Subject:
    """What a notice is about: a key, or one operation of it, since its episode began."""

    target: str
    key: Hashable
    operation: str | None
    episode: float


def fatal(about: Subject, fault: Fault) -> Notice:
    return _notice(NoticeKind.FATAL, about, f"{about.target} needs your attention", f"{fault.message} {fault.advice}")


def cap(about: Subject, fault: Fault) -> Notice:
    return _notice(
        NoticeKind.CAP, about, f"{about.target} has been failing for a while",
        f"{fault.message} It is still tried, at the longest interval. If this stays, check the service.",
    )  # fmt: skip


def recovered(about: Subject) -> Notice:
    message = "The service answers again; there is nothing more to do."
    return _notice(NoticeKind.RECOVERED, about, f"{about.target} works again", message)


def own_link(target: str, episode: float) -> Notice:
    return Notice(
        kind=NoticeKind.OWN_LINK, target=target, episode=episode, title="Our own network seems to be down",
        message="Most services fail at the same time, so none of them is blamed. Check the connection of this machine.",
    )  # fmt: skip


def _notice(kind: NoticeKind, about: Subject, title: str, message: str) -> Notice:
    return Notice(
        kind=kind, target=about.target, key=about.key, operation=about.operation, episode=about.episode,
        title=title, message=message,
    )  # fmt: skip
