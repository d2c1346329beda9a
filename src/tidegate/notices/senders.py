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

# -- faults ------------------------------------------------------------------------------------------------------------

GONE = "channel_gone"


class DeliveryError(Exception):
    """A channel rejected a message, with its own text. *code* is a fault code."""

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        super().__init__(detail)


def _is(code: str) -> Callable[[Evidence], bool]:
    return lambda seen: isinstance(seen.error, DeliveryError) and seen.error.code == code


# Codes that a sender sets itself, because no general rule can read the reply.
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


# -- sending -----------------------------------------------------------------------------------------------------------
# Sending blocks, so it runs in a thread.

__all__ = ["TIMEOUT", "DeliveryError", "send"]

TIMEOUT = 15.0  # seconds for each step of a delivery
WHOLE = 60.0  # seconds in all: a server may reply to each step and never finish


def send(channel: Channel, message: Message, *, now: float, timeout: float = TIMEOUT, whole: float = WHOLE) -> None:
    """Sends a message once. Raises the sender's error, which the rules above classify."""
    raised: list[Exception] = []

    def work() -> None:
        try:
            _send(channel, message, now, timeout)
        except Exception as error:  # re-raised in the caller
            raised.append(error)

    # No library has an overall timeout, and a thread cannot be ended. A hanging one is abandoned.
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


# -- Apprise -----------------------------------------------------------------------------------------------------------

# Apprise's names for our levels.
_TYPES = {"error": "failure", "warning": "warning", "success": "success", "info": "info"}
_MIN_SECRET_LENGTH = 6  # characters of a secret
_LOCK_TIMEOUT = 20.0  # seconds
_alone = threading.Lock()  # Apprise has one log, which must only contain this message


def send_apprise(config: Apprise, message: Message) -> None:
    """Sends through Apprise. Raises DeliveryError with its log, because it only returns whether it failed."""
    try:
        import apprise
    except ImportError as error:
        raise DeliveryError("misconfigured", "apprise is not installed: pip install 'tidegate[apprise]'") from error
    logging.getLogger("apprise").propagate = False  # its log is read here, and may contain a secret URL
    asset = apprise.AppriseAsset(app_id="Tidegate", app_desc="Tidegate", app_url="", async_mode=False)
    client = apprise.Apprise(asset=asset)
    if not _alone.acquire(timeout=_LOCK_TIMEOUT):
        raise DeliveryError("timeout", "another channel of apprise has not come to an end")
    try:
        with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log:  # type: ignore[no-untyped-call]
            taken = client.add(config.url)
            # Plain text: the text of a service must not become a link or broken markup in a channel that shows HTML.
            sent = taken and client.notify(
                body=message.text, title=message.heading, notify_type=_TYPES[message.level], body_format="text"
            )
            words = _without_secrets(_last_line(log), config.url)
    finally:
        _alone.release()
    if not taken:
        raise DeliveryError("bad_address", "apprise does not know this kind of address")
    if not sent:
        raise DeliveryError("upstream_failure", words or "apprise could not deliver it")


def _last_line(log: io.StringIO) -> str:
    lines = [line.strip() for line in log.getvalue().splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _without_secrets(text: str, url: str) -> str:
    """Removes every part of the URL that is long enough to be a secret."""
    parts = re.split(r"[/:@?&=]+", url.partition("://")[2])
    for part in sorted({*parts, *map(unquote, parts)}, key=len, reverse=True):
        text = text.replace(part, "…") if len(part) >= _MIN_SECRET_LENGTH else text
    return text


# -- mail, over TLS unless the settings say otherwise ------------------------------------------------------------------

_BUSY = range(400, 500)


def message_of(config: Mail, message: Message, now: float) -> EmailMessage:
    """Builds the mail. The Message-ID is the message's id. Auto-Submitted prevents automatic replies."""
    mail = EmailMessage()
    mail["From"] = config.sender
    mail["To"] = ", ".join(config.to)
    mail["Subject"] = message.heading
    mail["Date"] = formatdate(now)
    mail["Message-ID"] = f"<{message.id}@{config.sender.rpartition('@')[2] or 'tidegate'}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Priority"] = "1" if message.level == "error" else "3"
    mail.set_content(message.text + "\n")
    return mail


def send_mail(config: Mail, message: Message, *, now: float, timeout: float) -> None:
    """Sends to all recipients. Raises DeliveryError if the server rejects it, OSError if it is unreachable."""
    context = ssl.create_default_context(cafile=config.ca_file or None)
    try:
        with _connected(config, context, timeout) as server:
            if config.user:
                server.login(config.user, config.password)
            # A single rejected recipient is not an error: a retry would mail the others twice.
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
    reply = error.smtp_error
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
    return f"{error.smtp_code} {text}"


# -- webhook: a signed POST in the form of Standard Webhooks -----------------------------------------------------------

_PREFIX = "whsec_"  # the rest is base64
_AGENT = "Tidegate (webhook)"


class WebhookRejected(Exception):
    """The webhook rejected the message. Unlike the client's exception, this does not contain the secret URL."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self.status_code, self.headers = status, dict(headers)
        super().__init__(f"it answered {status}")


def key_of(secret: str) -> bytes:
    """Returns the bytes of a secret: base64 after `whsec_`, else as written. Raises ValueError for invalid base64."""
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError(f"what follows {_PREFIX} must be base64; give a secret as it was made") from error


def signature(key: bytes, id_: str, timestamp: int, body: bytes) -> str:
    """Returns the value of the header `webhook-signature`."""
    signed = b".".join([id_.encode(), str(timestamp).encode(), body])
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def send_webhook(config: Webhook, message: Message, *, now: float, timeout: float) -> None:
    """Sends a webhook. Raises unless the response is a success. Redirects are not followed: they may lead anywhere."""
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
        client.stream("POST", config.url, content=body, headers=headers) as response,  # the body is not read
    ):
        if not response.is_success:
            raise WebhookRejected(response.status_code, response.headers)
