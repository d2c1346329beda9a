"""People, sessions and tokens, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.databases import Database
from tidegate.accounts import users
from tidegate.accounts.access import RIGHTS, AuthMethod, Permission, Principal, Role
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound, Rejected, StoreError
from tidegate.jobs.queue import Queue
from tidegate.store.base import Store, Tx

DIGEST = users.digest_of("correct horse battery")


@pytest.fixture
def store(db: Database, clock: VirtualClock) -> Iterator[Store]:
    with Queue(db.url, driver=db.driver, clock=clock, inline=True) as q:
        yield q.store


def signed_in(store: Store, name: str = "ada", role: str = "admin") -> str:
    store.write(lambda tx: users.add_user(tx, name, role, DIGEST))
    return store.write(lambda tx: users.begin_session(tx, name))


def whose(store: Store, secret: str) -> Principal | None:
    found = store.read(lambda tx: users.of_session(tx, secret))
    return None if found is None else found[0]


def test_a_session_is_known_by_its_secret_alone(store: Store) -> None:
    secret = signed_in(store)
    assert whose(store, secret) == Principal("ada", Role.ADMIN, AuthMethod.SESSION, "user:ada")
    assert whose(store, secret + "x") is None
    assert whose(store, "") is None
    kept = str(store.read(lambda tx: tx.query("user", {"name": "ada"})))
    assert secret not in kept
    assert "correct horse" not in kept


@pytest.mark.parametrize("name", ["auto", "worker", "LOCAL", "Probe"])
def test_no_user_has_a_name_that_the_program_has_for_itself(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match=f"name: '{name}'"):
        signed_in(store, name)

    # One that an earlier version let in acts under another.
    store.write(lambda tx: tx.query("user_add", {"name": name, "role": "admin", "password": DIGEST}))
    secret = store.write(lambda tx: users.begin_session(tx, name))
    assert whose(store, secret) == Principal(f"user {name}", Role.ADMIN, AuthMethod.SESSION, f"user:{name}")


def test_a_session_ends_when_it_is_not_used_and_lasts_while_it_is(store: Store, clock: VirtualClock) -> None:
    secret = signed_in(store)
    for _ in range(4):
        clock.advance(13 * 86400)
        found = store.read(lambda tx: users.of_session(tx, secret))
        assert found is not None
        assert found[1]  # due to be noted
        store.write(lambda tx: users.session_used(tx, secret))
    clock.advance(14 * 86400 + 1)
    assert whose(store, secret) is None


def test_no_session_lasts_longer_than_two_months(store: Store, clock: VirtualClock) -> None:
    secret = signed_in(store)
    for _ in range(59):
        clock.advance(86400)
        store.write(lambda tx: users.session_used(tx, secret))
    assert whose(store, secret) is not None
    clock.advance(86400 + 1)
    store.write(lambda tx: users.session_used(tx, secret))
    assert whose(store, secret) is None


def test_use_is_noted_every_five_minutes_only(store: Store, clock: VirtualClock) -> None:
    secret = signed_in(store)
    clock.advance(299)
    assert store.read(lambda tx: users.of_session(tx, secret)) == (
        Principal("ada", Role.ADMIN, AuthMethod.SESSION, "user:ada"),
        False,
    )
    clock.advance(1)
    assert store.read(lambda tx: users.of_session(tx, secret)) == (
        Principal("ada", Role.ADMIN, AuthMethod.SESSION, "user:ada"),
        True,
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda tx: users.set_role(tx, "bob", "operator"),
        lambda tx: users.set_password(tx, "bob", users.digest_of("another long password")),
        lambda tx: users.sign_out(tx, "bob"),
        lambda tx: users.remove_user(tx, "bob"),
    ],
    ids=["role", "password", "signed out", "removed"],
)
def test_a_new_role_a_new_password_and_a_removal_end_all_sessions(store: Store, change: Callable[[Tx], None]) -> None:
    ada = signed_in(store)
    bob = signed_in(store, "bob", "viewer")
    again = store.write(lambda tx: users.begin_session(tx, "bob"))
    store.write(change)
    assert whose(store, bob) is None
    assert whose(store, again) is None
    assert whose(store, ada) is not None


def test_signing_out_ends_one_session(store: Store) -> None:
    first = signed_in(store)
    second = store.write(lambda tx: users.begin_session(tx, "ada"))
    assert store.write(lambda tx: users.end_session(tx, first))
    assert not store.write(lambda tx: users.end_session(tx, first))
    assert whose(store, first) is None
    assert whose(store, second) is not None


def test_the_last_admin_stays(store: Store) -> None:
    signed_in(store)
    signed_in(store, "bob", "viewer")
    for change in (
        lambda tx: users.remove_user(tx, "ada"),
        lambda tx: users.set_role(tx, "ada", "viewer"),
    ):
        with pytest.raises(Rejected, match="'ada'"):
            store.write(change)
    store.write(lambda tx: users.set_role(tx, "bob", "admin"))
    store.write(lambda tx: users.remove_user(tx, "ada"))
    store.write(lambda tx: users.remove_user(tx, "bob"))
    assert not store.read(users.anybody)


@pytest.mark.parametrize(
    ("work", "kind", "says"),
    [
        (lambda tx: users.add_user(tx, "ada", "admin", DIGEST), Rejected, "'ada'"),
        (lambda tx: users.add_user(tx, "a b", "admin", DIGEST), ValueError, "name: 'a b'"),
        (lambda tx: users.add_user(tx, "bob", "poller", DIGEST), ValueError, "role: 'poller'"),
        (lambda tx: users.set_role(tx, "eve", "admin"), NotFound, "'eve'"),
        (lambda tx: users.remove_user(tx, "eve"), NotFound, "'eve'"),
        (lambda tx: users.add_token(tx, "ci", "root", "ada"), ValueError, "role: 'root'"),
        (lambda tx: users.remove_token(tx, "ci"), NotFound, "'ci'"),
        (lambda tx: users.add_token(tx, "ci", "viewer", "ada", "0s"), ValueError, "lasts"),
    ],
)
def test_mistakes_are_plain(store: Store, work: Callable[[Tx], Any], kind: type[Exception], says: str) -> None:
    signed_in(store)
    with pytest.raises(kind, match=says):
        store.write(work)


def test_a_token_is_read_once_and_known_by_its_digest(store: Store, clock: VirtualClock) -> None:
    made = store.write(lambda tx: users.add_token(tx, "ci", "poller", "ada", "30d"))
    assert made.startswith("tg_")
    found = store.read(lambda tx: users.of_token(tx, made))
    assert found is not None
    assert found[0] == Principal("token ci", Role.POLLER, AuthMethod.TOKEN, "token:1")
    assert store.read(lambda tx: users.of_token(tx, made + "x")) is None
    (listed,) = store.read(users.tokens)
    assert (listed.name, listed.role, listed.used_at) == ("ci", "poller", None)
    assert found[1] == listed.id
    store.write(lambda tx: users.token_used(tx, listed.id))
    assert store.read(lambda tx: users.of_token(tx, made)) == (found[0], None)
    clock.advance(30 * 86400 + 1)
    assert store.read(lambda tx: users.of_token(tx, made)) is None


def test_a_token_that_was_removed_opens_nothing(store: Store) -> None:
    made = store.write(lambda tx: users.add_token(tx, "ci", "viewer", "ada"))
    store.write(lambda tx: users.remove_token(tx, "ci"))
    assert store.read(lambda tx: users.of_token(tx, made)) is None
    with pytest.raises(Rejected, match="'cd'"):
        store.write(lambda tx: [users.add_token(tx, "cd", "viewer", "ada") for _ in range(2)])


@pytest.mark.parametrize(
    "sql",
    [
        "insert into tg_user (name, role, password, made_at, changed_at) values ('x', 'root', 'p', 0, 0)",
        "insert into tg_user (name, role, password, made_at, changed_at) values ('x', 'poller', 'p', 0, 0)",
        "insert into tg_user (name, role, password, made_at, changed_at) values ('', 'admin', 'p', 0, 0)",
        "insert into tg_user (name, role, password, made_at, changed_at) values ('x', 'admin', '', 0, 0)",
        "insert into tg_session (digest, who, made_at, seen_at, ends_at) values ('short', 'ada', 0, 0, 9)",
        "insert into tg_token (digest, name, role, made_by, made_at) values ('short', 'x', 'viewer', 'a', 0)",
    ],
)
def test_the_database_refuses_rows_that_cannot_be(store: Store, sql: str) -> None:
    signed_in(store)
    with pytest.raises(StoreError):
        store.write(lambda tx: tx.execute(sql))


def test_passwords_fit_or_do_not(db: Database) -> None:
    assert users.fits("correct horse battery", DIGEST)
    assert not users.fits("correct horse batterY", DIGEST)
    assert not users.fits("correct horse battery", None)
    assert not users.fits("x" * 100_000, DIGEST)
    assert DIGEST.startswith("$argon2id$")
    for bad in ("short", "x" * 201):
        with pytest.raises(ValueError, match=r"password: .*10.*200"):
            users.digest_of(bad)


def test_each_role_may_what_the_table_says(db: Database) -> None:
    assert RIGHTS[Role.VIEWER] == {Permission.SEE}
    assert RIGHTS[Role.POLLER] == {Permission.SWITCH_FEEDS}
    assert RIGHTS[Role.ADMIN] == set(Permission)
    assert set(Permission) - RIGHTS[Role.OPERATOR] == {Permission.FORGET, Permission.MANAGE}


def test_what_is_changed_about_people_and_tokens_is_told_with_who_did_it(store: Store) -> None:
    store.write(lambda tx: users.add_user(tx, "ada", "admin", DIGEST, "local"))
    store.write(lambda tx: users.add_user(tx, "bob", "viewer", DIGEST, "ada"))
    store.write(lambda tx: users.begin_session(tx, "bob"))
    assert store.write(lambda tx: users.sign_out(tx, "bob", "ada")) == 1
    assert store.write(lambda tx: users.sign_out(tx, "bob", "ada")) == 0  # nothing happened, nothing is told
    assert store.write(lambda tx: users.set_role(tx, "bob", "operator", "ada")) == "viewer"
    assert store.write(lambda tx: users.set_role(tx, "bob", "operator", "ada")) == "operator"
    store.write(lambda tx: users.set_password(tx, "bob", DIGEST, "ada"))
    store.write(lambda tx: users.add_token(tx, "ci", "poller", "bob"))
    store.write(lambda tx: users.remove_token(tx, "ci", "ada"))
    store.write(lambda tx: users.remove_user(tx, "bob", "ada"))
    told = [(each.kind, each.name, each.actor, each.fields) for each in store.read(users.newest)]
    assert told == [
        ("user_removed", "bob", "ada", {}),
        ("token_removed", "ci", "ada", {}),
        ("token_made", "ci", "bob", {"role": "poller"}),
        ("user_password_set", "bob", "ada", {}),
        ("user_role_changed", "bob", "ada", {"was": "viewer", "role": "operator"}),
        ("user_signed_out", "bob", "ada", {}),
        ("user_added", "bob", "ada", {"role": "viewer"}),
        ("user_added", "ada", "local", {"role": "admin"}),
    ]


def test_what_is_refused_is_not_told(store: Store) -> None:
    store.write(lambda tx: users.add_user(tx, "ada", "admin", DIGEST))
    for change in (
        lambda tx: users.set_role(tx, "ada", "viewer"),
        lambda tx: users.add_user(tx, "ada", "admin", DIGEST),
        lambda tx: users.remove_token(tx, "ci"),
    ):
        with pytest.raises((Rejected, NotFound)):
            store.write(change)
    assert len(store.read(users.newest)) == 1


def test_a_user_was_seen_when_they_signed_in_and_when_they_came_again(store: Store, clock: VirtualClock) -> None:
    store.write(lambda tx: users.add_user(tx, "ada", "admin", DIGEST))
    (never,) = store.read(users.users)
    assert (never.seen_at, never.sessions) == (None, 0)
    secret = store.write(lambda tx: users.begin_session(tx, "ada"))
    (first,) = store.read(users.users)
    clock.advance(400)
    store.write(lambda tx: users.session_used(tx, secret))
    (second,) = store.read(users.users)
    assert first.seen_at is not None
    assert second.seen_at == first.seen_at + 400
    assert second.sessions == 1
    store.write(lambda tx: users.end_session(tx, secret))
    assert store.read(users.users)[0].seen_at == second.seen_at


def test_two_admins_who_lower_each_other_at_once_leave_one(store: Store) -> None:
    for name in ("ada", "eve"):
        store.write(lambda tx, name=name: users.add_user(tx, name, "admin", DIGEST))  # type: ignore[misc]
    start = threading.Barrier(2)
    refused: list[str] = []

    def lower(name: str) -> None:
        start.wait()
        try:
            store.write(lambda tx: users.set_role(tx, name, "viewer"))
        except Rejected as error:
            refused.append(str(error))

    both = [threading.Thread(target=lower, args=(name,)) for name in ("ada", "eve")]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(60)
    assert len(refused) == 1
    assert sorted(each.role for each in store.read(users.users)) == ["admin", "viewer"]
