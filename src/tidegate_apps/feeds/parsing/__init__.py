"""Parses untrusted feeds to plain values in a limited child process.

feed = await parse(body, "application/rss+xml", "https://example.com/feed")
feed.title, feed.malformed, [entry.key for entry in feed.entries]
"""

from __future__ import annotations

from tidegate_apps.feeds.parsing.pool import Feed, FeedEntry, ParseError, parse

__all__ = ["Feed", "FeedEntry", "ParseError", "parse"]
