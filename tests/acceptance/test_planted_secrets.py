"""A secret that anybody puts anywhere is found nowhere: no log, page, answer, event, export or file has it."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import psycopg
import pytest

from tests.acceptance.planted_secrets import INPUTS, SENT, Echo, echo, leaks, settings, value
from tests.databases import POSTGRES, database
from tests.processes import COMMAND, wait

# Where a secret may be found, and why.
KNOWN = {
    ("query", "GET /nothing"): "a page leads to itself, and only who asked for it reads it",
    **dict.fromkeys(
        [(name, f"GET {path}") for name in ("feed_user", "feed_query")
         for path in ("/api/v1/sources", "/api/v1/sources/opml", "/feeds/export.opml")],
        "an admin may change the address of a feed, and so sees it whole; who only reads does not",
    ),
    **dict.fromkeys(
        [(name, f"file {file}") for name in ("feed_user", "feed_query") for file in ("t.db", "t.db-wal")],
        "the address of a feed is looked for in its table, so it is kept as it is",
    ),
}  # fmt: skip
COMMANDS = ("config --json", "doctor", "channels list --json", "activity --json", "export alerts")
MORE_COMMANDS = (
    "config", "doctor --json", "channels list", "targets list --json", "jobs list --json", "user list --json",
    "token list --json", "export grafana", "channels test hook", "channels test mail", "channels test all",
)  # fmt: skip


@dataclass
class Place:
    """A server in a folder, asked by whoever is at the machine until there is a user, and then by ada."""

    folder: Path
    environ: dict[str, str]
    url: str = ""
    sinks: dict[str, bytes] = field(default_factory=dict)
    client: httpx2.Client = field(default_factory=lambda: httpx2.Client(timeout=60))

    def run(self, line: str, stdin: str = "", **environ: str) -> str:
        """What a command prints, which is also looked at."""
        run = subprocess.run(
            [COMMAND, *line.split()], cwd=self.folder, env={**self.environ, **environ}, check=False, text=True,
            input=stdin, capture_output=True,
        )  # fmt: skip
        self.sinks[f"$ tidegate {line.partition(' --db')[0]}"] = (run.stdout + run.stderr).encode()
        return run.stdout

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """An answer, which is also looked at."""
        answer = self.client.request(method, f"{self.url}{path}", **more)
        said = "\n".join(f"{name}: {text}" for name, text in answer.headers.items())
        self.sinks[f"{method} {path.partition('?')[0]}"] = said.encode() + b"\n" + answer.content
        return answer


@contextmanager
def served(folder: Path, database: str) -> Iterator[Place]:
    with echo() as (at, mail):
        (folder / "tidegate.toml").write_text(f'db = "{database}"\n{settings(at, mail)}')
        (folder / "tautulli.key").write_text(value("tautulli_key"))
        place = Place(folder, {**os.environ, "LIDARR_CANARY": value("lidarr_key"), "ECHO": at})
        with (folder / "log").open("w") as log:
            server = subprocess.Popen(
                [COMMAND, "serve", "--port", "0", "--json"], cwd=folder, env=place.environ, stdout=subprocess.PIPE,
                stderr=log, text=True,
            )  # fmt: skip
        assert server.stdout is not None
        with server, server.stdout:
            try:
                first = server.stdout.readline()
                assert first, (folder / "log").read_text()[-2000:]
                place.sinks["what the server prints first"] = first.encode()
                place.url = json.loads(first)["address"]
                yield place
            finally:
                place.client.close()
                server.terminate()
                server.wait(60)


def plant(place: Place) -> None:
    """All that is not in the settings."""
    v, at = {name: value(name) for name in INPUTS}, place.environ["ECHO"]
    ask = place.ask
    connection = {"values": {"url": f"http://{at}", "user": "ada", "password": v["navidrome_password"]}}
    assert ask("PUT", "/api/v1/music/connections/navidrome", json=connection).status_code < 300
    for url in (f"http://me:{v['feed_user']}@{at}/feed", f"http://{at}/feed?token={v['feed_query']}"):
        assert ask("POST", "/api/v1/sources", json={"feed_url": url, "name": "a feed"}).status_code < 300
    ask("POST", "/api/upload", files={"file": ("a.pdf", b"%PDF-1.7 x", "application/pdf")})
    ask("POST", "/api/v1/lidarr/look")
    ask("POST", "/api/v1/lidarr/wake")
    ask("POST", "/api/v1/tautulli/sync")
    ask("POST", "/api/v1/channels/hook/test")
    ask("POST", "/api/v1/channels/mail/test")
    ask("POST", "/api/v1/channels/all/test")
    ask("POST", "/api/v1/classify", json={"status": 401, "headers": {"X-Api-Key": v["classified"]}, "body": "no"})
    ask("GET", f"/api/v1/jobs?api_key={v['query']}")
    ask("GET", f"/nothing?password={v['query']}")
    ask("GET", "/api/v1/jobs", headers={"X-Api-Key": v["header"]})
    ask("GET", "/api/v1/overview", headers={"Authorization": f"Bearer {v['bearer']}"})
    ask("GET", "/api/v1/workers", headers={"Authorization": v["bearer"]})
    ask("GET", "/api/v1/notices", headers={"Cookie": f"tidegate_session={v['cookie']}; tidegate_owner={v['cookie']}"})
    ask("POST", "/api/v1/sources", json={"password": v["body"], "feed_url": {"token": v["body"]}})
    ask("PUT", "/api/v1/music/connections/navidrome", json={"values": {"password": v["body"], "token": v["body"]}})
    ask("POST", "/api/v1/bulk-actions", json={"action": v["body"], "filter": v["body"]})
    page = {"Origin": place.url}
    ask("POST", "/music/connect/navidrome", headers=page, data={"url": "no address", "password": v["form"]})
    ask("POST", "/people/add", headers=page, data={"name": "no name!", "password": v["form"], "role": "x"})
    place.run("user add ada --role admin --password-stdin", stdin=v["user_password"] + "\n")
    ask("POST", "/sign-in", headers=page, data={"name": "ada", "password": v["wrong_password"]})
    ask("POST", "/sign-in", headers=page, data={"name": "ada", "password": v["user_password"]})
    assert ask("GET", "/people").status_code == 200, "ada is in"
    away = "postgresql://ada:{}@127.0.0.1:1/none?connect_timeout=2"
    for command in ("jobs list", "doctor"):
        place.run(f"{command} --db {away.format(v['flag'])}")
    place.run("targets list", TIDEGATE_DB=away.format(v["variable"]))


def look(place: Place, commands: tuple[str, ...]) -> None:
    """Every page and every answer, as an admin, and what commands say."""
    described = place.ask("GET", "/api/openapi.json").json()["paths"]
    asked = [path for path, methods in described.items() if "get" in methods and "{" not in path]
    pages = set(re.findall(r'href="(/[^"#]*)"', "".join(place.ask("GET", path).text for path in ("/", "/settings"))))
    found: set[str] = set()
    for path in [*asked, *sorted(pages), "/metrics", "/health/workers", "/feeds/export.opml", "/activity.atom"]:
        if "/live" not in path:  # that has no end
            found |= set(re.findall(r'href="(/[^"#]*)"', place.ask("GET", path).text))
    kinds = {
        re.sub(r"\d+", "0", path.partition("?")[0]): path for path in sorted(found - pages) if "/static" not in path
    }
    for path in kinds.values():
        place.ask("GET", path)
    for command in commands:
        place.run(command)


def rest(folder: Path) -> dict[str, bytes]:
    """The files that the server wrote: its log, its database as it is on disk, what was uploaded."""
    ours = ("tidegate.toml", "tautulli.key")
    return {
        f"file {path.relative_to(folder)}": path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ours
    }


def test_what_is_looked_for_is_found_however_it_is_written() -> None:
    for name in INPUTS:
        secret = value(name)
        for written in (
            secret, f"a {secret}.", quote(f"x&{secret}"), json.dumps({"a": secret}), secret.encode().hex(),
            *(base64.b64encode(f"{'ada:'[:n]}{secret}".encode()).decode() for n in range(4)),
        ):  # fmt: skip
            assert leaks({"a place": written.encode()}) == [(name, "a place")], written
    assert leaks({"a place": b"nothing"}) == []


@pytest.mark.full
def test_no_secret_is_found_anywhere(tmp_path: Path) -> None:
    with served(tmp_path, "sqlite:///t.db") as place:
        plant(place)
        wait(lambda: not missing(), "each was sent to the service that it is for")
        look(place, COMMANDS)
        place.sinks |= rest(tmp_path)  # with what is not in the database itself yet
    place.sinks |= rest(tmp_path)
    assert len(place.sinks) > 80
    assert [each for each in leaks(place.sinks) if each not in KNOWN] == []


@pytest.mark.long
def test_no_secret_is_found_anywhere_on_postgresql(tmp_path: Path) -> None:
    with database(POSTGRES, tmp_path, fresh=True) as db:
        with served(tmp_path, db.url) as place:
            plant(place)
            wait(lambda: not missing(), "each was sent to the service that it is for")
            look(place, (*COMMANDS, *MORE_COMMANDS))
        place.sinks |= rest(tmp_path) | tables(db.url)
    known = {
        *KNOWN,
        *((name, f"table feeds_{of}") for name in ("feed_user", "feed_query") for of in ("source", "state")),
    }
    assert [each for each in leaks(place.sinks) if each not in known] == []


def tables(url: str) -> dict[str, bytes]:
    """Every row of every table, as text."""
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        ).fetchall()
        return {
            f"table {name}": "\n".join(
                row[0] for row in connection.execute(f'SELECT t::text FROM "{schema}"."{name}" t')
            ).encode()
            for schema, name in names
        }


def missing() -> list[str]:
    """Whoever gets no secret cannot tell it to anybody, and proves nothing."""
    return sorted(name for name in SENT if not leaks({"the services": Echo.heard}, [name]))
