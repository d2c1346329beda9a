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
    title: str = ""  # how people call the target, if not by its name

    @property
    def called(self) -> str:
        return self.title or self.target


def fatal(about: Subject, fault: Fault) -> Notice:
    return _notice(NoticeKind.FATAL, about, f"{about.called} needs your attention", fault, fault.advice)


def cap(about: Subject, fault: Fault) -> Notice:
    advice = "It is still tried, at the longest interval. If this stays, check the service."
    return _notice(NoticeKind.CAP, about, f"{about.called} has been failing for a while", fault, advice)


def resting(about: Subject, fault: Fault) -> Notice:
    advice = "It failed too often, so it is left alone for a while; then one call finds out whether it is well again."
    return _notice(NoticeKind.DISABLED, about, f"{about.called} is resting", fault, advice)


def recovered(about: Subject) -> Notice:
    return Notice(
        kind=NoticeKind.RECOVERED, target=about.target, key=about.key, operation=about.operation,
        episode=about.episode, title=f"{about.called} works again",
        message="The service answers again; there is nothing more to do.",
    )  # fmt: skip


def of(kind: NoticeKind, about: Subject, fault: Fault | None) -> Notice:
    """The notice of a kind; *fault* is what it is about, if it is no recovery."""
    return recovered(about) if fault is None else _OF[kind](about, fault)


def own_link(target: str, episode: float) -> Notice:
    return Notice(
        kind=NoticeKind.OWN_LINK, target=target, episode=episode, title="Our own network seems to be down",
        message="Most services fail at the same time, so none of them is blamed. Check the connection of this machine.",
    )  # fmt: skip


def _notice(kind: NoticeKind, about: Subject, title: str, fault: Fault, advice: str) -> Notice:
    return Notice(
        kind=kind, target=about.target, key=about.key, operation=about.operation, episode=about.episode, title=title,
        message=f"{fault.message} {advice}", advice=advice, code=fault.code,
    )  # fmt: skip


_OF = {NoticeKind.FATAL: fatal, NoticeKind.CAP: cap, NoticeKind.DISABLED: resting}
