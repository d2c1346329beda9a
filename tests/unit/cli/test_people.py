"""`tidegate user` and `tidegate token`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.text import names
from tests.unit.cli.conftest import Command
from tidegate import Queue
from tidegate.accounts import users
from tidegate.cli.exits import Exit

GOOD = "correct horse battery"
TYPED = f"{GOOD}\n".encode()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with Queue("sqlite:///tidegate.db") as q:
        q.store.now()
    return tmp_path


def added(command: Command, name: str, role: str) -> None:
    assert command("user", "add", name, "--role", role, "--password-stdin", stdin=TYPED).code == Exit.OK


def test_the_first_user_is_an_admin_and_the_password_fits(command: Command) -> None:
    refused = command("user", "add", "ada", "--password-stdin", stdin=TYPED)
    assert refused.code == Exit.REFUSED
    assert "admin" in refused.err

    run = command("user", "add", "ada", "--role", "admin", "--password-stdin", stdin=TYPED)
    assert (run.code, names(run.out, "ada", "admin")) == (Exit.OK, True)
    with Queue("sqlite:///tidegate.db") as q:
        assert users.fits(GOOD, q.store.read(lambda tx: users.kept_of(tx, "ada")))
    assert GOOD not in run.out + run.err


def test_the_first_user_can_be_added_before_the_first_start(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "new").mkdir()
    monkeypatch.chdir(folder / "new")
    listed = command("user", "list")
    assert (listed.code, listed.err.count("TIDEGATE_DB")) == (Exit.USAGE, 1)

    run = command("user", "add", "ada", "--role", "admin", "--password-stdin", stdin=TYPED)

    assert (run.code, run.out.count("\n")) == (Exit.OK, 2)
    assert names(run.out, "ada", "admin", "sqlite:///tidegate.db", "tidegate serve")
    assert command("user", "list", "--json").out.count('"ada"') == 1


@pytest.mark.parametrize(
    ("args", "typed", "code", "says"),
    [
        (("ada lovelace", "--role", "admin", "--password-stdin"), TYPED, Exit.USAGE, "'ada lovelace'"),
        (("worker", "--role", "admin", "--password-stdin"), TYPED, Exit.USAGE, "'worker'"),
        (("ada", "--role", "admin", "--password-stdin"), b"hunter2\n", Exit.USAGE, "password"),
        (("ada", "--role", "admin"), TYPED, Exit.USAGE, "password"),
        (("ada", "--password-stdin"), TYPED, Exit.REFUSED, "admin"),
    ],
)
def test_a_first_user_who_is_refused_leaves_no_database_behind(
    command: Command, tmp_path: Path, args: tuple[str, ...], typed: bytes, code: Exit, says: str
) -> None:
    new = tmp_path / "new"
    new.mkdir()
    run = command("user", "add", *args, "--db", f"sqlite:///{new / 'tidegate.db'}", stdin=typed)

    assert (run.code, says in run.err) == (code, True), run.err
    assert list(new.iterdir()) == []


def test_people_are_listed_changed_and_removed(command: Command) -> None:
    assert command("user", "list").out.count("\n") == 1
    added(command, "ada", "admin")
    added(command, "bob", "viewer")
    listed = json.loads(command("user", "list", "--json").out)
    assert [(each["name"], each["role"]) for each in listed] == [("ada", "admin"), ("bob", "viewer")]
    assert "argon2" not in command("user", "list", "--json").out

    assert command("user", "role", "bob", "operator").out.split()[::4] == ["bob", "operator."]
    assert command("user", "remove", "bob").out == "bob is removed.\n"
    assert command("user", "remove", "bob").code == Exit.NOT_FOUND


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("user", "password", "eve", "--password-stdin"), Exit.NOT_FOUND, "'eve'"),
        (("user", "role", "ada", "viewer"), Exit.REFUSED, "'ada'"),
        (("user", "add", "ada", "--password-stdin"), Exit.REFUSED, "'ada'"),
        (("user", "add", "bob"), Exit.USAGE, "--password-stdin"),
        (("user", "role", "ada", "king"), Exit.USAGE, "'king'"),
        (("token", "remove", "ci"), Exit.NOT_FOUND, "'ci'"),
        (("token", "create", "ci", "--role", "king"), Exit.USAGE, "'king'"),
        (("token", "create", "ci", "--role", "viewer", "--ttl", "0"), Exit.USAGE, "'--ttl'"),
        (("token", "jwt", "--role", "viewer", "--ttl", "0.5"), Exit.USAGE, "'--ttl'"),
        (("token", "jwt", "--role", "viewer", "--name", ""), Exit.USAGE, "'--name'"),
        (("usr", "list"), Exit.USAGE, "did you mean 'user'?"),
    ],
)
def test_mistakes_have_their_exit_codes(command: Command, args: tuple[str, ...], code: Exit, says: str) -> None:
    added(command, "ada", "admin")
    if "role" in args and "viewer" in args:
        added(command, "bob", "viewer")
    run = command(*args, stdin=TYPED)
    assert (run.code, says in run.err) == (code, True), run.err


def test_a_short_password_is_refused_and_not_shown(command: Command) -> None:
    run = command("user", "add", "ada", "--role", "admin", "--password-stdin", stdin=b"hunter2\n")
    assert run.code == Exit.USAGE
    assert "password" in run.err
    assert "hunter2" not in run.err


def test_a_token_is_printed_once(command: Command) -> None:
    made = command("token", "create", "ci", "--role", "viewer", "--ttl", "90d").out.strip()
    assert made.startswith("tg_")
    assert made not in command("token", "list").out
    assert made not in command("token", "list", "--json").out
    assert command("token", "remove", "ci").out == "ci is removed.\n"


def test_a_json_web_token_is_of_the_key_of_this_server(command: Command, folder: Path) -> None:
    import jwt

    run = command("token", "jwt", "--role", "poller", "--ttl", "30d")
    assert (run.err.count("\n"), "tidegate.key" in run.err) == (1, True)
    made = run.out.strip()
    claims = jwt.decode(made, options={"verify_signature": False})
    assert (claims["role"], claims["iss"], claims["aud"], claims["sub"]) == (
        "poller",
        "tidegate",
        "tidegate",
        "machine",
    )
    assert claims["exp"] - claims["iat"] == 30 * 86400
    assert (folder / "tidegate.key").stat().st_mode & 0o777 == 0o600
    assert command("token", "jwt", "--role", "poller").err == ""
