"""One letter through each kind of channel, to real servers on the loopback, and what their refusals mean."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.notices.receiving import certificate, hook, post
from tidegate.faults.classification import classify
from tidegate.notices.channels import Apprise, Channel, ChannelConfig, Mail, Message, Webhook
from tidegate.notices.senders import PACK, DeliveryError, _without_secrets, send

# Of aiosmtpd, and of what apprise imports.
pytestmark = pytest.mark.filterwarnings("ignore:.*imghdr.*", "ignore:Requiring AUTH while not requiring TLS")

LETTER = Message(
    id="tg-7-1-0", event="notice.raised", level="error", title="Spotify needs your attention", at=1_800_000_000.0,
    paragraphs=("The credentials were refused, since 08:00 UTC.", "31 jobs wait, none is lost."),
    link="https://tidegate.example/targets/spotify", about={"kind": "fatal", "name": "spotify"},
)  # fmt: skip
NOW = 1_800_000_100.0


def through(way: ChannelConfig, letter: Message = LETTER) -> None:
    send(Channel(name="here", config=way), letter, now=NOW, timeout=20)


def refusal(way: ChannelConfig) -> Any:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each kind of channel has its own
        through(way)
    return classify(raised.value, rules=PACK)


def mail_to(port: int, **more: Any) -> Mail:
    values = {"security": "none", "sender": "tidegate@example.org", "to": ("ada@example.org", "bob@example.org")}
    return Mail(host="127.0.0.1", port=port, **{**values, **more})


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def endless() -> Iterator[str]:
    """The address of a server that answers a little more all the time, and never comes to an end."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as there, contextlib.suppress(OSError):
                there.sendall(b"HTTP/1.1 200 OK\r\nx: ")
                while not over.wait(0.05):
                    there.sendall(b"a")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}/"
        over.set()
        thread.join()


@pytest.mark.parametrize("way", [lambda at: Webhook(url=f"http://{at}"), lambda at: Apprise(url=f"json://{at}")])
def test_an_answer_without_an_end_is_not_waited_for(way: Callable[[str], ChannelConfig]) -> None:
    with endless() as at, pytest.raises(DeliveryError, match="no end within") as raised:
        send(Channel(name="here", config=way(at)), LETTER, now=NOW, timeout=20, whole=0.3)

    found = classify(raised.value, rules=PACK)
    assert found is not None
    assert (found.code, found.fatal) == ("timeout", False)


