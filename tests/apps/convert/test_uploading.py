"""What may be uploaded, what is refused with which code, and what two uploads of the same are."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from tests.apps.convert.buckets import URL, bucket
from tests.apps.convert.building import ELSEWHERE, Place, code_of, pdf
from tests.apps.convert.building import place as made
from tests.databases import database
from tidegate.accounts.access import LOCAL
from tidegate.testing import Status
from tidegate.web import Problem
from tidegate.web.auth import WHO
from tidegate_apps.convert.codes import LINES, TEN
from tidegate_apps.convert.models import File, file_of
from tidegate_apps.convert.service import Uploads


@pytest.mark.req("CNV-01")
def test_the_codes_are_these_ten() -> None:
    assert [code.name for code in TEN] == [
        "NOT_PDF", "TOO_LARGE", "GW_4XX", "GW_5XX", "GW_TIMEOUT", "IO_ERROR", "NOT_READY", "EXPIRED", "FORBIDDEN",
        "UNKNOWN",
    ]  # fmt: skip


@pytest.mark.req("CNV-01", "CNV-02")
def test_what_is_no_pdf_is_refused_and_leaves_a_failed_job_without_a_retry(each: Place) -> None:
    answer = each.upload(b"PK\x03\x04 a zip that is called a.pdf")

    assert code_of(answer) == (400, "NOT_PDF")
    job = each.get(answer.json()["job"])
    assert (job["status"], job["error_code"]) == ("failed", "NOT_PDF")
    assert job["error_message"] == LINES["NOT_PDF"]
    assert job["links"]["retry"] is None
    assert code_of(each.client.post(f"/api/jobs/{job['id']}/retry")) == (404, "EXPIRED")
    assert [event["event"] for event in job["events"]] == ["failed"]
    assert (each.files("pdf"), each.files("drafts"), each.calls()) == ([], [], 0)


@pytest.mark.req("CNV-02")
@pytest.mark.parametrize("content", [b"", b"%PD", b"%pdf-1.7", b" %PDF-1.7", b"\xef\xbb\xbf%PDF-1.7"])
def test_the_first_bytes_decide_what_is_a_pdf(place: Place, content: bytes) -> None:
    assert code_of(place.upload(content)) == (400, "NOT_PDF")


@pytest.mark.req("CNV-02")
@pytest.mark.parametrize("how", ["told", "chunked"])
def test_a_file_over_the_limit_is_refused_while_it_comes_and_leaves_no_job(tmp_path: Path, how: str) -> None:
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path, most_bytes=300_000) as place:
        head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n%PDF-'
        sent = 0

        def pieces() -> Any:
            nonlocal sent
            yield head
            for _ in range(100):
                sent += 65536
                yield b"x" * 65536
            yield b"\r\n--b--\r\n"

        kind = {"Content-Type": "multipart/form-data; boundary=b"}
        if how == "told":
            answer = place.upload(pdf(size=400_000))
        else:
            answer = place.client.post("/api/upload", content=pieces(), headers=kind)

        assert code_of(answer) == (413, "TOO_LARGE")
        assert answer.json()["most_bytes"] == 300_000
        assert "300,000 bytes" in answer.json()["detail"]
        assert answer.headers["connection"] == "close"
        assert place.client.get("/api/jobs").json()["jobs"] == []
        assert (place.files("pdf"), place.files("drafts")) == ([], [])
        assert place.upload(pdf(size=300_000)).status_code == 202
        assert code_of(place.upload(pdf(size=300_001))) == (413, "TOO_LARGE")


@pytest.mark.req("CNV-02")
def test_the_usual_limit_is_50_megabytes_and_says_so(place: Place) -> None:
    answer = place.client.post("/api/upload", headers={"Content-Length": str(52_428_800 + 70_000)})
    assert code_of(answer) == (413, "TOO_LARGE")
    assert answer.json()["detail"] == LINES["TOO_LARGE"]


@pytest.mark.req("CNV-02")
@pytest.mark.parametrize("mapping", ["Text", "a b", "../text", "x" * 65, "täxt", "text;"])
def test_a_mapping_that_cannot_be_one_is_refused_before_anything_is_stored(place: Place, mapping: str) -> None:
    answer = place.upload(mapping=mapping)
    assert (answer.status_code, answer.json()["code"]) == (400, None), "it is none of the ten"
    assert answer.json()["type"].endswith("/malformed")
    assert answer.json()["field"] == "mapping"
    assert place.client.get("/api/jobs").json()["jobs"] == []
    assert (place.files("pdf"), place.files("drafts")) == ([], [])


@pytest.mark.req("CNV-02")
def test_a_disk_that_cannot_be_written_is_an_io_error_and_a_failed_job(place: Place) -> None:
    (place.folder).mkdir()
    (place.folder / "drafts").write_text("in the way")

    answer = place.upload()

    assert code_of(answer) == (500, "IO_ERROR")
    assert "retry" not in answer.json()["title"], "nobody will"
    job = place.get(answer.json()["job"])
    assert (job["status"], job["error_code"]) == ("failed", "IO_ERROR")
    assert str(place.folder) not in answer.text + json.dumps(job)

    (place.folder / "drafts").unlink()
    assert place.upload().status_code == 202, "nobody need start it anew"


@pytest.mark.req("CNV-02")
def test_a_disk_that_fills_up_while_a_file_comes_in_leaves_a_job_of_that_name(small_disk: Path, tmp_path: Path) -> None:
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path, storage=str(small_disk)) as place:
        answer = place.upload(pdf(size=600_000), name="mine.pdf")
        assert code_of(answer) == (500, "IO_ERROR")
        assert place.get(answer.json()["job"])["original_filename"] == "mine.pdf"
        assert list((small_disk / "drafts").iterdir()) == []


@pytest.mark.req("CNV-02")
def test_a_disk_that_fails_at_the_last_step_is_an_io_error_too(place: Place) -> None:
    (place.folder).mkdir()
    (place.folder / "pdf").write_text("in the way")

    answer = place.upload(name="mine.pdf")

    assert code_of(answer) == (500, "IO_ERROR")
    assert place.get(answer.json()["job"])["original_filename"] == "mine.pdf"
    assert place.files("drafts") == []
    stored = place.queue.row(place.number(answer.json()["job"])).error_message or ""
    assert stored.startswith("Temporary storage issue.")
    assert "retry" not in stored, "nobody will try it again"


@pytest.mark.req("CNV-02")
@pytest.mark.parametrize("broken", ["pdf", "drafts"])
def test_a_disk_that_fails_with_a_database_that_cannot_be_written_is_an_io_error_without_a_job(
    place: Place, broken: str
) -> None:
    def room(pages: int) -> None:
        place.queue.store.write(lambda tx: tx.execute(f"pragma max_page_count = {pages}"))

    (place.folder).mkdir()
    (place.folder / broken).write_text("in the way")
    room(1)  # as many as there are: none more
    answers = [place.upload(name="n" * 200) for _ in range(60)]  # the pages that are begun have room for some
    assert {code_of(answer) for answer in answers} == {(500, "IO_ERROR")}
    assert "job" in answers[0].json()
    assert "job" not in answers[-1].json()
    room(1_000_000)
    assert "job" in place.upload().json()


@pytest.mark.req("CNV-03")
def test_a_twin_whose_xml_nobody_can_look_for_is_an_io_error(place: Place) -> None:
    content = pdf()
    place.new(content)
    place.work(1)
    xml = place.folder / "xml"
    xml.rename(place.folder / "away")
    xml.symlink_to("xml")  # whoever follows it goes round and round
    assert code_of(place.upload(content)) == (500, "IO_ERROR")


@pytest.mark.req("CNV-03")
def test_a_second_copy_that_cannot_be_removed_is_left_for_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = pdf()
    with (
        bucket(monkeypatch) as s3,
        database("sqlite-apsw", tmp_path) as db,
        made(db, tmp_path, storage=URL) as place,
    ):
        first = place.new(content)
        s3.sim.on("POST /bucket", Status(403))
        again = place.upload(content)
        assert (again.status_code, again.json()["id"]) == (200, first)
        assert len([key for key in s3.kept if key.endswith(".pdf")]) == 2


@pytest.mark.req("CNV-03")
def test_the_same_file_of_the_same_owner_is_the_same_job(each: Place) -> None:
    content = pdf()
    first = each.new(content)

    again = each.upload(content, name="other name.pdf")
    assert (again.status_code, again.json()["id"], again.json()["created"]) == (200, first, False)
    each.work()
    assert each.get(first)["status"] == "complete"
    assert each.upload(content).json()["id"] == first
    assert len(each.files("pdf")) == 1, "the second copy is not kept"

    assert each.new(content, mapping="layout") != first
    with each.another() as theirs:
        other = theirs.post("/api/upload", files={"file": ("a.pdf", content)})
        assert (other.status_code, other.json()["id"] != first) == (202, True), "nobody learns what others have"


@pytest.mark.req("CNV-03")
def test_uploads_of_the_same_at_the_same_time_are_one_job(each: Place) -> None:
    content = pdf()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: each.upload(content), range(16)))

    assert {answer.json()["id"] for answer in answers} == {answers[0].json()["id"]}
    assert [answer.status_code for answer in answers].count(202) == 1
    assert len(each.files("pdf")) == 1


@pytest.mark.req("CNV-03")
def test_a_failed_job_does_not_keep_the_same_file_from_coming_again(place: Place) -> None:
    content = pdf()
    place.gateway.on("POST /process", Status(400))
    first = place.new(content)
    place.work()
    assert place.get(first)["status"] == "failed"
    assert place.new(content) != first


@pytest.mark.req("CNV-03")
def test_a_twin_whose_xml_is_missing_does_not_count(each: Place) -> None:
    content = pdf()
    first = each.new(content)
    each.work()
    each.files("xml")[0].unlink()

    second = each.new(content)

    assert second != first
    assert each.get(first)["expired"] is True
    each.work()
    assert each.get(second)["status"] == "complete"


@pytest.mark.req("CNV-18")
def test_a_person_pauses_uploads_for_a_time(place: Place) -> None:
    told = place.client.post("/api/convert/uploads/pause", json={"seconds": 600})
    assert told.status_code == 200
    answer = place.upload()
    assert code_of(answer) == (503, "IO_ERROR")
    assert answer.json()["detail"] == "Uploads are paused.", "by whom is nobody's business"
    assert answer.json()["title"] == "Temporary storage issue."
    assert answer.headers["retry-after"] == "600"
    assert place.client.post("/api/convert/uploads/resume").json() == {"resumed": True}
    assert place.client.post("/api/convert/uploads/resume").json() == {"resumed": False}
    deeds = place.client.get("/api/v1/activity").json()["items"]
    assert [(each["action"], each["name"], each["key"], each["origin"], each["after"]["state"]) for each in deeds] == [
        ("target_resumed", "convert", "uploads", "api", "on"), ("target_paused", "convert", "uploads", "api", "paused"),
    ]  # fmt: skip
    assert len(re.findall(r'href="/convert">[^<]*\buploads\b', place.client.get("/activity").text)) == 2
    assert place.upload().status_code == 202
    assert code_of(place.client.post("/api/convert/uploads/pause", json={"seconds": 60}, headers=ELSEWHERE))[0] == 401


@pytest.mark.req("CNV-18")
def test_uploads_pause_by_themselves_while_the_disk_is_nearly_full(tmp_path: Path) -> None:
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path, least_free=0.9999999) as place:
        answer = place.upload()
        assert code_of(answer) == (503, "IO_ERROR")
        assert answer.headers["retry-after"] == "60"
        assert place.client.get("/api/jobs").json()["jobs"] == []


def test_more_uploads_at_once_than_allowed_are_asked_to_come_again(tmp_path: Path) -> None:
    with database("sqlite-apsw", tmp_path) as db, made(db, tmp_path, uploads_at_once=1) as place:

        async def main() -> None:
            uploads, finish = Uploads(place.there), asyncio.Event()
            first = asyncio.create_task(uploads.take(_request(finish), "local"))
            while not place.files("drafts"):  # noqa: ASYNC110 - a folder has no event
                await asyncio.sleep(0.01)
            with pytest.raises(Problem) as told:
                await uploads.take(_request(finish), "local")
            assert (told.value.status_code, told.value.code, told.value.retry_after) == (503, "too_many", 5)
            finish.set()
            assert (await first).created
            assert not (await uploads.take(_request(finish), "local")).created, "the place is free again"

        asyncio.run(main())


def _request(finish: asyncio.Event) -> Request:
    """An upload that stands still in the middle until it may finish."""
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n%PDF-1.7'
    sent = iter([head, b"\r\n--b--\r\n"])

    async def receive() -> dict[str, Any]:
        piece = next(sent)
        if piece is not head:
            await finish.wait()
        return {"type": "http.request", "body": piece, "more_body": piece is head}

    headers = [(b"content-type", b"multipart/form-data; boundary=b")]
    scope = {"type": "http", "method": "POST", "path": "/api/upload", "headers": headers, WHO: LOCAL}
    return Request(scope, receive)


def test_a_list_has_only_ones_own_jobs_page_by_page_and_counts_those_that_run(each: Place) -> None:
    mine = [each.new() for _ in range(5)]
    with each.another() as theirs:
        assert theirs.post("/api/upload", files={"file": ("a.pdf", pdf())}).status_code == 202

    first = each.client.get("/api/jobs?limit=2").json()
    assert [job["id"] for job in first["jobs"]] == mine[:2:-1]
    assert first["active_count"] == 5
    second = each.client.get(f"/api/jobs?limit=2&cursor={first['next_cursor']}").json()
    third = each.client.get(f"/api/jobs?limit=2&cursor={second['next_cursor']}").json()
    assert [job["id"] for job in second["jobs"] + third["jobs"]] == mine[2::-1]
    assert third["next_cursor"] is None

    each.work()
    later = each.client.get("/api/jobs?status=complete").json()
    assert (len(later["jobs"]), later["active_count"]) == (5, 0)
    assert each.client.get("/api/jobs?status=failed").json()["jobs"] == []
    each.clock.advance(100)
    now = later["now"] + 100
    assert each.client.get(f"/api/jobs?since={now}").json()["jobs"] == []
    new = each.new()
    assert [job["id"] for job in each.client.get(f"/api/jobs?since={now}").json()["jobs"]] == [new]
    assert each.client.get("/api/jobs?status=done").status_code == 422
    assert each.client.get("/api/jobs?limit=0").status_code == 422


def test_nothing_that_is_told_has_a_path_or_a_key_of_the_storage(place: Place) -> None:
    job = place.new()
    place.work()
    told = json.dumps([place.get(job), place.client.get("/api/jobs").json()])
    found = file_of(place.there.db, place.number(job))
    assert isinstance(found, File)
    assert found.made["path"] not in told
    assert str(place.folder) not in told
