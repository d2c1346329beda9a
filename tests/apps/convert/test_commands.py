"""`tidegate convert`: from a terminal, all by itself and against a server."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apps.convert import pdfs
from tests.apps.convert.building import XML, Place
from tests.apps.convert.processes import COMMAND
from tests.text import numbers
from tests.web.serving import running
from tidegate.cli.root import run
from tidegate.server import WorkerThread
from tidegate.testing import Simulator, Step
from tidegate_apps.convert.codes import LINES


@pytest.fixture
def url(place: Place) -> Iterator[str]:
    with running(place.site) as base:
        yield base


def test_files_are_converted_here_and_each_failure_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "good.pdf").write_bytes(pdfs.text())
    (tmp_path / "a/good.pdf").write_bytes(pdfs.text(seed=2))
    (tmp_path / "bad.pdf").write_bytes(pdfs.zip_renamed())
    (tmp_path / "locked.pdf").write_bytes(pdfs.encrypted())
    names = [str(tmp_path / name) for name in ("good.pdf", "a/good.pdf", "bad.pdf", "locked.pdf")]

    code = run(["convert", "run", *names, "-o", str(tmp_path / "xml"), "--json"])

    found = json.loads(capsys.readouterr().out)
    assert code == 1
    assert [Path(each["xml"]).name if each["xml"] else None for each in found] == ["good.xml", "good-2.xml", None, None]
    assert [each["code"] for each in found] == [None, None, "NOT_PDF", "GW_4XX"]
    assert found[3]["message"].startswith(LINES["GW_4XX"])
    assert sorted(path.name for path in (tmp_path / "xml").iterdir()) == ["good-2.xml", "good.xml"]
    assert (tmp_path / "xml/good.xml").read_bytes().startswith(b"<?xml")


@pytest.mark.req("CNV-10")
def test_a_terminal_shows_one_line_for_each_file_and_nothing_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "good.pdf").write_bytes(pdfs.text())
    (tmp_path / "locked.pdf").write_bytes(pdfs.encrypted())
    ran = subprocess.run(
        [COMMAND, "convert", "run", "good.pdf", "locked.pdf", "-o", "xml"], cwd=tmp_path, text=True,
        capture_output=True, check=False, timeout=100,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (1, "good.pdf: xml/good.xml\n")
    locked, total = ran.stderr.splitlines()
    assert locked.startswith(f"locked.pdf: {LINES['GW_4XX']} ")
    assert numbers(total) == [1, 2]


def test_what_is_there_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-")
    (tmp_path / "a.xml").write_text("mine")
    assert run(["convert", "run", str(tmp_path / "a.pdf"), "-o", str(tmp_path)]) == 2
    assert "a.xml already exists" in capsys.readouterr().err
    assert (tmp_path / "a.xml").read_text() == "mine"


def test_a_server_does_it(place: Place, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7 a")
    (tmp_path / "b.pdf").write_bytes(b"no")
    engine = WorkerThread(lambda stop: place.queue.arun_worker(2, stop=stop, queues={"convert"}))
    engine.start()
    try:
        code = run(
            ["convert", "run", str(tmp_path / "a.pdf"), str(tmp_path / "b.pdf"), "-o", str(tmp_path), "--server", url]
        )
    finally:
        engine.ask()
        engine.join(30)
    told = capsys.readouterr()
    assert code == 1
    assert told.out == f"{tmp_path / 'a.pdf'}: {tmp_path / 'a.xml'}\n"
    assert told.err.startswith(f"{tmp_path / 'b.pdf'}: {LINES['NOT_PDF']}\n")
    assert "1 of 2" in told.err


@pytest.mark.req("CNV-18")
def test_uploads_are_paused_and_taken_again(place: Place, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    url = place.queue.url
    assert run(["convert", "uploads", "pause", "30m", "--db", url]) == 0
    place.clock.advance(time.time() - place.clock.now())  # the command reads the clock on the wall
    assert place.upload().status_code == 503
    assert run(["convert", "uploads", "resume", "--db", url]) == 0
    assert place.upload().status_code == 202
    deeds = place.client.get("/api/v1/activity").json()["items"]
    assert [(each["origin"], each["action"]) for each in deeds] == [("cli", "target_resumed"), ("cli", "target_paused")]
    assert run(["convert", "uploads", "pause", "soon", "--db", url]) == 2


@pytest.mark.req("CNV-18")
def test_a_pause_of_no_time_or_of_months_is_not_taken(place: Place) -> None:
    for seconds in (0, 1e-9, 60 * 86400):
        assert place.client.post("/api/convert/uploads/pause", json={"seconds": seconds}).status_code == 422, seconds
    for lasts in ("0", "0.5s", "60d"):
        assert run(["convert", "uploads", "pause", lasts, "--db", place.queue.url]) == 2, lasts
    place.clock.advance(time.time() - place.clock.now())  # the command reads the clock on the wall
    assert place.upload().status_code == 202


def test_a_name_that_is_no_text_is_converted_here_and_by_a_server(
    place: Place, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / os.fsdecode(b"caf\xe9.pdf")
    file.write_bytes(b"no")
    for more in ([], ["--server", url]):
        assert run(["convert", "run", str(file), "-o", str(tmp_path), *more]) == 1
        assert LINES["NOT_PDF"] in capsys.readouterr().err


def _told(**answers: Any) -> Simulator:
    sim = Simulator("server")
    sim.on("POST /api/upload", answers.get("upload", Step(202, {"id": 7})))
    sim.on("GET /api/jobs/7", answers.get("state", Step(200, {"id": 7, "status": "complete"})))
    sim.on("GET /api/jobs/7/download", answers.get("download", XML))
    return sim


@pytest.mark.parametrize("where", ["upload", "state", "download"])
def test_a_problem_of_the_server_ends_the_run_of_a_file_with_its_words(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-")
    problem = Step(503, {"status": 503, "code": "store_away", "detail": "The database is away."})
    with _told(**{where: problem}) as sim:
        assert run(["convert", "run", str(tmp_path / "a.pdf"), "-o", str(tmp_path), "--server", sim.url]) == 1
    assert capsys.readouterr().err == f"{tmp_path / 'a.pdf'}: The database is away.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.pdf"], "nothing half written stays"


def test_a_server_that_starts_again_in_the_middle_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-")
    with _told() as sim:
        sim.then("GET /api/jobs/7", Step(reset=True), Step(502, "Bad Gateway"))
        sim.then("GET /api/jobs/7/download", Step(200, XML, cut=5), Step(reset=True))
        assert run(["convert", "run", str(tmp_path / "a.pdf"), "-o", str(tmp_path), "--server", sim.url]) == 0
    assert (tmp_path / "a.xml").read_bytes() == XML


def test_a_server_that_is_not_there_or_does_not_run_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7 a")
    assert run(["convert", "run", str(tmp_path / "a.pdf"), "-o", str(tmp_path), "--server", "http://127.0.0.1:9"]) == 4
    assert "http://127.0.0.1:9" in capsys.readouterr().err
    with Simulator() as sim:
        sim.on("GET /", "another program")
        assert run(["convert", "run", str(tmp_path / "a.pdf"), "-o", str(tmp_path), "--server", sim.url]) == 6


def test_the_gateway_is_among_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["convert", "--help"]) == 0
    assert "gateway" in capsys.readouterr().out
