"""Work in child processes: what strangers send must stop neither the worker nor its heartbeats."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.jobs import risky
from tests.jobs.risky import Page
from tidegate import children
from tidegate.children import ChildError, Children, Limits
from tidegate.children.pool import place_of
from tidegate.errors import Held
from tidegate.faults.codes import CORE
from tidegate.jobs.outcome import Again, Fail

PATIENT = Limits(time="120s")
PLACE = "tests.jobs.risky"


@pytest.fixture(scope="module")
def pool() -> Iterator[Children]:
    found = Children(2)
    yield found
    found.close()


@pytest.fixture
def own_pool() -> Iterator[Children]:
    found = Children(2, calls_each=3)
    yield found
    found.close()


def run(fn: Any, args: Any, pool: Children, limits: Limits = PATIENT) -> Any:
    return children.run_now(fn, args, limits, among=pool)


def code_of(fn: Any, args: Any, pool: Children, limits: Limits = PATIENT) -> str:
    with pytest.raises(ChildError) as caught:
        run(fn, args, pool, limits)
    return caught.value.code


def eventually(true: Callable[[], bool], within: float = 60.0) -> bool:
    end = time.monotonic() + within
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def gone(pid: int) -> bool:
    """Not there, or only in the books of whoever should have asked; a thread that still ends keeps its pipes open."""
    try:
        found = psutil.Process(pid)
        return found.status() == psutil.STATUS_ZOMBIE and found.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True


async def test_who_asks_children_that_were_ended_is_told_and_does_not_wait_for_ever() -> None:
    ended = Children(1)
    await children.run(risky.counted, Page("a"), PATIENT, among=ended)
    ended.close()

    with pytest.raises(ChildError) as caught:
        await asyncio.wait_for(children.run(risky.counted, Page("a"), PATIENT, among=ended), 20)
    assert caught.value.code == "cancelled"


# -- what goes in and out --------------------------------------------------------------------------------------------


def test_values_go_into_a_child_and_come_back_with_their_types(pool: Children) -> None:
    assert run(risky.counted, Page("a b a"), pool) == Page("A B A", date(2024, 2, 29), {"a": 2, "b": 1})


def test_a_function_is_found_by_its_place_without_importing_it_here(pool: Children) -> None:
    assert run(f"{PLACE}:counted", {"name": "a"}, pool) == {"name": "A", "day": "2024-02-29", "words": {"a": 1}}


def test_a_coroutine_function_runs_on_a_loop_of_the_childs_own(pool: Children) -> None:
    assert run(risky.counted_later, Page("x"), pool).name == "X"


async def test_a_child_is_asked_without_blocking_the_loop(pool: Children) -> None:
    found, ticks = asyncio.create_task(children.run(risky.counted, Page("x"), PATIENT, among=pool)), 0
    while not found.done():
        ticks += 1
        await asyncio.sleep(0)

    assert ticks > 1
    assert (await found).name == "X"


def test_arguments_that_do_not_fit_are_refused_before_a_child_is_asked(own_pool: Children) -> None:
    with pytest.raises(TypeError, match=r"'x' .*Page"):
        run(risky.counted, "x", own_pool)
    assert own_pool.pids == frozenset()


@pytest.mark.parametrize("fn", ["", "json", ":loads", "json:"])
def test_a_place_has_a_module_and_a_name(fn: str, pool: Children) -> None:
    with pytest.raises(ValueError, match=r"package\.module:function"):
        run(fn, None, pool)


@pytest.mark.parametrize(
    ("fn", "detail"),
    [
        ("no.such.module:f", "ModuleNotFoundError"),
        ("json:nothing", "AttributeError"),
        (risky.unsaid, "cannot be stored"),
    ],
)
def test_a_function_that_cannot_be_found_or_answered_says_so(fn: Any, detail: str, pool: Children) -> None:
    with pytest.raises(ChildError, match=detail) as caught:
        run(fn, None, pool)
    assert caught.value.code == "unexpected"


def test_an_answer_that_is_too_large_is_an_error_and_not_read(pool: Children) -> None:
    assert len(run(risky.much, 900_000, pool, Limits(answer_mb=1))) == 900_000
    with pytest.raises(ChildError, match="1048576"):
        run(risky.much, 1_100_000, pool, Limits(answer_mb=1))


# -- how a handler can end -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "code"),
    [("network", "network"), ("bug", "unexpected"), ("exit", "unexpected"), ("interrupt", "unexpected")],
)
def test_an_exception_in_a_child_is_classified_there(what: str, code: str, pool: Children) -> None:
    before = pool.pids

    assert code_of(risky.fails, what, pool) == code
    assert pool.pids == before or not before  # a handler that raises costs no child


def test_what_a_handler_says_by_raising_is_raised_here(pool: Children) -> None:
    with pytest.raises(Again) as again:
        run(risky.fails, "again", pool)
    with pytest.raises(Fail) as fail:
        run(risky.fails, "fail", pool)
    with pytest.raises(Held) as held:
        run(risky.fails, "held", pool)

    assert (again.value.delay, again.value.keep_attempt) == (300, True)
    for raised in (again, fail):
        assert raised.value.fault == CORE["overloaded"].fault("risky", status=503, detail="so it said")
    assert (fail.value.code, fail.value.message, fail.value.status) == ("NOT_PDF", "This is no PDF.", 415)
    assert (held.value.target, held.value.retry_after) == ("gateway", 12)


# -- deaths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "args", "detail"),
    [
        (risky.leave, 3, "status 3"),
        (risky.leave, 0, "status 0"),
        (risky.crash, None, "killed by SIGSEGV"),
        (risky.killed, None, "killed by SIGKILL"),
        (risky.babble, None, "invalid response"),
    ],
)
def test_a_child_that_dies_costs_its_own_call_and_no_other(fn: Any, args: Any, detail: str, pool: Children) -> None:
    with pytest.raises(ChildError, match=detail) as caught:
        run(fn, args, pool)

    assert caught.value.code == "child_died"
    assert run(risky.counted, Page("x"), pool).name == "X"


@pytest.mark.parametrize("fn", [risky.hoard, risky.hoard_at_once])
def test_a_memory_bomb_ends_in_its_own_code(fn: Any, own_pool: Children) -> None:
    before = run(risky.pid, None, own_pool)

    assert code_of(fn, None, own_pool, Limits(memory_mb=256)) == "child_memory"
    assert run(risky.pid, None, own_pool) != before  # what it left behind is not given to the next


@pytest.mark.full
def test_the_time_of_the_processor_is_bounded_for_each_call(own_pool: Children) -> None:
    with pytest.raises(ChildError, match="processor") as caught:
        run(risky.spin, None, own_pool, Limits(cpu=1, time=None))
    assert caught.value.code == "child_time"


def test_the_cpu_time_of_earlier_calls_does_not_count(own_pool: Children) -> None:
    pid = run(risky.burn, 1.2, own_pool)

    assert run(risky.burn, 0.3, own_pool, Limits(cpu=1)) == pid


def test_a_call_that_hangs_is_killed_with_all_that_it_started(own_pool: Children, tmp_path: Path) -> None:
    said = tmp_path / "pids"
    run(risky.pid, None, own_pool)  # starting a child takes time, too

    assert code_of(risky.hang, str(said), own_pool, Limits(time=4)) == "child_time"
    assert said.exists()
    for pid in said.read_text().split():
        assert eventually(lambda pid=pid: gone(int(pid)))  # type: ignore[misc]


async def test_cancelling_kills_the_child(own_pool: Children, tmp_path: Path) -> None:
    said = tmp_path / "pids"
    task = asyncio.create_task(children.run(risky.hang, str(said), PATIENT, among=own_pool))
    assert await asyncio.to_thread(eventually, lambda: said.exists() and len(said.read_text().split()) == 2)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for pid in said.read_text().split():
        assert eventually(lambda pid=pid: gone(int(pid)))  # type: ignore[misc]


# -- the processes themselves ----------------------------------------------------------------------------------------


def test_a_child_has_a_process_group_of_its_own_and_no_file_of_ours(own_pool: Children, tmp_path: Path) -> None:
    with (tmp_path / "ours").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)

        assert run(risky.group, None, own_pool)
        assert run(risky.open_files, None, own_pool) == ["pipe", "pipe"]


def test_a_handler_that_prints_or_reads_disturbs_nobody(pool: Children, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(risky.listening, None, pool) == ""
    assert "printed" not in capfd.readouterr().out


def test_a_child_is_used_again_and_replaced_after_so_many_calls(own_pool: Children) -> None:
    pids = [run(risky.pid, None, own_pool) for _ in range(6)]

    assert len(set(pids[:3])) == len(set(pids[3:])) == 1
    assert pids[0] != pids[3]


def test_children_that_nobody_needs_end_by_themselves() -> None:
    found = Children(2, idle=0.2)
    pid = run(risky.pid, None, found)

    assert eventually(lambda: gone(pid))
    assert eventually(lambda: found.pids == frozenset())
    assert run(risky.pid, None, found) != pid
    found.close()


def test_an_idle_child_that_was_killed_is_replaced_and_leaves_nothing_behind(own_pool: Children) -> None:
    first = run(risky.pid, None, own_pool)
    os.kill(first, signal.SIGKILL)
    assert eventually(lambda: gone(first))

    assert run(risky.pid, None, own_pool) != first
    with pytest.raises(ChildProcessError):
        os.waitpid(first, os.WNOHANG)  # its end was asked for


async def test_there_are_never_more_children_than_allowed(own_pool: Children) -> None:
    calls = [children.run(risky.pid, None, PATIENT, among=own_pool) for _ in range(5)]

    assert len(set(await asyncio.gather(*calls))) <= 3  # two at a time, each for three calls


def test_closing_ends_idle_and_busy_children(tmp_path: Path) -> None:
    found, said = Children(2), tmp_path / "pids"
    idle = run(risky.pid, None, found)
    hanging = ThreadPoolExecutor(1).submit(lambda: code_of(risky.hang, str(said), found))
    assert eventually(lambda: said.exists() and len(said.read_text().split()) == 2)

    found.close()
    assert hanging.result(60) == "child_died"
    for pid in (idle, *map(int, said.read_text().split())):
        assert eventually(lambda pid=pid: gone(pid))  # type: ignore[misc]
    with pytest.raises(ChildError, match="cancelled"):
        run(risky.pid, None, found)


def test_children_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    said = tmp_path / "pids"
    program = f"from tidegate import children; from {PLACE} import hang; children.run_now(hang, {str(said)!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    parent = subprocess.Popen([sys.executable, "-c", program], env=environment)
    assert eventually(lambda: said.exists() and len(said.read_text().split()) == 2)

    parent.kill()
    parent.wait()
    for pid in said.read_text().split():
        assert eventually(lambda pid=pid: gone(int(pid)))  # type: ignore[misc]


def test_a_child_starts_no_children(pool: Children) -> None:
    with pytest.raises(ChildError, match="child"):
        run(risky.more_children, None, pool)


# -- where a handler may stand ---------------------------------------------------------------------------------------


def test_only_a_function_that_can_be_imported_runs_in_a_child() -> None:
    def local(_: None) -> None: ...

    assert place_of(risky.counted) == f"{PLACE}:counted"
    for fn in (local, lambda _: None):
        with pytest.raises(ValueError, match="module"):
            place_of(fn)


SCRIPT = """
import os
from tidegate import children

def parent(_: None) -> int:
    return os.getppid()

{guard}
    assert children.run_now(parent, None) == os.getpid()
    print("well")
"""


def python(*command: str, stdin: str = "", folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    return subprocess.run(
        [sys.executable, *command],
        input=stdin, env=environment, cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("command", [["script.py"], ["-m", "script"]])
def test_a_handler_in_a_script_is_found_by_importing_the_script_again(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(guard="if __name__ == '__main__':"))

    assert python(*command, folder=tmp_path).stdout == "well\n"


def test_a_script_without_a_guard_is_told_so_instead_of_starting_children_for_ever(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(guard="if True:"))
    found = python("script.py", folder=tmp_path)

    assert found.returncode == 1
    assert "RuntimeError" in found.stderr


def test_a_handler_in_no_file_is_refused(tmp_path: Path) -> None:
    found = python("-", stdin=SCRIPT.format(guard="if True:"), folder=tmp_path)

    assert "ValueError: process: " in found.stderr


@pytest.mark.parametrize(
    ("limits", "field"),
    [({"memory_mb": 1}, "memory_mb"), ({"cpu": 0}, "cpu"), ({"time": "soon"}, "time"), ({"answer_mb": 0}, "answer_mb")],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Limits(**limits)
