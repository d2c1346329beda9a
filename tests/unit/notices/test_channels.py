"""Channels and letters as values: what is shown of an address, who takes what, and what is sent."""

from __future__ import annotations

import pytest

from tidegate.notices.channels import LEVELS, Apprise, Channel, ChannelConfig, Mail, Message, Webhook, in_order


@pytest.mark.parametrize(
    ("way", "shown"),
    [
        (Webhook(url="https://hooks.example/T0/secret"), "https://hooks.example/…"),
        (Webhook(url="https://hooks.example/"), "https://hooks.example"),
        (Webhook(url="https://hooks.example?token=secret"), "https://hooks.example/…"),
        (Webhook(url="http://anna:secret@hooks.example:8080"), "http://hooks.example:8080"),
        (Mail(host="mail.example", port=587, sender="t@x.example", to=("a@x", "b@x")), "a@x, b@x by mail.example:587"),
        (Apprise(url="tgram://secret/chat"), "tgram://…"),
        (Apprise(url="://secret"), "apprise://…"),
    ],
)
def test_of_an_address_is_shown_what_is_no_secret(way: ChannelConfig, shown: str) -> None:
    assert way.shown == shown


def channel(name: str = "ops", **given: object) -> Channel:
    return Channel(name=name, config=Webhook(url="https://hooks.example/x"), **given)  # type: ignore[arg-type]


def test_a_channel_takes_its_level_and_what_is_heavier() -> None:
    assert [level for level in LEVELS if channel(level="warning").takes(level)] == ["warning", "error"]
    assert [level for level in LEVELS if channel(level="info").takes(level)] == list(LEVELS)
    assert [level for level in LEVELS if channel(level="info", standby=True).takes(level)] == []


def test_channels_stand_in_their_order_and_then_by_name() -> None:
    found = in_order((channel("c"), channel("b"), channel("z", order=1)))
    assert [each.name for each in found] == ["z", "b", "c"]


def test_the_target_of_a_channel_is_its_own() -> None:
    assert channel("ops").target == "channel ops"


def test_a_letter_is_a_heading_a_text_and_a_document() -> None:
    letter = Message(
        id="1", event="notice.raised", level="error", title="Down\nsince  noon", at=0.5,
        paragraphs=("It is down.", "Nobody answers."), link="https://t.example/n/1", about={"target": "api"},
    )  # fmt: skip
    assert letter.heading == "Down since noon"
    assert letter.text == "It is down.\n\nNobody answers.\n\nhttps://t.example/n/1"
    assert letter.as_json() == {
        "type": "notice.raised",
        "timestamp": "1970-01-01T00:00:00.500000+00:00",
        "data": {
            "target": "api", "level": "error", "title": "Down\nsince  noon", "text": "It is down. Nobody answers.",
            "link": "https://t.example/n/1",
        },
    }  # fmt: skip


def test_a_letter_without_a_link_ends_with_its_last_paragraph() -> None:
    letter = Message(id="1", event="notice.test", level="info", title="Test", at=0.0, paragraphs=("Hello.",))
    assert letter.text == "Hello."
    assert letter.as_json()["data"]["link"] == ""
