"""A mail by SMTP, over TLS unless the settings say otherwise."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate

from tidegate.core.channel import STARTTLS, TLS, Mail, Message
from tidegate.runtime.channels.refusing import DeliveryError

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
