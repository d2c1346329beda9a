"""What a process says of itself."""

from __future__ import annotations

import threading

import pytest

from tests.soak.inside import WARM, Inside, heap, mapped, threads


class Kept:
    """Of which there are more."""


def test_types_are_told_of_which_there_are_more_than_when_it_was_warm() -> None:
    inside = Inside(traced=False)
    assert "types" not in inside.told(1)
    inside.told(WARM)
    kept = [Kept() for _ in range(1000)]

    told = inside.told(WARM + 1)

    assert told["types"][f"{Kept.__module__}.Kept"] == len(kept)
    assert told["resident"] > 1_000_000


def test_threads_are_counted_by_name_without_their_numbers() -> None:
    stop = threading.Event()
    made = [threading.Thread(target=stop.wait, name=f"some-pool_{n}") for n in range(3)]
    for each in made:
        each.start()
    assert threads()["some-pool"] == 3
    stop.set()
    for each in made:
        each.join()
    assert "some-pool" not in threads()


def test_what_the_c_library_has_is_used_or_free() -> None:
    if said := heap():
        assert said["used"] + said["free"] == said["system"]


def test_the_memory_of_a_process_is_told_by_what_it_is_for() -> None:
    stop = threading.Event()
    waits = threading.Thread(target=stop.wait)
    waits.start()
    told = mapped()
    stop.set()
    waits.join()

    resident = Inside(traced=False).told(1)["resident"]
    assert {"files", "heap", "others", "stacks"} == told.keys()
    assert sum(told.values()) == pytest.approx(resident, rel=0.1)
