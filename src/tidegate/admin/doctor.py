"""The checks of `tidegate doctor`: database, channels, network, workers and targets. They change nothing."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit

from tidegate.errors import StoreBusy, StoreDamaged, StoreError
from tidegate.faults.redaction import redact
from tidegate.guard.breaker_state import OPEN
from tidegate.jobs import reports
from tidegate.jobs.explain import WORKER_GONE
from tidegate.labels import NEED_YOU, format_duration, many
from tidegate.notices import deliveries, inbox
from tidegate.store.base import Tx, now_of
from tidegate.store.migrate import CORE, Migration, compare
from tidegate.store.open import ReadOnlyStore, file_of, open_read_only
from tidegate.store.sql import Dialect
from tidegate.store.sqlite_files import require_expected
from tidegate.targets import reports as target_reports
from tidegate.targets.reports import StatusRow

_MB = 1_000_000
_LITTLE, _VERY_LITTLE = 1000 * _MB, 100 * _MB  # bytes of free disk
_SKEW, _BAD_SKEW = 2.0, 60.0  # seconds between two clocks
_RESTORE = "Stop Tidegate, and restore a copy: tidegate db restore FILE --yes"
_OTHERS = 0o007  # the permission bits of other users


class CheckStatus(StrEnum):
    OK = "ok"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result. *fix* is a command or a sentence, empty if nothing is wrong."""

    id: str
    status: CheckStatus
    fact: str
    fix: str = ""

    @property
    def group(self) -> str:
        return self.id.partition(".")[0]

    def as_json(self) -> dict[str, str]:
        return {"group": self.group, **asdict(self)}


Checks = Sequence[Callable[[Tx], Iterable[Finding]]]


def ok_finding(id_: str, fact: str) -> Finding:
    return Finding(id=id_, status=CheckStatus.OK, fact=fact)


def warn_finding(id_: str, fact: str, fix: str) -> Finding:
    return Finding(id=id_, status=CheckStatus.WARN, fact=fact, fix=fix)


def error_finding(id_: str, fact: str, fix: str) -> Finding:
    return Finding(id=id_, status=CheckStatus.ERROR, fact=fact, fix=fix)


def database(
    url: str, now: Callable[[], float], *, driver: str | None, steps: list[Migration], checks: Checks
) -> list[Finding]:
    """Checks a database. If its schema matches *steps*, also runs *checks* in it."""
    shown, path = redact(url, 200), file_of(url)
    if path is not None and (missing := _missing(path)):
        return [missing]
    if path is not None and not Path(path).exists():
        fix = "tidegate serve (or tidegate db migrate) creates it; if it should exist, correct `db` in the settings"
        return [warn_finding("store.reachable", f"There is no database {path} yet.", fix)]
    findings: list[Finding] = []
    try:
        with open_read_only(url, now, driver) as store:
            findings += [
                ok_finding("store.reachable", f"{shown} can be opened: {store.engine}."),
                *schema(store, steps),
            ]
            ready = all(finding.status is not CheckStatus.ERROR for finding in findings)
            findings += [*_writable(store), *_clock(store), *_library(store), *_undamaged(store), *disk(path)]
            for check in checks if ready else ():
                findings += check(store.tx)
    except StoreDamaged as error:
        findings.append(
            error_finding(
                "store.reachable", f"{shown} cannot be used, it is damaged: {str(error).rstrip('.')}.", _RESTORE
            )
        )
    except StoreBusy as error:
        fix = "Is it started, and does url in the settings name it? tidegate config url"
        findings.append(error_finding("store.reachable", f"{shown}: {error}.", fix))
    except (StoreError, ValueError) as error:
        fix = "Correct `db` in the settings; if the database is damaged: tidegate db check, tidegate db restore"
        findings.append(error_finding("store.reachable", f"{shown} cannot be used: {str(error).rstrip('.')}.", fix))
    return findings


