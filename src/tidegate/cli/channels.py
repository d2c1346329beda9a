"""`tidegate channels`: where people are told beside the page, and a test of each."""

from __future__ import annotations

from pathlib import Path

import click

from tidegate.cli.at_store import by_option, command_at_store, plain_mistakes, say, say_if_new, show_what, table, when
from tidegate.cli.configured import config_option, load_settings
from tidegate.cli.exits import Exit
from tidegate.cli.groups import CommandGroup
from tidegate.ops import channels as reports
from tidegate.ops.channels import ChannelReport


@click.group(cls=CommandGroup)
def channels() -> None:
    """Lists where notices go beside the page, and tests one of them."""


@channels.command("list")
@command_at_store
def list_(url: str, driver: str | None, as_json: bool) -> int:
    """Lists every channel, in order, with its last delivery."""
    return show_what(reports.channels, _channel_lines, url, driver, as_json=as_json)


def _channel_lines(found: list[ChannelReport]) -> list[str]:
    head = ("CHANNEL", "KIND", "STATE", "IS TOLD", "LAST DELIVERY", "LAST TEST", "WHY")
    rows = [
        (each.name, each.row.kind, each.word, each.told, when(each.row.last_at), when(each.row.tested_at), each.reason)
        for each in found
    ]
    return table(rows, head) or ["There is no channel but the page; name one in the settings: [channels.NAME]."]


@channels.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@by_option
@config_option
def test(name: str, config: Path | None, as_json: bool, by: str) -> int:
    """Sends a test through a channel of the settings now, and says how that went."""
    from tidegate.face.queue import Queue
    from tidegate.face.telling import NoticeDispatcher

    with plain_mistakes():
        values = load_settings(config).values
        channels = values.channels.all()
        if any(channel.name == name for channel in channels):
            say_if_new(values.url)
        with Queue(values.url) as queue:
            tested = NoticeDispatcher(queue, channels, address=values.address).test(name, by)
    fine = tested.fault is None
    said = f"Delivered through {name}. Look whether it has come." if fine else f"{name} did not deliver: {tested.why}"
    code = None if tested.fault is None else tested.fault.code
    about = {"channel": name, "delivered": fine, "code": code, "why": tested.why}
    say(about, as_json, lambda: [said])
    return Exit.OK if fine else Exit.NEGATIVE
