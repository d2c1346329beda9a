"""The words of notices and of what is sent about them."""

from __future__ import annotations

from tests.wording import catalogue
from tidegate.core.codes import CORE
from tidegate.machine.opened import OpenedBy, TripReason
from tidegate.machine.shared_breaker import StoredBreaker
from tidegate.machine.telling import NoticePolicy
from tidegate.ops.telling import wording
from tidegate.runtime import notices
from tidegate.runtime.notices import Subject
from tidegate.store.notice_rows import QUEUE, TARGET, NewNotice, NoticeSubject
from tidegate.store.telling_rows import OngoingNotice

NOW = 1_700_000_000.0
AGO = NOW - 900
FAULT = CORE["unauthorized"].fault("test")
SVC = Subject("svc", "7", None, AGO)


def open_breaker(rule: OpenedBy, **fields: int) -> StoredBreaker:
    return StoredBreaker(
        generation=1, state="open", since=AGO, run=fields.get("run", 0), opened=TripReason(rule=rule, **fields)
    )


def gave_up(n: int, target: str = "api", message: str = "It said no.", code: str = "server_error") -> NewNotice:
    return wording.gave_up("mail", "f1", target, "send", code, message, n, AGO)


KNOWN = OngoingNotice(id=1, subject=TARGET, name="svc", lane="", operation="", episode=AGO, created_at=AGO)


RAISED: dict[str, NewNotice] = {
    "breaker/run": wording.breaker("svc", AGO, open_breaker(OpenedBy.CONSECUTIVE, run=5)),
    "breaker/ratio": wording.breaker("svc", AGO, open_breaker(OpenedBy.RATIO, requests=8, failures=4)),
    "breaker/person": wording.breaker("svc", AGO, StoredBreaker(generation=1, state="open", since=AGO, by="ada")),
    "flapping": wording.flapping("svc", AGO, 6, NoticePolicy()),
    "stuck": wording.stuck("mail", 12, AGO, NOW),
    "no_worker/one": wording.no_worker("mail", 1, AGO),
    "no_worker/many": wording.no_worker("mail", 31, AGO),
    "paused": wording.paused(NoticeSubject(subject=QUEUE, name="mail"), AGO, NOW + 3600, "ada", NOW),
    "paused/by_nobody": wording.paused(NoticeSubject(subject=TARGET, name="svc"), AGO, NOW + 3600, None, NOW),
    "gave_up/one": gave_up(1),
    "gave_up/many": gave_up(40, target=""),
    "gave_up/without_reason": gave_up(1, message=""),
    "channel": wording.channel("ops", "ops", "It said no.", AGO),
    "channel/without_reason": wording.channel("ops", "ops", "", AGO),
    "dealt_with": wording.dealt_with(KNOWN),
    **{f"over/{kind}": wording.over(kind, KNOWN, NOW) for kind in sorted(wording.ENDS)},
}


def test_notices() -> None:
    found = {key: f"{each.title}\n{each.message}\n{each.advice}".strip() for key, each in RAISED.items()}
    of_targets = {
        "target/fatal": notices.fatal(SVC, FAULT), "target/cap": notices.cap(SVC, FAULT),
        "target/resting": notices.resting(SVC, FAULT), "target/recovered": notices.recovered(SVC),
        "target/own_link": notices.own_link("svc", AGO),
    }  # fmt: skip
    found |= {key: f"{each.title}\n{each.message}" for key, each in of_targets.items()}
    catalogue.compare("notices", found)
