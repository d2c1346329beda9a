"""What the pages say: of a server with a past, of a new one, of one without its database, and of each application."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import tidegate
from tests.apps.music.shown import PAGES as MUSIC_PAGES
from tests.apps.music.shown import music_site
from tests.web.every_deed import DEEDS, whole
from tests.web.every_page import AWAY, BREAKING, EMPTY, JOBS, PAGES, a_job, config
from tests.web.local import LocalClient
from tests.web.seeding import END, seeded
from tests.wording import catalogue
from tidegate import Queue
from tidegate.apps import install
from tidegate.clock import VirtualClock
from tidegate.server import there_are
from tidegate.web.app import build
from tidegate.web.pages.forms import COOKIE, Flash
from tidegate.web.site import Site

_UNSAID = re.compile(r"<(script|style|svg|template)\b.*?</\1>|<!--.*?-->", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_INLINE = re.compile(r"</?(?:a|b|code|em|strong|span|time|kbd|abbr)\b[^>]*>")
_NUMBER = re.compile(r"(?<=request )[0-9a-f]+|(?<=worker )[\w-]+-[\w-]+|\d[\d,.:]*")
_ATTRIBUTE = re.compile(r'\b(?:aria-label|placeholder|title|alt)="([^"]+)"')


def lines(page: str) -> Iterator[str]:
    """The sentences of a page, numbers left out, in their order; then those for who hears it."""
    shown = _UNSAID.sub(" ", page)
    for text in (*_TAG.split(_INLINE.sub(" ", shown)), *_ATTRIBUTE.findall(shown)):
        line = _NUMBER.sub("#", " ".join(html.unescape(text).split()))
        if len(re.findall(r"[A-Za-z]+", line)) > 2:  # the words of states are in a catalogue of their own
            yield line


def said(site: Site, pages: Mapping[str, str], seen: set[str]) -> dict[str, str]:
    """The lines of each page that no page before it has."""
    found: dict[str, str] = {}
    with LocalClient(
        build(site), base_url="http://localhost", raise_server_exceptions=False, client=("127.0.0.1", 50000)
    ) as client:
        for name, path in pages.items():
            new = [line for line in dict.fromkeys(lines(client.get(path).text)) if line not in seen]
            seen.update(new)
            if new:
                found[name] = "\n".join(new)
    return found


def test_pages_of_the_server(tmp_path: Path) -> None:
    seen: set[str] = set()
    found: dict[str, str] = {}
    with Queue(f"sqlite:///{tmp_path / 'new.db'}", clock=VirtualClock(END)) as new:
        found |= said(Site(queue=new), EMPTY, seen)
    found |= said(Site(queue=new), AWAY, seen)  # it is closed by now
    (tmp_path / "past").mkdir()
    with seeded(tmp_path / "past"):
        pass
    with Queue(f"sqlite:///{tmp_path / 'past' / 'tidegate.db'}", clock=VirtualClock(END), inline=True) as q:
        jobs = {name: a_job(q, wanted) for name, wanted in JOBS.items()}
        found |= said(Site(queue=q, config=config, apps=[install(BREAKING, q)]), PAGES | jobs, seen)
    catalogue.compare("pages", found)


@pytest.mark.full
def test_messages_of_forms(tmp_path: Path) -> None:
    found: dict[str, str] = {}
    with whole(tmp_path) as there:
        client = there.client()
        for route, ask in DEEDS.items():
            method, page = route.split(" ", 1)
            path, sent = ask(there)
            answer = client.request(method, path, follow_redirects=False, **sent)
            told = Flash.load(answer.cookies.get(COOKIE) or "")
            if told is not None:
                text = re.sub(r" \(ConnectError.*", "", catalogue.timeless(told.text))  # as the system says it
                found[page] = f"{told.tone}: {_NUMBER.sub('#', text)}"
    catalogue.compare("messages", found)


def test_messages_of_scripts() -> None:
    found: dict[str, str] = {}
    for file in sorted(Path(tidegate.__file__).parents[1].glob("tidegate*/**/static/*.js")):
        code = re.sub(r"(?m)(^|\s)//.*$", "", file.read_text("utf-8"))
        texts = (text for _, text in re.findall(r"([\"`])((?:(?!\1).)*?)\1", code))
        said = [text for text in texts if re.match(r"[A-Z]\w*( \S+){2}", text)]
        if said:
            found[file.name] = "\n".join(dict.fromkeys(said))
    catalogue.compare("scripts", found)


def test_pages_of_applications(tmp_path: Path) -> None:
    seen: set[str] = set()
    found: dict[str, str] = {}
    with music_site(tmp_path, END) as site:
        found |= said(site, MUSIC_PAGES, seen)
    for app in there_are()[0]:
        with Queue(f"sqlite:///{tmp_path / app.name}.db", clock=VirtualClock(END)) as q:
            there = install(app, q, app.settings() if app.settings else None)
            found |= said(
                Site(queue=q, apps=[there]), {each.path: each.path for each in app.pages if "{" not in each.path}, seen
            )
    catalogue.compare("pages_of_applications", found)
