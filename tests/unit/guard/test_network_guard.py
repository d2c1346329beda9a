"""The self guard: when most hosts fail at once it is our own link."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.faults.codes import CORE
from tidegate.guard import NetworkGuardPolicy
from tidegate.guard.network_guard import Endpoint, NetworkGuard

NETWORK = CORE["network"].fault("test")
REFUSED = CORE["forbidden"].fault("test")


def link(**numbers: Any) -> NetworkGuard:
    return NetworkGuard(NetworkGuardPolicy(**numbers))


def at(number: int) -> Endpoint:
    return Endpoint(f"target-{number}", None, f"host-{number}.test")


def fail(own: NetworkGuard, numbers: range, now: float = 0.0) -> list[bool]:
    return [own.record_failure(at(n), NETWORK, now) for n in numbers]


def test_the_tenth_host_that_fails_within_a_minute_makes_it_our_own_link() -> None:
    own = link()

    assert fail(own, range(10)) == [False] * 9 + [True]
    assert own.lost


def test_the_same_host_again_and_again_is_one_host() -> None:
    own = link()

    assert not any(own.record_failure(Endpoint("spotify", user, "api.test"), NETWORK, 0.0) for user in range(1000))


@pytest.mark.parametrize(("good", "lost"), [(10, True), (11, False)])
def test_half_of_the_hosts_is_enough_and_less_is_not(good: int, lost: bool) -> None:
    own = link()
    fail(own, range(100, 101))
    for n in range(good):
        own.record_answer(at(n), 0.0)
    fail(own, range(101, 110))

    assert own.lost is lost


def test_what_happened_more_than_a_minute_ago_counts_no_more() -> None:
    own = link()
    fail(own, range(9), now=0.0)

    assert fail(own, range(9, 10), now=60.0) == [True]
    assert fail(own, range(10, 11), now=61.0) == [False]


def test_a_host_that_answers_whatever_it_says_was_reached() -> None:
    own = link()
    fail(own, range(10))

    for n in range(6):
        assert not own.record_failure(at(n), REFUSED, 1.0)
    assert not own.lost


def test_it_disarms_when_every_host_that_failed_has_answered_or_is_forgotten() -> None:
    own = link()
    fail(own, range(2))
    armed = [own.armed]
    for n in range(2):
        own.record_answer(at(n), 1.0)
        armed.append(own.armed)
    fail(own, range(1), now=2.0)
    armed.append(own.armed)
    own.record_answer(at(7), 63.0)
    armed.append(own.armed)

    assert armed == [True, True, False, True, False]


def test_a_success_without_a_host_counts_for_the_host_where_its_key_failed() -> None:
    own = link()
    for feed in range(10):
        own.record_failure(Endpoint("feeds", feed, f"host-{feed}.test"), NETWORK, 0.0)
    assert own.lost

    for feed in range(6):
        own.record_answer(Endpoint("feeds", feed), 1.0)
    assert not own.lost, "4 of 10 are left"


def test_a_success_of_another_key_counts_for_the_one_host_of_its_target() -> None:
    own = link()
    for n in range(10):
        own.record_failure(Endpoint(f"target-{n}", 7, f"host-{n}.test"), NETWORK, 0.0)

    for n in range(10):
        own.record_answer(Endpoint(f"target-{n}", 8), 1.0)
    assert not own.armed


def test_five_services_that_fail_and_recover_are_five_hosts_not_ten() -> None:
    own = link()
    for n in range(5):
        own.record_failure(Endpoint(f"target-{n}", None, f"host-{n}.test"), NETWORK, 0.0)
        own.record_answer(Endpoint(f"target-{n}", None), 0.0)

    assert not own.record_failure(Endpoint("target-0", None, "host-0.test"), NETWORK, 1.0)
    assert not own.lost


@pytest.mark.parametrize(
    ("numbers", "field"),
    [
        ({"hosts": 1}, "NetworkGuardPolicy.hosts"),
        ({"share": 0}, "NetworkGuardPolicy.share"),
        ({"within": 0}, "NetworkGuardPolicy.within"),
    ],
)
def test_wrong_numbers_are_refused_by_the_name_of_the_field(numbers: Any, field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        NetworkGuardPolicy(**numbers)


def test_two_hosts_and_a_thousandth_of_a_second_are_the_least() -> None:
    assert NetworkGuardPolicy(hosts=2, share=1, within=0.001).within == 0.001


def test_before_anything_was_seen_nothing_is_lost_and_nothing_of_interest() -> None:
    own = link()
    assert (own.lost, own.armed) == (False, False)


def test_a_host_is_in_one_place_only_by_what_it_did_last() -> None:
    own = link(hosts=2)
    own.record_answer(at(1), 0.0)
    assert own.record_failure(at(1), NETWORK, 1.0) is False, "one host is no majority of two"
    own.record_answer(at(1), 2.0)
    assert own.record_failure(at(2), NETWORK, 3.0) is True
    assert own.record_failure(Endpoint("a", 1, ""), REFUSED, 4.0) is False


def test_a_success_without_a_host_counts_for_the_target_when_that_failed_on_several_hosts() -> None:
    own = link(hosts=3, share=1)
    own.record_failure(Endpoint("a", 1, "one.test"), NETWORK, 0.0)
    own.record_failure(Endpoint("a", 2, "two.test"), NETWORK, 0.0)
    own.record_answer(Endpoint("a", 3), 0.0)
    own.record_answer(Endpoint("a", 4), 0.0)
    own.record_failure(Endpoint("b", 1, "three.test"), NETWORK, 0.0)
    assert not own.lost, "a answered"
    own.record_failure(Endpoint("a", 3, "a"), NETWORK, 0.0)
    assert own.lost, "the host of that name was the target itself"


def test_two_hosts_that_fail_within_a_minute_of_any_hour_are_two() -> None:
    own = link(hosts=2)
    assert [own.record_failure(at(1), NETWORK, 5000.0), own.record_failure(at(2), NETWORK, 5060.0)] == [False, True]
