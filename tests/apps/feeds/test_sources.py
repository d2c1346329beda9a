"""The source manager's rows, on both databases."""

from __future__ import annotations

from unittest.mock import ANY

import pytest

from tests.apps.feeds.building import DAY, HOUR, Desk, fetched
from tests.text import numbers
from tidegate import audit
from tidegate.audit import AuditFilter as WantedDeeds
from tidegate.errors import NotFound, Rejected, StoreError
from tidegate_apps.feeds.models import Change, SourceRequest, check_url


def active(desk: Desk) -> list[int]:
    return [each.id for each in desk.sources.active()]


@pytest.mark.req("FEED-07")
def test_a_source_has_no_rest_while_it_is_active(desk: Desk) -> None:
    source = desk.add(name="A")

    assert (source.feed_disabled_at, source.feed_disable_reason, source.disabled_by) == (None, None, None)
    disabled = desk.sources.disable(source.id, "gone", "ada")
    assert (disabled.feed_disabled_at, disabled.feed_disable_reason, disabled.disabled_by) == (desk.now, "gone", "ada")
    assert desk.sources.enable(source.id, "ada") == source


@pytest.mark.req("FEED-08")
def test_the_active_ones_have_an_address_are_enabled_and_inside_no_rest(desk: Desk) -> None:
    plain = desk.add("http://a.example/1")
    desk.sources.add(SourceRequest(feed_url=None, name="none"), "ada")
    desk.sources.add(SourceRequest(feed_url="", name="empty"), "ada")
    desk.add("http://a.example/2", enabled=False)
    rests = desk.add("http://a.example/3")
    manual = desk.add("http://a.example/4")
    desk.sources.disable(rests.id, "upstream_failure", "auto")
    desk.sources.disable(manual.id, "manual", "ada")

    assert active(desk) == [plain.id]
    desk.clock.advance(6 * HOUR - 1)
    assert active(desk) == [plain.id]
    desk.clock.advance(1)
    assert active(desk) == [plain.id, rests.id]
    desk.clock.advance(365 * DAY)
    assert active(desk) == [plain.id, rests.id]


@pytest.mark.req("FEED-05", "FEED-08")
@pytest.mark.parametrize(
    ("reason", "hours"),
    [("forbidden", 24), ("not_found", 48), ("gone", 72), ("upstream_failure", 6), ("network", 12), ("parse_error", 24)],
)
def test_each_reason_keeps_a_feed_out_for_its_own_time(desk: Desk, reason: str, hours: int) -> None:
    source = desk.add()
    desk.sources.disable(source.id, reason, "auto")

    desk.clock.advance(hours * HOUR - 1)
    assert active(desk) == []
    desk.clock.advance(1)
    assert active(desk) == [source.id]


def test_pages_go_on_where_the_last_one_ended(desk: Desk) -> None:
    for n in range(7):
        desk.add(f"http://a.example/{n}")
    desk.sources.disable(3, "network", "auto")
    desk.clock.advance(12 * HOUR)

    seen: list[int] = []
    place = (-1.0, 0)
    while page := desk.sources.active(place, 2):
        seen += [each.id for each in page]
        place = (page[-1].active_from or 0.0, page[-1].id)
    assert seen == [1, 2, 4, 5, 6, 7, 3]


@pytest.mark.req("FEED-09")
def test_an_unknown_source_or_reason_is_refused(desk: Desk) -> None:
    source = desk.add()

    with pytest.raises(NotFound):
        desk.sources.disable(source.id + 1, "gone", "ada")
    with pytest.raises(NotFound):
        desk.sources.enable(source.id + 1, "ada")
    with pytest.raises(ValueError, match="reason"):
        desk.sources.disable(source.id, "rate_limited", "ada")
    assert desk.sources.get(source.id) == source


@pytest.mark.req("FEED-09")
def test_what_a_person_has_switched_off_only_a_person_switches(desk: Desk) -> None:
    source = desk.add()
    off = desk.sources.disable(source.id, "manual", "ada")

    assert desk.sources.disable(source.id, "network", "auto") == off
    assert desk.sources.enable(source.id, "auto") == off
    assert desk.state(source.id).rest.reason == "manual"
    assert desk.sources.disable(source.id, "network", "bob").feed_disable_reason == "network"
    desk.sources.disable(source.id, "manual", "ada")
    assert desk.sources.enable(source.id, "bob").feed_disabled_at is None


@pytest.mark.req("FEED-10")
def test_a_feed_that_rests_keeps_its_rest_when_its_address_is_taken_away_and_given_again(desk: Desk) -> None:
    source = desk.add()
    desk.sources.disable(source.id, "upstream_failure", "auto")
    for url in (None, source.feed_url):
        desk.sources.change(source.id, Change(feed_url=url), "ada")
    assert desk.poll_on(6 * HOUR - 1) == 0
    assert desk.poll_on(2) == 1

    assert desk.sources.get(source.id).feed_disabled_at is None