def _missing(path: str) -> Finding | None:
    """Reports a database that is expected and missing."""
    try:
        require_expected(path)
    except StoreError as error:
        fact, _, fix = f"{error}".partition(". ")
        return error_finding("store.reachable", f"{fact[:1].upper()}{fact[1:]}.", f"{fix}.")
    return None


def _undamaged(store: ReadOnlyStore) -> Iterator[Finding]:
    if store.dialect is not Dialect.SQLITE:
        return
    damage = store.damage()
    if damage:
        yield error_finding("store.damage", f"It is damaged: {damage[0]}.", _RESTORE)
    else:
        yield ok_finding("store.damage", "Its file is not damaged.")


def schema(store: ReadOnlyStore, steps: list[Migration]) -> Iterator[Finding]:
    try:
        missing = compare(store.applied, steps)
    except StoreError as error:
        yield error_finding(
            "store.schema", f"{str(error).capitalize()}.", "Run the version of Tidegate that made it, or newer."
        )
        return
    core = [migration for migration in missing if migration.app == CORE]
    if core:
        names = ", ".join(f"{migration.number:04} {migration.name}" for migration in core)
        yield error_finding("store.schema", f"Its schema is not up to date; missing: {names}.", "tidegate db migrate")
    for app in sorted({migration.app for migration in missing} - {CORE}):
        yield warn_finding(
            "store.schema", f"The tables of {app} are not up to date.", "The next start of tidegate serve does it."
        )
    if not missing:
        yield ok_finding("store.schema", f"Its schema is up to date: {many(len(store.applied), 'step')}.")


def _writable(store: ReadOnlyStore) -> Iterator[Finding]:
    if store.refuses:
        yield error_finding(
            "store.writable", f"It cannot be written: {store.refuses}.", "Give this user the right to write it."
        )
    else:
        yield ok_finding("store.writable", "It can be written.")


def _clock(store: ReadOnlyStore) -> Iterator[Finding]:
    if store.dialect is Dialect.SQLITE:
        return  # SQLite uses the clock of this host
    skew = abs(store.ahead)
    fact = f"Its clock is {skew:.1f} s {'ahead of' if store.ahead > 0 else 'behind'} ours"
    if skew < _SKEW:
        yield ok_finding("store.clock", f"{fact}.")
    else:
        status = CheckStatus.ERROR if skew >= _BAD_SKEW else CheckStatus.WARN
        yield Finding(id="store.clock", status=status, fact=f"{fact}.", fix="Set both clocks by NTP: timedatectl")


def _library(store: ReadOnlyStore) -> Iterator[Finding]:
    if store.dialect is not Dialect.SQLITE:
        return
    if store.wal_is_safe:
        yield ok_finding("store.library", f"The journal is {store.journal.upper()}, and this SQLite is safe with it.")
    else:
        fact = "This SQLite has the WAL-reset bug (before 3.51.3), so the journal TRUNCATE is used, which is slower."
        yield warn_finding("store.library", fact, "pip install 'tidegate[queue]' brings a newer SQLite")


def disk(path: str | None) -> Iterator[Finding]:
    if path is None:
        return
    folder = Path(path).absolute().parent
    free = shutil.disk_usage(folder).free
    fact = f"{free / _MB:,.0f} MB are free in {folder}."
    if free >= _LITTLE:
        yield ok_finding("store.disk", fact)
    else:
        status = CheckStatus.ERROR if free < _VERY_LITTLE else CheckStatus.WARN
        yield Finding(
            id="store.disk", status=status, fact=fact, fix="Make room, or keep finished jobs for less: [retention]"
        )


