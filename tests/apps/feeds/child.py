"""What the child process that reads feeds would answer, without the process."""

from __future__ import annotations

import base64
from typing import Any

from tidegate_apps.feeds.parsing import inside

KEY, GUID, LINK, TITLE, AUTHOR, HTML, PUBLISHED, UPDATED, DIGEST = range(9)


def read(body: str | bytes, content_type: str = "", url: str = "https://feed.example/dir/feed.xml") -> dict[str, Any]:
    """What the child would answer."""
    data = body.encode() if isinstance(body, str) else body
    return inside.read([base64.b64encode(data).decode(), content_type, url])
