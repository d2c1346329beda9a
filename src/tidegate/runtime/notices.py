"""What people are told of a target, in whole sentences. One place for the words."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from tidegate.core.events import Notice, NoticeKind
from tidegate.core.fault import Fault


class Subject(Protocol):
    """What a notice is about."""

    key: Hashable
    operation: str | None


def fatal(target: str, about: Subject, fault: Fault, episode: float) -> Notice:
    return Notice(
        kind=NoticeKind.FATAL, target=target, key=about.key, operation=about.operation, episode=episode,
        title=f"{target} needs your attention", message=f"{fault.message} {fault.advice}",
    )  # fmt: skip


def cap(target: str, about: Subject, fault: Fault, episode: float) -> Notice:
    return Notice(
        kind=NoticeKind.CAP, target=target, key=about.key, operation=about.operation, episode=episode,
        title=f"{target} has been failing for a while",
        message=f"{fault.message} It is still tried, at the longest interval.",
    )  # fmt: skip


def recovered(target: str, key: Hashable, operation: str | None, episode: float) -> Notice:
    return Notice(
        kind=NoticeKind.RECOVERED, target=target, key=key, operation=operation, episode=episode,
        title=f"{target} works again", message="The service answers again; nothing more to do.",
    )  # fmt: skip


def own_link(target: str, episode: float) -> Notice:
    return Notice(
        kind=NoticeKind.OWN_LINK, target=target, episode=episode, title="Our own network seems to be down",
        message="Most services fail at the same time, so none of them is blamed. Check the connection of this machine.",
    )  # fmt: skip
