"""The disk with the files is not mounted: nothing is called expired, and everything goes on when it is back."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.apps.convert.building import XML, Place, code_of, place
from tests.databases import database
from tidegate.admin import doctor
from tidegate_apps.convert import jobs
from tidegate_apps.convert.storage import ID, Draft, Storage, StorageAway, StorageError
from tidegate_apps.convert.storage_id import StorageId


def unmount(found: Path) -> Path:
    """An empty folder in its place, as a mount point is."""
    aside = found.rename(found.with_name("aside"))
    found.mkdir()
    return aside


def mount(aside: Path, found: Path) -> None:
    for each in sorted(found.rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() else each.unlink()
    found.rmdir()
    aside.rename(found)


def test_a_download_is_not_expired_while_the_disk_is_not_mounted_and_works_when_it_is_back(each: Place) -> None:
    job = each.new()
    each.work()
    assert each.get(job)["status"] == "complete"
    aside = unmount(each.folder)

    assert code_of(each.upload()) == (503, "IO_ERROR")
    assert code_of(each.client.get(f"/api/jobs/{job}/download")) == (503, "IO_ERROR")
    assert each.client.get(f"/convert/jobs/{job}").status_code == 200
    assert each.file(job).result_gone_at is None
    assert list(each.folder.iterdir()) == []

    mount(aside, each.folder)

    assert each.client.get(f"/api/jobs/{job}/download").content == XML
    assert each.upload().status_code == 202


@pytest.mark.parametrize("made", ["retention", "sweep"])
def test_nothing_is_removed_or_forgotten_while_the_disk_is_not_mounted(place: Place, made: str) -> None:
    job = place.new()
    place.work()
    aside = unmount(place.folder)
    place.clock.advance(100 * 86400)

    kind = getattr(place.there.jobs, made)
    queued = kind.enqueue()

    async def once() -> None:
        stop = asyncio.Event()
        working = asyncio.create_task(place.queue.arun_worker(stop=stop, queues={"convert-upkeep"}))
        await asyncio.sleep(30)
        stop.set()
        await working

    place.clock.run(once())

    assert (place.queue.get(queued).state, place.queue.get(queued).attempt) == ("queued", 0)
    assert (place.file(job).source_gone_at, place.file(job).result_gone_at) == (None, None)
    assert len([each for each in aside.rglob("*") if each.is_file()]) == 3  # a PDF, its XML, and the id


def test_a_job_waits_with_all_its_attempts_until_the_disk_is_back(place: Place) -> None:
    job = place.new()
    aside = unmount(place.folder)

    place.work(300)

    assert (place.get(job)["status"], place.get(job)["attempt_count"], place.calls()) == ("queued", 0, 0)
    mount(aside, place.folder)
    place.work(300)
    assert place.get(job)["status"] == "complete"


def test_the_next_start_does_not_take_an_empty_folder_for_the_storage(tmp_path: Path) -> None:
    with database("sqlite-apsw", tmp_path) as db:
        with place(db, tmp_path) as first:
            job = first.new()
            first.work()
        aside = unmount(tmp_path / "files")
        with place(db, tmp_path) as second:
            assert code_of(second.upload()) == (503, "IO_ERROR")
            assert second.file(job).result_gone_at is None
        assert list((tmp_path / "files").iterdir()) == []
        mount(aside, tmp_path / "files")
        with place(db, tmp_path) as third:
            assert third.upload().status_code == 202


def test_people_are_told_once_and_again_when_it_is_back(place: Place) -> None:
    place.new()
    aside = unmount(place.folder)
    for _ in range(3):
        place.upload()
    shown = place.client.get("/api/v1/notices").json()["items"]
    assert [each["kind"] for each in shown] == ["fatal"]

    mount(aside, place.folder)
    place.upload()

    shown = place.client.get("/api/v1/notices").json()["items"]
    assert [each["kind"] for each in shown] == ["recovered", "fatal"]


@pytest.mark.parametrize("has_id", [True, False])
@pytest.mark.parametrize("made", ["retention", "sweep"])
def test_a_new_database_removes_no_file_of_a_storage_that_it_does_not_know(
    tmp_path: Path, made: str, has_id: bool
) -> None:
    with database("sqlite-apsw", tmp_path) as db, place(db, tmp_path) as first:
        first.new()
        first.work()
    (tmp_path / "new").mkdir()
    if not has_id:
        (tmp_path / "files" / ID).unlink()
    before = stored(tmp_path / "files")
    with database("sqlite-apsw", tmp_path / "new") as db, place(db, tmp_path) as second:
        date_back(tmp_path / "files", second, 100)

        queued = getattr(second.there.jobs, made).enqueue()
        second.work(30, queues={"convert-upkeep"})

        assert stored(tmp_path / "files") == before
        assert second.queue.get(queued).state == "queued"
        assert code_of(second.upload()) == (503, "IO_ERROR")
        assert 'data-closed="IO_ERROR"' in second.client.get("/convert").text
        shown = second.client.get("/api/v1/notices").json()["items"]
        assert [(each["kind"], each["code"], each["open"]) for each in shown] == [("fatal", "IO_ERROR", True)]
        found = second.queue.store.read(lambda tx: list(doctor.targets(tx)))
        assert [(each.id, each.status) for each in found] == [("targets.notice", "error")]

        second.there.jobs.storage_id.adopt("ada")

        second.work(90, queues={"convert-upkeep"})
        assert second.queue.get(queued).state == "done"
        assert len(stored(tmp_path / "files")) == (1 if made == "sweep" else 3)
        assert second.upload().status_code == 202
        assert [each.id for each in second.queue.store.read(lambda tx: list(doctor.targets(tx)))] == ["targets.well"]


def date_back(folder: Path, at: Place, days: float) -> None:
    """Files that were written some days ago by the virtual clock."""
    for each in folder.glob("*/*"):
        os.utime(each, (at.clock.now() - days * 86400,) * 2)


def stored(folder: Path) -> list[Path]:
    return sorted(each for each in folder.rglob("*") if each.is_file())


def test_an_empty_storage_with_an_id_that_no_database_knows_is_used(place: Place) -> None:
    place.folder.mkdir()
    (place.folder / ID).write_text("0123456789abcdef\n")  # the process was killed before the row was written

    assert place.upload().status_code == 202
    assert place.there.db.one("storage_id") == ("0123456789abcdef",)


def test_a_notice_of_a_process_that_ended_is_resolved_by_the_next_one(tmp_path: Path) -> None:
    with database("sqlite-apsw", tmp_path) as db:
        with place(db, tmp_path) as first:
            first.new()
            aside = unmount(tmp_path / "files")
            first.upload()
        mount(aside, tmp_path / "files")
        with place(db, tmp_path) as second:
            second.upload()
            shown = second.client.get("/api/v1/notices").json()["items"]
            assert [each["kind"] for each in shown if each["open"]] == []


def test_after_a_restore_files_without_a_job_are_kept_as_long_as_an_xml_file(place: Place) -> None:
    job = place.new()
    place.work()
    date_back(place.folder, place, 0.5)
    place.queue.store.write(lambda tx: tx.query("restored_at"))
    place.queue.forget(place.number(job))
    place.there.db.all("forgotten", n=10)

    assert jobs.sweep_storage(place.there, place.there.jobs.storage) == {"removed": 0, "kept": 2}
    place.clock.advance("30d")
    assert jobs.sweep_storage(place.there, place.there.jobs.storage) == {"removed": 2, "kept": 0}


def test_another_place_is_used_when_a_person_says_so(place: Place) -> None:
    place.new()
    unmount(place.folder)
    with pytest.raises(StorageAway):
        place.there.jobs.storage_id.check()

    place.there.jobs.storage_id.adopt("ada")

    assert place.upload().status_code == 202


def test_a_file_that_is_really_gone_is_still_called_expired(place: Place) -> None:
    job = place.new()
    place.work()
    for xml in place.files("xml"):
        xml.unlink()

    assert code_of(place.client.get(f"/api/jobs/{job}/download")) == (404, "EXPIRED")
    assert jobs.sweep_storage(place.there, place.there.jobs.storage)["removed"] == 0


class Full:
    """A storage on a disk that is full when the first file is to be kept."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def put(self, draft: Draft, key: str, *, replace: bool = False) -> None:
        raise StorageError("no space left")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


def test_a_disk_that_is_full_when_the_id_is_written_can_be_used_later(place: Place) -> None:
    with pytest.raises(StorageError):
        StorageId(place.there, Full(place.there.jobs.storage)).require()

    assert place.upload().status_code == 202
