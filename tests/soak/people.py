"""The services of the five applications, and the people who use them: `python -m tests.soak.people FOLDER URL PORT`.

A process of its own, because what services remember of their callers is no leak of those. It writes the settings of
all the others, says so, and then works and breaks things until its input ends.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx2

from tests.processes import toml
from tests.soak.application import BURST
from tests.soak.household import Household
from tests.soak.processes import or_all_ends
from tidegate import server
from tidegate.apps import App
from tidegate.apps import simulated as simulated_services
from tidegate.errors import StoreBusy
from tidegate.settings import load
from tidegate_demo.app import demo
from tidegate_demo.player import DemoRunner, StoryPlayer
from tidegate_demo.stage import DemoEnvironment, Services, pdf
from tidegate_demo.story import STORY, TROUBLES

PAGES = (
    "/", "/queue", "/targets", "/failures", "/workers", "/charts", "/notices", "/activity", "/channels", "/settings",
    "/help", "/convert", "/feeds", "/music", "/lidarr", "/tautulli", "/metrics", "/health/ready", "/api/v1/jobs",
    "/nowhere",
)  # fmt: skip
KEPT = "2m"  # everything that may be forgotten, is forgotten after so long
_OWN_TIMES = (
    "convert",
    "convert-upkeep",
    "lidarr-look",
    "lidarr-wake",
    "tautulli",
)  # queues that say how long they keep
_LIVE = {"accept": "text/event-stream"}
_EVERY = 0.25  # seconds between two plain jobs
_BURSTS = 150  # plain jobs between two bursts of long ones
_TROUBLE = 20.0  # seconds between two services that break


def settings(folder: Path, url: str, port: int, simulated: Mapping[str, Mapping[str, Any]], *, leaks: bool) -> str:
    """The settings of the demo, with a database, services and a retention of our own."""
    said = tomllib.loads((files("tidegate_demo") / "tidegate.toml").read_text())
    for name, values in simulated.items():
        for field, value in values.items():
            table = said[name].get(field)
            said[name][field] = {**table, **value} if isinstance(table, dict) else value
    said["convert"] |= {"storage": str(folder / "files"), "keep_pdf": KEPT, "keep_xml": KEPT}
    said["worker"]["concurrency"] = 4  # its threads are there soon, and any more would be a leak
    said["plain"] = {"leaks": leaks}
    said["log"] = {"level": "warning", "format": "json"}
    kept = {"done": KEPT, "failed": KEPT, "cancelled": KEPT}
    said["retention"] = {**kept, **dict.fromkeys(_OWN_TIMES, kept)}
    said["server"] = {"port": port}
    return toml({"db": url, "secret_key_file": str(folder / "tidegate.key"), **said})


@contextlib.contextmanager
def running(services: Services, apps: list[App[Any]]) -> Iterator[dict[str, Mapping[str, Any]]]:
    """The simulators, and the settings of those who call them."""
    with contextlib.ExitStack() as stack:
        found = {}
        for app in services.under(apps):
            simulated = simulated_services(app)
            assert simulated is not None
            found[app.name] = simulated.settings(simulated.simulator.start())
            stack.callback(simulated.simulator.stop)
        yield found


class Browsers:
    """People who look at every page, leave live ones open for a while, and upload files."""

    def __init__(self, address: str, stop: threading.Event) -> None:
        self._address, self._stop = address, stop
        self.asked = self.failed = 0

    def run(self) -> None:
        for n in itertools.count():
            with httpx2.Client(base_url=self._address, timeout=30) as client:
                for page in PAGES:
                    if self._stop.wait(0.4):
                        return
                    self._look(client, page)
                self._watch(client)
                self._upload(client, n)

    def _look(self, client: httpx2.Client, page: str) -> None:
        self.asked += 1
        try:
            answer = client.get(page)
            self.failed += answer.status_code >= 500 or answer.is_redirect  # a page that has moved is not looked at
        except httpx2.TransportError:
            self.failed += 1

    def _watch(self, client: httpx2.Client) -> None:
        """A page that refreshes itself, closed after a few lines."""
        with contextlib.suppress(httpx2.TransportError), client.stream("GET", "/live", headers=_LIVE) as answer:
            for _ in zip(range(3), answer.iter_lines(), strict=False):
                pass

    def _upload(self, client: httpx2.Client, n: int) -> None:
        with contextlib.suppress(httpx2.TransportError):
            client.post("/api/upload", files={"file": (f"{n}.pdf", pdf(f"Page {n}"), "application/pdf")})


def break_and_mend(stage: DemoEnvironment, dice: random.Random) -> None:
    """What is broken is mended; then something else breaks."""
    for trouble in TROUBLES.values():
        for do in trouble.undo if trouble.on(stage) else ():
            do(stage)
    for do in dice.choice(list(TROUBLES.values())).do:
        do(stage)


class Living:
    """Plain jobs all the time, what people do at the five applications, and services that break."""

    def __init__(self, stage: DemoEnvironment, plain: Any, stop: threading.Event) -> None:
        self._stage, self._plain, self._stop = stage, plain, stop
        self._dice, self._due = random.Random(5), time.monotonic() + 2 * _TROUBLE
        self.put = self.refused = 0

    def run(self) -> None:
        # By the clock, and caught up when the machine was busy: else the tables would be as long as it is idle.
        began = time.monotonic()
        while not self._stop.wait(max(0.0, began + self.put * _EVERY - time.monotonic())):
            self.put += 1
            try:
                self._once(self.put)
            except StoreBusy:  # as for everybody: what was not taken is put in again, or left
                self.refused += 1

    def _once(self, n: int) -> None:
        made = self._plain["work" if n // 10 % 2 else "beside"].enqueue(n)
        if n % 5 == 0:
            self._plain["after"].options(after=[made]).enqueue(n)
        if n % _BURSTS == 0:
            for each in range(BURST):
                self._plain["long"].enqueue(each)
        if n % 10 == 0:
            self._stage.people(self._stage.measure())
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _TROUBLE
            break_and_mend(self._stage, self._dice)


def main(folder: Path, url: str, port: int, *, leaks: bool) -> None:
    found, broken = server.there_are()
    services, stop = Services(), threading.Event()
    theatre = DemoRunner(Household(services), StoryPlayer(STORY, on=False))
    with running(services, found) as simulated:
        file = folder / "tidegate.toml"
        file.write_text(settings(folder, url, port, simulated, leaks=leaks))
        apps = [demo(theatre), *found]
        loaded = load(file=file, environ={}, apps=apps, broken=broken)
        with server.assembled(loaded, apps) as there:
            there.queue.store.now()
            print("ready", flush=True)  # noqa: T201
            sys.stdin.readline()  # the others have started
            theatre.environment.fill(there.apps)
            plain = next(each.jobs for each in there.apps if each.app.name == "plain")
            browsers, living = Browsers(f"http://127.0.0.1:{port}", stop), Living(theatre.environment, plain, stop)
            threads = [threading.Thread(target=or_all_ends, args=(each.run,)) for each in (browsers, living)]
            for each in threads:
                each.start()
            sys.stdin.read()
            stop.set()
            for each in threads:
                each.join()
            pages = f"{browsers.asked} pages asked for, {browsers.failed} not answered"
            print(f"{pages}; {living.put} plain jobs put in, {living.refused} refused", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), leaks="leak" in sys.argv[4:])
