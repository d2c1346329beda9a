"""`tidegate convert run --url`: a server does the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tidegate_apps.convert.commands import NotAuthorised, Refused, Unreachable
from tidegate_apps.convert.running import shown_name

_PATIENCE = 600.0  # seconds


class Server:
    """One server, and the cookies of one run: without a token it knows its visitors by them alone."""

    def __init__(self, url: str, client: httpx2.Client) -> None:
        self._url, self._client = url, client

    def put(self, file: Path, mapping: str) -> dict[str, Any]:
        with file.open("rb") as opened:
            form = {"file": (shown_name(file), opened, "application/pdf")}
            answer = self._answer("POST", "/api/upload", data={"mapping": mapping}, files=form)
        told = _said(answer)
        if answer.status_code in (200, 202) and "id" in told:
            return told
        return {"message": _why(answer), "code": told.get("code")}

    def state(self, job: int) -> dict[str, Any]:
        answer = self._answer("GET", f"/api/jobs/{job}")
        told = _said(answer)
        if answer.status_code == httpx2.codes.OK and "id" in told:
            return told
        # A problem has a `status`, too, which is a number.
        return {"id": job, "status": "failed", "error_message": _why(answer), "error_code": told.get("code")}

    def fetch(self, job: int, place: Path) -> None:
        try:
            with self._client.stream("GET", f"/api/jobs/{job}/download") as answer, place.open("wb") as file:
                if answer.status_code != httpx2.codes.OK:
                    answer.read()
                    raise Refused(_why(answer))
                for piece in answer.iter_bytes():
                    file.write(piece)
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error

    def _answer(self, method: str, path: str, **more: Any) -> httpx2.Response:
        try:
            answer = self._client.request(method, path, **more)
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error
        if answer.status_code in (401, 403):
            raise NotAuthorised(_why(answer))
        if answer.status_code == httpx2.codes.NOT_FOUND and path == "/api/upload":
            raise Refused(f"{self._url} does not run convert")
        return answer

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(f"{self._url} cannot be reached ({type(error).__name__}); is the server running?")


@contextmanager
def server(url: str, token: str) -> Iterator[Server]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        client = httpx2.Client(base_url=url.rstrip("/"), headers=headers, timeout=_PATIENCE, trust_env=False)
    except httpx2.InvalidURL as error:
        raise Unreachable(f"{url} is no address ({error})") from error
    with client:
        yield Server(url, client)


def _said(answer: httpx2.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _why(answer: httpx2.Response) -> str:
    return str(_said(answer).get("detail") or f"The server said {answer.status_code}.")