@pytest.mark.req("FEED-10")
def test_a_feed_past_its_rest_can_be_polled_now_and_one_that_rests_cannot(desk: Desk) -> None:
    source = desk.add()
    desk.sources.disable(source.id, "upstream_failure", "auto")
    with pytest.raises(Rejected, match="enable it first"):
        desk.sources.poll_now(source.id)
    desk.clock.advance(6 * HOUR)
    desk.sources.poll_now(source.id)
    assert desk.poll().polled == 1
    desk.sources.disable(source.id, "manual", "ada")
    with pytest.raises(Rejected, match="enable it first"):
        desk.sources.poll_now(source.id)


@pytest.mark.req("FEED-13", "FEED-15")
def test_another_interval_polls_sooner_only_what_waited_for_its_interval(desk: Desk) -> None:
    asked, plain = desk.add("http://a.example/1", interval=DAY), desk.add("http://b.example/2", interval=DAY)
    desk.answers["http://a.example/1"] = fetched(429, Retry_After="86300")
    desk.sources.change(asked.id, Change(feed_url=asked.feed_url, interval=HOUR), "ada")
    desk.poll()
    until = desk.state(asked.id).due_at
    assert until == desk.now + 86300
    for source in (asked, plain):
        desk.sources.change(source.id, Change(feed_url=source.feed_url, interval=2 * HOUR), "ada")

    assert (desk.state(asked.id).due_at, desk.state(asked.id).due_why) == (until, "retry_after")
    assert desk.state(plain.id).due_at == desk.now + 2 * HOUR
    desk.sources.change(plain.id, Change(feed_url=plain.feed_url, interval=DAY), "ada")
    assert desk.state(plain.id).due_at == desk.now + 2 * HOUR


def test_a_change_says_only_what_it_changes_so_that_two_at_once_keep_each_others(desk: Desk) -> None:
    source = desk.add(interval=DAY)
    named, slower, off = Change(name="B"), Change(interval=2 * DAY), Change(enabled=False)  # all made of what was read
    for each in (named, slower, off):
        desk.sources.change(source.id, each, "ada")
    found = desk.sources.get(source.id)
    assert (found.name, found.feed_url, found.interval, found.enabled) == ("B", source.feed_url, 2 * DAY, False)

    before = desk.there.db.all("events", source_id=source.id, n=99)
    assert desk.sources.change(source.id, Change(name="B"), "ada") == found
    assert desk.there.db.all("events", source_id=source.id, n=99) == before
    assert desk.sources.change(source.id, Change(feed_url=None), "ada").feed_url is None


def test_one_address_is_one_source(desk: Desk) -> None:
    first, second = desk.add("http://a.example/1"), desk.add("http://a.example/2")

    with pytest.raises(Rejected, match=f"already: {first.id}"):
        desk.add("http://a.example/1")
    with pytest.raises(Rejected, match="already"):
        desk.sources.change(second.id, Change(feed_url="http://a.example/1"), "ada")
    made = desk.sources.add_many([SourceRequest(feed_url=f"http://a.example/{n}") for n in (2, 3)], "ada")
    assert made[0] is None
    assert made[1] == desk.sources.at("http://a.example/3")


def test_another_address_forgets_what_the_old_one_said_and_is_polled_at_once(desk: Desk) -> None:
    source = desk.add()
    desk.poll()
    assert desk.state(source.id).body_hash is not None
    desk.sources.change(source.id, Change(feed_url="http://b.example/f", name="B"), "ada")

    state = desk.state(source.id)
    assert (state.feed_url, state.host, state.body_hash, state.name) == (
        "http://b.example/f", "b.example:80", None, "B",
    )  # fmt: skip
    assert desk.poll().polled == 1


def test_a_source_that_is_switched_off_is_not_polled_and_goes_on_when_switched_on(desk: Desk) -> None:
    source = desk.add()
    desk.sources.change(source.id, Change(feed_url=source.feed_url, enabled=False), "ada")
    assert desk.poll().polled == 0
    desk.sources.change(source.id, Change(feed_url=source.feed_url, enabled=True), "ada")
    assert desk.poll().polled == 1


def test_what_is_removed_leaves_nothing(desk: Desk) -> None:
    source = desk.add()
    desk.poll()
    desk.sources.remove(source.id, "ada")

    assert desk.items(source.id) == []
    for statement in ("states", "details"):
        assert desk.there.db.one(statement, source_id=source.id) is None
    assert desk.there.db.all("beats", source_id=source.id, since=0.0, n=9) == []
    with pytest.raises(NotFound):
        desk.sources.remove(source.id, "ada")


def test_names_and_addresses_are_found_by_a_part_of_them(desk: Desk) -> None:
    desk.add("http://a.example/100%25", name="Big_News")
    desk.add("http://b.example/2", name="Other")

    assert [each.name for each in desk.sources.list_sources(like="g_n")] == ["Big_News"]
    assert [each.name for each in desk.sources.list_sources(like="B.EXAMPLE")] == ["Other"]
    assert desk.sources.list_sources(like="_x_") == []
    assert [each.name for each in desk.sources.list_sources(like="100%")] == ["Big_News"]


