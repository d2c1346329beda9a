"""`tidegate convert run`: the same work by a server, or all by itself with a queue and a gateway for the moment."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from tidegate.commands import CliError, Exit
from tidegate_apps.convert.receiving import name_of

if TYPE_CHECKING:
    from tidegate.apps import Installed
    from tidegate_apps.convert.settings import ConvertSettings

_OWNER = "local"
_POLL_INTERVAL = 0.1  # seconds between two looks
_ENDED = ("complete", "failed")


class Converter(Protocol):
    """Takes files, and knows what became of them."""

    def put(self, file: Path, mapping: str) -> dict[str, Any]:
        """The job; or a `message` why there is none."""

    def state(self, job: str) -> dict[str, Any]: ...

    def fetch(self, job: str, place: Path) -> None: ...


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of one file."""

    file: Path
    xml: Path | None
    message: str = ""
    code: str | None = None

    @property
    def ok(self) -> bool:
        return self.xml is not None

    def as_json(self) -> dict[str, Any]:
        return {
            "file": str(self.file), "xml": None if self.xml is None else str(self.xml), "code": self.code,
            "message": self.message,
        }  # fmt: skip


def report(converter: Converter, places: Mapping[Path, Path], mapping: str, quiet: bool) -> list[FileOutcome]:
    """Converts all, and shows how far it is: a bar on a terminal, else a line for each file; then how many."""
    done: dict[Path, FileOutcome] = {}
    with _telling(len(places), quiet) as tell:
        waiting: dict[Path, str] = {}
        for file in places:
            told = converter.put(file, mapping)
            if "id" in told:
                waiting[file] = str(told["id"])
            else:
                done[file] = tell(FileOutcome(file, None, told["message"], told.get("code")))
        while waiting:
            for file, job in list(waiting.items()):
                found = converter.state(job)
                if found["status"] in _ENDED:
                    del waiting[file]
                    done[file] = tell(_ended(converter, file, places[file], found))
            if waiting:
                time.sleep(_POLL_INTERVAL)
    well = sum(each.ok for each in done.values())
    if not quiet and len(done) > 1:
        click.echo(f"{well} of {len(done)} files are converted", err=True)
    return [done[file] for file in places]


def _ended(converter: Converter, file: Path, place: Path, found: dict[str, Any]) -> FileOutcome:
    if found["status"] == "failed":
        return FileOutcome(file, None, found["error_message"], found["error_code"])
    draft = place.with_name(f".{place.name}.part")
    try:
        converter.fetch(str(found["id"]), draft)
        draft.replace(place)
    except CliError as error:
        if error.exit_code != Exit.REFUSED:
            raise  # then none of the files can be done
        return FileOutcome(file, None, error.message)
    finally:
        draft.unlink(missing_ok=True)
    return FileOutcome(file, place)


def shown_name(file: Path) -> str:
    """The name of a file as an upload may have it; on the disk it may be no text."""
    return name_of(os.fsencode(file.name))


@contextmanager
def _telling(total: int, quiet: bool) -> Iterator[Any]:
    def line(outcome: FileOutcome) -> str:
        became = outcome.message if outcome.xml is None else click.format_filename(outcome.xml)
        return f"{click.format_filename(outcome.file)}: {became}"

    def tell(outcome: FileOutcome) -> FileOutcome:
        if not quiet:
            click.echo(line(outcome), err=not outcome.ok)
        return outcome

    if quiet or not sys.stderr.isatty():
        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("converting"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)

        def shown(outcome: FileOutcome) -> FileOutcome:
            bar.console.print(line(outcome), markup=False, highlight=False)
            bar.advance(task)
            return outcome

        yield shown


class LocalConverter:
    def __init__(self, app: Installed[ConvertSettings]) -> None:
        self._app = app

    def put(self, file: Path, mapping: str) -> dict[str, Any]:
        from tidegate.web import Problem
        from tidegate_apps.convert.intake import take
        from tidegate_apps.convert.receiving import UploadReceiver
        from tidegate_apps.convert.storage import pieces

        with self._app.jobs.storage.draft() as draft, file.open("rb") as opened:
            got = UploadReceiver(draft, self._app.settings.most_bytes)
            got.begun(shown_name(file))
            got.fields["mapping"] = mapping
            try:
                for piece in pieces(opened):
                    got.add(piece)
                return take(self._app, _OWNER, got, draft).file.as_json()
            except Problem as error:
                return {"message": str(error.detail), "code": error.code}

    def state(self, job: str) -> dict[str, Any]:
        from tidegate_apps.convert.owned import own_file

        return own_file(self._app, job, _OWNER).as_json()

    def fetch(self, job: str, place: Path) -> None:
        from tidegate_apps.convert.owned import own_file
        from tidegate_apps.convert.storage import pieces

        key = own_file(self._app, job, _OWNER).made["path"]
        with self._app.jobs.storage.open(key) as source, place.open("wb") as file:
            for piece in pieces(source):
                file.write(piece)


@contextmanager
def here(mapping: str, mappings: Path | None = None) -> Iterator[Converter]:
    """A queue, a folder and a gateway that are gone afterwards; UsageError when there is no such mapping."""
    from tidegate import Queue
    from tidegate.apps import install
    from tidegate_apps.convert.app import app
    from tidegate_apps.convert.settings import ConvertSettings

    logging.getLogger("tidegate").addHandler(logging.NullHandler())  # what a person needs, each file says
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-convert-"))
        queue = stack.enter_context(Queue(f"sqlite:///{folder}/jobs.db"))
        given = ConvertSettings(
            storage=f"{folder}/files", least_free=0, mappings="" if mappings is None else str(mappings)
        )
        try:
            there = install(app, queue, given)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        if mapping not in there.jobs.mappings.names:
            raise click.UsageError(f"--mapping: there is no {mapping}; give {' or '.join(there.jobs.mappings.names)}")
        stack.push(there.closing)
        stack.enter_context(_working(queue))
        yield LocalConverter(there)


@contextmanager
def _working(queue: Any) -> Iterator[None]:
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(queue.arun_worker(queues={"convert"}, stop=stop)), daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()
