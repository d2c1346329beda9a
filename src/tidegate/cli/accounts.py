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
_ROLES = "viewer sees everything, operator acts on jobs and targets, admin does everything."


@click.group(cls=CommandGroup)
def user() -> None:
    """Adds, lists, changes and removes the people who sign in to the server.

    While there is nobody, whoever is at this machine may do everything. From the first one on, everybody signs in.
    """


@user.command("list")
@command_at_store
def list_users(url: str, driver: str | None, as_json: bool) -> int:
    """Lists everybody."""
    with store_at(url, driver) as store:
        accounts = store.read(users.users)
    rows = [
        (account.name, account.role, when(account.made_at), when(account.seen_at) or "never") for account in accounts
    ]
    none = ["There is nobody; whoever is at this machine may do everything."]
    head = ("NAME", "ROLE", "SINCE", "LAST SEEN")
    say([account.as_json() for account in accounts], as_json, lambda: table(rows, head) or none)
    return Exit.OK


@user.command()
@click.argument("name")
@click.option("--role", type=_ROLE, default="viewer", show_default=True, help=f"What they may do: {_ROLES}")
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of the input.")
@by_option
@command_at_store
@may_make
def add(name: str, role: str, password_stdin: bool, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Adds somebody; asks for the password. The first one must be an admin.

    Before the first start of the server, it makes the database: in the folder in which the server is to start, or where
    --url or the settings say.
    """
    _require_password_package()
    # Check first: a rejected command must neither ask for a password nor leave an empty database behind.
    users.check_new(name, role)
    users.check_first(role, somebody=_has_users(url, driver))
    digest = users.digest_of(_password(password_stdin))
    with store_made_at(url, driver) as (store, is_new):
        store.write(lambda tx: users.add_user(tx, name, role, digest, by))
    where = [f"The database {shown_url(url)} was made for it; tidegate serve uses it when it is started here."]
    say({"name": name, "role": role}, as_json, lambda: [f"{name} may sign in as {role}.", *(where if is_new else [])])
    return Exit.OK


@user.command()
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of the input.")
@by_option
@command_at_store
def password(name: str, password_stdin: bool, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Sets a new password, and ends all sessions of that user."""
    _require_password_package()
    with store_at(url, driver) as store:
        store.read(lambda tx: users.role_of(tx, name))
        digest = users.digest_of(_password(password_stdin))
        store.write(lambda tx: users.set_password(tx, name, digest, by))
    say({"name": name}, as_json, lambda: [f"{name} has a new password, and must sign in again."])
    return Exit.OK


@user.command()
@click.argument("name")
@click.argument("new", metavar="ROLE", type=_ROLE)
@by_option
@command_at_store
def role(name: str, new: str, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Gives a user another role, and ends all their sessions."""
    return _change(url, driver, as_json, lambda tx: users.set_role(tx, name, new, by), f"{name} is {new} now.")


@user.command()
@click.argument("name")
@by_option
@command_at_store
def sign_out(name: str, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Ends all sessions of a user, who must sign in again."""
    message = f"{name} is signed out everywhere."
    return _change(url, driver, as_json, lambda tx: users.sign_out(tx, name, by), message)


@user.command("remove")
@click.argument("name")
@by_option
@command_at_store
def remove_user(name: str, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Removes a user, and ends all their sessions."""
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
            "passwords need one more package; install it with: pip install 'tidegate[server]'", Exit.CONFIGURATION
        )


def _password(from_input: bool) -> str:
    if from_input:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise CliError("there is no terminal to ask for the password on; use --password-stdin", Exit.USAGE)
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))


# -- token -------------------------------------------------------------------------------------------------------------

_TOKEN_ROLE = click.Choice([str(role) for role in Role])
_ROLE_HELP = "What it may do: as of users, or poller: list sources, enable and disable feeds."


def _ttl(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    lasts = duration(ctx, param, value)
    if lasts is not None and lasts < 1:
        raise click.BadParameter("it would end at once; give 1s or more", ctx, param)
    return lasts


def _subject(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("no server takes a token of nobody; give a name", ctx, param)
    return value


@click.group(cls=CommandGroup)
def token() -> None:
    """Makes, lists and removes tokens for programs: `Authorization: Bearer TOKEN`."""


@token.command("list")
@command_at_store
def list_tokens(url: str, driver: str | None, as_json: bool) -> int:
    """Lists the tokens, without what is secret of them."""
    with store_at(url, driver) as store:
        tokens = store.read(users.tokens)
    rows = [
        (row.name, row.role, row.made_by, when(row.made_at), when(row.ends_at) or "never", when(row.used_at))
        for row in tokens
    ]
    head = ("NAME", "ROLE", "BY", "MADE", "ENDS", "LAST USED")
    say([row.as_json() for row in tokens], as_json, lambda: table(rows, head) or ["There is no token."])
    return Exit.OK


@token.command()
@click.argument("name")
@click.option("--role", type=_TOKEN_ROLE, required=True, help=_ROLE_HELP)
@click.option("--ttl", metavar="TIME", callback=_ttl, help="How long it is good, such as 30d; without it for ever.")
@by_option
@command_at_store
def create(name: str, role: str, ttl: float | None, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Makes a token, and prints it. It cannot be shown again."""
    with store_at(url, driver) as store:
        secret = store.write(lambda tx: users.add_token(tx, name, role, by, ttl))
    say({"name": name, "role": role, "token": secret}, as_json, lambda: [secret])
    return Exit.OK


@token.command("remove")
@click.argument("name")
@by_option
@command_at_store
def remove_token(name: str, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Removes a token; whoever has it gets in no more."""
    with store_at(url, driver) as store:
        store.write(lambda tx: users.remove_token(tx, name, by))
    say({"done": True}, as_json, lambda: [f"{name} is removed."])
    return Exit.OK


@token.command()
@click.option("--role", type=_TOKEN_ROLE, required=True, help=_ROLE_HELP)
@click.option("--ttl", metavar="TIME", default="30d", show_default=True, callback=_ttl, help="How long it is good.")
@click.option("--name", default="machine", show_default=True, callback=_subject, help="Whose it is, for the events.")
@click.option("--config", "file", type=click.Path(path_type=Path, dir_okay=False), help=CONFIG_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def jwt(role: str, ttl: float, name: str, file: Path | None, as_json: bool) -> int:
    """Makes a JSON Web Token with the key of this server. Nothing is kept of it: it ends by itself, and not before."""
    from tidegate.accounts import access
    from tidegate.cli.options import load_settings
    from tidegate.clock import SYSTEM
    from tidegate.server import secrets_of

    with plain_mistakes():
        loaded = load_settings(file)
        key = Path(loaded.values.secret_key_file)
        # otherwise no server would know the token
        if not loaded.values.secret_key.get_secret_value() and not key.exists():
            click.echo(f"tidegate: there is no key {key} here yet; it is made now", err=True)
        secrets = secrets_of(loaded)
        jwt_text = access.issue_token(access.Issuer.own(secrets.derived("jwt")), name, Role(role), ttl, SYSTEM.now())
    say({"name": name, "role": role, "token": jwt_text}, as_json, lambda: [jwt_text])
    return Exit.OK
