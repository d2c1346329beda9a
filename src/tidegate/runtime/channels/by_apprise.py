"""Everything that apprise can reach: ntfy, Telegram, Matrix, and a hundred more. It needs `tidegate[apprise]`."""

from __future__ import annotations

import io
import logging
import re
import threading
from urllib.parse import unquote

from tidegate.core.channel import Apprise, Message
from tidegate.runtime.channels.refusing import DeliveryError

# What apprise calls our levels.
_TYPES = {"error": "failure", "warning": "warning", "success": "success", "info": "info"}
_MIN_SECRET_LENGTH = 6  # characters of a secret
_LOCK_TIMEOUT = 20.0  # seconds
_alone = threading.Lock()  # there is one log, and what stands in it must be of this letter


def send_apprise(config: Apprise, message: Message) -> None:
    """Sends it; DeliveryError with what apprise wrote to its log, since it says no more than that it failed."""
    try:
        import apprise
    except ImportError as error:
        raise DeliveryError("misconfigured", "apprise is not installed: pip install 'tidegate[apprise]'") from error
    logging.getLogger("apprise").propagate = False  # what it says is read here, and may name an address
    asset = apprise.AppriseAsset(app_id="Tidegate", app_desc="Tidegate", app_url="", async_mode=False)
    there = apprise.Apprise(asset=asset)
    if not _alone.acquire(timeout=_LOCK_TIMEOUT):
        raise DeliveryError("timeout", "another channel of apprise has not come to an end")
    try:
        with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as said:  # type: ignore[no-untyped-call]
            taken = there.add(config.url)
            # As plain text: what a service wrote must be no link, and no mistake, where a channel shows HTML.
            sent = taken and there.notify(
                body=message.text, title=message.heading, notify_type=_TYPES[message.level], body_format="text"
            )
            words = _without_secrets(_last_line(said), config.url)
    finally:
        _alone.release()
    if not taken:
        raise DeliveryError("bad_address", "apprise does not know this kind of address")
    if not sent:
        raise DeliveryError("upstream_failure", words or "apprise could not deliver it")


def _last_line(said: io.StringIO) -> str:
    lines = [line.strip() for line in said.getvalue().splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _without_secrets(text: str, url: str) -> str:
    """*text* without any part of the address that is long enough to be a secret."""
    parts = re.split(r"[/:@?&=]+", url.partition("://")[2])
    for part in sorted({*parts, *map(unquote, parts)}, key=len, reverse=True):
        text = text.replace(part, "…") if len(part) >= _MIN_SECRET_LENGTH else text
    return text
