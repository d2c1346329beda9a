"""The words of notices and of what is sent about them."""

from __future__ import annotations

from tests.wording import catalogue
from tidegate.faults.codes import CORE
from tidegate.guard import publisher
from tidegate.guard.breaker_policy import OpenedBy, TripReason
from tidegate.guard.publisher import Subject
from tidegate.notices import messages
from tidegate.notices.deliveries import OngoingNotice
from tidegate.notices.policy import NoticePolicy
from tidegate.outbox import QUEUE, TARGET, NewNotice, NoticeSubject
from tidegate.targets.breaker import StoredBreaker

NOW = 1_700_000_000.0
AGO = NOW - 900
FAULT = CORE["unauthorized"].fault("test")
SVC = Subject("svc", "7", None, AGO)


def open_breaker(rule: OpenedBy, **fields: int) -> StoredBreaker:
    return StoredBreaker(
        generation=1, state="open", since=AGO, run=fields.get("run", 0), opened=TripReason(rule=rule, **fields)
    )


def gave_up(n: int, target: str = "api", message: str = "It said no.", code: str = "server_error") -> NewNotice:
    return messages.gave_up("mail", "f1", target, "send", code, message, n, AGO)


KNOWN = OngoingNotice(id=1, subject=TARGET, name="svc", lane="", operation="", episode=AGO, created_at=AGO)


RAISED: dict[str, NewNotice] = {
    "breaker/run": messages.breaker("svc", AGO, open_breaker(OpenedBy.CONSECUTIVE, run=5)),
    "breaker/ratio": messages.breaker("svc", AGO, open_breaker(OpenedBy.RATIO, requests=8, failures=4)),
    "breaker/person": messages.breaker("svc", AGO, StoredBreaker(generation=1, state="open", since=AGO, by="ada")),
    "flapping": messages.flapping("svc", AGO, 6, NoticePolicy()),
    "stuck": messages.stuck("mail", 12, AGO, NOW),
    "no_worker/one": messages.no_worker("mail", 1, AGO),
    "no_worker/many": messages.no_worker("mail", 31, AGO),
    "paused": messages.paused(NoticeSubject(subject=QUEUE, name="mail"), AGO, NOW + 3600, "ada", NOW),
    "paused/by_nobody": messages.paused(NoticeSubject(subject=TARGET, name="svc"), AGO, NOW + 3600, None, NOW),
    "gave_up/one": gave_up(1),
    "gave_up/many": gave_up(40, target=""),
    "gave_up/without_reason": gave_up(1, message=""),
    "channel": messages.channel("ops", "ops", "It said no.", AGO),
    "channel/without_reason": messages.channel("ops", "ops", "", AGO),
    "dealt_with": messages.dealt_with(KNOWN),
    **{f"over/{kind}": messages.over(kind, KNOWN, NOW) for kind in sorted(messages.ENDS)},
}


def test_notices() -> None:
    found = {key: f"{each.title}\n{each.message}\n{each.advice}".strip() for key, each in RAISED.items()}
    of_targets = {
        "target/fatal": publisher.fatal(SVC, FAULT), "target/cap": publisher.cap(SVC, FAULT),
        "target/resting": publisher.resting(SVC, FAULT), "target/recovered": publisher.recovered(SVC),
        "target/own_link": publisher.own_link("svc", AGO),
    }  # fmt: skip
    found |= {key: f"{each.title}\n{each.message}" for key, each in of_targets.items()}
    catalogue.compare("notices", found)
