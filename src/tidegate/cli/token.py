"""`tidegate token`: what programs show instead of a password."""

from __future__ import annotations

from pathlib import Path

import click

from tidegate.cli.at_store import CONFIG_HELP, by_option, command_at_store, plain_mistakes, say, store_at, table, when
from tidegate.cli.exits import Exit
from tidegate.cli.groups import CommandGroup
from tidegate.cli.numbers import duration
from tidegate.ops import accounts
from tidegate.ops.rights import Role

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
        found = store.read(accounts.tokens)
    rows = [
        (each.name, each.role, each.made_by, when(each.made_at), when(each.ends_at) or "never", when(each.used_at))
        for each in found
    ]
    head = ("NAME", "ROLE", "BY", "MADE", "ENDS", "LAST USED")
    say([each.as_json() for each in found], as_json, lambda: table(rows, head) or ["There is no token."])
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
        made = store.write(lambda tx: accounts.add_token(tx, name, role, by, ttl))
    say({"name": name, "role": role, "token": made}, as_json, lambda: [made])
    return Exit.OK


@token.command("remove")
@click.argument("name")
@by_option
@command_at_store
def remove_token(name: str, by: str, url: str, driver: str | None, as_json: bool) -> int:
    """Removes a token; whoever has it gets in no more."""
    with store_at(url, driver) as store:
        store.write(lambda tx: accounts.remove_token(tx, name, by))
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
    from tidegate.assembly import secrets_of
    from tidegate.cli.configured import load_settings
    from tidegate.ops import jwts
    from tidegate.runtime.clock import SYSTEM

    with plain_mistakes():
        loaded = load_settings(file)
        key = Path(loaded.values.secret_key_file)
        if not loaded.values.secret_key.get_secret_value() and not key.exists():  # no server knows the token then
            click.echo(f"tidegate: there is no key {key} here yet; it is made now", err=True)
        secrets = secrets_of(loaded)
        made = jwts.issue_token(jwts.Issuer.own(secrets.derived("jwt")), name, Role(role), ttl, SYSTEM.now())
    say({"name": name, "role": role, "token": made}, as_json, lambda: [made])
    return Exit.OK
