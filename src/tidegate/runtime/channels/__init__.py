"""How a letter is sent: by webhook, by mail, or by whatever apprise knows. All of it waits, so it runs in a thread."""

from __future__ import annotations

import threading

from tidegate.core.channel import Apprise, Channel, Mail, Message, Webhook
from tidegate.runtime.channels.refusing import DeliveryError

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
            from tidegate.runtime.channels import webhook

            webhook.send_webhook(channel.config, message, now=now, timeout=timeout)
        case Mail():
            from tidegate.runtime.channels import mail

            mail.send_mail(channel.config, message, now=now, timeout=timeout)
        case Apprise():
            from tidegate.runtime.channels import by_apprise

            by_apprise.send_apprise(channel.config, message)
