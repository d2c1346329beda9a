"""A real server: it starts with nothing, answers while a handler blocks, and ends gently."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

COMMAND = Path(sys.executable).with_name("tidegate")
# Events of a slow machine, and of a schedule that happens to be due.
BY_CHANCE = ("loop_stood_still", "schedule_fired")

BLOCKING = """
import time
from pathlib import Path
from fastapi import APIRouter
from tidegate.apps import App


def jobs(there):
    @there.queue.job(queue="slow", name="slow.block")
    async def block(seconds: float) -> None:
        Path("blocking").touch()
        end = time.monotonic() + seconds
        while time.monotonic() < end and not Path("go").exists():
            time.sleep(0.05)  # a mistake: it stops the loop

    @there.queue.job(queue="slow", name="slow.wait")
    async def wait(seconds: float) -> None:
        import asyncio
        Path("waiting").touch()
        await asyncio.sleep(seconds)

    return {"block": block, "wait": wait}


def routes(there):
    router = APIRouter()

    @router.post("/api/slow/{kind}/{seconds}")
    def put(kind: str, seconds: float) -> int:
        return there.jobs[kind].enqueue(seconds).id

    return router


app = App(name="slow", jobs=jobs, routes=routes)
"""


class Server:
    """`tidegate serve` in a folder, with the application above beside it."""

    def __init__(self, folder: Path, *args: str, **variables: str) -> None:
        self.folder = folder
        (folder / "slow.py").write_text(BLOCKING)
        about = folder / "slow-1.0.dist-info"
        about.mkdir(exist_ok=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: slow\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("[tidegate.apps]\nslow = slow:app\n")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        self.process = subprocess.Popen(
            [COMMAND, "serve", "--port", "0", *args], cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**kept, "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1", **variables},
        )  # fmt: skip

    def __enter__(self) -> Self:
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        address = re.search(r"http\S+", first)
        assert address is not None, self.process.communicate(timeout=60)[1]
        self.client = httpx2.Client(base_url=address[0], timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.process.kill()
        self.process.communicate(timeout=60)

    def stop(self, seconds: float = 120) -> tuple[int, str]:
        """The exit code and what it logged."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=seconds)
        return self.process.returncode, errors


def until(what: Callable[[], Any], seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found


def test_it_starts_with_nothing_and_says_where_it_is(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        assert server.client.get("/health/live").is_success
        assert server.client.get("/health/ready").is_success
        assert server.client.get("/").is_success
        code, log = server.stop()
    assert code == 0
    events = [json.loads(line).get("event") for line in log.splitlines()]
    assert [event for event in events if event not in BY_CHANCE] == ["server_started", "server_stopping"]


@pytest.mark.full
def test_the_page_answers_while_a_handler_blocks_its_loop(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        server.client.post("/api/slow/block/600")
        until((tmp_path / "blocking").exists)
        assert server.client.get("/queue").is_success
        assert server.client.get("/health/live").is_success
        (tmp_path / "go").touch()  # it blocked until here


def test_a_stop_ends_page_and_workers_and_gives_back_what_runs(tmp_path: Path) -> None:
    with Server(tmp_path, TIDEGATE_WORKER_GRACE="1s") as server:
        job = server.client.post("/api/slow/wait/600").json()
        until((tmp_path / "waiting").exists)
        code, log = server.stop()
    assert code == 0, log
    with sqlite3.connect(tmp_path / "tidegate.db") as db:
        assert db.execute("select state, lease_by from tg_job where id = ?", (job,)).fetchone() == ("ready", None)
    db.close()


@pytest.mark.full
def test_what_runs_may_finish_within_the_grace_of_the_settings(tmp_path: Path) -> None:
    with Server(tmp_path, TIDEGATE_WORKER_GRACE="2m") as server:
        job = server.client.post("/api/slow/wait/25").json()  # longer than the default of 20 s
        until((tmp_path / "waiting").exists)
        code, log = server.stop()
    assert code == 0, log
    with contextlib.closing(sqlite3.connect(tmp_path / "tidegate.db")) as db:
        assert db.execute("select state from tg_job where id = ?", (job,)).fetchone() == ("done",)


@pytest.mark.full
def test_without_work_it_serves_and_leaves_the_jobs_alone(tmp_path: Path) -> None:
    with Server(tmp_path, "--no-work") as server:
        job = server.client.post("/api/slow/wait/0").json()
        whys = server.client.get(f"/api/v1/jobs/{job}").json()["waits_for"]
        assert [why["reason"] for why in whys] == ["no_worker"]
        assert server.stop()[0] == 0


@pytest.mark.parametrize(
    ("args", "variables", "code", "says"),
    [
        (("--host", "0.0.0.0"), {}, 3, "no user exists yet"),
        (("--db", "mysql://x"), {}, 3, "--db: 'mysql'"),
        ((), {"TIDEGATE_SERVER_PROT": "1"}, 3, "did you mean TIDEGATE_SERVER_PORT"),
        ((), {"TIDEGATE_APPS": "slwo"}, 3, "slow"),
        (("--db", "postgresql://nobody@127.0.0.1:1/x"), {}, 4, "cannot be reached"),
    ],
    ids=["public", "url", "variable", "application", "database"],
)
def test_what_keeps_it_from_starting_is_one_line(
    tmp_path: Path, args: tuple[str, ...], variables: dict[str, str], code: int, says: str
) -> None:
    server = Server(tmp_path, *args, **variables)
    _, errors = server.process.communicate(timeout=60)
    assert server.process.returncode == code, errors
    assert says in errors
    assert "Traceback" not in errors


@pytest.mark.full
def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with Server(tmp_path) as first:
        port = first.client.base_url.port
        second = Server(tmp_path, "--port", str(port))
        _, errors = second.process.communicate(timeout=60)
        assert second.process.returncode == 3
        assert f"127.0.0.1:{port} cannot be used" in errors
        assert "--port" in errors


def test_it_starts_while_everything_that_it_calls_is_down(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen: whoever calls is refused
        at = f"http://127.0.0.1:{closed.getsockname()[1]}"
        (tmp_path / "tidegate.toml").write_text(
            'apps = ["convert", "feeds", "lidarr", "music", "tautulli"]\n'
            f'[channels.hook]\nkind = "webhook"\nurl = "{at}"\n[convert]\ngateway_url = "{at}"\n'
            f'[lidarr]\nbase_url = "{at}"\napi_key = "k"\n[tautulli]\nurl = "{at}"\napi_key = "k"\n'
            f'[music.lastfm]\napi_key = "k"\nshared_secret = "s"\nurl = "{at}"\n[music.musicbrainz]\nurl = "{at}"\n'
            f'[music.connect.ada.navidrome]\nurl = "{at}"\nuser = "ada"\npassword = "p"\n'
        )
        with Server(tmp_path) as server:
            for path in ("/health/live", "/health/ready", "/", "/convert", "/feeds", "/lidarr", "/music", "/tautulli"):
                assert server.client.get(path).status_code == 200, path
            assert server.stop()[0] == 0
