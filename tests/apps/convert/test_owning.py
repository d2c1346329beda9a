"""Who gets what: downloads, retries, retention, and what nobody but the owner sees."""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from tests.apps.convert.buckets import URL, bucket
from tests.apps.convert.building import ELSEWHERE, XML, Place, code_of, pdf, type_of
from tests.apps.convert.building import place as made
from tests.databases import database
from tidegate.jobs import actions
from tidegate.store.base import Tx
from tidegate.testing import RecordedRequest, Status, Step
from tidegate_apps.convert import jobs
from tidegate_apps.convert.codes import LINES

DAY = 86400.0


@pytest.mark.req("CNV-05")
def test_a_download_is_not_ready_then_there_then_expired(each: Place) -> None:
    job = each.new(name="Überblick 2026.pdf")
    early = each.client.get(f"/api/jobs/{job}/download")
    assert code_of(early) == (409, "NOT_READY")
    assert early.json()["detail"] == LINES["NOT_READY"]
    assert early.headers["retry-after"] == "2"

    each.work()
    got = each.client.get(f"/api/jobs/{job}/download")
    assert (got.status_code, got.content, got.headers["content-type"]) == (200, XML, "application/xml")
    assert got.headers["content-length"] == str(len(XML))
    assert "filename*=UTF-8''%C3%9Cberblick%202026.xml" in got.headers["content-disposition"]
    assert each.get(job)["download_count"] == 1

    each.files("xml")[0].unlink()
    gone = each.client.get(f"/api/jobs/{job}/download")
    assert code_of(gone) == (404, "EXPIRED")
    assert gone.json()["detail"] == LINES["EXPIRED"]
    assert type_of(each.client.get(f"/api/jobs/{'0' * 32}/download")) == (404, "not_there")
    assert type_of(each.client.get("/api/jobs/0/download")) == (404, "not_there")


@pytest.mark.req("CNV-05")
def test_nobody_sees_fetches_or_retries_what_belongs_to_another_one(each: Place) -> None:
    each.gateway.on("POST /process", XML, Status(400))
    with each.another() as theirs:
        theirs.headers.update(ELSEWHERE)
        mine, failed = each.new(), each.new()
        each.work(concurrency=1)
        assert each.get(failed)["status"] == "failed"
        waiting = each.new()

        theirs.get("/convert")  # now it has a cookie of its own
        for job in (mine, failed, waiting):
            for call in (
                theirs.get(f"/api/jobs/{job}"), theirs.get(f"/api/jobs/{job}/download"),
                theirs.post(f"/api/jobs/{job}/retry"),
            ):  # fmt: skip
                assert code_of(call) == (403, "FORBIDDEN"), "the owner is asked for before the state"
                assert call.json()["detail"] == LINES["FORBIDDEN"]
            assert theirs.get(f"/convert/jobs/{job}").status_code == 403
        assert theirs.get("/api/jobs").json() == {**theirs.get("/api/jobs").json(), "jobs": [], "active_count": 0}
        page = theirs.get("/convert").text
        assert "a.pdf" not in page
        assert each.get(failed)["manual_retry_count"] == 0


@pytest.mark.req("CNV-05")
def test_a_visitor_is_the_same_one_at_the_next_request_and_no_other(place: Place) -> None:
    with place.another() as one, place.another() as two:
        for client in (one, two):
            client.headers.update(ELSEWHERE)
        content = pdf()
        made = one.post("/api/upload", files={"file": ("a.pdf", content)}).json()["id"]
        assert [job["id"] for job in one.get("/api/jobs").json()["jobs"]] == [made]
        assert two.get("/api/jobs").json()["jobs"] == []
        other = two.post("/api/upload", files={"file": ("a.pdf", content)}).json()["id"]
        assert other != made


@pytest.mark.req("CNV-05")
def test_two_browsers_at_the_machine_itself_are_two_owners(place: Place) -> None:
    job = place.new()
    place.work()
    with place.another() as theirs:
        assert code_of(theirs.get(f"/api/jobs/{job}/download")) == (403, "FORBIDDEN")
        assert theirs.get("/api/v1/jobs").status_code == 200, "it may see all jobs"
    assert place.client.get(f"/api/jobs/{job}/download").content == XML


@pytest.mark.req("CNV-09", "CNV-06")
def test_a_retry_starts_again_and_keeps_the_history(each: Place) -> None:
    each.gateway.on("POST /process", *[Status(500)] * 3, XML)
    job = each.new()
    assert type_of(each.client.post(f"/api/jobs/{job}/retry")) == (409, "refused")
    each.work(60)
    assert each.get(job)["status"] == "failed"

    answer = each.client.post(f"/api/jobs/{job}/retry")
    assert answer.status_code == 202
    queued = each.get(job)
    assert (queued["status"], queued["error_code"], queued["error_message"]) == ("queued", None, None)
    assert (queued["attempt_count"], queued["manual_retry_count"]) == (0, 1)
    each.work(10)
    done = each.get(job)
    assert (done["status"], done["attempt_count"]) == ("complete", 1)
    assert [event["event"] for event in done["events"]][-4:] == ["failed", "queued", "processing", "complete"]
    assert type_of(each.client.post(f"/api/jobs/{job}/retry")) == (409, "refused")


