"""`tidegate convert run --url`: a server does the work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from tidegate.commands import CliError, Exit
from tidegate_apps.convert.running import shown_name

_RETRY_TIMEOUT = 600.0  # seconds
_AWAY = 60.0  # that a server may take to start again
_RETRY_SECONDS = 0.5
_RESTARTING = (502, 504)  # what stands before a server says this while there is none


T = TypeVar("T")


class RemoteConverter:
    """One server, and the cookies of one run: without a token it knows its visitors by them alone."""

    def __init__(self, url: str, client: httpx2.Client) -> None:
        self._url, self._client = url, client
        self._heard = False  # of one that never answered, nobody waits for the return

    def put(self, file: Path, mapping: str) -> dict[str, Any]:
        with file.open("rb") as opened:
            form = {"file": (shown_name(file), opened, "application/pdf")}
            answer = self._answer("POST", "/api/upload", data={"mapping": mapping}, files=form)
        told = _said(answer)
        if answer.status_code in (200, 202) and "id" in told:
            return told
        return {"message": _why(answer), "code": told.get("code")}

    def state(self, job: str) -> dict[str, Any]:
        answer = self._answer("GET", f"/api/jobs/{job}")
        told = _said(answer)
        if answer.status_code == httpx2.codes.OK and "id" in told:
            return told
        # A problem has a `status`, too, which is a number.
        return {"id": job, "status": "failed", "error_message": _why(answer), "error_code": told.get("code")}

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
            found = self._client.request(method, path, **more)
            if found.status_code in _RESTARTING:
                found.raise_for_status()
            return found

        answer = self._while_away(asked)
        if answer.status_code in (401, 403):
            raise CliError(_why(answer), Exit.NOT_AUTHORISED)
        if answer.status_code == httpx2.codes.NOT_FOUND and path == "/api/upload":
            raise CliError(f"{self._url} does not run convert", Exit.REFUSED)
        return answer

    def _while_away(self, call: Callable[[], T]) -> T:
        """What it returns; tried again while the server is away: nothing here is done twice by asking twice."""
        end = time.monotonic() + _AWAY
        while True:
            try:
                found = call()
            except httpx2.HTTPError as error:
                if not self._heard or time.monotonic() > end:
                    raise self._unreachable(error) from error
                time.sleep(_RETRY_SECONDS)
            else:
                self._heard = True
                return found

    def _unreachable(self, error: Exception) -> CliError:
        return CliError(
            f"{self._url} cannot be reached ({type(error).__name__}); is the server running?", Exit.UNREACHABLE
        )


@contextmanager
def server(url: str, token: str) -> Iterator[RemoteConverter]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        client = httpx2.Client(base_url=url.rstrip("/"), headers=headers, timeout=_RETRY_TIMEOUT, trust_env=False)
    except httpx2.InvalidURL as error:
        raise CliError(f"{url} is no address ({error})", Exit.UNREACHABLE) from error
    with client:
        yield RemoteConverter(url, client)


def _said(answer: httpx2.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _why(answer: httpx2.Response) -> str:
    return str(_said(answer).get("detail") or f"The server said {answer.status_code}.")
