"""`tidegate doctor`: read-only checks, with a fix for each problem."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from functools import partial
from importlib.resources import files
from ipaddress import ip_address
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.accounts import users
from tidegate.admin import doctor as admin_doctor
from tidegate.admin.doctor import CheckStatus, Finding, error_finding, ok_finding, warn_finding
from tidegate.cli.database import DB_HELP, many, plain_mistakes, printable, say
from tidegate.cli.exits import Exit
from tidegate.cli.options import config_option, installed
from tidegate.cli.root import Command
from tidegate.clock import SYSTEM
from tidegate.secrets import BadSecret, Secrets
from tidegate.settings.location import SettingsProblem
from tidegate.store.migrate import Migration, core_migrations, migrations_in
from tidegate.store.open import check_url, file_of

if TYPE_CHECKING:
    from tidegate.apps import App
    from tidegate.settings import Loaded
    from tidegate.store.base import Tx

_COLOURS = {CheckStatus.OK: "green", CheckStatus.WARN: "yellow", CheckStatus.ERROR: "red"}


@click.command(
    cls=Command,
    epilog="""
    tidegate doctor
    tidegate doctor --network --strict
    """,
)
@config_option
@click.option("--db", "url", help=DB_HELP)
@click.option("--driver", type=click.Choice(["apsw", "sqlite3"]), help="SQLite library.  [default: the newer one]")
@click.option("--network", is_flag=True, help="Also connect to the services in the settings.")
@click.option("--strict", is_flag=True, help="Exit with code 1 for warnings, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(config: Path | None, url: str | None, driver: str | None, network: bool, strict: bool, as_json: bool) -> int:
    """Check settings, database, workers, targets and security. Nothing is changed.

    Each problem comes with its fix. Exit code 1: there is an error.
    """
    # A finding reports an unreachable database. A log line would repeat it.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    apps, broken = installed()
    with plain_mistakes():
        loaded, findings = _settings(config, url, apps, broken)
        database = _url(loaded, config, url)
        somebody: list[bool] = []
        if database is not None:
            steps = [step for app in apps if loaded and app.name in loaded.apps for step in _steps(app)]
            findings += admin_doctor.database(
                database,
                SYSTEM.now,
                driver=driver,
                steps=[*core_migrations(), *steps],
                checks=(
                    admin_doctor.workers,
                    admin_doctor.targets,
                    admin_doctor.check_channels,
                    partial(_ask_for_users, somebody),
                ),
            )
        findings += _security(loaded, database, signs_in=any(somebody))
        if network and loaded is not None:
            from tidegate.admin.doctor import reachable

            findings += reachable(loaded.addresses())
    counts = Counter(finding.status for finding in findings)
    errors, warnings = counts[CheckStatus.ERROR], counts[CheckStatus.WARN]
    bad = bool(errors or (strict and warnings))
    document = {
        "ok": not bad,
        "errors": errors,
        "warnings": warnings,
        "findings": [finding.as_json() for finding in findings],
    }
    if as_json:
        say(document, as_json, list)
    else:
        click.echo("\n".join(_lines(findings, errors, warnings)))
    return Exit.NEGATIVE if bad else Exit.OK


def _settings(
    config: Path | None, url: str | None, apps: list[App[Any]], broken: dict[str, str]
) -> tuple[Loaded | None, list[Finding]]:
    from tidegate.apps import lacking
    from tidegate.settings import SettingsError, load

    try:
        loaded = load(file=config, flags={"db": url}, apps=apps, broken=broken)
    except SettingsError as error:
        return None, [_problem(problem) for problem in error.problems]
    set_count = sum(setting.origin != "default" for setting in loaded.effective())
    where = "There is no settings file" if loaded.file is None else f"{loaded.file} can be used"
    values = f"{many(set_count, 'value')} given, the others are defaults" if set_count else "all values are defaults"
    findings = [ok_finding("settings.valid", f"{where}; {values}.")]
    findings += [
        ok_finding(f"settings.apps.{name}", f"The application {name} is left out; it needs pip install '{wanted}'.")
        for name, wanted in lacking().items()
    ]
    if loaded.values.simulators:
        fact = "The applications call simulators, not the real services."
        findings.append(warn_finding("settings.simulators", fact, "Take simulators out of the settings."))
    findings += [
        ok_finding(f"settings.{app.name}", fact)
        for app in apps
        if app.name in loaded.apps and app.advice is not None
        for fact in app.advice(loaded.app(app.name))
    ]
    return loaded, findings


def _problem(problem: SettingsProblem, name: str = "settings.valid") -> Finding:
    what, _, fix = problem.what.rpartition("; ")
    return error_finding(name, f"{problem.where}: {what or fix}.", fix if what else "tidegate config check")


def _url(loaded: Loaded | None, config: Path | None, url: str | None) -> str | None:
    """Return the database URL, even if other settings are invalid."""
    from tidegate.settings import SettingsError, store_url
    from tidegate.settings.location import DEFAULT_URL

    if loaded is not None:
        return loaded.values.db
    try:
        located = url or store_url(config) or DEFAULT_URL
        check_url(located)
    except (SettingsError, ValueError):
        return None  # already reported
    return located


def _steps(app: App[Any]) -> list[Migration]:
    """Return the migrations of an application."""
    folder = app.migrations if app.migrations is not None or app.package is None else files(app.package) / "migrations"
    if folder is None:
        return []
    return migrations_in(Path(folder) if isinstance(folder, str) else folder, app.name)


def _ask_for_users(answer: list[bool], tx: Tx) -> Iterable[Finding]:
    answer.append(users.anybody(tx))
    return ()


def _security(loaded: Loaded | None, url: str | None, *, signs_in: bool) -> list[Finding]:
    findings: list[Finding] = []
    if loaded is not None:
        host = loaded.values.server.host
        if host == "localhost" or ip_address(host).is_loopback:
            findings.append(
                ok_finding("security.bind", f"The server listens on {host}: only this machine can reach it.")
            )
        elif signs_in:
            findings.append(ok_finding("security.bind", f"The server listens on {host}, and every user must sign in."))
        else:
            fact = (
                f"server.host is {host}, which other machines can reach, and no user exists: the server does not start."
            )
            findings.append(error_finding("security.bind", fact, "tidegate user add NAME --role admin"))
        findings += _key(loaded)
    secret = {} if loaded is None else loaded.secret_files()
    path = None if url is None else file_of(url)
    return [*findings, *admin_doctor.private({**({Path(path): "the database"} if path else {}), **secret})]


def _key(loaded: Loaded) -> list[Finding]:
    """Check the server's key file if it exists. The first start creates it."""
    file = Path(loaded.values.secret_key_file)
    if loaded.values.secret_key.get_secret_value() or not file.exists():
        return []
    try:
        Secrets.in_file(file)
    except BadSecret as error:
        return [_problem(SettingsProblem(*str(error).split(": ", 1)), "security.key")]
    return [ok_finding("security.key", f"The key of the server is in {file.name}.")]


def _lines(findings: list[Finding], errors: int, warnings: int) -> list[str]:
    lines = []
    for group, members in groupby(findings, key=lambda finding: finding.group):
        lines.append(group.capitalize())
        for member in members:
            lines.append(f"  {_mark(member.status)} {printable(member.fact)}")
            lines += [f"{'':8} fix: {printable(member.fix)}"] if member.fix else []
    if errors or warnings:
        parts = [many(n, what) for n, what in ((errors, "error"), (warnings, "warning")) if n]
        return [*lines, "", f"{', '.join(parts)}."]
    return [*lines, "", "No problems found."]


def _mark(status: CheckStatus) -> str:
    return click.style(f"{status:<5}", fg=_COLOURS[status], bold=status is not CheckStatus.OK)