# -- webhook -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", ["whsec_" + base64.b64encode(b"k" * 24).decode(), "k" * 24])
def test_a_webhook_is_signed_over_its_id_its_time_and_its_body(secret: str) -> None:
    with hook() as there:
        through(Webhook(url=there.url, secret=secret))

    headers, body = there.got[0]
    signed = b".".join([b"tg-7-1-0", str(int(NOW)).encode(), body])
    wanted = base64.b64encode(hmac.new(b"k" * 24, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-id"] == "tg-7-1-0"
    assert headers["webhook-timestamp"] == str(int(NOW))
    assert headers["webhook-signature"] == f"v1,{wanted}"
    assert there.documents() == [{
        "type": "notice.raised", "timestamp": "2027-01-15T08:00:00+00:00",
        "data": {
            "kind": "fatal", "name": "spotify", "level": "error", "title": LETTER.title,
            "text": " ".join(LETTER.paragraphs),
            "link": "https://tidegate.example/targets/spotify",
        },
    }]  # fmt: skip


def test_a_webhook_without_a_secret_is_not_signed() -> None:
    with hook() as there:
        through(Webhook(url=there.url))

    assert "webhook-signature" not in there.got[0][0]


def test_a_redirect_is_not_followed() -> None:
    with hook() as there:
        there.statuses = [302]
        found = refusal(Webhook(url=there.url))

    assert (found.code, len(there.got)) == ("redirected", 1)


@pytest.mark.parametrize(
    ("status", "code", "fatal"),
    [(410, "channel_gone", True), (401, "unauthorized", True), (404, "bad_address", True), (400, "bad_request", True),
     (429, "rate_limited", False), (500, "upstream_failure", False), (503, "overloaded", False)],
)  # fmt: skip
def test_what_a_webhook_answers_decides_whether_it_is_tried_again(status: int, code: str, fatal: bool) -> None:
    with hook() as there:
        there.statuses = [status]
        found = refusal(Webhook(url=there.url))

    assert (found.code, found.fatal) == (code, fatal)


def test_a_webhook_that_nobody_listens_at_is_tried_again() -> None:
    found = refusal(Webhook(url=f"http://127.0.0.1:{free_port()}/"))

    assert (found.code, found.fatal) == ("network", False)


# -- mail --------------------------------------------------------------------------------------------------------------


def test_a_mail_has_the_text_for_everybody_and_an_id_that_a_repeat_has_too() -> None:
    with post() as there:
        for _ in range(2):
            through(mail_to(there.port))

    first, second = there.mails
    assert first["Message-ID"] == second["Message-ID"] == "<tg-7-1-0@example.org>"
    assert first["To"] == "ada@example.org, bob@example.org"
    assert first["Subject"] == LETTER.title
    assert first["Auto-Submitted"] == "auto-generated"
    assert first.get_content().splitlines() == [
        LETTER.paragraphs[0], "", LETTER.paragraphs[1], "",
        "https://tidegate.example/targets/spotify",
    ]  # fmt: skip


def test_a_title_cannot_bring_a_header_of_its_own() -> None:
    with post() as there:
        through(mail_to(there.port), replace(LETTER, title="Down\r\nBcc: eve@example.org"))

    assert there.mails[0]["Subject"] == "Down Bcc: eve@example.org"
    assert there.mails[0]["Bcc"] is None


def test_a_mail_goes_encrypted_and_signed_in(tmp_path: Path) -> None:
    context, trusted = certificate(tmp_path)
    with post(tls=context, user="ada", password="s3cret") as there:
        way = mail_to(there.port, security="starttls", ca_file=trusted, user="ada", password="s3cret")
        through(way)
        wrong = refusal(replace(way, password="wrong"))
        stranger = refusal(replace(way, ca_file=""))

    assert there.encrypted == [True]
    assert (wrong.code, wrong.fatal) == ("unauthorized", True)
    assert (stranger.code, stranger.fatal) == ("certificate", True)


@pytest.mark.parametrize(
    ("says", "code", "fatal"),
    [("451 later", "overloaded", False), ("554 spam", "bad_request", True)],
)
def test_what_a_mail_server_answers_decides_whether_it_is_tried_again(says: str, code: str, fatal: bool) -> None:
    with post() as there:
        there.says = says
        found = refusal(mail_to(there.port))

    assert (found.code, found.fatal) == (code, fatal)


def test_a_mail_server_that_takes_no_address_is_wrongly_set_up() -> None:
    with post() as there:
        there.refuses = "550 no such user"
        found = refusal(mail_to(there.port))

    assert (found.code, found.fatal) == ("misconfigured", True)


def test_a_server_that_cannot_encrypt_gets_no_mail() -> None:
    with post() as there:
        found = refusal(mail_to(there.port, security="starttls"))

    assert (found.code, there.mails) == ("misconfigured", [])


def test_a_mail_server_that_is_away_is_tried_again() -> None:
    found = refusal(mail_to(free_port()))

    assert (found.code, found.fatal) == ("network", False)


# -- apprise -----------------------------------------------------------------------------------------------------------


def test_apprise_delivers_to_what_it_knows() -> None:
    with hook() as there:
        through(Apprise(url=there.url.replace("http://", "json://")))

    found = there.documents()[0]
    assert (found["title"], found["type"]) == (LETTER.title, "failure")
    assert LETTER.paragraphs[1] in found["message"]


def test_what_a_service_wrote_is_no_html_where_apprise_makes_some() -> None:
    hostile = replace(LETTER, title="<b>Hi\nthere", paragraphs=("<a href='https://evil.example'>Sign in</a>",))
    with hook() as there:
        through(Apprise(url=there.url.replace("http://", "json://") + "?format=html"), hostile)

    found = there.documents()[0]
    assert "<a" not in found["message"]
    assert "&lt;a" in found["message"]
    assert "\n" not in found["title"]


def test_apprise_names_no_secret_however_it_is_written() -> None:
    said = _without_secrets("no answer from pass word&more at host", "json://u:pass%20word%26more@host/")
    assert said == "no answer from … at host"


def test_apprise_says_why_it_could_not() -> None:
    with hook() as there:
        there.always = 500
        found = refusal(Apprise(url=there.url.replace("http://", "json://")))

    assert (found.code, found.fatal) == ("upstream_failure", False)
    assert "500" in found.detail


def test_an_address_that_apprise_does_not_know_is_a_mistake_of_the_settings() -> None:
    with pytest.raises(DeliveryError, match="does not know"):
        through(Apprise(url="pigeon://roof"))


@pytest.mark.parametrize(
    ("way", "shown"),
    [(Webhook(url="https://u:pw@hooks.example/T0/key?token=1", secret="x"), "https://hooks.example/…"),
     (Webhook(url="http://10.0.0.7:9000/"), "http://10.0.0.7:9000"),
     (Apprise(url="tgram://123:abc/42"), "tgram://…")],
)  # fmt: skip
def test_no_secret_of_a_channel_is_shown(way: ChannelConfig, shown: str) -> None:
    assert way.shown == shown
    assert not {"pw", "key", "token", "abc", "secret='x'"} & set(repr(way).replace("=", " ").split())
