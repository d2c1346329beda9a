"""A signed POST, in the form of Standard Webhooks: an id, a time, and a signature over both and the body."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping

from tidegate.core.channel import Message, Webhook

_PREFIX = "whsec_"  # what follows is base64
_AGENT = "Tidegate (webhook)"


class WebhookRejected(Exception):
    """It did not take the letter. Unlike the exception of the client, this does not name the address, a secret."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self.status_code, self.headers = status, dict(headers)
        super().__init__(f"it answered {status}")


def key_of(secret: str) -> bytes:
    """The bytes of a secret: after `whsec_` in base64, else as it is written. ValueError when it is no base64."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError(f"what follows {_PREFIX} must be base64; give a secret as it was made") from error


def signature(key: bytes, id_: str, timestamp: int, body: bytes) -> str:
    """As the header `webhook-signature` has it."""
    signed = b".".join([id_.encode(), str(timestamp).encode(), body])
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def send_webhook(config: Webhook, message: Message, *, now: float, timeout: float) -> None:
    """Sends it; an answer that is no success raises. A redirect is not followed: it may lead anywhere."""
    import httpx2

    body = json.dumps(message.as_json(), ensure_ascii=False).encode()
    headers = {
        "content-type": "application/json", "user-agent": _AGENT, "webhook-id": message.id,
        "webhook-timestamp": str(int(now)),
    }  # fmt: skip
    if config.secret:
        headers["webhook-signature"] = signature(key_of(config.secret), message.id, int(now), body)
    with (
        httpx2.Client(timeout=timeout, follow_redirects=False, trust_env=False) as client,
        client.stream("POST", config.url, content=body, headers=headers) as answer,  # what it says beside is never read
    ):
        if not answer.is_success:
            raise WebhookRejected(answer.status_code, answer.headers)
