"""The pages about jobs list what the code has."""

from __future__ import annotations

import inspect

from tests.unit.core.test_codes import tables
from tidegate import Context, Queue
from tidegate.children import Limits
from tidegate.core.codes import CORE
from tidegate.core.job import Ending, JobState
from tidegate.face.job_function import JobFunction

PAGE = "reference/jobs.md"
RISKY = "how-to/run-risky-work-in-children.md"
BESIDE_ATTEMPTS = {"queued", "processing", "refused", "stale_result", "cancel_asked", "retried"}


def first_column(page: str, heading: str) -> list[str]:
    return [row[0] for row in tables(page)[heading]]


def test_every_setting_of_a_kind_is_listed_in_its_order() -> None:
    assert first_column(PAGE, "setting") == list(inspect.signature(Queue.job).parameters)[1:]


def test_every_argument_of_an_enqueue_is_listed() -> None:
    assert first_column(PAGE, "argument") == list(inspect.signature(JobFunction.enqueue).parameters)[1:]


def test_everything_a_handler_knows_is_listed() -> None:
    known = {f"job.{name}" for name in dir(Context) if not name.startswith("_")}

    assert set(first_column(PAGE, "name")) == known


def test_every_state_and_every_event_is_listed() -> None:
    assert first_column(PAGE, "state") == list(JobState)
    assert set(first_column(PAGE, "event")) == {*Ending, *BESIDE_ATTEMPTS}


def test_the_codes_of_jobs_are_in_the_book() -> None:
    assert set(first_column(PAGE, "code")) <= set(CORE)


def test_every_limit_of_a_child_is_listed() -> None:
    assert first_column(RISKY, "limit") == list(inspect.signature(Limits).parameters)
