"""The pages about jobs list what the code has."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from tests.unit.faults.test_codes import tables
from tidegate import Again, Context, Done, Fail, Queue, errors
from tidegate.children import Limits
from tidegate.faults.codes import CORE
from tidegate.jobs import actions as job_actions
from tidegate.jobs import explain
from tidegate.jobs.bulk import table
from tidegate.jobs.function import JobFunction
from tidegate.jobs.job import JobState, OutcomeKind
from tidegate.jobs.queue_admin import QueueAdmin
from tidegate.jobs.worker import WorkerPolicy
from tidegate.serialization.arguments import OPTIONS
from tidegate.targets import actions

PAGE = "reference/jobs.md"
RISKY = "how-to/run-jobs-in-child-processes.md"
BESIDE_ATTEMPTS = {"queued", "processing", "refused", "stale_result", "cancel_asked", "retried"} | {
    "barred",
    "brought_forward",
    "restored",
}


def first_column(page: str, heading: str) -> list[str]:
    return [row[0] for row in tables(page)[heading]]


def test_every_setting_of_a_kind_is_listed_in_its_order() -> None:
    known = inspect.signature(Queue.job).parameters.values()
    settings = [each.name for each in known if each.kind is each.KEYWORD_ONLY]

    assert first_column(PAGE, "setting") == settings


def test_every_option_of_a_job_is_listed_in_its_order() -> None:
    options = list(inspect.signature(JobFunction.options).parameters)[1:]

    assert first_column(PAGE, "option of a job") == options
    assert set(options) == OPTIONS


def test_everything_a_handler_knows_is_listed() -> None:
    known = {f"job.{name}" for name in dir(Context) if not name.startswith("_")}

    assert set(first_column(PAGE, "name")) == known


def test_every_state_and_every_event_is_listed() -> None:
    assert first_column(PAGE, "state") == list(JobState)
    assert set(first_column(PAGE, "event")) == {*OutcomeKind, *BESIDE_ATTEMPTS}


def test_the_codes_of_jobs_are_in_the_book() -> None:
    assert set(first_column(PAGE, "code")) <= set(CORE)


def test_every_option_of_a_queue_is_listed_in_its_order() -> None:
    assert first_column(PAGE, "option") == list(inspect.signature(Queue).parameters)


def test_every_number_of_a_worker_is_listed_with_its_default() -> None:
    listed = {row[0]: float(row[1]) for row in tables(PAGE)["number"]}

    assert listed == {each.name: each.default for each in fields(WorkerPolicy) if each.name != "retention"}


@pytest.mark.parametrize("kind", [Again, Done, Fail])
def test_everything_a_handler_can_say_at_its_end_is_listed(kind: type) -> None:
    listed = {cell.split("`")[1] for cell in first_column(PAGE, "it") if "`" in cell}

    assert f"{kind.__name__}({', '.join(inspect.signature(kind).parameters)})" in listed


def test_every_way_to_put_in_is_named() -> None:
    ways = {name for name, _ in inspect.getmembers(JobFunction, inspect.isfunction) if not name.startswith("_")}
    text = (Path(__file__).parents[3] / "docs" / PAGE).read_text()

    assert {way for way in ways if f"{way}(" not in text and f"`{way}`" not in text} == {
        "new_job",  # for transactions of Tidegate itself
        "scheduled",  # q.schedule's
    }


def test_every_action_of_people_is_listed() -> None:
    listed = {name for cell in first_column(PAGE, "action") for name in re.findall(r"q\.(\w+)", cell)}
    acting = {name for name, each in vars(QueueAdmin).items() if "by" in getattr(each, "__annotations__", {})}

    assert listed == acting | {"target"}


def test_what_people_do_is_recorded_under_names_that_are_listed() -> None:
    source = "".join(map(inspect.getsource, (actions, job_actions, table, explain)))
    recorded = re.findall(r'"((?:queue|jobs?|breaker|target)_(?:\w+ed|forgotten|reset))"', source)

    listed = [{row[0] for row in rows} for rows in tables(PAGE).values() if any(row[0] in recorded for row in rows)]
    assert set(recorded) in listed


def test_every_error_is_listed() -> None:
    raised = [
        name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, errors.TidegateError)
    ]
    listed = first_column(PAGE, "raised")

    assert ["TidegateError", *listed] == raised


def test_every_limit_of_a_child_is_listed() -> None:
    assert first_column(RISKY, "limit") == list(inspect.signature(Limits).parameters)
