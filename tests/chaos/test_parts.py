"""The parts of the fire by themselves: what is drawn from a seed, the wire, the sweep."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.campaign import Outcome, Plan
from tests.chaos.orders import Orders
from tests.chaos.proxy import WireThread, wire_to
from tests.chaos.report import markdown
from tests.chaos.results import Known, publish, sweep
from tests.chaos.schedule import KINDS, blows
from tests.processes import wait

PATIENCE = 30.0
SILENT = 0.3  # seconds without a word; an answer takes a thousandth of that
THERE = {kind.needs for kind in KINDS.values() if kind.needs}


def test_a_seed_draws_the_same_blows_and_at_least_one_of_each_kind() -> None:
    found = blows(7, 10, THERE)

    assert found == blows(7, 10, THERE)
    assert found != blows(8, 10, THERE)
    assert {blow.kind for blow in found} == set(KINDS)
    assert all(0 <= blow.at <= 10 for blow in found)
    assert [blow.at for blow in found] == sorted(blow.at for blow in found)
    assert len(blows(7, 10, THERE, often=20)) > 10 * len(found)


def test_what_is_not_there_is_not_hit() -> None:
    assert {blow.kind for blow in blows(7, 10, ())} == {name for name, kind in KINDS.items() if not kind.needs}


@pytest.fixture
def wire() -> Iterator[tuple[WireThread, list[bytes]]]:
    """A wire to a server that says again what it hears; and what it heard."""
    heard: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX)
    folder = tempfile.TemporaryDirectory(prefix="wire-")  # short: the name of a socket is limited to a hundred bytes
    listener.bind(f"{folder.name}/s")
    listener.listen()

    def serve() -> None:
        while True:
            try:
                there, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(there,), daemon=True).start()

    def echo(there: socket.socket) -> None:
        with there:
            while data := there.recv(100):
                heard.append(data)
                there.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    with wire_to(Path(folder.name) / "s") as found:
        yield found, heard
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    folder.cleanup()


def calling(wire: WireThread) -> socket.socket:
    """A connection that works."""
    there = socket.create_connection(("127.0.0.1", wire.wire.port), timeout=PATIENCE)
    there.sendall(b"hello")
    assert there.recv(100) == b"hello"
    return there


def test_a_cut_wire_resets_whoever_is_connected_and_lets_others_in(wire: tuple[WireThread, list[bytes]]) -> None:
    there = calling(wire[0])
    assert wire[0].do(wire[0].wire.cut) == 1

    with there, pytest.raises(ConnectionResetError):
        there.recv(100)
    calling(wire[0]).close()


def test_answers_that_are_swallowed_were_given(wire: tuple[WireThread, list[bytes]]) -> None:
    thread, heard = wire
    with calling(thread) as there:
        thread.do(thread.wire.deafen)
        there.sendall(b"commit")
        wait(lambda: b"commit" in heard, "the server hears it")
        thread.do(lambda: thread.wire.heal(cut=False))
        with pytest.raises(ConnectionResetError):
            there.recv(100)


def test_a_silent_wire_passes_on_what_it_kept(wire: tuple[WireThread, list[bytes]]) -> None:
    thread, heard = wire
    with calling(thread) as there:
        thread.do(thread.wire.silence)
        there.sendall(b"later")
        there.settimeout(SILENT)
        with pytest.raises(TimeoutError):
            there.recv(100)
        assert heard == [b"hello"]
        there.settimeout(PATIENCE)
        thread.do(lambda: thread.wire.heal(cut=False))
        assert there.recv(100) == b"later"


def test_who_is_refused_hears_it_and_may_come_again(wire: tuple[WireThread, list[bytes]]) -> None:
    thread, _ = wire
    thread.do(thread.wire.refuse)
    with socket.create_connection(("127.0.0.1", thread.wire.port), timeout=PATIENCE) as there:
        assert _is_over(there)
    thread.do(lambda: thread.wire.heal(cut=False))
    calling(thread).close()


def _is_over(there: socket.socket) -> bool:
    try:
        return there.recv(100) == b""
    except ConnectionResetError:
        return True


def test_the_sweep_keeps_what_a_job_stands_for_and_nothing_else(tmp_path: Path) -> None:
    orders = Orders(url="", folder=str(tmp_path), results=str(tmp_path))
    orders.write()
    for job, fence in ((1, 1), (2, 1), (2, 2), (3, 1), (4, 1), (5, 1)):
        publish(orders, job, fence, n=job)
    for name in ("1-1-ab", "2-2-ab", "2-1-ab"):
        (orders.drafts / name).touch()

    gone = sweep(
        orders,
        lambda: {
            1: Known(1_000_000_001, "done", "1-1.txt"),
            2: Known(2, "running"),
            3: Known(1, "failed"),
            4: Known(2, "ready"),
        },
    )

    assert gone == 6
    assert {file.name for file in orders.made.iterdir()} == {"1-1.txt", "2-2.txt"}
    assert {file.name for file in orders.drafts.iterdir()} == {"2-2-ab"}


def test_the_documentation_shows_one_column_for_each_database_and_a_dash_for_what_it_lacks(tmp_path: Path) -> None:
    outcomes = [Outcome(Plan(name, seconds=1, seed=7, folder=tmp_path)) for name in ("sqlite", "postgres")]
    outcomes[1].figures["crashes"] = 10

    lines = markdown(outcomes).splitlines()

    assert lines[0] == "| seed 7 | sqlite | postgres |"
    assert "| crashes | - | 10 |" in lines
    assert "| VIOLATIONS: lost | 0 | 0 |" in lines
