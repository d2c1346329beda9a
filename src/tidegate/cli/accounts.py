"""`tidegate user` and `tidegate token`: users, roles, sessions and API tokens."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import click

from tidegate.accounts import users
from tidegate.accounts.access import OF_PEOPLE, Role
from tidegate.cli.database import (
    CONFIG_HELP,
    CliError,
    by_option,
    command_at_store,
    is_to_be_made,
    may_make,
    plain_mistakes,
    say,
    shown_url,
    store_at,
    store_made_at,
    table,
    when,
)
from tidegate.cli.exits import Exit
from tidegate.cli.options import duration
from tidegate.cli.root import CommandGroup
from tidegate.store.base import Tx

_ROLE = click.Choice([str(role) for role in OF_PEOPLE])
_ROLES = "a viewer sees everything, an operator acts on jobs and targets, an admin may do everything."


@click.group(
    cls=CommandGroup,
    epilog="""
    tidegate user add ada --role admin
    tidegate user list
    """,
)
def user() -> None:
    """Manage the users who can sign in to the server.

    While no user exists, a browser on the server's machine may do everything. After the first user, everyone signs
    in.
    """


@user.command("list", epilog="tidegate user list")
@command_at_store
def list_users(url: str, driver: str | None, as_json: bool) -> int:
    """List users."""
    with store_at(url, driver) as store:
        accounts = store.read(users.users)
    rows = [
        (account.name, account.role, when(account.made_at), when(account.seen_at) or "never") for account in accounts
    ]
    none = ["No users: a browser on this machine may do everything."]
    head = ("NAME", "ROLE", "SINCE", "LAST SEEN")
    say([account.as_json() for account in accounts], as_json, lambda: table(rows, head) or none)
    return Exit.OK


@user.command(
    epilog="""
    tidegate user add ada --role admin
    tidegate user add bob --role viewer --password-stdin < password.txt
    """
)
@click.argument("name")
@click.option("--role", type=_ROLE, default="viewer", show_default=True, help=f"Role: {_ROLES}")
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of standard input.")
@by_option
@command_at_store
@may_make
def add(name: str, role: str, password_stdin: bool, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Add a user, and prompt for the password. The first user must be an admin.

    Before the server's first start, this creates the database: in this folder, or where --db or the settings say.
    """
    _require_password_package()
    # Check first: a rejected command must neither ask for a password nor leave an empty database behind.
    users.check_new(name, role)
    users.check_first(role, somebody=_has_users(url, driver))
    digest = users.digest_of(_password(password_stdin))
    with store_made_at(url, driver) as (store, is_new):
        store.write(lambda tx: users.add_user(tx, name, role, digest, by))
    where = [f"Created the database {shown_url(url)}. `tidegate serve` uses it if you start it here."]
    say({"name": name, "role": role}, as_json, lambda: [f"{name} can sign in as {role}.", *(where if is_new else [])])
    return Exit.OK


