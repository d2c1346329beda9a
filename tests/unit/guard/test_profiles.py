"""What each profile promises, on the virtual clock; the outage simulator draws the same plays."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.unit.guard.scene import Answered, Scene, down, held
from tidegate import Backoff, Breaker, Held, Target, rules
from tidegate.guard import Tuning
from tidegate.guard.profiles import PROFILES, rows
from tidegate.simulation.chart import picture
from tidegate.testing import VirtualClock, simulate

REQUESTS = partial(Target, "api")


# -- the properties ----------------------------------------------------------------------------------------------


def test_one_failure_at_fifty_calls_a_second_holds_none_of_the_next_thousand() -> None:
    result = simulate(REQUESTS, outage="20ms down at 1s", every="20ms", lasts="21s")

    assert (result.calls.failures, result.held, len(result.calls)) == (1, 0, 1050)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full), pytest.param(2, marks=pytest.mark.full)])
def test_one_per_cent_of_random_failures_for_an_hour_hold_fewer_than_one_call_in_a_thousand(seed: int) -> None:
    result = simulate(REQUESTS, outage="1h 1% errors at 0s", every="20ms", lasts="1h", seed=seed)

    assert result.calls.failures > 1000
    assert result.held < 0.001 * 180_000


@pytest.mark.parametrize(("every", "limit"), [("20ms", 20), ("1s", 10), ("1m", 5)])
@pytest.mark.parametrize("outage", ["down", "503", "hang"])
@pytest.mark.parametrize("overlap", [False, True])
def test_calls_stop_soon_after_a_service_goes_down(every: str, limit: int, outage: str, overlap: bool) -> None:
    result = simulate(REQUESTS, outage=f"30m {outage} at 1m", every=every, lasts="12m", overlap=overlap)

    assert 0 < result.failed_before_hold <= limit


@pytest.mark.parametrize(("every", "limit"), [("20ms", 20), ("1s", 10), ("1m", 5)])
def test_with_a_limit_of_concurrent_calls_few_calls_are_sent_to_a_service_that_hangs(every: str, limit: int) -> None:
    result = simulate(
        partial(Target, "api", concurrency=5), outage="30m hang at 1m", every=every, lasts="7m", overlap=True
    )

    opened = next(span.start for span in result.spans if span.why in ("breaker open", "half-open"))
    assert 0 < sum(not call.ok and call.at <= opened for call in result.calls) <= limit


@pytest.mark.parametrize(
    ("outage", "every"),
    [
        *((outage, every) for outage in ("7s", "30s", "1m", "10m", "1h") for every in (1, 60)),
        ("30s", 0.02), ("10m", 0.1), ("6h", 60),
    ],
)  # fmt: skip
def test_a_recovered_service_is_called_again_within_a_tenth_of_the_outage(outage: str, every: float) -> None:
    lasts = {"7s": 7, "30s": 30, "1m": 60, "10m": 600, "1h": 3600, "6h": 21600}[outage]
    result = simulate(REQUESTS, outage=f"{outage} down at 1m", every=every, lasts=lasts + 60 + 400)

    assert result.recovered_after is not None
    assert result.recovered_after <= min(max(5, 0.1 * lasts), 120) + every + 1e-6


@pytest.mark.parametrize(
    ("lasts", "every"),
    [
        (31, 0.02), (60, 0.1), (60, 1), (100, 0.1), (127, 31), (200, 34.9), (600, 1), (600, 7), (600, 31),
        (3600, 1), (3600, 31), (3600, 60), (7200, 60),
    ],
)  # fmt: skip
def test_a_service_that_recovers_while_calls_hang_is_called_again_as_soon(lasts: float, every: float) -> None:
    """Every call hangs for 30 s, others go on meanwhile, and the outage ends anywhere between two trials."""
    for shift in (0.0, 1.3, 2.6, 3.9, 4.9, 15.1, 30.2):
        hanging = lasts + shift
        result = simulate(
            REQUESTS, outage=f"{hanging}s hang at 1m", every=every, lasts=hanging + 60 + 400, overlap=True
        )

        assert result.recovered_after is not None
        assert result.recovered_after <= min(max(5, 0.1 * hanging), 120) + every + 1e-6


@pytest.mark.parametrize("took", [0, 3, 30])
def test_the_first_open_time_counts_from_the_start_of_the_call_that_tripped(took: float) -> None:
    scene = Scene(profile="requests")

    def hang() -> None:
        scene.clock.advance(took)
        raise TimeoutError

    for _ in range(5):
        with pytest.raises(TimeoutError):
            scene.target.call(hang)
    breaker = scene.target.breaker
    assert breaker is not None
    assert breaker.state == ("open" if took < 5 else "half-open")
    assert breaker.until == (None if took >= 5 else pytest.approx(scene.clock.monotonic() + 5 - took))


@pytest.mark.parametrize("lasts", [60, 7200])
def test_with_a_health_probe_recovery_takes_the_interval_of_the_probe(lasts: float) -> None:
    for shift in (0, 3, 8, 13, 21):
        result = simulate(REQUESTS, outage=f"{lasts + shift}s down at 1m", every="1s", lasts=lasts + 200, probe=True)

        assert result.recovered_after is not None
        assert result.recovered_after <= 10 + 1


@pytest.mark.req("SYNC-05")
def test_profile_sync_waits_as_the_loops_over_users_do() -> None:
    ladder = [30, 60, 120, 240, 480, 960, 1800, 1800]
    for share, roll in ((0.75, 0.0), (1.0, 0.5), (1.25, 1 - 1e-9)):
        scene = Scene(profile="sync", roll=roll)
        found = []
        for _ in ladder:
            scene.fail(down())
            found.append(scene.left())
        assert found == pytest.approx([share * wait for wait in ladder])
        assert scene.target.breaker is None


def test_of_a_hundred_keys_only_the_one_that_fails_is_held() -> None:
    per_key = simulate(
        partial(Target, "hosts", breaker_per="key"), outage="10m down at 1m", every="100ms", lasts="12m",
        keys=100, failing_keys=1,
    )  # fmt: skip
    pooled = simulate(REQUESTS, outage="10m down at 1m", every="100ms", lasts="12m", keys=100, failing_keys=1)

    asked_of_it = 12 * 60 / 10
    assert per_key.calls.failures >= 5
    assert per_key.plain.calls.failures == 60, "a plain loop asks the key every ten seconds"
    assert 0 < per_key.held < asked_of_it, "all of them calls of the one key"
    assert pooled.held == 0, "one key in a hundred is no reason to stop the others either"


def test_with_breakers_per_key_no_other_key_is_held_while_one_is_open() -> None:
    scene = Scene(profile="requests", breaker_per="key")
    scene.fail(*[down()] * 5, key=0)

    assert scene.holds(key=0) == ["breaker"]
    assert [scene.reason(key=key) for key in range(1, 100)] == [None] * 99
    assert scene.target.key(0).breaker is not None
    assert scene.target.key(1).breaker is None, "a key that never failed costs nothing"


@pytest.mark.parametrize(
    "play",
    [
        {"outage": "20ms down at 1s", "every": "20ms", "lasts": "21s"},
        {"outage": "5m 1% errors at 0s", "every": "20ms", "lasts": "5m"},
        {"outage": "30m down at 5m", "every": "1s", "lasts": "40m"},
        {"outage": "10m hang at 1m", "every": "1s", "lasts": "15m", "overlap": True},
        {"outage": "10m down at 1m", "every": "1s", "lasts": "15m", "probe": True},
        {"outage": "10m down at 1m", "every": "100ms", "lasts": "12m", "keys": 100, "failing_keys": 1},
    ],
)
def test_the_simulator_draws_each_of_them(play: dict[str, Any]) -> None:
    result = simulate(partial(Target, "api", breaker_per="key" if play.get("keys") else "target"), **play)

    drawn = picture(result, "requests")
    assert drawn.startswith("<svg")
    assert (">breaker open<" in drawn) is (result.held > 0)


def test_the_simulator_draws_the_waits_of_profile_sync() -> None:
    result = simulate(partial(Target, "api", "sync"), outage="2h down at 1m", every="10s", lasts="3h")

    assert [span.why for span in result.spans] == ["backoff"] * len(result.spans)
    assert ">backoff<" in picture(result, "sync")


# -- the table ---------------------------------------------------------------------------------------------------


def test_the_reference_shows_the_table_of_the_code() -> None:
    page = Path("docs/reference/targets.md").read_text(encoding="utf-8")
    head, *body = (f"| {' | '.join(row)} |" for row in rows())

    assert "\n".join([head, "| --- | --- | --- | --- |", *body]) in page


def test_a_profile_that_is_unknown_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="'web'"):
        Target("api", profile="web")  # type: ignore[arg-type]


def test_every_number_of_a_profile_can_be_overridden() -> None:
    for profile in PROFILES:
        target = Target("api", profile, backoff=None, breaker={"consecutive": 2, "timeout": 9, "max_timeout": 99})  # type: ignore[arg-type]
        assert target.breaker is not None
        policy = target.breaker.policy
        assert (policy.consecutive, policy.timeout, policy.max_timeout) == (2, 9, 99)


def test_a_breaker_that_is_left_out_is_that_of_the_profile_and_false_is_none() -> None:
    assert Target("api").breaker is not None
    assert Target("api", breaker=False).breaker is None
    assert Target("api", breaker=None).breaker is None
    assert Target("api", "sync").breaker is None
    assert Target("api", "sync", breaker=True).breaker is not None


@pytest.mark.parametrize("off", [None, False])
def test_none_and_false_turn_an_option_off_and_leaving_it_out_does_not(off: Any) -> None:
    left_out = Target("api", "sync", rules=rules.spotify).for_jobs()
    given = Target(
        "api", "sync", rules=rules.spotify, backoff=off, breaker=off, reprobe_every=off, confirm=off, self_guard=off
    )

    assert (left_out.backoff, left_out.reprobe_every) == (Backoff.sync(), 3600)
    assert (given.for_jobs().backoff, given.breaker, given.for_jobs().reprobe_every) == (None, None, None)
    assert rules.spotify.confirm, "there is something to turn off"


def test_an_open_time_that_is_given_does_not_grow() -> None:
    target = Target("api", breaker={"timeout": 30})
    assert target.breaker is not None
    assert (target.breaker.policy.timeout, target.breaker.policy.max_timeout) == (30, None)


def test_jobs_follow_the_profile_of_jobs_whatever_direct_calls_do() -> None:
    plain, numbers = Target("mail").for_jobs(), Target("mail", breaker={"consecutive": 5}).for_jobs()

    assert (plain.backoff, plain.breaker) == (Backoff.sync(), None)
    assert numbers.breaker is not None
    assert (numbers.breaker.consecutive, numbers.breaker.timeout, numbers.breaker.max_timeout) == (5, 120, None)
    assert Target("mail", "jobs").for_jobs() == plain


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"breaker_per": "key", "probe": int}, "a probe has no key"),
        ({"breaker_per": "key", "breaker": False}, "breaker=False"),
        ({"breaker_per": "key", "profile": "sync"}, "'sync'"),
        ({"breaker": {"counts_as_failure": bool}}, "faults="),
        ({"breaker": {"consecutve": 5}}, "'consecutive'"),
        ({"breaker": {"name": "mine"}}, "'name'"),
        ({"breaker": {"clock": int}}, "'clock'"),
        ({"breaker": {"zzz": 5}, "breaker_per": "key"}, "max_requests"),
    ],
)
def test_options_of_a_breaker_that_do_not_work_are_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Target("api", **given)


# -- fatal faults and Retry-After --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 402, 403])
def test_a_fatal_fault_holds_its_key_and_no_other(status: int) -> None:
    scene = Scene(profile="requests")
    scene.fail(Answered(status), key=7)

    assert scene.holds(key=7) == ["fatal"]
    assert scene.holds(key=8) == []


@pytest.mark.parametrize("status", [401, 402, 403])
def test_without_a_key_a_fatal_fault_holds_nothing_and_raises_one_notice(status: int) -> None:
    scene = Scene(profile="requests")
    scene.fail(*[Answered(status)] * 20, key=None)

    assert scene.holds(key=None) == []
    assert len(scene.events.of("call_failed")) == 20
    assert scene.notices() == ["fatal"]
    scene.call("ok", key=None)
    assert scene.notices() == ["fatal"]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("key", [None, 7])
@pytest.mark.parametrize(("asked", "held_for"), [("90", 90), ("7200", 3600)])
def test_retry_after_holds_for_the_time_asked_and_no_longer_than_an_hour(
    profile: str, key: int | None, asked: str, held_for: float
) -> None:
    scene = Scene(profile=profile, roll=0)
    scene.fail(Answered(429, {"Retry-After": asked}), key=key)

    assert scene.holds(key=key) == ["retry_after"]
    assert scene.left(key=key) == pytest.approx(held_for)


# -- backoff and breaker together --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"breaker": {"consecutive": 5}},
        {"breaker": Breaker("mine", consecutive=5)},
        {"breaker_per": "key"},
        {},
        {"profile": "sync", "breaker": {"consecutive": 5}},
    ],
)
def test_backoff_before_a_breaker_that_counts_in_a_row_warns(given: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="backoff"):
        Target("api", backoff=Backoff("30s"), **given)


@pytest.mark.parametrize(
    "given",
    [
        {"breaker": False},
        {"breaker": None},
        {"breaker": {"consecutive": None}},
        {"profile": "sync"},
        {"profile": "sync", "breaker": {"consecutive": 5}, "backoff": "profile"},
        {"profile": "sync", "breaker": {"consecutive": 5}, "backoff": False},
        {"profile": "sync", "breaker": {"consecutive": 5}, "backoff": Backoff(0, cap=0)},
        {"profile": "jobs", "breaker": {"consecutive": 5}},
    ],
)
def test_other_combinations_do_not_warn(given: dict[str, Any], recwarn: pytest.WarningsRecorder) -> None:
    Target("api", **{"backoff": Backoff("30s"), **given})
    assert not recwarn.list


@pytest.mark.parametrize(
    ("given", "key", "expected"),
    [
        ({"profile": "sync"}, None, 1),
        ({"profile": "sync"}, 7, 0),
        ({"profile": "sync", "backoff": None}, None, 0),
        ({"profile": "requests"}, None, 0),
        ({"profile": "jobs"}, None, 0),
    ],
)
def test_a_failure_without_a_key_that_holds_the_whole_target_is_logged_once(
    given: dict[str, Any], key: int | None, expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(**given)
    scene.fail(down(), down(), key=key)

    assert sum(record.message.startswith("call_without_key") for record in caplog.records) == expected


def test_breaker_true_is_short_for_an_empty_dict() -> None:
    for profile in PROFILES:
        short = Target("api", profile, breaker=True).breaker  # type: ignore[arg-type]
        empty = Target("api", profile, breaker={}).breaker  # type: ignore[arg-type]
        assert short is not None
        assert empty is not None
        assert replace(short.policy, on_state_change=None) == replace(empty.policy, on_state_change=None)


# -- the open time -----------------------------------------------------------------------------------------------


def open_times(clock: VirtualClock, breaker: Breaker, lasts: float) -> list[float]:
    """How long it was open each time, with a trial that fails at once when it may."""
    found: list[float] = []
    end = clock.monotonic() + lasts
    while clock.monotonic() < end:
        with suppress(Held, ConnectionError):
            breaker.call(fails)
        if breaker.until is None:
            continue
        found.append(breaker.until - clock.monotonic())
        clock.advance(found[-1])
    return found


def fails() -> None:
    raise ConnectionError


def test_the_open_time_grows_with_the_outage_and_starts_again_after_it() -> None:
    clock = VirtualClock()
    breaker = Breaker("api", consecutive=1, timeout=5, max_timeout=120, max_requests=1, clock=clock.monotonic)

    times = open_times(clock, breaker, 7200)
    assert times[:10] == pytest.approx([5] * 10)
    assert times == pytest.approx(sorted(times))
    assert times[-1] == 120
    assert max(b / a for a, b in pairwise(times)) < 1.11

    clock.advance(120)
    breaker.call(lambda: None)
    assert breaker.state == "closed"
    assert open_times(clock, breaker, 1) == pytest.approx([5])


def half_open_breaker(clock: VirtualClock, max_timeout: float | None) -> Breaker:
    """Tripped 5 s ago, and half-open from now on."""
    breaker = Breaker("api", consecutive=1, timeout=5, max_timeout=max_timeout, max_requests=1, clock=clock.monotonic)
    with suppress(ConnectionError):
        breaker.call(fails)
    clock.advance(5)
    return breaker


@pytest.mark.parametrize(("took", "left"), [(0, 5), (3, 2), (4.9, 0.1)])
def test_an_open_time_that_grows_counts_from_the_start_of_the_trial_that_failed(took: float, left: float) -> None:
    for max_timeout, open_for in ((120, left), (None, 5)):
        clock = VirtualClock()
        breaker = half_open_breaker(clock, max_timeout)
        permit = breaker.allow()
        assert permit is not None
        clock.advance(took)
        permit.done(ok=False)
        assert breaker.until is not None
        assert breaker.until - clock.monotonic() == pytest.approx(open_for)


def test_a_trial_that_hangs_makes_way_for_the_next_when_its_permit_expires() -> None:
    clock = VirtualClock()
    breaker = half_open_breaker(clock, 120)
    assert breaker.allow() is not None
    clock.advance(4.5)
    assert breaker.allow() is None

    clock.advance(0.5)
    permit = breaker.allow()
    assert permit is not None
    permit.done(ok=True)
    assert breaker.state == "closed"
    assert breaker.totals == {"success": 1, "failure": 2, "rejected": 1}


@pytest.mark.req("BRK-01")
@pytest.mark.parametrize(("timeout", "lasts"), [(10, 10), (60, 60), (120, 60)])
def test_a_half_open_permit_expires_after_the_timeout_or_a_minute(timeout: float, lasts: float) -> None:
    clock = VirtualClock()
    breaker = Breaker("api", timeout=timeout, max_requests=1, clock=clock.monotonic)
    breaker.force("open", clock.monotonic() + 1)
    clock.advance(1)
    assert breaker.allow() is not None

    clock.advance(lasts - 0.001)
    assert breaker.state == "half-open"
    clock.advance(0.001)
    assert breaker.state == "open"


@pytest.mark.req("BRK-01")
def test_without_a_timeout_a_half_open_permit_expires_after_a_minute() -> None:
    clock = VirtualClock()
    breaker = Breaker("api", timeout=None, max_requests=1, clock=clock.monotonic)
    breaker.force("open", clock.monotonic() + 1)
    clock.advance(1)
    assert breaker.allow() is not None

    clock.advance(59.999)
    assert breaker.state == "half-open"
    clock.advance(0.001)
    assert breaker.state == "open"


# -- what moved --------------------------------------------------------------------------------------------------


def test_tuning_has_what_few_programs_change() -> None:
    rolls = iter([0.0])
    target = Target("api", "sync", tuning=Tuning(rng=lambda: next(rolls)), clock=VirtualClock(), self_guard=False)
    with pytest.raises(ConnectionError):
        target.key(7).call(fails)

    hold, *_ = target.key(7).explain()
    assert hold.until is not None
    assert hold.until - hold.since == pytest.approx(22.5)


def test_a_pack_keeps_its_rules_under_faults() -> None:
    scene = Scene(profile="requests", rules=rules.spotify, faults={LookupError: "bad_answer"})
    with pytest.raises(LookupError):
        scene.call(LookupError("no such field"))

    assert [each.fault.code for each in scene.target.unhealthy() if each.fault] == ["bad_answer"]


@pytest.mark.parametrize("key", [None, 7])
def test_clear_closes_the_breaker_of_its_key_and_no_other(key: int | None) -> None:
    scene = Scene(profile="requests", breaker_per="key")
    for each in (key, 8):
        scene.fail(*[down()] * 5, key=each)

    scene.target.key(key).clear()
    assert scene.reason(key=key) is None
    assert scene.holds(key=8) == ["breaker"]


@pytest.mark.parametrize("per", ["key", "target"])
def test_who_hurries_gets_a_trial_of_an_open_breaker(per: str) -> None:
    scene = Scene(profile="requests", breaker_per=per)
    for key in (7, 8):
        with suppress(Held):
            scene.fail(*[down()] * 5, key=key)
    assert scene.holds(key=7) == scene.holds(key=8) == ["breaker"]

    scene.target.key(7).retry_now()
    breaker = scene.target.key(7).breaker
    assert breaker is not None
    assert breaker.state == "half-open"
    assert scene.holds(key=8) == (["breaker"] if per == "key" else [])
    assert scene.call(key=7) == "ok"


def test_nobody_hurries_past_a_breaker_that_a_person_forced_open() -> None:
    scene = Scene(profile="requests")
    assert scene.target.breaker is not None
    scene.target.breaker.force("open", "1h")

    scene.target.key(7).retry_now()
    assert scene.holds() == ["breaker"]


def test_an_open_breaker_of_a_key_says_so() -> None:
    scene = Scene(profile="requests", breaker_per="key")
    scene.fail(*[down()] * 5)

    with held("breaker"):
        scene.call()
    assert scene.left() == pytest.approx(5)
    summary = scene.target.summary()
    assert [each["state"] for each in summary["breakers"].values()] == ["open"]
    assert summary["until"] == pytest.approx(scene.clock.now() + 5)
    scene.clock.advance(5)
    assert [scene.call() for _ in range(3)] == ["ok"] * 3
    assert [each.fields["to"] for each in scene.events.of("breaker_state_changed")] == ["open", "half-open", "closed"]
    assert {each.key for each in scene.events.of("breaker_state_changed")} == {7}
