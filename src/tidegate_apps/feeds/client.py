"""One poll of one feed: a conditional GET that returns a success or raises a typed error."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate, parsedate_to_datetime
from typing import Protocol

import httpx2

from tidegate import classify, net
from tidegate_apps.feeds.codes import ErrorType, PollError, type_of_failure, type_of_status
from tidegate_apps.feeds.parsing import Feed, ParseError
from tidegate_apps.feeds.state import FeedState, Hints, Success, conditions

ACCEPT = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, text/xml;q=0.8, */*;q=0.1"
)
Parse = Callable[[bytes, str, str], Awaitable[Feed]]


class Get(Protocol):
    """The signature of `net.Client.get`."""

    def __call__(self, url: str, *, headers: Mapping[str, str] | None = None) -> Awaitable[net.FetchResponse]: ...


async def fetch(get: Get, parse: Parse, state: FeedState, now: float) -> tuple[Success, Feed | None]:
    """Fetch a feed. The result has the parsed feed only if it changed. Raises PollError."""
    url = state.feed_url
    try:
        answer = await get(url, headers={"Accept": ACCEPT, **conditions(state, now)})
    except net.FetchError as error:
        raise PollError(type_of_failure(error), str(error), url=url) from error
    kind = type_of_status(answer.status)
    if kind is not None:
        asked = retry_after(answer, now) if answer.status in (429, 503) else None
        raise PollError(kind, f"HTTP {answer.status}", status_code=answer.status, url=url, retry_after=asked)
    if answer.status == 304:
        return _success(answer, url), None
    if not answer.body.strip():
        raise PollError(ErrorType.PARSE, "the response is empty", url=url)
    digest = hashlib.sha256(answer.body).hexdigest()[:32]
    if digest == state.body_hash:
        return _success(answer, url, digest), None
    try:
        feed = await parse(answer.body, answer.headers.get("Content-Type", ""), answer.url)
    except ParseError as error:
        raise PollError(ErrorType.PARSE, str(error), url=url) from error
    return _success(answer, url, digest, hints_of(feed, answer, now)), feed


def _success(answer: net.FetchResponse, url: str, body_hash: str | None = None, hints: Hints | None = None) -> Success:
    return Success(
        status=answer.status,
        etag=answer.headers.get("ETag"),
        last_modified=answer.headers.get("Last-Modified"),
        moved_to=moved_to(answer, url),
        body_hash=body_hash,
        hints=hints,
    )


def moved_to(answer: net.FetchResponse, url: str) -> str | None:
    """Return the URL that the feed at *url* moved to permanently.

    Credentials carry over if every redirect received them.
    """
    if answer.moved_to is None or "@" not in url:
        return answer.moved_to
    asked, target = httpx2.URL(url), httpx2.URL(answer.moved_to)
    way = {_origin(httpx2.URL(step)) for _, step in answer.history} | {_origin(target), _origin(asked)}
    return str(target.copy_with(userinfo=asked.userinfo)) if len(way) == 1 else answer.moved_to


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def retry_after(answer: net.FetchResponse, now: float) -> float | None:
    """Return the delay in seconds. A date is compared with the server's own clock, or with ours if it sends none."""
    headers = httpx2.Headers(answer.headers)
    headers.setdefault("Date", formatdate(now, usegmt=True))
    fault = classify(httpx2.Response(answer.status, headers=headers))
    return None if fault is None else fault.retry_after


def hints_of(feed: Feed, answer: net.FetchResponse, now: float) -> Hints:
    """Return how long to wait before the next poll: the longest of what the feed and its server say."""
    return Hints.of(max(feed.ttl, _fresh_for(answer.headers, now)), feed.skip_hours, feed.skip_days)


def _fresh_for(headers: Mapping[str, str], now: float) -> float:
    """Return the seconds that the response stays fresh, by Cache-Control or Expires."""
    parts = [part.strip().lower() for part in headers.get("Cache-Control", "").split(",")]
    if "no-cache" in parts or "no-store" in parts:
        return 0.0
    for part in parts:
        name, _, value = part.partition("=")
        if name == "max-age" and value.strip('"').isascii() and value.strip('"').isdigit():
            return float(value.strip('"')[:9])
    try:
        end = parsedate_to_datetime(headers["Expires"]).timestamp()
        began = parsedate_to_datetime(headers["Date"]).timestamp() if "Date" in headers else now
    except (KeyError, ValueError, TypeError, OverflowError):
        return 0.0
    return max(0.0, end - began)
