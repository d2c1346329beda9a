"""An outage, played against the real target: what is counted is what happened."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from tidegate import Backoff, Cooldown, Target
from tidegate.simulation.play import HoldKind, HoldSpan, Simulation
from tidegate.testing import simulate

NONE = Backoff(0, cap=0, jitter=0)
STEADY = Backoff("10m", cap="10m", jitter=0)
HOUR = 3600


def played(outage: str = "2h down at 1h", every: str = "5m", lasts: str = "6h", **target: Any) -> Simulation:
    target.setdefault("backoff", NONE)
    return simulate(partial(Target, "service", "sync", **target), outage=outage, every=every, lasts=lasts)


def spans(result: Simulation) -> list[tuple[float, float, str]]:
    return [(span.start, span.end, str(span.why)) for span in result.spans]


def test_with_no_gate_it_calls_as_often_as_a_plain_loop() -> None:
    result = played()

    assert (len(result.calls), result.calls.failures, result.held) == (72, 24, 0)
    assert (len(result.plain.calls), result.plain.calls.failures) == (72, 24)
    assert (len(result.stubborn.calls), result.stubborn.calls.failures) == (48 + 3 * 24, 72)
    assert (result.spans, result.noticed_after) == ((), None)


def test_each_tick_is_a_call_or_is_held() -> None:
    result = played(backoff=Backoff("30s", cap="30m"))

    assert len(result.calls) + result.held == 72
    assert result.calls.failures < 12


def test_backoff_holds_from_a_failure_until_its_time_is_over() -> None:
    result = played("25m down at 1h", backoff=STEADY)

    assert spans(result) == [(3600, 5400, "backoff")]  # three waits that touch
    assert [call.at for call in result.calls if not call.ok] == [3600, 4200, 4800]


def test_recovery_is_counted_from_the_end_of_the_outage_to_the_first_good_call() -> None:
    result = played("25m down at 1h", backoff=STEADY)

    assert result.recovered_after == 5400 - (3600 + 25 * 60)
    assert result.recovery_of(result.plain) == 0


def test_an_outage_beyond_the_end_has_no_recovery() -> None:
    assert played("9h down at 1h").recovered_after is None


def test_notice_is_counted_from_the_first_failure() -> None:
    result = played("2h down at 1h", every="10s", breaker={"consecutive": 5})

    assert result.noticed_after == 40


def test_a_breaker_is_open_for_its_time_and_half_open_until_enough_went_well() -> None:
    result = played("1m down at 1h", every="10s", breaker={"consecutive": 3, "timeout": "2m"})

    assert spans(result) == [(3620, 3740, "breaker open"), (3740, 3760, "half-open")]
    assert result.held == 11


def test_a_breaker_is_half_open_as_soon_as_its_time_is_over_and_not_only_at_the_next_call() -> None:
    result = played("1m down at 1h", every="10s", breaker={"consecutive": 3, "timeout": "95s"})

    assert spans(result) == [(3620, 3715, "breaker open"), (3715, 3740, "half-open")]


def test_a_breaker_that_fails_again_while_half_open_stays_open_in_one_span() -> None:
    result = played("10m down at 1h", every="10s", breaker={"consecutive": 3, "timeout": "2m"})

    opened = [span for span in result.spans if span.why is HoldKind.OPEN]
    assert opened == [HoldSpan(3620, 3620 + 5 * 120, HoldKind.OPEN)]


def test_the_numbers_that_wait_for_ten_calls_a_minute_never_trip_at_two() -> None:
    result = played("1h down at 1h", every="30s", breaker=True)

    assert (result.held, result.calls.failures) == (0, 120)


def test_a_refused_credential_is_asked_once_and_told_once() -> None:
    result = played("2h 401 at 1h", backoff=Backoff.sync())

    assert (result.calls.failures, result.noticed_after, result.recovered_after) == (1, 0, None)
    assert spans(result) == [(3600, 21600, "fatal")]
    assert len(result.told) == 1


def test_retry_after_is_kept() -> None:
    result = played("1h 429 retry-after 20m at 1h")

    assert [call.at for call in result.calls if not call.ok] == [3600, 4800, 6000]
    assert {why for _, _, why in spans(result)} == {"retry-after"}


def test_a_cooldown_rests_and_probes() -> None:
    result = played("2d down at 1h", every="1h", lasts="4d", cooldown=Cooldown({"network": (3, "12h")}))

    failed = [call.at / HOUR for call in result.calls if not call.ok]
    assert failed == [1, 2, 3, 15, 27, 39]
    assert {why for _, _, why in spans(result)} == {"cooldown"}
    assert result.noticed_after == 2 * HOUR


def test_a_probe_opens_the_breaker_without_spending_calls() -> None:
    result = simulate(
        partial(Target, "gateway", "sync", backoff=NONE, breaker={"consecutive": 5}),
        outage="1h down at 1h", every="10s", lasts="3h", probe=True,
    )  # fmt: skip

    assert result.calls.failures == 5
    assert result.probes > 300
    assert result.recovered_after == 0


def test_a_call_that_hangs_takes_time_from_the_ticks() -> None:
    result = played("10m hang at 1h", every="10s", lasts="2h")

    assert result.calls.failures == 20  # 30 s each
    assert [call.at for call in result.calls if not call.ok] == [call.at for call in result.plain.calls if not call.ok]


def test_short_retries_are_calls_too() -> None:
    result = simulate(
        partial(Target, "s", "sync", backoff=NONE), outage="1h down at 1h", every="10m", lasts="3h", retry=3
    )

    assert result.calls.failures == 3 * 6


def test_the_same_seed_gives_the_same_result() -> None:
    def run(seed: int) -> tuple[list[object], object]:
        result = simulate(partial(Target, "s", "sync"), outage="2h 30% errors", every="30s", seed=seed)
        return list(result.calls), result.spans

    assert run(3) == run(3)
    assert run(3) != run(4)


@pytest.mark.parametrize(("every", "outage"), [("5m", "22h down"), ("1s", "22h down"), ("1s", "22h 30% errors")])
def test_a_day_is_played_in_no_time(every: str, outage: str) -> None:
    started = time.process_time()

    result = simulate(partial(Target, "s", "sync", breaker=True), outage=outage, every=every, lasts="24h")

    assert time.process_time() - started < 30
    assert len(result.calls) + result.held == 86400 / (300 if every == "5m" else 1)


@pytest.mark.parametrize(
    ("every", "lasts", "told"),
    [("0s", "1h", "every"), ("2h", "1h", "no more than is played"), ("1ms", "1d", "86,400,000 calls are too many")],
)
def test_a_plan_that_cannot_be_played_is_refused(every: str, lasts: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        played(every=every, lasts=lasts)
