"""The database file is removed, cut or damaged under a real server: it says so, and loses nothing it acknowledged."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.apps.convert.processes import COMMAND, Running, Server, until

PAGE = 4096
BOUNDED = 30.0  # seconds that any answer may take


def remove(file: Path) -> None:
    file.unlink()


def put_an_empty_one_in_its_place(file: Path) -> None:
    file.unlink()
    file.touch()


def cut_to_nothing(file: Path) -> None:
    _cut(file, 0)


def cut_in_half(file: Path) -> None:
    _cut(file, file.stat().st_size // 2 // PAGE * PAGE)


def cut_its_last_page(file: Path) -> None:
    _cut(file, file.stat().st_size - PAGE)


def overwrite_with_zeros(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(bytes(file.stat().st_size))


def _cut(file: Path, size: int) -> None:
    with file.open("r+b") as opened:
        opened.truncate(size)


def flip(seed: int) -> Callable[[Path], None]:
    """Flips all bits of a third of the pages."""

    def harm(file: Path) -> None:
        pages = file.stat().st_size // PAGE
        with file.open("r+b") as opened:
            for page in random.Random(seed).sample(range(pages), pages // 3):
                opened.seek(page * PAGE)
                flipped = bytes(byte ^ 0xFF for byte in opened.read(PAGE))
                opened.seek(page * PAGE)
                opened.write(flipped)

    harm.__name__ = f"flip_pages_with_seed_{seed}"
    return harm


GONE: list[Callable[[Path], None]] = [remove, put_an_empty_one_in_its_place]
CUT: list[Callable[[Path], None]] = [cut_to_nothing, cut_in_half, cut_its_last_page]
WRONG: list[Callable[[Path], None]] = [overwrite_with_zeros, flip(2), flip(3)]
SURE = [remove, put_an_empty_one_in_its_place, cut_in_half, cut_its_last_page, overwrite_with_zeros]
LONG = [
    pytest.param(each, marks=pytest.mark.long)
    for each in (put_an_empty_one_in_its_place, cut_to_nothing, cut_its_last_page)
]
NAMED: dict[str, Any] = {"ids": lambda harm: harm.__name__}


class Uploads:
    """A client of one server, and what it was told."""

    def __init__(self, server: Running) -> None:
        self._address = json.loads(server.said)["address"]
        self._cookies = httpx2.Cookies()  # who it is
        self._sent = 0
        self.taken: dict[int, str] = {}  # by id of the job: the name of its file

    def put(self) -> httpx2.Response:
        self._sent += 1
        name = f"{self._sent}.pdf"
        body = b"%PDF-1.4\n" + name.encode()  # the gateway fails it: that is an outcome as good as another
        found = self._asked("POST", "/api/upload", files={"file": (name, body, "application/pdf")})
        if found.status_code == 202:
            self.taken[found.json()["id"]] = name
        return found

    def get(self, path: str) -> httpx2.Response:
        return self._asked("GET", path)

    def _asked(self, method: str, path: str, **more: Any) -> httpx2.Response:
        with httpx2.Client(base_url=self._address, timeout=BOUNDED, cookies=self._cookies) as client:
            found = client.request(method, path, **more)
            self._cookies.update(client.cookies)
            return found

    def go_on(self, before: Uploads) -> Uploads:
        """As the same visitor."""
        self._cookies, self._sent, self.taken = before._cookies, before._sent, dict(before.taken)
        return self

    def told(self, codes: set[str]) -> str:
        """The code of the server, once it says that it is not ready."""
        found = until(lambda: (answer := self.get("/health/ready")).status_code == 503 and answer.json()["code"])
        assert found in codes
        return str(found)

    def all_there(self) -> bool:
        """Whether each upload that was taken is there, or else the server says that its database is not."""
        for job, name in self.taken.items():
            found = self.get(f"/api/jobs/{job}")
            if found.status_code == 503:
                assert found.json()["code"] in ("store_damaged", "store_missing")
                return False
            assert (found.status_code, found.json()["original_filename"]) == (200, name)
        return True


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Uploads]:
    """A folder with thirty uploads, all in the file itself: the server that took them has ended."""
    folder = tmp_path_factory.mktemp("first")
    with Server(folder, "--db", "sqlite:///jobs.db") as server:
        uploads = Uploads(server)
        for _ in range(30):
            assert uploads.put().status_code == 202
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(120) == 0
    return folder, uploads


@pytest.fixture
def before(first: tuple[Path, Uploads], tmp_path: Path) -> Uploads:
    """The uploads in a copy of that folder."""
    shutil.copytree(first[0], tmp_path, dirs_exist_ok=True)
    return first[1]


def doctor(folder: Path) -> int:
    asked = [COMMAND, "doctor", "--db", "sqlite:///jobs.db", "--json"]
    return subprocess.run(asked, cwd=folder, check=False, capture_output=True, timeout=120).returncode


def starts(folder: Path) -> tuple[int, str]:
    """The exit code of a server that refuses to start, and why."""
    command = [COMMAND, "serve", "--port", "0", "--db", "sqlite:///jobs.db"]
    found = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=120)
    return found.returncode, found.stderr


@pytest.mark.parametrize("harm", [remove, cut_in_half, *LONG], **NAMED)
def test_a_server_that_loses_its_file_takes_nothing_says_so_and_does_not_begin_anew(
    tmp_path: Path, before: Uploads, harm: Callable[[Path], None]
) -> None:
    with Server(tmp_path, "--db", "sqlite:///jobs.db") as server:
        uploads = Uploads(server).go_on(before)
        assert uploads.put().status_code == 202
        taken = dict(uploads.taken)

        harm(tmp_path / "jobs.db")

        assert uploads.put().status_code == 503
        code = uploads.told({"store_missing"} if harm in GONE else {"store_damaged"})
        page = uploads.get("/")
        assert (page.status_code, code in page.text) == (503, True)
        assert uploads.get("/health/live").status_code == 200
        assert uploads.taken == taken
        assert f'"{code.replace("store", "database")}"' in server.logged()

    status, why = starts(tmp_path)
    assert (status, "jobs.db" in why) == (3, True)
    assert doctor(tmp_path) == 1


@pytest.mark.parametrize("harm", [flip(1), *(pytest.param(each, marks=pytest.mark.long) for each in WRONG)], **NAMED)
def test_damage_under_a_server_is_told_and_told_again_at_the_next_start(
    tmp_path: Path, before: Uploads, harm: Callable[[Path], None]
) -> None:
    with Server(tmp_path, "--db", "sqlite:///jobs.db") as server:
        uploads = Uploads(server).go_on(before)

        harm(tmp_path / "jobs.db")

        for _ in range(5):
            assert uploads.put().status_code in (202, 503)
        assert not uploads.all_there()
        uploads.told({"store_damaged"})
        assert uploads.get("/").status_code == 503
    assert starts(tmp_path)[0] == 3


@pytest.mark.parametrize(
    "harm", [cut_to_nothing, *(pytest.param(each, marks=pytest.mark.long) for each in SURE)], **NAMED
)
def test_a_server_does_not_start_on_a_file_that_was_harmed_while_it_was_down(
    tmp_path: Path, before: Uploads, harm: Callable[[Path], None]
) -> None:
    harm(tmp_path / "jobs.db")
    left = [each.read_bytes() for each in tmp_path.glob("jobs.db")]

    assert starts(tmp_path)[0] == 3

    assert [each.read_bytes() for each in tmp_path.glob("jobs.db")] == left
    assert before.taken


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_pages_that_were_flipped_while_it_was_down_are_told_or_every_upload_is_there(
    tmp_path: Path, before: Uploads, seed: int
) -> None:
    flip(seed)(tmp_path / "jobs.db")

    command = [COMMAND, "serve", "--port", "0", "--db", "sqlite:///jobs.db", "--json"]
    with Running(tmp_path, *command, TIDEGATE_APPS='["convert"]') as server:
        if server.said:
            assert not Uploads(server).go_on(before).all_there()
        else:
            assert server.process.wait(120) == 3
    assert doctor(tmp_path) == 1


def test_an_empty_database_is_begun_when_a_person_says_so_and_leaves_the_files_alone(
    tmp_path: Path, before: Uploads
) -> None:
    (tmp_path / "jobs.db").unlink()
    assert starts(tmp_path)[0] == 3

    assert run(tmp_path, "db", "migrate", "--new") == 0

    files = sorted(tmp_path.glob("tidegate-files/*/*"))
    assert len(files) >= len(before.taken)
    with Server(tmp_path, "--db", "sqlite:///jobs.db") as server:
        refused = Uploads(server).put()
        assert (refused.status_code, refused.json()["code"]) == (503, "IO_ERROR")
        assert doctor(tmp_path) == 1
        assert run(tmp_path, "convert", "storage", "adopt") == 6
        assert sorted(tmp_path.glob("tidegate-files/*/*")) == files

        assert run(tmp_path, "convert", "storage", "adopt", "--yes") == 0

        assert Uploads(server).put().status_code == 202


def run(folder: Path, *command: str) -> int:
    asked = [COMMAND, *command, "--db", "sqlite:///jobs.db"]
    return subprocess.run(asked, cwd=folder, check=False, capture_output=True, timeout=120).returncode
