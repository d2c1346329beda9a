"""Jobs as values: their states, the mask of a unique, and what they are as JSON."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tidegate.audit import Actor, Origin
from tidegate.jobs.job import Job, JobEvent, JobState, NewJob, StoredState, while_mask


@pytest.mark.parametrize("stage", StoredState)
def test_what_waits_for_anything_is_queued_and_every_other_stage_is_its_state(stage: StoredState) -> None:
    queued = stage in {"blocked", "waiting", "ready"}
    assert stage.state == ("queued" if queued else stage.value)


def test_a_job_is_over_when_it_is_done_failed_or_cancelled() -> None:
    assert [state.value for state in JobState if state.final] == ["done", "failed", "cancelled"]


def test_a_job_is_alone_when_it_can_have_no_twin_and_waits_for_nobody() -> None:
    for key, parents in ((None, ()), ("1", ()), (None, (7,)), ("1", (7,))):
        job = NewJob(queue="mail", kind="send", args="{}", unique_key=key, parents=parents)
        assert job.alone == (key is None and parents == ())


def test_the_mask_of_a_unique_has_one_bit_for_each_state() -> None:
    assert while_mask({"queued", "running"}) == 0b00011
    assert while_mask({"queued", "running", "failed"}) == 0b01011
    assert while_mask(set(JobState)) == 0b11111


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (
            {"queued", "gone"},
            r"^while_: \['gone', 'queued'\]",
        ),
        ({"queued"}, r"^while_: \['queued'\]"),
        ({"running", "done"}, r"^while_: \['done', 'running'\]"),
    ],
)
def test_a_unique_is_held_while_queued_and_running_at_least(states: set[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        while_mask(states)


def job(**given: object) -> Job:
    values = {field.name: None for field in fields(Job)} | {
        "stage": "ready",
        "args": "[1]",
        "saved": None,
        "result": None,
    }
    return Job(**(values | given))  # type: ignore[arg-type]


def test_what_a_job_keeps_as_json_is_read_and_what_it_has_not_stays_away() -> None:
    assert (job().read().args, job().read().saved, job().read().result) == ([1], None, None)
    read = job(args='{"a": 1}', saved="[2]", result='"x"').read()
    assert (read.args, read.saved, read.result) == ({"a": 1}, [2], "x")
    assert job(stage="waiting").state is JobState.QUEUED


def test_an_event_of_a_job_is_told_with_its_length_in_milliseconds() -> None:
    event = JobEvent("failed", 5.0, 2, 7, "timeout", 504, "Too late.", "anna", 1.2345)
    assert event.as_json() == {
        "kind": "failed", "at": 5.0, "attempt": 2, "fence": 7, "code": "timeout", "status": 504,
        "message": "Too late.", "actor": "anna", "duration_ms": 1234,
    }  # fmt: skip
    assert JobEvent("queued", 5.0, 0, 0).as_json()["duration_ms"] is None


def test_an_actor_is_its_name_and_knows_where_it_acts_and_why() -> None:
    made = Actor("anna", Origin.PAGE, "a new key")
    assert (made, made.origin, made.reason) == ("anna", Origin.PAGE, "a new key")
    assert Actor.of(made) is made
    plain = Actor.of("cron")
    assert (plain, plain.origin, plain.reason) == ("cron", Origin.PROGRAM, "")
    reasoned = made.because("an outage")
    assert (reasoned, reasoned.origin, reasoned.reason) == ("anna", Origin.PAGE, "an outage")
