"""Sends notices through channels: a periodic evaluation, and one job per delivery, guarded by a target per channel."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidegate import audit
from tidegate.audit import AuditSubject as At
from tidegate.errors import NotFound, StoreError
from tidegate.faults.classification import classify
from tidegate.faults.fault import Fault
from tidegate.guard.backoff import Backoff
from tidegate.guard.profiles import Tuning
from tidegate.guard.target import Target
from tidegate.jobs import insert
from tidegate.jobs.function import JobFunction
from tidegate.jobs.outcome import Done, Fail
from tidegate.jobs.queue import Queue
from tidegate.logs import logger
from tidegate.notices import channels as notice_channels
from tidegate.notices import deliveries, messages, planner
from tidegate.notices.channels import Channel, Mail, Message
from tidegate.notices.conditions import OWN_QUEUE
from tidegate.notices.deliveries import PERSON, DeliveryKey, NoticeRow
from tidegate.notices.policy import NoticePolicy
from tidegate.notices.senders import GONE, PACK, send
from tidegate.store.base import BoundStatement, Tx
from tidegate.targets import actions, table

_log = logger("tidegate.notices")

EVALUATE_EVERY = 5.0  # seconds between two evaluations
_LEASE = 30.0  # seconds of leadership: one process evaluates for all
_ATTEMPTS = 6
_ALL_STATES = frozenset({"queued", "running", "done", "failed"})
Send = Callable[..., None]


@dataclass(frozen=True, slots=True)
class ChannelTestResult:
    """The result of a channel test. *fault* is None if it was delivered."""

    channel: str
    fault: Fault | None

    @property
    def why(self) -> str:
        return "" if self.fault is None else reason_of(self.fault)


def reason_of(fault: Fault) -> str:
    """Returns why a message was rejected, for the operator."""
    detail = fault.detail
    for ours in ("NotSent: ", "Answered: "):
        detail = detail.removeprefix(ours)
    return f"{fault.message} ({detail})" if detail else fault.message


class NoticeDispatcher:
    """Evaluates and delivers notices on one queue.

    *channels* are in order. *path* returns the page of a notice's subject, relative to *address*.
    """

    def __init__(
        self,
        queue: Queue,
        channels: Sequence[Channel] = (),
        policy: NoticePolicy | None = None,
        *,
        address: str = "",
        path: Callable[[NoticeRow], str] = lambda row: "/notices",
        send: Send = send,
    ) -> None:
        self.queue, self.channels, self.policy = queue, tuple(channels), policy or NoticePolicy()
        self._address, self._path, self._send = address, path, send
        self._holder = uuid.uuid4().hex
        self._unmanned: dict[str, float] = {}
        self._jobs: dict[str, JobFunction[[DeliveryKey], None]] = {
            channel.name: self._declared(channel) for channel in self.channels
        }
        mails = next((channel for channel in self.channels if isinstance(channel.config, Mail)), None)
        self._mails = mails  # its server also sends mail to single users

    def _declared(self, channel: Channel) -> JobFunction[[DeliveryKey], None]:
        """Declares the job function that delivers through one channel."""
        target = Target(
            channel.target,
            "jobs",
            title=f"The channel {channel.name}",
            rules=PACK,
            backoff=None,
            breaker={"consecutive": 5, "timeout": 60.0, "max_requests": 1, "min_requests": 5},
            reprobe_every="10m",
            tuning=Tuning(cap_notice=False),
        )

        def deliver(sent: DeliveryKey) -> Done[None]:
            return self._deliver(channel, sent)

        declare = self.queue.job(
            queue=OWN_QUEUE,
            name=f"{OWN_QUEUE}.{channel.name}",
            target=target,
            attempts=_ATTEMPTS,
            unique=lambda sent: (sent.notice, sent.channel, sent.round_no),
            while_=_ALL_STATES,
            backoff=Backoff("20s", cap="5m"),
            expires=self.policy.patience,
        )
        return declare(deliver)

    # -- evaluation ----------------------------------------------------------------------------------------------

    def evaluate(self) -> bool:
        """Plans and queues the due notices. Returns whether there were any."""
        store = self.queue.store
        if not store.read(lambda tx: planner.plan(tx, self.policy, self.channels, self._unmanned)):
            return False
        done = store.write(self._evaluate_as_leader)
        if done:
            self.queue.notify_workers()
        return done

    def _evaluate_as_leader(self, tx: Tx) -> bool:
        # Only the leader evaluates. It reads again: another process may have acted since the first read.
        if not tx.query("lead", {"name": OWN_QUEUE, "holder": self._holder, "lease": _LEASE}):
            return False
        notice_plan = planner.plan(tx, self.policy, self.channels, self._unmanned)
        planner.carry_out(tx, notice_plan, self._put)
        return bool(notice_plan)

    def _put(self, tx: Tx, sent: DeliveryKey) -> int:
        person = sent.channel.startswith(PERSON)
        name = self._mails.name if person and self._mails is not None else sent.channel
        return insert.enqueue(tx, [self._jobs[name].new_job(sent)])[0].id

    async def run(self, stop: asyncio.Event | None = None, every: float = EVALUATE_EVERY) -> None:
        """Evaluates until *stop*. Continues when the database is unavailable."""
        stop = stop or asyncio.Event()
        await self.queue.run_blocking(lambda: self._log_errors(self.declare))
        while not stop.is_set():
            await self.queue.run_blocking(lambda: self._log_errors(self.evaluate))
            sleeping = asyncio.ensure_future(self.queue.clock.asleep(every))
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait({sleeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in (sleeping, stopping):
                task.cancel()

    def _log_errors(self, work: Callable[[], object]) -> None:
        try:
            work()
        except StoreError as error:
            _log.warning("notices_not_looked_at error=%s", type(error).__name__)
        except Exception as error:
            # A bug in one notice must not end the worker in the same process, with all its jobs.
            _log.exception("notices_not_looked_at error=%s", type(error).__name__)

    def declare(self) -> None:
        """Stores the channels, for processes that only see the store."""
        self.queue.store.write(self._known)

    def _known(self, tx: Tx) -> None:
        moved = notice_channels.declare(tx, self.channels)
        for channel in self.channels:
            if channel.name in moved:
                _afresh(tx, channel, "settings")

    # -- delivering ----------------------------------------------------------------------------------------------

    def _deliver(self, channel: Channel, sent: DeliveryKey) -> Done[None]:
        store = self.queue.store
        now = self.queue.clock.now()
        row, to = store.read(lambda tx: (deliveries.load_notice(tx, sent.notice), self._address_of(tx, sent)))
        if row is None or store.read(lambda tx: deliveries.has_expired(tx, sent)):
            return Done(unsent=True)
        if store.read(lambda tx: deliveries.withdraw(tx, row, sent)):
            return Done(writes=deliveries.record_not_sent(sent), unsent=True)
        more: list[BoundStatement] = []
        if sent.channel.startswith(PERSON):
            if not to or not isinstance(channel.config, Mail):
                raise Fail("misconfigured", f"{sent.channel} has no address any more.")
            channel = replace(channel, config=replace(channel.config, to=(to,)))
            recipient = {"who": sent.channel.removeprefix(PERSON), "target": row.name}
            more = [BoundStatement("mailed_put", recipient)]
        letter = store.read(lambda tx: self._build_message(tx, row, sent, now))
        try:
            self._send(channel, letter, now=now)
        except Exception as error:  # any error of a channel is classified
            fault = classify(error, rules=PACK)
            if fault is not None and fault.code == GONE:
                params = {"name": channel.name, "why": fault.message}
                store.write(lambda tx: tx.query("channel_disable", params))
            if fault is not None and fault.fatal:
                # A retry does not help, so the next channel need not wait.
                raise Fail(fault.code, reason_of(fault), fault=fault) from error
            raise
        return Done(writes=[*deliveries.record_delivered(sent), *more])

    def _address_of(self, tx: Tx, sent: DeliveryKey) -> str:
        if not sent.channel.startswith(PERSON):
            return ""
        return tx.scalar_or_none(str, "address", {"who": sent.channel.removeprefix(PERSON)}) or ""

    def _build_message(self, tx: Tx, row: NoticeRow, sent: DeliveryKey, now: float) -> Message:
        store_id = tx.scalar(str, "store_value", {"name": "id"})
        id_ = f"tidegate-{store_id}-{row.id}-{sent.round_no}"
        return messages.letter(tx, row, id_=id_, link=f"{self._address}{self._path(row)}", now=now)

    # -- testing -------------------------------------------------------------------------------------------------

    def test(self, name: str, by: str = "somebody") -> ChannelTestResult:
        """Sends a test through one channel now, bypassing its gates. Raises NotFound for an unknown channel."""
        channel = next((item for item in self.channels if item.name == name), None)
        if channel is None:
            known = ", ".join(item.name for item in self.channels)
            advice = f"choose one of: {known}" if known else f"add [channels.{name}] to the settings"
            raise NotFound(f"there is no channel {name!r}; {advice}")
        now = self.queue.clock.now()
        letter = Message(
            id=f"tidegate-test-{uuid.uuid4().hex}",
            event="notice.test",
            level="info",
            at=now,
            title="A test of Tidegate",
            link=f"{self._address}/channels",
            paragraphs=(f"This is how a notice reaches you through the channel {name}.", "There is nothing to do."),
        )
        fault: Fault | None = None
        try:
            self._send(channel, letter, now=now)
        except Exception as error:  # as in a delivery
            fault = classify(error, rules=PACK)
        channel_test_result = ChannelTestResult(name, fault)
        params = {"name": name, "ok": int(fault is None), "why": channel_test_result.why[:500] or None}

        def write(tx: Tx) -> None:
            self._known(tx)
            tx.query("channel_tested", params)
            place = At(subject="target", name=channel.target)
            audit.append_entry(
                tx, by, "target_tested", place, became={"state": "delivered" if fault is None else "not delivered"}
            )
            if fault is None:
                _afresh(tx, channel, by)

        self.queue.store.write(write)
        return channel_test_result


def _afresh(tx: Tx, channel: Channel, by: str) -> None:
    """Clears the channel's failure, so that waiting deliveries run at once."""
    if table.target(tx, channel.target) is not None:
        actions.clear_key(tx, channel.target, "", by, noted=False)
        actions.reset_breaker(tx, channel.target, by, noted=False)
