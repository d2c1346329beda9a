"""Who is connected to what: kept encrypted, changed under a number, and read by whoever syncs."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from tests.apps.music.building import KEY, World, kind_of
from tidegate import Queue, audit
from tidegate.audit import Actor, AuditFilter, Origin
from tidegate.clock import VirtualClock
from tidegate.errors import NotFound
from tidegate.secrets import BadSecret, Secrets
from tidegate_apps.music.connections import Connections, OAuthState, OAuthStates, Replaced
from tidegate_apps.music.library import tables
from tidegate_apps.music.provider import Field
from tidegate_apps.music.registry import WrongValue, enter_values, hidden, kinds

SECRET = "correct horse battery staple"


@pytest.fixture
def connections(queue: Queue, clock: VirtualClock) -> Connections:
    return Connections(tables(queue), lambda: KEY, clock.now)


def svc(**more: object):  # type: ignore[no-untyped-def]  # a kind of the tests
    return kind_of(World(VirtualClock()), **more)  # type: ignore[arg-type]


def test_no_table_has_a_secret_in_plain_text_and_only_the_key_reads_it(queue: Queue, connections: Connections) -> None:
    connections.put("ada", svc(), {"user": "ada7", "password": SECRET, "session": "hidden-too"})
    db = tables(queue)
    OAuthStates(db, lambda: KEY, lambda: 1.0).begin("the-state", OAuthState("ada", "svc", "the-verifier"))

    everything = json.dumps([db.all("connections_of", user_id="ada"), db.all("connections", after=0, n=9)])
    begun = db.one("end_journey", state=hidden("the-state"))
    assert begun is not None
    for text in (SECRET, "hidden-too", "the-verifier", "the-state"):
        assert text not in everything + repr(begun)
    row = connections.get("ada", "svc")
    assert row is not None
    assert row.shown_values() == {"user": "ada7"}
    assert SECRET not in repr(row)
    assert connections.values(row) == {"user": "ada7", "password": SECRET, "session": "hidden-too"}
    other = Connections(db, lambda: Secrets("another key, long enough for all of them"), lambda: 1.0)
    with pytest.raises(BadSecret):
        other.values(row)


def test_whoever_reads_changes_in_their_order_sees_each_the_removed_ones_too(connections: Connections) -> None:
    kind = svc()
    connections.put("ada", kind, {"password": "1"})
    connections.put("bob", kind, {"password": "2"})
    seen = connections.changed(0)
    assert [(row.user, row.generation, row.there) for row in seen] == [("ada", 1, True), ("bob", 1, True)]

    connections.put("ada", kind, {"password": "3"})
    connections.request_sync("bob", "svc")
    connections.remove("bob", "svc")
    later = connections.changed(seen[-1].version)
    assert [(row.user, row.generation, row.there) for row in later] == [("ada", 2, True), ("bob", 2, False)]
    with pytest.raises(NotFound, match=r"bob.* svc"):
        connections.request_sync("bob", "svc")


def test_what_the_settings_declare_is_put_in_once_and_what_people_change_stays(connections: Connections) -> None:
    kind = svc()
    assert connections.declare("ada", kind, {"password": "of the file"})
    assert not connections.declare("ada", kind, {"password": "of the file"})
    connections.put("ada", kind, {"password": "of ada"})
    assert not connections.declare("ada", kind, {"password": "of the file"})
    assert connections.values(connections.get("ada", "svc")) == {"password": "of ada"}  # type: ignore[arg-type]
    connections.remove("ada", "svc")
    assert not connections.declare("ada", kind, {"password": "of the file"})
    assert connections.declare("ada", kind, {"password": "a new one"})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"pasword": "s"}, "pasword: .* user, password"),
        ({"user": "ada7"}, "password: .* Password"),
    ],
)
def test_what_the_settings_declare_wrongly_is_said_and_not_put_in(
    connections: Connections, values: dict[str, str], said: str
) -> None:
    with pytest.raises(WrongValue, match=said):
        connections.declare("ada", svc(), values)
    assert connections.get("ada", "svc") is None


def test_what_the_settings_declare_leaves_nothing_in_a_table_to_try_passwords_on(
    queue: Queue, connections: Connections
) -> None:
    connections.declare("ada", svc(), {"password": SECRET})
    everything = json.dumps(tables(queue).all("connections_of", user_id="ada"))
    for guess in (json.dumps({"password": SECRET}), SECRET):
        assert sha256(guess.encode()).hexdigest() not in everything

    newer = Secrets("a newer key of the tests, as long as it takes", ["a key of the tests, long enough for all"])
    later = Connections(tables(queue), lambda: newer, lambda: 1.0)
    assert not later.declare("ada", svc(), {"password": SECRET})  # the former key still reads what it made


def test_a_login_comes_back_once_to_whom_it_was_begun_by_and_soon(queue: Queue, clock: VirtualClock) -> None:
    journeys = OAuthStates(tables(queue), lambda: KEY, clock.now)

    def begun(state: str) -> None:
        journeys.begin(state, OAuthState("ada", "svc", "verifier"))

    begun("one")
    found = journeys.finish("one", "ada", "svc")
    assert found is not None
    assert found.verifier == "verifier"
    assert journeys.finish("one", "ada", "svc") is None
    begun("two")
    assert journeys.finish("two", "bob", "svc") is None
    begun("three")
    assert journeys.finish("three", "ada", "other") is None
    begun("four")
    clock.advance(601)
    assert journeys.finish("four", "ada", "svc") is None
    assert journeys.finish("", "ada", "svc") is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"password": ""}, "password: .* Password"),
        ({"password": "x" * 5000}, "password: "),
        ({"password": "x", "colour": "red"}, "colour: .* user, password"),
        ({"password": "x", "token": "y"}, "token: "),
    ],
)
def test_what_cannot_be_used_is_refused_by_the_name_of_its_field(given: dict[str, str], said: str) -> None:
    hidden = Field(name="token", label="Token", hidden=True, required=False)
    kind = svc(fields=(*svc().fields, hidden))
    with pytest.raises(WrongValue, match=said):
        enter_values(kind, given)


def test_a_personal_key_that_no_request_can_carry_is_refused_when_it_is_entered() -> None:
    fanart = kinds()["fanart"]
    assert enter_values(fanart, {"client_key": " abc "}) == {"client_key": "abc"}
    with pytest.raises(WrongValue, match="client_key: "):
        enter_values(fanart, {"client_key": "abc\u200bdef"})  # as it comes with a copy of a web page


def test_a_secret_that_is_left_empty_stays_as_it_was() -> None:
    assert enter_values(svc(), {"user": " ada ", "password": ""}, {"password": "kept"}) == {
        "user": "ada",
        "password": "kept",
    }


def test_no_secret_goes_along_to_another_address_or_account(quick: Queue) -> None:
    connections = Connections(tables(quick), lambda: KEY, lambda: 1.0)
    navidrome, lastfm = kinds()["navidrome"], kinds()["lastfm"]
    at = {"url": "https://good.test", "user": "ada"}
    connections.put("ada", navidrome, {**at, "password": SECRET})
    connections.enter("ada", navidrome, {**at, "url": "https://GOOD.test/", "password": ""}, blanks_stay=True)
    assert connections.values(connections.get("ada", "navidrome"))["password"] == SECRET  # type: ignore[arg-type]
    with pytest.raises(WrongValue, match=r"^password: "):
        connections.enter("ada", navidrome, {**at, "url": "https://evil.test"}, blanks_stay=True)

    connections.put("ada", lastfm, {"user": "ada7", "session_key": "of ada7"})
    connections.enter("ada", lastfm, {"user": "ada8"})
    assert connections.values(connections.get("ada", "lastfm")) == {"user": "ada8"}  # type: ignore[arg-type]


@pytest.mark.req("SYNC-16")
def test_rotated_credentials_are_on_disk_before_they_are_used_and_never_replace_newer_ones(
    studio: Callable[..., Any],
) -> None:
    with studio() as s:
        s.shop.connections.put("ada", s.kinds["svc"], {"user": "ada-at-svc", "password": "s3cret"})
        old = s.shop.connections.get("ada", "svc")
        kind = s.kinds["svc"]
        s.shop.connections.save(old, kind, {"password": "rotated", "refresh_token": "r2"})
        values = s.shop.connections.values(s.shop.connections.get("ada", "svc"))
        assert values == {"user": "ada-at-svc", "password": "rotated", "refresh_token": "r2"}
        s.connect(password="entered anew")
        with pytest.raises(Replaced):
            s.shop.connections.save(old, kind, {"password": "too late"})
        s.shop.connections.remove("ada", "svc")
        with pytest.raises(Replaced):
            s.shop.connections.save(s.shop.connections.get("ada", "svc"), kind, {"password": "too late"})


def test_who_connects_and_disconnects_is_in_the_activity(queue: Queue, connections: Connections) -> None:
    kind = svc()
    connections.declare("ada", kind, {"password": "of the file"})  # nobody did that
    connections.remove("ada", "svc", by=Actor("ada", Origin.PAGE))
    connections.put("ada", kind, {"password": SECRET}, by=Actor("root", Origin.CLI))

    found = queue.store.read(lambda tx: audit.list_activity(tx, AuditFilter())).items

    deeds = [each.deed for each in found]
    assert [(each.actor, each.origin, each.action, each.place.name, each.place.lane) for each in deeds] == [
        ("root", "cli", "target_connected", "svc", "ada"),
        ("ada", "page", "target_disconnected", "svc", "ada"),
    ]
    assert deeds[0].was == deeds[1].became != deeds[0].became == deeds[1].was
    assert SECRET not in repr(found)


NAVIDROME = {"user": "ada", "password": SECRET}


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:4533", "http://127.9.9.9", "http://localhost:4533", "http://LOCALHOST.", "http://music.localhost",
     "http://[::1]:4533"],
)  # fmt: skip
def test_only_who_may_enters_a_server_on_this_machine_and_the_refusal_names_the_setting(
    queue: Queue, clock: VirtualClock, connections: Connections, url: str
) -> None:
    kind, values = kinds()["navidrome"], {"url": url, **NAVIDROME}
    with pytest.raises(WrongValue, match=r"^url: .*music\.server_networks"):
        connections.enter("ada", kind, values)
    assert connections.get("ada", "navidrome") is None
    for_all = Connections(tables(queue), lambda: KEY, clock.now, networks=["127.0.0.0/8"])
    for entered_by in (connections, for_all):
        entered_by.enter("ada", kind, values, loopback=entered_by is connections)
        row = entered_by.get("ada", "navidrome")
        assert row is not None
        assert entered_by.loopback(row) is (entered_by is connections)


def test_who_enters_another_server_does_not_inherit_the_right_to_reach_this_machine(connections: Connections) -> None:
    kind = kinds()["navidrome"]
    for declared in (False, True):
        if declared:
            connections.declare("ada", kind, {"url": "http://localhost", **NAVIDROME})
        else:
            connections.enter("ada", kind, {"url": "http://127.0.0.1", **NAVIDROME}, loopback=True)
        row = connections.get("ada", "navidrome")
        assert row is not None
        assert connections.loopback(row)
        connections.enter("ada", kind, {"url": "http://music.example", **NAVIDROME}, blanks_stay=True)
        row = connections.get("ada", "navidrome")
        assert row is not None
        assert not connections.loopback(row)
