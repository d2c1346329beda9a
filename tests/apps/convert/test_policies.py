"""What each answer of the gateway means, how often it is tried again and when, on virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.apps.convert.building import XML, Place
from tests.apps.convert.building import place as made
from tests.databases import database
from tests.jobs.gating import breaker_of
from tests.text import numbers
from tidegate import classify
from tidegate.targets import table
from tidegate.testing import Hang, Status, Step
from tidegate_apps.convert.codes import LINES, PACK, BadAnswer, Unforeseen
from tidegate_apps.convert.jobs import ConvertJob
from tidegate_apps.convert.storage import StorageError

TARGET = "convert-gateway"


def times(place: Place, job: str, event: str = "processing") -> list[int]:
    """When the attempts of a job began, in seconds after the first one."""
    at = [each["at"] for each in place.get(job)["events"] if each["event"] == event]
    return [round(each - at[0]) for each in at]


def answered(status: int) -> httpx2.HTTPStatusError:
    request = httpx2.Request("POST", "http://gateway/process")
    return httpx2.HTTPStatusError("x", request=request, response=httpx2.Response(status, request=request))


@pytest.mark.req("CNV-01", "CNV-04")
@pytest.mark.parametrize(
    ("seen", "code", "retriable"),
    [
        *((answered(status), "GW_4XX", False) for status in (400, 406, 413, 415, 422, 409)),
        *((answered(status), "gateway_refused", False) for status in (401, 403, 404, 405, 302)),
        *((answered(status), "GW_5XX", True) for status in (408, 429, 500, 502, 503, 504, 599)),
        (httpx2.ConnectError("refused"), "GW_5XX", True),
        (httpx2.ReadError("reset"), "GW_5XX", True),
        (httpx2.RemoteProtocolError("cut"), "GW_5XX", True),
        (httpx2.ReadTimeout("slow"), "GW_TIMEOUT", True),
        (httpx2.WriteTimeout("slow"), "GW_TIMEOUT", True),
        (BadAnswer("empty"), "GW_5XX", True),
        (StorageError("EIO"), "IO_ERROR", True),
        (Unforeseen("a bug"), "UNKNOWN", True),
    ],
    ids=lambda value: f"{value!r:.40}" if isinstance(value, Exception) else None,
)
def test_what_each_answer_means(seen: Exception, code: str, retriable: bool) -> None:
    fault = classify(seen, PACK)
    assert fault is not None
    assert (fault.code, fault.retriable) == (code, retriable)
    if code in ("IO_ERROR", "UNKNOWN", "gateway_refused"):
        assert fault.counts_as_failure is None, "the breaker counts GW_5XX and GW_TIMEOUT alone"
    else:
        assert fault.counts_as_failure is (code != "GW_4XX")


@pytest.mark.req("CNV-04")
def test_a_refused_file_fails_for_good_and_the_gateway_is_well(place: Place) -> None:
    statuses = [400, 406, 413, 415, 422, 409]
    place.gateway.on("POST /process", *map(Status, statuses), XML)
    jobs = [place.new() for _ in statuses]
    last = place.new()
    place.work(1, concurrency=1)

    for job, status in zip(map(place.get, jobs), statuses, strict=True):
        assert (job["status"], job["error_code"], job["attempt_count"]) == ("failed", "GW_4XX", 1)
        assert job["error_message"].startswith(LINES["GW_4XX"])
        assert job["events"][-1]["meta"]["gateway_http_status"] == status
    assert place.get(last)["status"] == "complete"
    assert breaker_of(place.queue, TARGET) == "closed"


@pytest.mark.req("CNV-04", "CNV-10")
def test_the_gateway_adds_to_the_line_only_what_is_on_our_list(place: Place) -> None:
    answers = [
        (Step(400, {"code": "unknown_mapping", "detail": "/etc/passwd"}), "Unsupported mapping."),
        (Step(422, {"code": "encrypted"}), "The document is locked with a password."),
        (Step(413, "what a large file"), "The converter does not take files of this size."),
        (Step(413, {"code": "too_large", "most_bytes": 2_097_152}), "File exceeds 2 MB limit."),
        (Step(413, {"code": "too_large", "most_bytes": "/etc"}), "The converter does not take files of this size."),
        (Step(400, {"code": "<script>", "detail": "Traceback at /srv/secret"}), ""),
        (Step(400, "Traceback (most recent call last): /srv/secret"), ""),
    ]
    place.gateway.on("POST /process", *(step for step, _ in answers))
    jobs = [place.new() for _ in answers]
    place.work(1, concurrency=1)
    for job, (_, more) in zip(jobs, answers, strict=True):
        told = place.get(job)["error_message"]
        assert told == f"{LINES['GW_4XX']} {more}".strip()


@pytest.mark.req("CNV-04")
def test_a_gateway_that_does_not_know_us_fails_one_job_and_holds_the_others_for_a_person(each: Place) -> None:
    each.gateway.on("POST /process", Status(401))
    first, second = each.new(), each.new()
    each.work(600, concurrency=1)
    each.clock.advance(86400)  # however long that takes
    each.work(10, concurrency=1)

    assert (each.get(first)["status"], each.get(first)["error_code"]) == ("failed", "GW_4XX")
    assert (each.get(second)["status"], each.get(second)["attempt_count"]) == ("queued", 0)
    assert each.calls() == 1
    notices = each.client.get("/api/v1/notices").json()["items"]
    assert [notice["name"] for notice in notices] == [TARGET]

    each.gateway.on("POST /process", XML)
    assert each.queue.target(TARGET).key("").clear()
    each.work(10)
    assert each.get(second)["status"] == "complete"


@pytest.mark.req("CNV-04", "CNV-06")
@pytest.mark.parametrize(
    ("answer", "code", "status"),
    [
        (Status(500), "GW_5XX", 500),
        (Hang(), "GW_TIMEOUT", None),
    ],
    ids=["500", "hang"],
)
def test_trouble_of_the_gateway_is_tried_three_times_and_then_given_up(
    tmp_path: Path, answer: Any, code: str, status: int | None
) -> None:
    patience = 0.3 if code == "GW_TIMEOUT" else 60
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path, gateway_timeout=patience) as place:
        place.gateway.on("POST /process", answer)
        job = place.new()

        place.work(3)
        waiting = place.get(job)
        assert (waiting["status"], waiting["attempt_count"], waiting["error_code"]) == ("queued", 1, None)
        assert (waiting["last_fault_code"], waiting["last_fault_status"]) == (code, status)
        assert waiting["message"].endswith(("We’ll retry.", "We’ll retry shortly."))  # noqa: RUF001
        assert waiting["retry_at"] is not None

        place.work(100)
        failed = place.get(job)
        assert (failed["status"], failed["error_code"], failed["attempt_count"]) == ("failed", code, 3)
        assert numbers(failed["error_message"]) == [3]
        assert "retry" not in failed["error_message"]
        assert times(place, job) == [0, 5, 20], "5 s, then 15 s"
        assert [event["event"] for event in failed["events"]] == [
            "queued", "processing", "retry", "processing", "retry", "processing", "failed",
        ]  # fmt: skip
        assert failed["failed_at"] is not None
        assert place.client.post(f"/api/jobs/{job}/retry").status_code == 202


@pytest.mark.req("CNV-06")
def test_the_fourth_attempt_would_come_after_45_seconds_and_waits_vary_by_a_fifth(tmp_path: Path) -> None:
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path, attempts=5, gateway_timeout=0.3) as place:
        place.gateway.on("POST /process", Hang())
        job = place.new()
        place.work(300)
        assert times(place, job) == [0, 5, 20, 65, 110]
        backoff = place.there.jobs.convert.kind.policy.backoff
        assert [backoff.delay(n, 0.0) for n in range(4)] == pytest.approx([4, 12, 36, 36])
        assert [backoff.delay(n, 1.0) for n in range(4)] == pytest.approx([6, 18, 54, 54])


@pytest.mark.req("CNV-04")
def test_the_time_that_the_gateway_asks_for_is_waited(place: Place) -> None:
    place.gateway.on("POST /process", Status(429, retry_after="120s"), XML)
    job = place.new()
    place.work(100)
    assert place.get(job)["status"] == "queued"
    place.work(60)
    assert place.get(job)["status"] == "complete"
    assert times(place, job)[1] >= 120


@pytest.mark.req("CNV-04")
def test_an_answer_that_is_no_xml_is_tried_once_more(place: Place) -> None:
    bodies = [
        b"", b"no xml at all", b"<a><b></a>", b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
        b"<?xml version='1.0' encoding='x-mine'?><a/>", b"<?xml version='1.0' encoding='utf-32'?><a/>",
    ]  # fmt: skip
    place.gateway.on("POST /process", *(Step(200, body) for body in bodies * 2))
    jobs = [place.new() for _ in bodies]
    place.work(100, concurrency=1)
    for found in map(place.get, jobs):
        assert (found["status"], found["error_code"], found["attempt_count"]) == ("failed", "GW_5XX", 2)
        assert numbers(found["error_message"]) == [2]
    assert (place.files("xml"), place.files("drafts")) == ([], [])


@pytest.mark.req("CNV-04")
def test_a_result_that_cannot_be_written_is_tried_once_more(place: Place) -> None:
    job = place.new()
    (place.folder / "xml").symlink_to("nowhere")
    place.work(100)
    found = place.get(job)
    assert (found["status"], found["error_code"], found["attempt_count"]) == ("failed", "IO_ERROR", 2)
    assert found["error_message"].startswith("Temporary storage issue. ")
    assert numbers(found["error_message"]) == [2]
    assert place.calls() == 2
    assert breaker_of(place.queue, TARGET) == "closed"


@pytest.mark.req("CNV-04")
def test_a_pdf_that_is_missing_while_its_job_waits_is_an_io_error_and_not_called_old(place: Place) -> None:
    job = place.new()
    pdfs = place.folder / "pdf"
    pdfs.rename(place.folder / "away")  # a disk that is not there yet
    place.work(3)
    waiting = place.get(job)
    assert (waiting["status"], waiting["last_fault_code"]) == ("queued", "IO_ERROR")
    (place.folder / "away").rename(pdfs)
    place.work(60)
    assert (place.get(job)["status"], place.get(job)["attempt_count"]) == ("complete", 2)


@pytest.mark.req("CNV-04")
def test_a_full_disk_holds_the_queue_and_spends_no_attempt(small_disk: Path, tmp_path: Path) -> None:
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path, storage=str(small_disk)) as place:
        jobs = [place.new() for _ in range(3)]
        ballast = small_disk / "ballast"
        with pytest.raises(OSError, match="No space left"):
            ballast.write_bytes(b"x" * 300_000)
        place.work(150, concurrency=1)
        assert [place.get(job)["status"] for job in jobs] == ["queued"] * 3
        assert [place.get(job)["attempt_count"] for job in jobs] == [0] * 3
        assert 0 < place.calls() <= 3, "once a minute, by one of them"
        ballast.unlink()
        place.work(200)
        assert [place.get(job)["status"] for job in jobs] == ["complete"] * 3


@pytest.mark.req("CNV-04")
def test_what_nobody_expected_is_unknown_and_tried_once_more(place: Place) -> None:
    order = ConvertJob("no\0name", "text", "0" * 64, 7, "ada")  # the system cannot even ask for a file of that name
    job = place.there.jobs.convert.enqueue(order).id
    place.work(100)
    found = place.queue.row(job)
    assert (found.state, found.error_code, found.attempt) == ("failed", "UNKNOWN", 2)
    assert found.error_message == LINES["UNKNOWN"]
    row = place.queue.store.read(lambda tx: table.target(tx, TARGET))
    assert row is None or row.breaker.totals == (0, 0, 0), "it says nothing about the gateway"


@pytest.mark.req("CNV-08")
def test_after_a_failure_the_probe_is_asked_and_an_ill_gateway_holds_even_the_first_job(each: Place) -> None:
    each.gateway.outage("10h down")
    first, second = each.new(), each.new()
    each.work(300, concurrency=1)

    assert breaker_of(each.queue, TARGET) == "open"
    assert [each.get(job)["status"] for job in (first, second)] == ["queued", "queued"]
    assert each.get(first)["attempt_count"] == 1
    assert each.get(second)["attempt_count"] == 0, "a shut gate burns no attempt"
    assert "Gateway busy, paused. Will retry automatically." in each.client.get("/convert").text

    each.gateway.outage(None)
    each.work(60)
    assert [each.get(job)["status"] for job in (first, second)] == ["complete", "complete"]
    assert "Gateway busy" not in each.client.get("/convert").text


@pytest.mark.req("CNV-08")
def test_a_timeout_with_a_healthy_probe_opens_only_after_enough_of_them(tmp_path: Path) -> None:
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path, gateway_timeout=0.2) as place:
        place.gateway.on("POST /process", Hang())
        for _ in range(4):
            place.new()
        place.work(4, concurrency=1)
        assert breaker_of(place.queue, TARGET) == "closed"
        place.new()
        place.work(2, concurrency=1)
        assert breaker_of(place.queue, TARGET) == "open", "five in a row"


@pytest.mark.req("CNV-08")
def test_half_of_six_calls_in_the_window_open_it(place: Place) -> None:
    answers = [XML, Status(500), XML, Status(500), XML, Status(500), XML]
    place.gateway.on("POST /process", *answers)
    for _ in range(3):
        place.new()
    rules = place.there.jobs.convert._queue._targets[TARGET].breaker  # noqa: SLF001 - the numbers themselves
    assert (rules.min_requests, rules.failure_ratio, rules.consecutive, rules.window) == (6, 0.5, 5, 180.0)
    assert rules.max_requests == 3
    for _ in range(3):
        place.new()
    place.work(3, concurrency=1)
    assert place.calls() == 6
    assert breaker_of(place.queue, TARGET) == "open"


@pytest.mark.req("CNV-08", "CNV-11")
def test_fail_fast_fails_new_jobs_while_the_gateway_is_ill(tmp_path: Path) -> None:
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path, breaker="fail-fast") as place:
        place.gateway.outage("10h down")
        place.new()
        place.work(3)
        assert breaker_of(place.queue, TARGET) == "open"
        late = place.new()
        place.work(3)
        found = place.get(late)
        assert (found["status"], found["error_code"], found["attempt_count"]) == ("failed", "GW_5XX", 0)
        assert found["error_message"].startswith(LINES["GW_5XX"].partition(". ")[0])
        assert "retry" not in found["error_message"]
        assert [event["event"] for event in found["events"]] == ["queued", "failed"]
        shown = place.client.get("/convert").text
        assert 'id="gateway"' in shown
        assert "Will retry automatically" not in shown, "nothing does"

        place.gateway.outage(None)
        place.work(30)
        assert place.client.post(f"/api/jobs/{late}/retry").status_code == 202
        place.work(30)
        assert place.get(late)["status"] == "complete"


@pytest.mark.req("CNV-04")
def test_once_more_is_counted_from_the_first_fault_of_that_code(place: Place) -> None:
    place.gateway.on("POST /process", Status(500), XML)
    job = place.new()
    (place.folder / "xml").write_text("in the way")
    place.work(12)
    waiting = place.get(job)
    assert (waiting["status"], waiting["attempt_count"], waiting["last_fault_code"]) == ("queued", 2, "IO_ERROR")
    (place.folder / "xml").unlink()
    place.work(60)
    assert (place.get(job)["status"], place.get(job)["attempt_count"]) == ("complete", 3)


@pytest.mark.req("CNV-04", "CNV-09")
def test_a_retry_by_a_person_begins_the_count_anew(place: Place) -> None:
    job = place.new()
    (place.folder / "xml").write_text("in the way")
    for _ in range(2):
        place.work(100)
        assert (place.get(job)["status"], place.get(job)["attempt_count"]) == ("failed", 2)
        assert place.client.post(f"/api/jobs/{job}/retry").status_code == 202


@pytest.mark.req("CNV-04", "CNV-13")
def test_a_result_that_cannot_be_looked_for_is_an_io_error_once_more(place: Place) -> None:
    job = place.new()
    xml = place.folder / "xml"
    xml.symlink_to("nowhere")
    place.work(3)
    assert place.get(job)["last_fault_code"] == "IO_ERROR", "the hash is kept, and the file has no name"
    xml.unlink()
    xml.symlink_to("xml")  # whoever follows it goes round and round
    place.work(60)
    found = place.get(job)
    assert (found["status"], found["error_code"], found["attempt_count"]) == ("failed", "IO_ERROR", 2)
    assert place.calls() == 1, "nobody is asked for what may be there"
