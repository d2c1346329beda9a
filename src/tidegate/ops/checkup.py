"""Whether everything is as it should be. Facts about an installation, each with its fix. Looks, and changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from shlex import quote

from tidegate.core.redact import redact
from tidegate.errors import StoreBusy, StoreDamaged, StoreError
from tidegate.ops.words import many
from tidegate.store.dialect import Dialect
from tidegate.store.looking import ReadOnlyStore, open_read_only
from tidegate.store.migrate import CORE, Migration, compare
from tidegate.store.opening import file_of
from tidegate.store.sqlite_files import require_expected
from tidegate.store.tx import Tx

_MB = 1_000_000
_LITTLE, _VERY_LITTLE = 1000 * _MB, 100 * _MB  # bytes of free disk
_SKEW, _BAD_SKEW = 2.0, 60.0  # seconds between two clocks
_RESTORE = "Stop Tidegate, and restore a copy: tidegate db restore FILE --yes"
_OTHERS = 0o007  # the mode that lets everybody in


class CheckStatus(StrEnum):
    OK = "ok"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fact. *fix* is a command or a sentence; empty when all is well."""

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
    """What is to be said of a database, and, if its schema is the one of *steps*, what *checks* find in it."""
    shown, path = redact(url, 200), file_of(url)
    if path is not None and (missing := _missing(path)):
        return [missing]
    if path is not None and not Path(path).exists():
        fix = "tidegate serve (or tidegate db migrate) makes it; if it should be there, mend url in the settings"
        return [warn_finding("store.reachable", f"There is no database {path} yet.", fix)]
    found: list[Finding] = []
    try:
        with open_read_only(url, now, driver) as look:
            found += [ok_finding("store.reachable", f"{shown} can be opened: {look.engine}."), *schema(look, steps)]
            ready = all(each.status is not CheckStatus.ERROR for each in found)
            found += [*_writable(look), *_clock(look), *_library(look), *_undamaged(look), *disk(path)]
            for check in checks if ready else ():
                found += check(look.tx)
    except StoreDamaged as error:
        found.append(
            error_finding(
                "store.reachable", f"{shown} cannot be used, it is damaged: {str(error).rstrip('.')}.", _RESTORE
            )
        )
    except StoreBusy as error:
        fix = "Is it started, and does url in the settings name it? tidegate config url"
        found.append(error_finding("store.reachable", f"{shown}: {error}.", fix))
    except (StoreError, ValueError) as error:
        fix = "Mend url in the settings; if the database is damaged: tidegate db check, tidegate db restore"
        found.append(error_finding("store.reachable", f"{shown} cannot be used: {str(error).rstrip('.')}.", fix))
    return found


def _missing(path: str) -> Finding | None:
    """A database that belongs here and is not there."""
    try:
        require_expected(path)
    except StoreError as error:
        fact, _, fix = f"{error}".partition(". ")
        return error_finding("store.reachable", f"{fact[:1].upper()}{fact[1:]}.", f"{fix}.")
    return None


def _undamaged(look: ReadOnlyStore) -> Iterator[Finding]:
    if look.dialect is not Dialect.SQLITE:
        return
    damage = look.damage()
    if damage:
        yield error_finding("store.damage", f"It is damaged: {damage[0]}.", _RESTORE)
    else:
        yield ok_finding("store.damage", "Its file is not damaged.")


def schema(look: ReadOnlyStore, steps: list[Migration]) -> Iterator[Finding]:
    try:
        missing = compare(look.applied, steps)
    except StoreError as error:
        yield error_finding(
            "store.schema", f"{str(error).capitalize()}.", "Run the version of Tidegate that made it, or newer."
        )
        return
    core = [each for each in missing if each.app == CORE]
    if core:
        names = ", ".join(f"{each.number:04} {each.name}" for each in core)
        yield error_finding("store.schema", f"Its schema is not up to date; missing: {names}.", "tidegate db migrate")
    for app in sorted({each.app for each in missing} - {CORE}):
        yield warn_finding(
            "store.schema", f"The tables of {app} are not up to date.", "The next start of tidegate serve does it."
        )
    if not missing:
        yield ok_finding("store.schema", f"Its schema is up to date: {many(len(look.applied), 'step')}.")


def _writable(look: ReadOnlyStore) -> Iterator[Finding]:
    if look.refuses:
        yield error_finding(
            "store.writable", f"It cannot be written: {look.refuses}.", "Give this user the right to write it."
        )
    else:
        yield ok_finding("store.writable", "It can be written.")


def _clock(look: ReadOnlyStore) -> Iterator[Finding]:
    if look.dialect is Dialect.SQLITE:
        return  # the clock is our own
    skew = abs(look.ahead)
    fact = f"Its clock is {skew:.1f} s {'ahead of' if look.ahead > 0 else 'behind'} ours"
    if skew < _SKEW:
        yield ok_finding("store.clock", f"{fact}.")
    else:
        status = CheckStatus.ERROR if skew >= _BAD_SKEW else CheckStatus.WARN
        yield Finding(id="store.clock", status=status, fact=f"{fact}.", fix="Set both clocks by NTP: timedatectl")


def _library(look: ReadOnlyStore) -> Iterator[Finding]:
    if look.dialect is not Dialect.SQLITE:
        return
    if look.wal_is_safe:
        yield ok_finding("store.library", f"The journal is {look.journal.upper()}, and this SQLite is safe with it.")
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
    """Whether others can read what is not for them. *files* says what each is."""
    for path, what in files.items():
        try:
            mode = path.stat().st_mode & 0o777
        except OSError:
            continue  # whoever needs it says so
        if mode & _OTHERS:
            fact = f"Everybody on this machine can read {what}: {path} has mode {mode:o}."
            yield warn_finding("security.files", fact, f"chmod 600 {quote(str(path))}")
        else:
            yield ok_finding(
                "security.files", f"{what[:1].upper()}{what[1:]} is not for everybody: {path} has mode {mode:o}."
            )
