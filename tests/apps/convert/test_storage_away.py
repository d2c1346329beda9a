"""The disk with the files is not mounted: nothing is called expired, and everything goes on when it is back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.apps.convert.building import XML, Place, code_of, place
from tests.databases import database
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


def test_a_storage_of_an_earlier_version_gets_its_id_unless_its_files_are_missing(place: Place) -> None:
    place.new()
    place.work()
    (place.folder / ID).unlink()
    place.there.db.all("storage_forget")  # as an earlier version left it
    aside = unmount(place.folder)
    assert code_of(place.upload()) == (503, "IO_ERROR")

    mount(aside, place.folder)

    assert place.upload().status_code == 202
    assert (place.folder / ID).exists()


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
