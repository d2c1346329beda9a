"""How a letter is sent: by webhook, by mail, or by whatever apprise knows. All of it waits, so it runs in a thread."""

from __future__ import annotations

from tidegate.core.channel import Apprise, Channel, Letter, Mail, Webhook
from tidegate.runtime.channels.refusing import NotSent

__all__ = ["TIMEOUT", "NotSent", "send"]

TIMEOUT = 15.0  # seconds for each step of a delivery


def send(channel: Channel, letter: Letter, *, now: float, timeout: float = TIMEOUT) -> None:
    """Sends it, once; raises what the sending raised, which the rules of `refusing` can read."""
    match channel.way:
        case Webhook():
            from tidegate.runtime.channels import webhook

            webhook.post(channel.way, letter, now=now, timeout=timeout)
        case Mail():
            from tidegate.runtime.channels import mail

            mail.send(channel.way, letter, now=now, timeout=timeout)
        case Apprise():
            from tidegate.runtime.channels import by_apprise

            by_apprise.notify(channel.way, letter)
