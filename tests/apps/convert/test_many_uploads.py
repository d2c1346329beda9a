"""Many files that come in at once go to the disk, not into memory; who finds no room is told so, and when to come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.apps.convert.building import KEY
from tests.apps.convert.crowding import MB, PEAKS, Told, Upload, crowd, forget_peak, peak
from tests.processes import Place, wait
from tests.web.api.building import listening
from tidegate import Queue
from tidegate.apps import install
from tidegate.web.app import build
from tidegate.web.auth import Authenticator
from tidegate.web.site import Site
from tidegate_apps.convert.app import app
from tidegate_apps.convert.settings import ConvertSettings
from tools import figures

pytestmark = pytest.mark.skipif(not PEAKS.exists(), reason="only Linux counts the peak of memory anew")


@contextmanager
def server(folder: Path, at_once: int) -> Iterator[str]:
    """The address of one in this process that takes *at_once* uploads at a time, and works on nothing."""
    with Queue(f"sqlite:///{folder / 't.db'}") as queue:
        there = install(app, queue, ConvertSettings(storage=str(folder), least_free=0.0, uploads_at_once=at_once))
        with there.closing, listening(build(Site(queue=queue, apps=[there], access=Authenticator(secrets=KEY)))) as url:
            yield url


def begun_and_ended(address: str) -> None:
    first = Upload(address, 0, MB)
    first.begin()
    assert first.end().status == 202


def check(told: Told) -> None:
    assert {each.status for each in told.taken} == {202}
    assert len({each.body["id"] for each in told.taken}) == len(told.taken)
    assert {(each.status, each.headers["retry-after"]) for each in told.late} == {(503, "5")}
    assert (told.large.status, told.large.body["code"], told.large.headers["connection"]) == (413, "TOO_LARGE", "close")


@pytest.mark.req("CNV-02")
def test_files_that_come_in_at_once_are_not_held_in_memory(tmp_path: Path) -> None:
    with server(tmp_path, at_once=8) as address:
        begun_and_ended(address)
        before = forget_peak()
        told = crowd(address, tmp_path / "drafts", at_once=8, size=10 * MB, late=1)
        grown = peak() - before
    check(told)
    assert grown < 40, f"{grown:.0f} MB for 80 MB"
    assert [each.stat().st_size for each in sorted((tmp_path / "pdf").iterdir())].count(10 * MB) == 8
    assert not list((tmp_path / "drafts").iterdir())


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(600)
@pytest.mark.req("CNV-02")
def test_twenty_files_of_50_mb_at_once_cost_the_whole_server_less_than_64_mb(tmp_path: Path) -> None:
    place = Place(tmp_path / "server", "convert", {"least_free": 0.0})
    place.start()
    try:
        wait(place.up, "the server is up")
        begun_and_ended(place.url)
        wait(lambda: idle(place), "the first one is converted")
        before = forget_peak(place.pid)
        told = crowd(place.url, place.folder / "tidegate-files" / "drafts", at_once=20, size=50 * MB, late=4)
        came_in = peak(place.pid) - before
        wait(lambda: idle(place), "all were given to the gateway")
        grown = peak(place.pid) - before
    finally:
        place.close()
    print(f"before {before:.0f} MB, coming in +{came_in:.0f} MB, with converting +{grown:.0f} MB")  # noqa: T201
    if figures.asked():
        rows = [
            ("memory of the server before", f"{before:.0f} MB"),
            ("growth while they came in", f"{came_in:.0f} MB"),
            ("growth in all, with the conversions in its own gateway", f"{grown:.0f} MB"),
            ("uploads accepted", sum(each.status == 202 for each in told.taken)),
            ("4 more meanwhile, refused with 503", sum(each.status == 503 for each in told.late)),
            ("one of 51 MB", told.large.status),
        ]
        figures.write("large-uploads", figures.table(["20 uploads of 50 MB at once", "found"], rows))
    check(told)
    assert grown < 64


def idle(place: Place) -> bool:
    lines = httpx2.get(f"{place.url}/metrics", timeout=60).text.splitlines()
    counts = [line for line in lines if line.startswith(("queue_depth{", "jobs_active{")) and 'queue="convert"' in line]
    return len(counts) == 2 and all(float(line.split()[-1]) == 0 for line in counts)