def private(files: Mapping[Path, str]) -> Iterator[Finding]:
    """Checks that other users cannot read secrets. *files* maps paths to descriptions."""
    for path, what in files.items():
        try:
            mode = path.stat().st_mode & 0o777
        except OSError:
            continue  # a missing file is reported elsewhere
        if mode & _OTHERS:
            fact = f"Everybody on this machine can read {what}: {path} has mode {mode:o}."
            yield warn_finding("security.files", fact, f"chmod 600 {quote(str(path))}")
        else:
            yield ok_finding(
                "security.files", f"{what[:1].upper()}{what[1:]} is not for everybody: {path} has mode {mode:o}."
            )


# -- channels ----------------------------------------------------------------------------------------------------------


def check_channels(tx: Tx) -> Iterator[Finding]:
    """Checks each channel without sending anything."""
    channels = deliveries.channels(tx)
    findings = list[Finding]()
    for channel in channels:
        test = f"tidegate channels test {channel.name}"
        if channel.token in ("off", "failing"):
            findings.append(
                error_finding(
                    "channels.delivers", f"The channel {channel.name} does not deliver. {channel.reason}", test
                )
            )
        elif channel.row.last_at is None and channel.row.tested_at is None:
            findings.append(
                warn_finding("channels.tried", f"Nothing has gone through the channel {channel.name} yet.", test)
            )
    yield from findings
    if channels and not findings:
        yield ok_finding(
            "channels.well", f"{many(len(channels), 'channel')} {'delivers' if len(channels) == 1 else 'deliver'}."
        )


# -- network: resolves names and connects, sends nothing ---------------------------------------------------------------

_CONNECT_TIMEOUT = 5.0
_PORTS = {"http": 80, "https": 443}


def reachable(addresses: Mapping[str, str]) -> Iterator[Finding]:
    """Checks service URLs, by settings key."""
    if not addresses:
        yield ok_finding("network.services", "The settings name no address of a service.")
        return
    with ThreadPoolExecutor(8) as pool:
        yield from pool.map(_tried, addresses, addresses.values())


def _tried(key: str, url: str) -> Finding:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    except (KeyError, ValueError):
        return error_finding("network.services", f"{key} has an address that is none.", f"tidegate config {key}")
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        fix = f"Is the name right? tidegate config {key}; if it is: does the resolver of this machine work?"
        return error_finding("network.services", f"{key}: the name {host} cannot be resolved.", fix)
    problem = ""
    for family, kind, protocol, _, place in places:
        try:
            with socket.socket(family, kind, protocol) as tried:
                tried.settimeout(_CONNECT_TIMEOUT)
                tried.connect(place)
            return ok_finding("network.services", f"{key}: {host} answers on port {port}.")
        except OSError as error:
            problem = (error.strerror or "it took too long").lower()
    return error_finding(
        "network.services",
        f"{key}: {host} does not answer on port {port} ({problem}).",
        f"Is the service started, and is a firewall between? tidegate config {key}",
    )


# -- workers and targets -----------------------------------------------------------------------------------------------

PAUSED_LONG = 86400.0
OPEN_LONG = 3600.0
_MAX_FINDINGS = 10  # of one kind; the rest is counted


def workers(tx: Tx) -> Iterator[Finding]:
    """Reports active and missing workers, and jobs without a worker."""
    now = now_of(tx)
    all_workers = reports.workers(tx)
    there = [worker for worker in all_workers if worker.there]
    idle = [queue for queue in reports.queues(tx) if queue.jobs.get("ready") and not queue.workers]
    for queue in idle[:_MAX_FINDINGS]:
        fact = f"{many(queue.jobs['ready'], 'job')} of {queue.name} could go, and no worker works on that queue."
        yield error_finding(
            "workers.there", fact, "tidegate serve, or tidegate worker MODULE:QUEUE for your own program"
        )
    if len(idle) > _MAX_FINDINGS:
        yield error_finding(
            "workers.there", f"So it is with {many(len(idle) - _MAX_FINDINGS, 'more queue')}.", "tidegate jobs queues"
        )
    if not idle:
        at_work = f"{many(len(there), 'worker')} {'is' if len(there) == 1 else 'are'} at work"
        yield ok_finding("workers.there", f"{at_work}." if there else "No worker is at work, and no job waits for one.")
    for worker in all_workers:
        if not worker.there:
            ago = format_duration(now - worker.seen_at)
            fact = f"The worker {worker.pid} on {worker.host} was last heard of {ago} ago."
            yield warn_finding(
                "workers.heard", fact, f"Look at it on {worker.host}. If it was killed: it is forgotten after a day."
            )
    n, first = tx.query("late_leases")[0]
    if n and now - float(first) > WORKER_GONE:
        ago = format_duration(now - first)
        fact = f"{many(int(n), 'job')} {'runs' if n == 1 else 'run'} under a lease that ended {ago} ago."
        yield warn_finding("workers.leases", fact, "The next worker that starts takes them over.")


