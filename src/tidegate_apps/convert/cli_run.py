"""`tidegate convert run`: converts files with a server, or with a temporary queue and gateway."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
import httpx2

from tidegate.commands import CliError, Exit
from tidegate_apps.convert.uploads import name_of

if TYPE_CHECKING:
    from tidegate.apps import Installed
    from tidegate_apps.convert.settings import ConvertSettings

_OWNER = "local"
_POLL_INTERVAL = 0.1  # seconds
_ENDED = ("complete", "failed")


class Converter(Protocol):
    """Accepts files and reports their state."""

    def put(self, file: Path, mapping: str) -> dict[str, Any]:
        """Return the job, or a `message` why there is none."""

    def state(self, job: str) -> dict[str, Any]: ...

    def fetch(self, job: str, place: Path) -> None: ...


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """The outcome of one file."""

    file: Path
    xml: Path | None
    message: str = ""
    code: str | None = None

    @property
    def ok(self) -> bool:
        return self.xml is not None

    def as_json(self) -> dict[str, Any]:
        return {
            "file": str(self.file),
            "xml": None if self.xml is None else str(self.xml),
            "code": self.code,
            "message": self.message,
        }


def report(converter: Converter, places: Mapping[Path, Path], mapping: str, quiet: bool) -> list[FileOutcome]:
    """Convert all files and report progress: a bar on a terminal, else one line per file, then the totals."""
    done: dict[Path, FileOutcome] = {}
    with _telling(len(places), quiet) as tell:
        waiting: dict[Path, str] = {}
        for file in places:
            accepted = converter.put(file, mapping)
            if "id" in accepted:
                waiting[file] = str(accepted["id"])
            else:
                done[file] = tell(FileOutcome(file, None, accepted["message"], accepted.get("code")))
        while waiting:
            for file, job in list(waiting.items()):
                state = converter.state(job)
                if state["status"] in _ENDED:
                    del waiting[file]
                    done[file] = tell(_ended(converter, file, places[file], state))
            if waiting:
                time.sleep(_POLL_INTERVAL)
    well = sum(outcome.ok for outcome in done.values())
    if not quiet and len(done) > 1:
        click.echo(f"Converted {well} of {len(done)} files.", err=True)
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
            raise  # none of the files can be converted
        return FileOutcome(file, None, error.message)
    finally:
        draft.unlink(missing_ok=True)
    return FileOutcome(file, place)


def shown_name(file: Path) -> str:
    """Return the name of a file as an upload may have it. On disk it may not be valid text."""
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
        from tidegate_apps.convert.service import take
        from tidegate_apps.convert.storage import pieces
        from tidegate_apps.convert.uploads import UploadReceiver

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
        from tidegate_apps.convert.service import own_file

        return own_file(self._app, job, _OWNER).as_json()

    def fetch(self, job: str, place: Path) -> None:
        from tidegate_apps.convert.service import own_file
        from tidegate_apps.convert.storage import pieces

        key = own_file(self._app, job, _OWNER).made["path"]
        with self._app.jobs.storage.open(key) as source, place.open("wb") as file:
            for piece in pieces(source):
                file.write(piece)


@contextmanager
def here(mapping: str, mappings: Path | None = None) -> Iterator[Converter]:
    """Yield a converter with a temporary queue, folder and gateway. Raises UsageError if the mapping does not exist."""
    from tidegate import Queue
    from tidegate.apps import install
    from tidegate_apps.convert.app import app
    from tidegate_apps.convert.settings import ConvertSettings

    # the outcome of each file already says what users need
    logging.getLogger("tidegate").addHandler(logging.NullHandler())
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-convert-"))
        queue = stack.enter_context(Queue(f"sqlite:///{folder}/jobs.db"))
        settings = ConvertSettings(
            storage=f"{folder}/files", least_free=0, mappings="" if mappings is None else str(mappings)
        )
        try:
            there = install(app, queue, settings)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        if mapping not in there.jobs.mappings.names:
            raise click.UsageError(
                f"--mapping: unknown mapping {mapping!r}; give {' or '.join(there.jobs.mappings.names)}"
            )
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


# -- with a server: `tidegate convert run --server` --------------------------------------------------------------------

_RETRY_TIMEOUT = 600.0  # seconds
_AWAY = 60.0  # seconds that a server may take to restart
_RETRY_SECONDS = 0.5
_RESTARTING = (502, 504)  # what a proxy returns while the server is down


T = TypeVar("T")


class RemoteConverter:
    """One server and the cookies of one run. Without a token, the server identifies visitors by cookie."""

    def __init__(self, url: str, client: httpx2.Client) -> None:
        self._url, self._client = url, client
        self._heard = False  # do not wait for the return of a server that never responded

    def put(self, file: Path, mapping: str) -> dict[str, Any]:
        with file.open("rb") as opened:
            form = {"file": (shown_name(file), opened, "application/pdf")}
            answer = self._answer("POST", "/api/upload", data={"mapping": mapping}, files=form)
        document = _said(answer)
        if answer.status_code in (200, 202) and "id" in document:
            return document
        return {"message": _why(answer), "code": document.get("code")}

    def state(self, job: str) -> dict[str, Any]:
        answer = self._answer("GET", f"/api/jobs/{job}")
        document = _said(answer)
        if answer.status_code == httpx2.codes.OK and "id" in document:
            return document
        # A problem document has a `status` too, which is a number.
        return {"id": job, "status": "failed", "error_message": _why(answer), "error_code": document.get("code")}

    def fetch(self, job: str, place: Path) -> None:
        def fetched() -> None:
            with self._client.stream("GET", f"/api/jobs/{job}/download") as answer, place.open("wb") as file:
                if answer.status_code in _RESTARTING:
                    answer.raise_for_status()
                if answer.status_code != httpx2.codes.OK:
                    answer.read()
                    raise CliError(_why(answer), Exit.REFUSED)
                for piece in answer.iter_bytes():
                    file.write(piece)

        self._while_away(fetched)

    def _answer(self, method: str, path: str, **more: Any) -> httpx2.Response:
        def asked() -> httpx2.Response:
            response = self._client.request(method, path, **more)
            if response.status_code in _RESTARTING:
                response.raise_for_status()
            return response

        answer = self._while_away(asked)
        if answer.status_code in (401, 403):
            raise CliError(_why(answer), Exit.NOT_AUTHORISED)
        if answer.status_code == httpx2.codes.NOT_FOUND and path == "/api/upload":
            raise CliError(
                f"{self._url} does not run the application convert; add it to apps in its settings", Exit.REFUSED
            )
        return answer

    def _while_away(self, call: Callable[[], T]) -> T:
        """Call, and retry while the server is unavailable. All calls here are idempotent."""
        end = time.monotonic() + _AWAY
        while True:
            try:
                result = call()
            except httpx2.HTTPError as error:
                if not self._heard or time.monotonic() > end:
                    raise self._unreachable(error) from error
                time.sleep(_RETRY_SECONDS)
            else:
                self._heard = True
                return result

    def _unreachable(self, error: Exception) -> CliError:
        return CliError(
            f"no server at {self._url} ({type(error).__name__}); start it with `tidegate serve`, or change --server",
            Exit.UNREACHABLE,
        )


@contextmanager
def remote(url: str, token: str) -> Iterator[RemoteConverter]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        client = httpx2.Client(base_url=url.rstrip("/"), headers=headers, timeout=_RETRY_TIMEOUT, trust_env=False)
    except httpx2.InvalidURL as error:
        raise CliError(
            f"--server: {url!r} is not a URL ({error}); give one such as http://127.0.0.1:8321", Exit.UNREACHABLE
        ) from error
    with client:
        yield RemoteConverter(url, client)


def _said(answer: httpx2.Response) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _why(answer: httpx2.Response) -> str:
    return str(_said(answer).get("detail") or f"The server responded with status {answer.status_code}.")
