"""What is there when somebody looks for the first time: files, feeds, a library, and albums that Lidarr is to get."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from tidegate.apps import DbTx, Installed
from tidegate_apps.convert import intake
from tidegate_apps.convert.receiving import UploadReceiver
from tidegate_apps.demo.services import FEEDS, LISTENER, Services
from tidegate_apps.feeds.source import AUTO, SourceRequest
from tidegate_apps.music.library import tables
from tidegate_apps.music.names import key_of

VISITOR = "demo"  # as whom all browsers upload
OWNER = f"visitor:{VISITOR}"
_PAPERS = ("Tide table", "Invoice", "Harbour report", "Survey of the sluice", "Minutes", "Log", "Lease", "Chart")
_FIRST = ("Grey", "Northern", "Quiet", "Second", "Salt", "Distant", "Lower", "Broken", "Early", "Hidden")
_LAST = ("Harbours", "Lanterns", "Ferries", "Buoys", "Estuary", "Signals", "Pilots", "Moorings", "Shoals", "Currents")
_TITLES = (
    "Slack Water", "Ebb", "Flood", "Neap", "Spring", "Undertow", "Soundings", "Landfall", "Leeward", "Windward",
)  # fmt: skip


def pdf(text: str) -> bytes:
    """A small file of one page with one line of text."""
    line = text.encode("ascii", "replace").replace(b"\\", b"").replace(b"(", b"").replace(b")", b"")
    drawn = b"BT /F 24 Tf 72 760 Td (" + line + b") Tj ET"
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(drawn), drawn),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    body, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%s endobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    return (
        body
        + head
        + table
        + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
        % (
            len(objects) + 1,
            len(body),
        )
    )


def upload(convert: Installed[Any], number: int) -> None:
    """One more file of somebody, put in as the page does."""
    name = f"{_PAPERS[number % len(_PAPERS)]} {number + 1}"
    with convert.jobs.storage.draft() as draft:
        got = UploadReceiver(draft, convert.settings.most_bytes)
        got.begun(f"{name}.pdf")
        got.add(pdf(name))
        intake.take(convert, OWNER, got, draft)


def add_feeds(feeds: Installed[Any], services: Services) -> None:
    wanted = [SourceRequest(feed_url=services.feeds.feed(n), name=f"Simulated feed {n}") for n in range(1, FEEDS + 1)]
    for id_ in feeds.jobs.sources.add_many(wanted, AUTO):
        if id_ is not None:
            feeds.jobs.sources.poll_now(id_)


def bands(first: int, n: int) -> list[str]:
    """Names, always the same ones, and no two alike."""
    names = [f"{one} {two}" for one, two in product(_FIRST, _LAST)]
    rounds = ((number // len(names), names[number % len(names)]) for number in range(first, first + n))
    return [f"{name} {number + 1}" if number else name for number, name in rounds]


def add_albums(lidarr: Installed[Any], names: Sequence[str]) -> None:
    """Ten albums of each band come into the library."""

    def write(tx: DbTx) -> None:
        tx.all("add_user", user_id=LISTENER, at=lidarr.queue.clock.now())
        for name in names:
            band = {"user_id": LISTENER, "name": name, "name_key": key_of(name), "mbid": _id(name)}
            artist = tx.all("add_artist", **band)[0][0]
            for title in _TITLES:
                album = {"title": title, "name_key": key_of(title), "mbid": _id(f"{name} {title}")}
                tx.all("add_album", user_id=LISTENER, artist_id=artist, **album)

    tables(lidarr.queue).write(write)


def put_into_lidarr(services: Services, names: Sequence[str]) -> None:
    """Lidarr has all of them already."""
    inside = services.lidarr.inside
    for name in names:
        artist = inside.put_artist(_id(name), name)
        for title in _TITLES:
            inside.put_album(_id(f"{name} {title}"), artist["id"], monitored=True)["files"] = 10


def _id(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))
