"""What the child process that reads feeds would answer, without the process."""

from __future__ import annotations

import json
from typing import Any

from tidegate_apps.feeds.parsing import parser
from tidegate_apps.feeds.parsing.pool import packed

KEY, GUID, LINK, TITLE, AUTHOR, HTML, PUBLISHED, UPDATED, DIGEST = range(9)


def read(body: str | bytes, content_type: str = "", url: str = "https://feed.example/dir/feed.xml") -> dict[str, Any]:
    """What the child would answer, its entries unpacked, the newest first."""
    data = body.encode() if isinstance(body, str) else body
    found = parser.read([*packed(data), content_type, url])
    if "rows" in found:
        found["entries"] = list(reversed(json.loads(found.pop("rows")).values()))
    return found
