"""Navidrome's own API, which has what was played."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tidegate import Rate
from tidegate_apps.music.calls import ProviderClient, ProviderRequest, ProviderResponse, ServiceError, Values
from tidegate_apps.music.contract import ProviderContext
from tidegate_apps.music.reading import WrongShape, mapping, rows, token

PAGE_SIZE = 200
_LOGINS = Rate(1, "5s")  # the server allows 5 in 20 s to all users of one address
_SESSION = "x-nd-authorization"
_NOT_THERE = frozenset({"not_found", "no_server", "html_answer", "redirected", "not_supported"})


class Native:
    """The server's own API: a session that is renewed by every answer, and a new login when it has ended."""

    def __init__(self, client: ProviderClient, base: str, values: Mapping[str, str], context: ProviderContext) -> None:
        self._client, self._base, self._values, self._context = client, base, values, context
        self._session = values.get("session", "")
        self._login = asyncio.Lock()

    async def scrobbles(self, since: int, start: int) -> list[object] | None:
        """A page of the log, the oldest first; None when this version has none."""
        try:
            answer = await self._ask("scrobble", [*_page("submission_time", "ASC", start), ("from", since)])
        except ServiceError as error:
            fault = self._client.verdict(error)
            if fault is None or fault.code not in _NOT_THERE:
                raise
            return None
        return rows(answer.json, "list of scrobbles")

    async def songs(self, refs: Sequence[str]) -> list[object]:
        answer = await self._ask("song", [("_start", 0), ("_end", len(refs)), *(("id", ref) for ref in refs)])
        return rows(answer.json, "list of songs")

    async def last_played(self, start: int) -> list[object]:
        return rows((await self._ask("song", _page("play_date", "DESC", start))).json, "list of songs")

    async def _ask(self, path: str, query: Values) -> ProviderResponse:
        session = self._session or await self._logged_in("")
        try:
            answer = await self._asked(path, query, session)
        except ServiceError as error:
            if error.response.status_code != 401:
                raise
            answer = await self._asked(path, query, await self._logged_in(session))
        self._session = answer.headers.get(_SESSION, "").removeprefix("Bearer ") or self._session
        return answer

    async def _asked(self, path: str, query: Values, session: str) -> ProviderResponse:
        headers = {_SESSION: f"Bearer {session}"}
        return await self._client.ask(ProviderRequest(url=f"{self._base}/api/{path}", query=query, headers=headers))

    async def _logged_in(self, refused: str) -> str:
        """A session other than the one that was refused. It is kept before it is used."""
        async with self._login:
            if self._session and self._session != refused:
                return self._session
            await self._context.paces.turn(f"navidrome login {self._base}", _LOGINS)
            body = {"username": self._values["user"], "password": self._values["password"]}
            answer = await self._client.ask(ProviderRequest(url=f"{self._base}/auth/login", body=body))
            session = token(mapping(answer.json, "object").get("token"))
            if not session:
                raise WrongShape("token")
            await self._context.save({"session": session})
            self._session = session
            return session


def _page(sort: str, order: str, start: int) -> list[tuple[str, str | int]]:
    return [("_sort", sort), ("_order", order), ("_start", start), ("_end", start + PAGE_SIZE)]
