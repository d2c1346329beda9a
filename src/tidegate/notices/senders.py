"""Sends a message through a channel: mail, webhook or Apprise."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import io
import json
import logging
import re
import smtplib
import ssl
import threading
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from email.utils import formatdate
from urllib.parse import unquote

from tidegate.faults.codes import Code
from tidegate.faults.evidence import Evidence
from tidegate.faults.fault import Level, Reach, Reason
from tidegate.faults.rule import Pack, Rule
from tidegate.notices.channels import STARTTLS, TLS, Apprise, Channel, Mail, Message, Webhook

# What it means when a channel does not take a letter: whether it is tried again, and whom it concerns.

GONE = "channel_gone"


class DeliveryError(Exception):
    """A letter was not taken, in the words of whoever refused it. *code* is one of the book."""

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        super().__init__(detail)


def _is(code: str) -> Callable[[Evidence], bool]:
    return lambda seen: isinstance(seen.error, DeliveryError) and seen.error.code == code


# Codes of the book that a sender names by itself, because no general rule can read what it was told.
NAMED = (
    "network",
    "timeout",
    "unauthorized",
    "bad_address",
    "overloaded",
    "upstream_failure",
    "misconfigured",
    "bad_request",
)

PACK = Pack(
    "channels",
    [
        Rule(name="gone-for-good", code=GONE, status=410),
        Rule(name="key-refused", code="unauthorized", status=(401, 403), reach=Reach.TARGET),
        Rule(name="nothing-there", code="bad_address", status=(404, 405)),
        *(Rule(name=f"named-{code}", code=code, test=_is(code)) for code in NAMED),
    ],
    codes=[
        Code(
            name=GONE,
            reason=Reason.CONFIG,
            reach=Reach.TARGET,
            level=Level.ERROR,
            message="The address of this channel says that it is gone for good.",
            advice="Give it a new address in the settings, or take the channel out.",
        ),
    ],
)


# How a letter is sent: by webhook, by mail, or by whatever apprise knows. All of it waits, so it runs in a thread.

__all__ = ["TIMEOUT", "DeliveryError", "send"]

TIMEOUT = 15.0  # seconds for each step of a delivery
WHOLE = 60.0  # seconds for all of it: a server may answer each step, and never come to an end


def send(channel: Channel, message: Message, *, now: float, timeout: float = TIMEOUT, whole: float = WHOLE) -> None:
    """Sends it, once; raises what the sending raised, which the rules of `refusing` can read."""
    raised: list[Exception] = []

    def work() -> None:
        try:
            _send(channel, message, now, timeout)
        except Exception as error:  # the caller gets it
            raised.append(error)

    # No library has a limit for the whole, and no thread can be ended: one that hangs is left to itself.
    thread = threading.Thread(target=work, name=f"send by {channel.name}", daemon=True)
    thread.start()
    thread.join(whole)
    if thread.is_alive():
        raise DeliveryError("timeout", f"it came to no end within {whole:g} s")
    if raised:
        raise raised[0]


def _send(channel: Channel, message: Message, now: float, timeout: float) -> None:
    match channel.config:
        case Webhook():
            send_webhook(channel.config, message, now=now, timeout=timeout)
        case Mail():
            send_mail(channel.config, message, now=now, timeout=timeout)
        case Apprise():
            send_apprise(channel.config, message)


# Everything that apprise can reach: ntfy, Telegram, Matrix, and a hundred more. It needs `tidegate[apprise]`.

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


# A mail by SMTP, over TLS unless the settings say otherwise.

_BUSY = range(400, 500)


def message_of(config: Mail, message: Message, now: float) -> EmailMessage:
    """The mail. Its Message-ID is that of the letter, and no mail program answers it by itself."""
    found = EmailMessage()
    found["From"] = config.sender
    found["To"] = ", ".join(config.to)
    found["Subject"] = message.heading
    found["Date"] = formatdate(now)
    found["Message-ID"] = f"<{message.id}@{config.sender.rpartition('@')[2] or 'tidegate'}>"
    found["Auto-Submitted"] = "auto-generated"
    found["X-Priority"] = "1" if message.level == "error" else "3"
    found.set_content(message.text + "\n")
    return found


def send_mail(config: Mail, message: Message, *, now: float, timeout: float) -> None:
    """Sends it to all of them. DeliveryError when the server does not take it; OSError when it cannot be reached."""
    context = ssl.create_default_context(cafile=config.ca_file or None)
    try:
        with _connected(config, context, timeout) as server:
            if config.user:
                server.login(config.user, config.password)
            # Whom it refuses alone is not told: whoever else is named has it, and would be told twice.
            server.send_message(message_of(config, message, now))
    except smtplib.SMTPException as error:
        raise _refusal(error) from error


def _connected(config: Mail, context: ssl.SSLContext, timeout: float) -> smtplib.SMTP:
    if config.security == TLS:
        return smtplib.SMTP_SSL(config.host, config.port, timeout=timeout, context=context)
    server = smtplib.SMTP(config.host, config.port, timeout=timeout)
    try:
        if config.security == STARTTLS:
            server.starttls(context=context)
    except BaseException:
        server.close()
        raise
    return server


def _refusal(error: smtplib.SMTPException) -> DeliveryError:
    match error:
        case smtplib.SMTPAuthenticationError() if error.smtp_code in _BUSY:
            return DeliveryError("overloaded", _said(error))
        case smtplib.SMTPAuthenticationError():
            return DeliveryError("unauthorized", _said(error))
        case smtplib.SMTPNotSupportedError():
            return DeliveryError("misconfigured", f"the mail server cannot do what the settings ask for: {error}")
        case smtplib.SMTPRecipientsRefused():
            codes = [code for code, _ in error.recipients.values()]
            return DeliveryError(
                "overloaded" if any(code in _BUSY for code in codes) else "misconfigured",
                "the mail server takes none of the addresses: " + ", ".join(map(str, sorted(codes))),
            )
        case smtplib.SMTPSenderRefused() if error.smtp_code not in _BUSY:
            return DeliveryError("misconfigured", f"the mail server does not let this sender send: {_said(error)}")
        case smtplib.SMTPResponseException() if error.smtp_code in _BUSY:
            return DeliveryError("overloaded", _said(error))
        case smtplib.SMTPResponseException():
            return DeliveryError("bad_request", _said(error))
    return DeliveryError("network", f"the connection to the mail server broke: {error}")


def _said(error: smtplib.SMTPResponseException) -> str:
    said = error.smtp_error
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return f"{error.smtp_code} {text}"


# A signed POST, in the form of Standard Webhooks: an id, a time, and a signature over both and the body.

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
        "content-type": "application/json",
        "user-agent": _AGENT,
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now)),
    }
    if config.secret:
        headers["webhook-signature"] = signature(key_of(config.secret), message.id, int(now), body)
    with (
        httpx2.Client(timeout=timeout, follow_redirects=False, trust_env=False) as client,
        client.stream("POST", config.url, content=body, headers=headers) as answer,  # what it says beside is never read
    ):
        if not answer.is_success:
            raise WebhookRejected(answer.status_code, answer.headers)