@pytest.mark.req("FEED-07")
@pytest.mark.parametrize(
    "change",
    [
        "update feeds_source set feed_disabled_at = 1",
        "update feeds_source set feed_disable_reason = 'gone'",
        "update feeds_source set feed_disabled_at = 1, feed_disable_reason = 'nonsense', disabled_by = 'x'",
        "update feeds_source set active_from = 5",
        "update feeds_source set feed_url = null",
        "update feeds_source set enabled = 0",
    ],
)
def test_the_database_refuses_a_source_that_cannot_be(desk: Desk, change: str) -> None:
    desk.add()

    with pytest.raises(StoreError):
        desk.queue.store.write(lambda tx: tx.execute(change))


@pytest.mark.parametrize(
    "url", ["", "x", "ftp://a.example/f", "http://", "http://a b/", "http://[::1/", "http://a:99999/", "javascript:1"]
)
def test_what_is_no_address_of_a_feed_is_said_to_be_none(url: str) -> None:
    with pytest.raises(ValueError, match="feed_url"):
        check_url(url)


def test_what_people_switch_is_in_the_activity_and_what_the_poller_does_is_not(desk: Desk) -> None:
    source = desk.add(name="A")
    desk.sources.disable(source.id, "gone", "auto")
    desk.sources.enable(source.id, "ada")
    desk.sources.disable(source.id, "manual", "bob")

    found = desk.queue.store.read(lambda tx: audit.list_activity(tx, WantedDeeds())).items

    assert {(each.deed.place.name, each.deed.place.lane) for each in found} == {("feeds", str(source.id))}
    assert [(each.deed.actor, each.deed.action, each.deed.was, each.deed.became) for each in found] == [
        (
            "bob",
            "target_disabled",
            {"state": "enabled"},
            {"state": "disabled", "why": "manual", "until": None, "feed": "A"},
        ),
        (
            "ada",
            "target_enabled",
            {"state": "disabled", "why": "gone", "by": "auto"},
            {"state": "enabled", "feed": "A"},
        ),
        ("ada", "target_added", {}, {"feed": "A"}),
    ]


def test_what_people_change_of_a_feed_is_in_the_activity_with_what_differs(desk: Desk) -> None:
    source = desk.add("https://ann:secret@a.example/feed", name="A")
    desk.sources.change(source.id, Change(feed_url="https://ann:other@b.example/feed", name="B"), "bob")
    desk.sources.change(source.id, Change(feed_url="https://moved.example/feed"), "auto")
    desk.sources.poll_now(source.id, "bob")
    desk.sources.poll_now(source.id)
    desk.sources.remove(source.id, "bob")

    found = desk.queue.store.read(lambda tx: audit.list_activity(tx, WantedDeeds(actor="bob"))).items

    assert [(each.deed.action, each.deed.place.lane, each.before(str), each.after(str)) for each in found] == [
        ("target_removed", "1", ANY, ANY), ("target_asked", "1", "", ANY), ("target_changed", "1", ANY, ANY),
    ]  # fmt: skip
    changed = found[-1].deed
    assert changed.was == {"name": "A", "address": "https://ann:…@a.example/feed"}
    assert changed.became == {"feed": "B", "name": "B", "address": "https://ann:…@b.example/feed"}


def test_a_list_of_feeds_and_a_poll_of_many_are_one_line_each(desk: Desk) -> None:
    wanted = [SourceRequest(feed_url=f"https://{n}.example/feed") for n in range(3)]
    ids = [id_ for id_ in desk.sources.add_many(wanted, "bob") if id_ is not None]
    desk.sources.add_many(wanted, "bob", place=500, of=503)
    desk.sources.poll_all(ids, "bob")

    found = desk.queue.store.read(lambda tx: audit.list_activity(tx, WantedDeeds(actor="bob"))).items

    assert [(each.deed.action, numbers(each.after(str))) for each in found] == [
        ("target_asked", [3]), ("target_imported", [3]),
    ]  # fmt: skip


def test_a_poll_of_very_many_is_asked_for_in_pieces_and_is_one_line(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_apps.feeds.service._BATCH_SIZE", 2)
    wanted = [SourceRequest(feed_url=f"https://{n}.example/feed") for n in range(5)]
    ids = [id_ for id_ in desk.sources.add_many(wanted, "auto") if id_ is not None]
    desk.sources.disable(ids[3], "manual", "ann")

    with pytest.raises(Rejected, match="disabled"):
        desk.sources.poll_all(ids, "bob")

    assert [desk.state(id_).due_why == "asked" for id_ in ids] == [True, True, False, False, False]
    desk.sources.poll_all(ids[:3], "bob")
    found = desk.queue.store.read(lambda tx: audit.list_activity(tx, WantedDeeds(actor="bob"))).items
    assert [each.after(str) for each in found] == ["polled now, feeds 3", "polled now, feeds 5"]
