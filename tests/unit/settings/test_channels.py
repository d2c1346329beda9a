"""The sections [channels.NAME] and [notices]: what they give, and what is said of a mistake."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.settings.weather import origins, settings
from tidegate.notices.channels import Apprise, Mail, Webhook
from tidegate.settings import Settings, SettingsError

HOOK = '[channels.hook]\nkind = "webhook"\nurl = "https://hooks.example/T0/hidden"\n'
MAIL = '[channels.mail]\nkind = "smtp"\nhost = "mail.example"\nsender = "a@example.org"\nto = ["b@example.org"]\n'
PHONE = '[channels.phone]\nkind = "apprise"\nurl = "env:NTFY"\norder = 1\nlevel = "error"\nstandby = true\n'


def test_channels_are_read_in_their_order() -> None:
    found = settings(HOOK + MAIL + PHONE, {"NTFY": "ntfys://ntfy.sh/hidden"}).values.channels.all()

    assert [each.name for each in found] == ["phone", "hook", "mail"]
    phone, web, mail = found
    assert (phone.config, phone.level, phone.standby) == (Apprise(url="ntfys://ntfy.sh/hidden"), "error", True)
    assert web.config == Webhook(url="https://hooks.example/T0/hidden")
    assert mail.config == Mail(host="mail.example", port=587, sender="a@example.org", to=("b@example.org",))


def test_without_a_section_there_is_only_the_page() -> None:
    assert settings("").values.channels.all() == ()


@pytest.mark.parametrize(
    "text",
    [
        "[channels.ops]\n",
        "[channels]\nops = {}\n",
        HOOK + "[channels.ops]\n",
        '[channels.ops]\nurl = "https://hooks.example/T0"\n',
    ],
)
def test_a_channel_that_says_nothing_of_its_kind_lacks_it(text: str) -> None:
    with pytest.raises(SettingsError) as raised:
        settings(text)

    assert str(raised.value).startswith("tidegate.toml: channels.ops.kind: ")


def test_an_empty_section_of_a_queue_leaves_it_to_what_its_application_says() -> None:
    assert list(settings("[retention.mail]\n").values.retention.by_queue()) == ["*"]


def test_what_counts_shows_no_secret() -> None:
    shown = origins(settings(HOOK + PHONE, {"NTFY": "ntfys://ntfy.sh/hidden"}))

    assert shown["channels.hook.url"][0] == "********"
    assert shown["channels.phone.url"][0] == "******** from env:NTFY"
    assert "hidden" not in str(shown)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[channels.hook]\nkind = "webhook"\n', "webhook.* url"),
        (HOOK + 'host = "x"\n', "webhook.* host"),
        (HOOK.replace("https", "ftp"), r"://.*://"),
        (HOOK.replace("hooks.example", "hooks.example:99999"), "port"),
        (HOOK.replace("hooks.example", "hooks.example:hidden"), "port"),
        (HOOK.replace("hooks.example", "[::1"), r"://.*://"),
        (HOOK + 'secret = "short"\n', "16"),
        (HOOK + 'secret = "whsec_%%%"\n', "what follows whsec_ must be base64"),
        (MAIL.replace("b@example.org", "bob"), "'bob'"),
        (MAIL + 'password = "x"\n', "password .* user"),
        ('[channels.Hook]\nkind = "apprise"\nurl = "ntfy://x"\n', "'Hook'"),
        ('[channels.page]\nkind = "apprise"\nurl = "ntfy://x"\n', "'page'"),
        ('[channels.hook]\nkind = "pigeon"\n', "give 'webhook', 'smtp' or 'apprise'"),
        (HOOK + "ordr = 1\n", "did you mean order?"),
        ('[notices]\nquiet = "22-7"\n', r"'22-7'.*22:00.*07:00"),
        ('[notices]\nzone = "Moon/Base"\n', "'Moon/Base'"),
        ('[notices]\naddress = "tidegate.lan"\n', r"'tidegate\.lan'"),
    ],
)
def test_a_mistake_is_said_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as raised:
        settings(text)

    assert re.search(said, str(raised.value))
    assert "hidden" not in str(raised.value)


def test_the_numbers_of_telling_are_those_of_the_settings() -> None:
    text = '[notices]\nquiet = "22:00-07:00"\nzone = "Europe/Berlin"\nbreaker = "2m"\nflaps = 9\n'
    found = settings(text).values.notices.policy()

    assert (found.grace, found.flaps, found.steady) == (120.0, 9, 600.0)
    assert found.quiet is not None
    assert found.quiet.until(1_800_000_000.0) is None  # 09:00 in Berlin


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({}, "http://127.0.0.1:8321"),
        ({"server": {"host": "::1", "port": 80}}, "http://[::1]:80"),
        ({"server": {"host": "::1"}, "notices": {"address": "https://tidegate.lan/"}}, "https://tidegate.lan"),
    ],
)
def test_links_lead_to_where_people_reach_the_page(given: dict[str, Any], address: str) -> None:
    assert Settings.model_validate(given).address == address