def targets(tx: Tx) -> Iterator[Finding]:
    """Reports targets that need the operator, have been held for long, or are still paused."""
    now = now_of(tx)
    stands = target_reports.standings(tx)
    findings = [
        *_limited(_fatal(stands)),
        *_limited(_noticed(tx, stands)),
        *_limited(_open(stands, now)),
        *_limited(_paused(stands, tx, now)),
    ]
    yield from findings
    if not findings:
        yield ok_finding(
            "targets.well", f"{many(len(stands), 'target')}, and none needs you." if stands else "No target yet."
        )


def _fatal(stands: Iterable[StatusRow]) -> Iterator[Finding]:
    for stand in stands:
        if stand.how.token in NEED_YOU:
            name = stand.row.name
            fix = f"Fix the cause, then clear it; tidegate targets show {quote(name)} names the key"
            yield error_finding("targets.fatal", f"{name} needs you. {stand.how.reason}", fix)


def _noticed(tx: Tx, stands: Iterable[StatusRow]) -> Iterator[Finding]:
    """Reports open errors of which the state of the targets says nothing, such as a missing storage."""
    reported = {stand.row.name for stand in stands if stand.how.token in NEED_YOU}
    for notice in inbox.urgent(tx, limit=_MAX_FINDINGS + 1):
        if notice.kind == "fatal" and notice.subject == "target" and notice.name not in reported:
            yield error_finding("targets.notice", f"{notice.title}. {notice.message}", notice.advice)


def _open(stands: Iterable[StatusRow], now: float) -> Iterator[Finding]:
    for stand in stands:
        if stand.row.breaker.state == OPEN and now - stand.row.breaker.since > OPEN_LONG:
            fact = (
                f"{stand.row.name} has been held by its breaker for {format_duration(now - stand.row.breaker.since)}."
            )
            yield warn_finding("targets.open", fact, f"tidegate explain target {quote(stand.row.name)}")


def _paused(stands: Iterable[StatusRow], tx: Tx, now: float) -> Iterator[Finding]:
    rows = [("targets", stand.row.name, stand.row.paused_at, stand.row.paused_by) for stand in stands if stand.paused]
    rows += [
        ("jobs", name, at, by) for name, at, until, by in tx.query("queue_rows") if until is not None and now < until
    ]
    for verb, name, at, by in rows:
        if at is not None and now - at > PAUSED_LONG:
            what = "queue" if verb == "jobs" else "target"
            fact = f"The {what} {name} has been paused for {format_duration(now - at)}, by {by}."
            yield warn_finding("targets.paused", fact, f"tidegate {verb} resume {quote(name)}")


def _limited(findings: Iterator[Finding]) -> Iterator[Finding]:
    every = list(findings)
    yield from every[:_MAX_FINDINGS]
    if len(every) > _MAX_FINDINGS:
        last = every[_MAX_FINDINGS]
        yield Finding(
            id=last.id,
            status=last.status,
            fact=f"So it is with {len(every) - _MAX_FINDINGS:,} more.",
            fix="tidegate targets list",
        )