@pytest.mark.req("CNV-02", "CNV-09")
def test_what_was_no_pdf_is_retried_nowhere(each: Place) -> None:
    job = each.upload(b"no PDF").json()["job"]
    assert "/retry" not in each.client.get(f"/jobs/{each.number(job)}").text
    refused = each.client.post(f"/api/v1/jobs/{each.number(job)}/retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "refused")
    assert code_of(each.client.post(f"/api/jobs/{job}/retry")) == (404, "EXPIRED")
    assert not each.queue.retry(each.number(job))
    assert each.queue.retry_many(queue="convert").matched == 0
    each.work(1)
    assert (each.get(job)["status"], each.get(job)["error_code"]) == ("failed", "NOT_PDF")


@pytest.mark.req("CNV-01", "CNV-09")
def test_a_retry_beside_a_live_twin_names_the_twin(each: Place) -> None:
    each.gateway.on("POST /process", Status(400), XML)
    content = pdf()
    first = each.new(content)
    each.work(1)
    twin = each.new(content)
    for _ in range(2):  # while it waits, and when it is complete
        refused = each.client.post(f"/api/jobs/{first}/retry")
        assert type_of(refused) == (409, "unique_taken")
        assert refused.json()["job"] == twin
        each.work(1)


@pytest.mark.parametrize("step", [40 * DAY, -DAY])
def test_retention_spares_files_when_the_clock_steps(each: Place, step: float) -> None:
    each.gateway.on("POST /process", XML)
    done = each.new(pdf())
    each.work(1)
    each.clock.step_wall(step)
    storage = each.there.jobs.storage

    for minutes in (0, 20):  # before the new time is believed, and after
        each.work(60 * minutes)
        assert jobs.apply_retention(each.there, storage) == {"pdf": 0, "xml": 0, "jobs": 0}
        assert each.get(done)["links"]["download"] is not None


@pytest.mark.req("CNV-09", "CNV-16")
def test_a_retry_needs_the_pdf(place: Place) -> None:
    place.gateway.on("POST /process", Status(400))
    first, second = place.new(), place.new()
    place.work(1)
    place.files("pdf")[0].unlink()
    place.files("pdf")[0].unlink()
    for job in (first, second):
        assert code_of(place.client.post(f"/api/jobs/{job}/retry")) == (404, "EXPIRED")


@pytest.mark.req("CNV-16")
def test_retention_removes_pdf_and_xml_in_their_time_and_never_what_is_in_work(each: Place) -> None:
    each.gateway.on("POST /process", XML, Status(400), XML)
    content = pdf()
    done, failed = each.new(content), each.new()
    each.work(1, concurrency=1)
    each.clock.advance(6 * DAY)
    waiting = each.new()
    assert jobs.apply_retention(each.there, each.there.jobs.storage) == {"pdf": 0, "xml": 0, "jobs": 0}

    each.clock.advance(2 * DAY)
    assert jobs.apply_retention(each.there, each.there.jobs.storage)["pdf"] == 2
    assert each.get(done)["links"]["download"] is not None
    assert each.get(failed)["links"]["retry"] is None
    assert code_of(each.client.post(f"/api/jobs/{failed}/retry")) == (404, "EXPIRED")

    each.clock.advance(23 * DAY)
    assert jobs.apply_retention(each.there, each.there.jobs.storage) == {"pdf": 0, "xml": 1, "jobs": 0}
    assert each.files("xml") == []
    found = each.get(done)
    assert (found["status"], found["expired"], found["links"]["download"]) == ("complete", True, None)
    assert code_of(each.client.get(f"/api/jobs/{done}/download")) == (404, "EXPIRED")
    assert each.new(content) != done, "the same file may be uploaded again"

    assert each.get(waiting)["status"] == "queued"
    each.work(1)
    assert each.get(waiting)["status"] == "complete", "its PDF was 25 days old, and never removed"


@pytest.mark.req("CNV-09", "CNV-16")
def test_what_has_lost_its_pdf_to_retention_is_retried_nowhere_and_keeps_its_code(each: Place) -> None:
    each.gateway.on("POST /process", Status(400))
    job = each.new()
    each.work(1)
    assert "/retry" in each.client.get(f"/jobs/{each.number(job)}").text
    each.clock.advance(8 * DAY)
    jobs.apply_retention(each.there, each.there.jobs.storage)

    assert "/retry" not in each.client.get(f"/jobs/{each.number(job)}").text
    refused = each.client.post(f"/api/v1/jobs/{each.number(job)}/retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "refused")
    assert code_of(each.client.post(f"/api/jobs/{job}/retry")) == (404, "EXPIRED")
    assert not each.queue.retry(each.number(job))
    assert each.queue.retry_many(queue="convert").matched == 0
    each.work(1)
    assert (each.get(job)["status"], each.get(job)["error_code"]) == ("failed", "GW_4XX")


@pytest.mark.req("CNV-09", "CNV-16")
def test_a_retry_that_came_just_before_its_pdf_went_says_so(place: Place) -> None:
    place.gateway.on("POST /process", Status(400))
    job = place.new()
    place.work(1)
    assert place.there.db.all("source_gone", job=place.number(job))
    place.files("pdf")[0].unlink()
    assert place.queue.retry(place.number(job))
    place.work(1)
    found = place.get(job)
    assert (found["status"], found["error_code"], found["attempt_count"]) == ("failed", "EXPIRED", 1)
    assert found["error_message"] == LINES["EXPIRED"]
    assert found["links"]["retry"] is None


@pytest.mark.req("CNV-16")
def test_retention_waits_for_a_retry_that_is_not_committed_yet(tmp_path: Path) -> None:
    with database("postgres", tmp_path) as db, made(db, tmp_path) as place, ThreadPoolExecutor(2) as pool:
        place.gateway.on("POST /process", Status(400), XML)
        job = place.new()
        number = place.number(job)
        place.work(1)
        place.clock.advance(8 * DAY)
        under_way, release = threading.Event(), threading.Event()

        def retrying(tx: Tx) -> bool:
            done = actions.requeue_job(tx, number, "ada")
            under_way.set()
            assert release.wait(60)
            return done

        retry = pool.submit(place.queue.store.write, retrying)
        assert under_way.wait(60)
        removing = pool.submit(jobs.apply_retention, place.there, place.there.jobs.storage)
        wait([removing], 1.0)  # as it would be by now, if it did not wait
        release.set()
        assert retry.result(60)
        assert removing.result(60)["pdf"] == 0
        place.work(1)
        assert place.get(job)["status"] == "complete"


@pytest.mark.req("CNV-05")
@pytest.mark.parametrize("fails", ["to look", "to open"])
def test_a_storage_that_cannot_be_read_is_an_io_error_and_no_preview(place: Place, fails: str) -> None:
    place.gateway.on("POST /process", XML, Status(400))
    job, failed = place.new(), place.new()
    place.work(1, concurrency=1)
    broken = [place.folder / "xml", place.folder / "pdf"] if fails == "to look" else place.files("xml")
    for path in broken:
        away = path.rename(path.with_name("away-" + path.name))
        path.symlink_to(path.name if fails == "to look" else away)  # one goes round and round, one is not followed

    answer = place.client.get(f"/api/jobs/{job}/download")
    assert code_of(answer) == (500, "IO_ERROR")
    assert str(place.folder) not in answer.text
    page = place.client.get(f"/convert/jobs/{job}")
    assert (page.status_code, "&lt;document" in page.text) == (200, False)
    if fails == "to look":
        assert code_of(place.client.post(f"/api/jobs/{failed}/retry")) == (500, "IO_ERROR")

    for path in broken:
        path.unlink()
        path.with_name("away-" + path.name).rename(path)
    assert "&lt;document" in place.client.get(f"/convert/jobs/{job}").text
    assert place.get(job)["download_count"] == 0


@pytest.mark.req("CNV-05")
def test_a_file_that_goes_just_before_it_is_opened_is_expired_and_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        bucket(monkeypatch) as s3,
        database("sqlite-apsw", tmp_path) as db,
        made(db, tmp_path, storage=URL) as place,
    ):
        job = place.new()
        place.work(1)

        def seen_for_the_last_time(asked: RecordedRequest) -> Step:
            found = s3.answer(asked)
            if asked.path.endswith(".xml"):
                s3.kept.pop(asked.params["key"], None)
            return found

        s3.sim.on("HEAD /bucket/{key:path}", seen_for_the_last_time)
        assert code_of(place.client.get(f"/api/jobs/{job}/download")) == (404, "EXPIRED")
        asked = [each.method for each in s3.sim.asked() if each.path.endswith(".xml")]
        assert asked[-3:] == ["HEAD", "GET", "HEAD"], "it was there, then it was not, and that was made sure of"
        assert place.get(job)["download_count"] == 0


@pytest.mark.req("CNV-03", "CNV-05", "CNV-09")
def test_a_disk_that_is_not_mounted_has_lost_nothing(place: Place) -> None:
    place.gateway.on("POST /process", XML, Status(400))
    content = pdf()
    job, failed = place.new(content), place.new()
    place.work(1, concurrency=1)
    for kind in ("xml", "pdf"):
        (place.folder / kind).rename(place.folder / f"away-{kind}")
    assert code_of(place.client.get(f"/api/jobs/{job}/download")) == (500, "IO_ERROR")
    assert place.client.get(f"/convert/jobs/{job}").status_code == 200
    assert code_of(place.client.post(f"/api/jobs/{failed}/retry")) == (500, "IO_ERROR")
    assert code_of(place.upload(content)) == (500, "IO_ERROR")
    for kind in ("xml", "pdf"):
        shutil.rmtree(place.folder / kind, ignore_errors=True)
        (place.folder / f"away-{kind}").rename(place.folder / kind)
    assert place.get(job)["expired"] is False
    assert place.client.get(f"/api/jobs/{job}/download").content == XML
    assert place.client.post(f"/api/jobs/{failed}/retry").status_code == 202


def test_a_number_that_is_too_long_is_nobodys_job(place: Place) -> None:
    assert place.client.get("/api/jobs", params={"cursor": "9" * 31}).status_code == 400
    assert place.client.get("/api/jobs", params={"cursor": "9" * 65}).status_code == 422
    for digits in (19, 30, 5000):
        assert place.client.get(f"/convert/jobs/{'9' * digits}").status_code == 404, digits
        assert place.client.get("/convert", params={"before": "9" * digits}).status_code == 200, digits
        assert place.client.get(f"/api/jobs/{'9' * digits}").status_code in (404, 422), digits


def test_short_xml_is_shown_whole_and_says_so(place: Place) -> None:
    place.gateway.on("POST /process", "<a>äöü</a>".encode(), b"<a>" + b"<b/>\n" * 5000 + b"</a>")
    short, long = place.new(), place.new()
    place.work(1, concurrency=1)
    page = place.client.get(f"/convert/jobs/{short}").text
    assert "The beginning" not in page
    assert "äöü" in page
    assert "The beginning" in place.client.get(f"/convert/jobs/{long}").text


@pytest.mark.req("CNV-16")
def test_files_that_no_job_knows_are_swept_and_no_others(each: Place) -> None:
    job = each.new()
    each.work(1)
    waiting = each.new()
    (each.folder / "drafts").mkdir(exist_ok=True)
    (each.folder / "other").mkdir()
    orphans = ["pdf/" + "0" * 32 + ".pdf", "xml/" + "1" * 32 + ".xml", "drafts/tmp123"]
    for name in (*orphans, "other/keep.txt"):
        (each.folder / name).write_text("x")
    now = each.clock.now()
    for path in each.folder.glob("*/*"):
        os.utime(path, (now - 3000, now - 3000))
    assert jobs.sweep_storage(each.there, each.there.jobs.storage)["removed"] == 0, "an upload may be about to name it"
    for path in each.folder.glob("*/*"):
        os.utime(path, (now - 4000, now - 4000))
    assert jobs.sweep_storage(each.there, each.there.jobs.storage)["removed"] == 3
    assert (each.folder / "other/keep.txt").exists()
    assert each.client.get(f"/api/jobs/{job}/download").status_code == 200
    each.work(1)
    assert each.get(waiting)["status"] == "complete"


@pytest.mark.req("CNV-16")
def test_both_are_on_a_schedule(place: Place) -> None:
    names = {schedule.name for schedule in place.queue._schedules.values()}  # noqa: SLF001 - what is declared
    assert (len(names), {name.partition(": ")[0] for name in names}) == (2, {"convert"})
    assert place.there.jobs.retention.enqueue().created
    assert place.there.jobs.sweep.enqueue().created
    drained = place.clock.run(place.queue.adrain("convert-upkeep"))
    assert (drained.done, drained.failed) == (2, 0)


@pytest.mark.req("CNV-10")
def test_the_lines_are_those_that_were_given() -> None:
    assert LINES == {
        "NOT_PDF": "Only PDF files are supported.",
        "TOO_LARGE": "File exceeds 50 MB limit.",
        "GW_4XX": "Couldn’t convert this file with the selected mapping.",  # noqa: RUF001
        "GW_5XX": "Converter service is having an issue. We’ll retry shortly.",  # noqa: RUF001
        "GW_TIMEOUT": "Conversion is taking too long. We’ll retry.",  # noqa: RUF001
        "IO_ERROR": "Temporary storage issue. We’ll retry.",  # noqa: RUF001
        "NOT_READY": "Conversion not finished yet.",
        "EXPIRED": "File was removed by retention. Re-upload to regenerate.",
        "FORBIDDEN": "This file isn’t yours.",  # noqa: RUF001
        "UNKNOWN": "Something went wrong on our side.",
    }
