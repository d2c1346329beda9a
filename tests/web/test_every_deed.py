"""Whatever people change, on a page or through the API, is on the page Activity: once."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.web.api.house import routes_of
from tests.web.every_deed import DEEDS, NONE, Whole, whole
from tidegate import audit
from tidegate.audit import ACTIONS, AuditFilter, AuditLine


def lines(there: Whole) -> list[AuditLine]:
    return there.there.queue.store.read(
        lambda tx: audit.list_activity(tx, AuditFilter(accounts=True), limit=1000)
    ).items


@pytest.mark.timeout(600)
def test_each_route_that_changes_something_leaves_one_line_or_says_why_none(tmp_path: Path) -> None:
    with whole(tmp_path) as there:
        routes = {f"{method} {path}" for method, path, _ in routes_of(there.app) if method != "GET"}
        assert routes == DEEDS.keys() | NONE.keys()
        assert not DEEDS.keys() & NONE.keys()

        client, wrong = there.client(), {}
        for route, ask in DEEDS.items():
            method, path = route.split(" ", 1)
            asked, sent = ask(there)
            before = len(lines(there))
            answer = client.request(method, asked, follow_redirects=False, **sent)
            now = lines(there)
            deeds = [each.deed for each in now[: len(now) - before]]
            origin = "api" if path.startswith("/api/") else "page"
            said = [(deed.actor, deed.origin) for deed in deeds if deed.action in ACTIONS]
            if said != [("ada", origin)] or len(deeds) != 1:
                wrong[route] = f"{answer.status_code}: {[each.as_json()['says'] for each in now[: len(deeds)]]}"

        assert wrong == {}
        page, seen = "/activity", dict[str, int]()
        while page:
            text = html.unescape(client.get(page).text)
            (table,) = re.findall("<main.*?</main>", text, re.DOTALL)
            found = {path for path in re.findall(r'<a [^>]*href="(/[^"#]+)"', table) if path not in seen}
            seen |= {path: client.get(path).status_code for path in found}
            page = next((path for path in found if "cursor=" in path), "")
        # What somebody removed or forgot has no page any more, and nothing leads there.
        assert {path: code for path, code in seen.items() if code != 200} == {}
