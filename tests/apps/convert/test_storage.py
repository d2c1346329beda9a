"""Files by key, in a folder and in an object store: whole or not at all, and never over another one by mistake."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore

from tests.apps.convert.buckets import URL, bucket
from tests.apps.convert.building import XML, place
from tests.databases import database
from tidegate_apps.convert.jobs import storage_at
from tidegate_apps.convert.storage import (
    Folder,
    KeyTaken,
    Storage,
    StorageError,
    StorageFull,
    digest,
    pieces,
    storage_errors,
)
from tidegate_apps.convert.storage_s3 import Objects

# Such as s3://bucket/test of a server for tests, which the variables of AWS name; what is in it goes.
REAL = os.environ.get("TEST_S3_URL", "")


@pytest.fixture(params=["folder", "objects", *(["real"] if REAL else [])])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    match request.param:
        case "folder":
            return Folder(tmp_path / "files")
        case "objects":
            return Objects.at("memory:///")
        case _:
            found = Objects.at(REAL)
            for each in found.kept():
                found.remove(each.key)
            return found


def put(storage: Storage, key: str, content: bytes, **more: Any) -> None:
    with storage.draft() as draft:
        draft.add(content)
        draft.seal()
        storage.put(draft, key, **more)


def test_a_file_is_put_read_measured_and_removed(storage: Storage) -> None:
    content = b"x" * 700_000
    assert storage.size("pdf/a.pdf") is None
    assert digest(storage, "pdf/a.pdf") is None
    put(storage, "pdf/a.pdf", content)
    assert storage.size("pdf/a.pdf") == len(content)
    with storage.open("pdf/a.pdf") as file:
        assert b"".join(pieces(file)) == content
    found = digest(storage, "pdf/a.pdf")
    assert found is not None
    assert found[1] == len(content)
    assert [each.key for each in storage.kept()] == ["pdf/a.pdf"]
    assert storage.remove("pdf/a.pdf")
    assert not storage.remove("pdf/a.pdf")


def test_a_second_file_under_one_key_is_refused_unless_it_is_meant(storage: Storage) -> None:
    put(storage, "xml/a.xml", b"first")
    with pytest.raises(KeyTaken):
        put(storage, "xml/a.xml", b"second")
    with storage.open("xml/a.xml") as file:
        assert file.read() == b"first"
    put(storage, "xml/a.xml", b"third", replace=True)
    with storage.open("xml/a.xml") as file:
        assert file.read() == b"third"


def test_a_draft_that_gets_no_key_leaves_nothing(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.draft() as draft:
        draft.add(b"half")
        assert [each.draft for each in folder.kept()] == [True]
    assert list(folder.kept()) == []
    with pytest.raises(ZeroDivisionError), folder.draft() as draft:
        raise ZeroDivisionError
    assert list(folder.kept()) == []


def test_a_file_that_is_not_there_cannot_be_opened(storage: Storage) -> None:
    with pytest.raises(StorageError), storage.open("xml/none.xml") as file:
        file.read()


def test_a_file_that_is_gone_is_told_apart_from_a_place_that_is(storage: Storage, tmp_path: Path) -> None:
    put(storage, "xml/a.xml", b"x")
    storage.remove("xml/a.xml")
    storage.check("xml/a.xml")
    with pytest.raises(StorageError, match="ENOENT"):
        Folder(tmp_path / "not mounted").check("xml/a.xml")


def test_a_disk_that_breaks_while_a_file_is_read_is_told_as_one() -> None:
    with Folder(Path("/proc")).open("self/mem") as file, pytest.raises(StorageError, match="EIO"):
        file.read(10)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "files/xml").mkdir(parents=True)
    (tmp_path / "files/xml/a.xml").symlink_to(tmp_path / "secret")
    with pytest.raises(StorageError), Folder(tmp_path / "files").open("xml/a.xml"):
        pass


@pytest.mark.req("CNV-04")
@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, StorageFull), (errno.EDQUOT, StorageFull)])
def test_a_full_disk_is_told_apart_from_a_broken_one(number: int, kind: type[StorageError]) -> None:
    with pytest.raises(kind), storage_errors():
        raise OSError(number, "full")
    with pytest.raises(StorageError) as other, storage_errors():
        raise OSError(errno.EIO, "broken")
    assert not isinstance(other.value, StorageFull)


def test_the_setting_says_which(tmp_path: Path) -> None:
    assert isinstance(storage_at(str(tmp_path)), Folder)
    assert isinstance(storage_at(f"file://{tmp_path}"), Folder)
    assert isinstance(storage_at("memory:///"), Objects)
    with pytest.raises(ValueError, match=r"convert\.storage"):
        storage_at("gopher://nowhere/")


def test_how_much_is_free_is_known_of_a_folder_alone(tmp_path: Path) -> None:
    free = Folder(tmp_path / "not/there/yet").free()
    assert free is not None
    assert 0 <= free <= 1
    assert Objects.at("memory:///").free() is None


def test_an_object_store_behind_a_url_gets_whole_files_under_the_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    with bucket(monkeypatch) as s3:
        storage = storage_at(URL)
        content = b"x" * 300_000
        put(storage, "xml/a.xml", content)
        assert s3.kept == {"files/xml/a.xml": content}
        with pytest.raises(KeyTaken):
            put(storage, "xml/a.xml", b"late")
        assert storage.size("xml/a.xml") == len(content)
        assert digest(storage, "xml/a.xml") == (hashlib.sha256(content).hexdigest(), len(content))
        assert storage.size("xml/b.xml") is None
        assert storage.remove("xml/a.xml")
        assert s3.kept == {}
        s3.sim.outage("1h 403")
        with pytest.raises(StorageError) as told_of:
            storage.size("xml/a.xml")
        assert "\n" not in str(told_of.value)
        with pytest.raises(StorageError):
            storage.check("xml/a.xml")


@pytest.mark.parametrize("url", ["memory:///", *([REAL] if REAL else [])])
def test_a_conversion_goes_through_an_object_store(tmp_path: Path, url: str) -> None:
    with database("sqlite-apsw", tmp_path) as db, place(db, tmp_path, storage=url) as there:
        job = there.new()
        there.work(1)
        assert there.client.get(f"/api/jobs/{job}/download").content == XML


def test_the_drafts_of_an_object_store_are_kept_apart_and_told_to_the_sweep(tmp_path: Path) -> None:
    storage = Objects(MemoryStore(), tmp_path / "drafts")
    left = storage.draft()
    left.add(b"half")
    put(storage, "pdf/a.pdf", b"whole")
    found = {each.key: each.draft for each in storage.kept()}
    assert found == {f"drafts/{left.path.name}": True, "pdf/a.pdf": False}
    assert (tmp_path / "drafts").stat().st_mode & 0o777 == 0o700
    assert storage.remove(f"drafts/{left.path.name}")
    assert not storage.remove(f"drafts/{left.path.name}")
    assert [each.key for each in storage.kept()] == ["pdf/a.pdf"]
    left.__exit__()