@user.command(epilog="tidegate user password ada")
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of standard input.")
@by_option
@command_at_store
def password(name: str, password_stdin: bool, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Set a new password, and end all sessions of that user."""
    _require_password_package()
    with store_at(url, driver) as store:
        store.read(lambda tx: users.role_of(tx, name))
        digest = users.digest_of(_password(password_stdin))
        store.write(lambda tx: users.set_password(tx, name, digest, by))
    say({"name": name}, as_json, lambda: [f"{name} has a new password and must sign in again."])
    return Exit.OK


@user.command(epilog="tidegate user role bob operator")
@click.argument("name")
@click.argument("new", metavar="ROLE", type=_ROLE)
@by_option
@command_at_store
def role(name: str, new: str, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Change the role of a user, and end all their sessions."""
    return _change(url, driver, as_json, lambda tx: users.set_role(tx, name, new, by), f"{name} has the role {new}.")


@user.command(epilog="tidegate user sign-out bob")
@click.argument("name")
@by_option
@command_at_store
def sign_out(name: str, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """End all sessions of a user, who must sign in again."""
    message = f"{name} is signed out everywhere."
    return _change(url, driver, as_json, lambda tx: users.sign_out(tx, name, by), message)


@user.command("remove", epilog="tidegate user remove bob")
@click.argument("name")
@by_option
@command_at_store
def remove_user(name: str, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Remove a user, and end all their sessions."""
    return _change(url, driver, as_json, lambda tx: users.remove_user(tx, name, by), f"{name} is removed.")


def _change(url: str, driver: str | None, as_json: bool, work: Callable[[Tx], object], message: str) -> int:
    with store_at(url, driver) as store:
        store.write(work)
    say({"done": True}, as_json, lambda: [message])
    return Exit.OK


def _has_users(url: str, driver: str | None) -> bool:
    """Whether a user exists. A missing database has none."""
    if is_to_be_made(url, driver):
        return False
    with store_at(url, driver) as store:
        return store.read(users.anybody)


def _require_password_package() -> None:
    """Raise CliError if the package for passwords is missing, before asking for a password."""
    if find_spec("argon2") is None:
        raise CliError(
            "passwords need the package argon2-cffi, which is not installed; run: pip install 'tidegate[server]'",
            Exit.CONFIGURATION,
        )


def _password(from_input: bool) -> str:
    if from_input:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise CliError(
            "standard input is not a terminal, so it cannot prompt for the password; use --password-stdin", Exit.USAGE
        )
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))


# -- token -------------------------------------------------------------------------------------------------------------

_TOKEN_ROLE = click.Choice([str(role) for role in Role])
_ROLE_HELP = "Role: as for users, or poller, which lists, enables and disables feeds."


def _ttl(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    lasts = duration(ctx, param, value)
    if lasts is not None and lasts < 1:
        raise click.BadParameter(f"{value!r} is too short; give 1s or more", ctx, param)
    return lasts


def _subject(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("the name is empty; give one, such as machine", ctx, param)
    return value


@click.group(cls=CommandGroup, epilog="tidegate token create ci --role viewer --ttl 90d")
def token() -> None:
    """Create, list and remove tokens for programs: `Authorization: Bearer TOKEN`."""


@token.command("list", epilog="tidegate token list")
@command_at_store
def list_tokens(url: str, driver: str | None, as_json: bool) -> int:
    """List tokens, without their secrets."""
    with store_at(url, driver) as store:
        tokens = store.read(users.tokens)
    rows = [
        (row.name, row.role, row.made_by, when(row.made_at), when(row.ends_at) or "never", when(row.used_at))
        for row in tokens
    ]
    head = ("NAME", "ROLE", "BY", "CREATED", "EXPIRES", "LAST USED")
    say([row.as_json() for row in tokens], as_json, lambda: table(rows, head) or ["No tokens."])
    return Exit.OK


@token.command(epilog="tidegate token create ci --role viewer --ttl 90d")
@click.argument("name")
@click.option("--role", type=_TOKEN_ROLE, required=True, help=_ROLE_HELP)
@click.option("--ttl", metavar="TIME", callback=_ttl, help="Lifetime, such as 30d.  [default: unlimited]")
@by_option
@command_at_store
def create(name: str, role: str, ttl: float | None, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Create a token and print it. It cannot be shown again."""
    with store_at(url, driver) as store:
        secret = store.write(lambda tx: users.add_token(tx, name, role, by, ttl))
    say({"name": name, "role": role, "token": secret}, as_json, lambda: [secret])
    return Exit.OK


@token.command("remove", epilog="tidegate token remove ci")
@click.argument("name")
@by_option
@command_at_store
def remove_token(name: str, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Remove a token. Requests with it are rejected from now on."""
    with store_at(url, driver) as store:
        store.write(lambda tx: users.remove_token(tx, name, by))
    say({"done": True}, as_json, lambda: [f"{name} is removed."])
    return Exit.OK


@token.command(epilog="tidegate token jwt --role poller --ttl 30d")
@click.option("--role", type=_TOKEN_ROLE, required=True, help=_ROLE_HELP)
@click.option("--ttl", metavar="TIME", default="30d", show_default=True, callback=_ttl, help="Lifetime.")
@click.option(
    "--name", default="machine", show_default=True, callback=_subject, help="Subject of the token, for the audit log."
)
@click.option("--config", "file", type=click.Path(path_type=Path, dir_okay=False), help=CONFIG_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def jwt(role: str, ttl: float, name: str, file: Path | None, as_json: bool) -> int:
    """Create a JSON Web Token with the key of this server. It is not stored, so it stays valid until it expires."""
    from tidegate.accounts import access
    from tidegate.cli.options import load_settings
    from tidegate.clock import SYSTEM
    from tidegate.server import secrets_of

    with plain_mistakes():
        loaded = load_settings(file)
        key = Path(loaded.values.secret_key_file)
        # otherwise no server would know the token
        if not loaded.values.secret_key.get_secret_value() and not key.exists():
            click.echo(f"tidegate: creating the key {key}, which does not exist yet", err=True)
        secrets = secrets_of(loaded)
        jwt_text = access.issue_token(access.Issuer.own(secrets.derived("jwt")), name, Role(role), ttl, SYSTEM.now())
    say({"name": name, "role": role, "token": jwt_text}, as_json, lambda: [jwt_text])
    return Exit.OK
