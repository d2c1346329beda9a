"""A mail by SMTP, over TLS unless the settings say otherwise."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate

from tidegate.core.channel import STARTTLS, TLS, Letter, Mail
from tidegate.runtime.channels.refusing import NotSent

_BUSY = range(400, 500)


def message_of(way: Mail, letter: Letter, now: float) -> EmailMessage:
    """The mail. Its Message-ID is that of the letter, and no mail program answers it by itself."""
    found = EmailMessage()
    found["From"] = way.sender
    found["To"] = ", ".join(way.to)
    found["Subject"] = letter.heading
    found["Date"] = formatdate(now)
    found["Message-ID"] = f"<{letter.id}@{way.sender.rpartition('@')[2] or 'tidegate'}>"
    found["Auto-Submitted"] = "auto-generated"
    found["X-Priority"] = "1" if letter.level == "error" else "3"
    found.set_content(letter.text + "\n")
    return found


def send(way: Mail, letter: Letter, *, now: float, timeout: float) -> None:
    """Sends it to all of them. NotSent when the server does not take it; OSError when it cannot be reached."""
    context = ssl.create_default_context(cafile=way.ca_file or None)
    try:
        with _connected(way, context, timeout) as server:
            if way.user:
                server.login(way.user, way.password)
            # Whom it refuses alone is not told: whoever else is named has it, and would be told twice.
            server.send_message(message_of(way, letter, now))
    except smtplib.SMTPException as error:
        raise _refusal(error) from error


def _connected(way: Mail, context: ssl.SSLContext, timeout: float) -> smtplib.SMTP:
    if way.security == TLS:
        return smtplib.SMTP_SSL(way.host, way.port, timeout=timeout, context=context)
    server = smtplib.SMTP(way.host, way.port, timeout=timeout)
    try:
        if way.security == STARTTLS:
            server.starttls(context=context)
    except BaseException:
        server.close()
        raise
    return server


def _refusal(error: smtplib.SMTPException) -> NotSent:
    match error:
        case smtplib.SMTPAuthenticationError() if error.smtp_code in _BUSY:
            return NotSent("overloaded", _said(error))
        case smtplib.SMTPAuthenticationError():
            return NotSent("unauthorized", _said(error))
        case smtplib.SMTPNotSupportedError():
            return NotSent("misconfigured", f"the mail server cannot do what the settings ask for: {error}")
        case smtplib.SMTPRecipientsRefused():
            codes = [code for code, _ in error.recipients.values()]
            return NotSent(
                "overloaded" if any(code in _BUSY for code in codes) else "misconfigured",
                "the mail server takes none of the addresses: " + ", ".join(map(str, sorted(codes))),
            )
        case smtplib.SMTPSenderRefused() if error.smtp_code not in _BUSY:
            return NotSent("misconfigured", f"the mail server does not let this sender send: {_said(error)}")
        case smtplib.SMTPResponseException() if error.smtp_code in _BUSY:
            return NotSent("overloaded", _said(error))
        case smtplib.SMTPResponseException():
            return NotSent("bad_request", _said(error))
    return NotSent("network", f"the connection to the mail server broke: {error}")


def _said(error: smtplib.SMTPResponseException) -> str:
    said = error.smtp_error
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return f"{error.smtp_code} {text}"
