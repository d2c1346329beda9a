"""Secrets in every place where somebody may put one, each another, and where they may be found afterwards."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer

# name -> what it is; the value is made of the name.
INPUTS = {
    "secret_key": "the key of the server, in the settings",
    "webhook_user": "a password in the address of a webhook",
    "webhook_query": "a token in the query of a webhook's address",
    "webhook_secret": "what signs what is sent to a webhook",
    "smtp_password": "the password of a mail server",
    "apprise": "an address of apprise",
    "gateway_user": "a password in the address of the PDF gateway",
    "lidarr_key": "an API key that the settings take from a variable",
    "tautulli_key": "an API key in a file that the settings name",
    "lastfm_key": "an API key in the settings",
    "lastfm_secret": "a shared secret in the settings",
    "spotify_secret": "a client's secret in the settings",
    "fanart_key": "an API key in the settings",
    "openai_key": "an API key in the settings",
    "poller_token": "a token for another server",
    "connect_password": "the password of a connection in the settings",
    "navidrome_password": "the password of a connection that a user enters",
    "feed_user": "a password in the address of a feed",
    "feed_query": "a token in the query of a feed's address",
    "user_password": "the password of a user",
    "wrong_password": "a password that fits nobody, at the sign-in",
    "cookie": "a session that is none",
    "bearer": "a token that is none",
    "header": "an API key in a header of a request to us",
    "query": "an API key in the query of a request to us",
    "body": "a password in a body that is refused",
    "form": "a password in a form that is refused",
    "classified": "a header in an answer that is classified",
    "flag": "a password in the address of a database, as an option of a command",
    "variable": "the same, in a variable of a command",
}
# What goes out to the service that it is for, which then says it again in what it answers.
SENT = {
    "webhook_query", "webhook_user", "smtp_password", "apprise", "gateway_user", "tautulli_key", "navidrome_password",
    "connect_password", "feed_query", "feed_user",
}  # fmt: skip


def value(name: str) -> str:
    """32 letters and digits that are nowhere else."""
    return f"Kx{hashlib.sha256(name.encode()).hexdigest()[:30]}"


def forms(name: str) -> tuple[bytes, ...]:
    """As itself, and inside of anything that is in base64."""
    raw = value(name).encode()
    inside = (base64.b64encode(b"x" * skip + raw)[4 if skip else 0 : -4].rstrip(b"=") for skip in range(3))
    return (raw, raw.hex().encode(), *inside)


def leaks(sinks: Mapping[str, bytes], names: Iterable[str] = INPUTS) -> list[tuple[str, str]]:
    """Which input was found in which of *sinks*."""
    looked_for = {name: forms(name) for name in names}
    return sorted(
        (name, sink)
        for sink, content in sinks.items()
        for name, found in looked_for.items()
        if any(each in content for each in found)
    )


class Echo(BaseHTTPRequestHandler):
    """A service that is angry, and says in its answer all that it was sent, in words of its own."""

    heard: bytes = b""
    _answers = (500, 401, 403, 400, 404, 429, 503)
    _lock = threading.Lock()
    _n = 0

    def do_GET(self) -> None:
        cls = type(self)
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        said = f"{self.command} {self.path}\n{self.headers}".encode() + body
        with cls._lock:
            Echo.heard += said
            Echo._n += 1
            status = cls._answers[Echo._n % len(cls._answers)]
        answer = b"you sent: " + said
        self.send_response(status, "No, not with " + self.path[:300])
        self.send_header("content-length", str(len(answer)))
        self.send_header("content-type", "text/plain")
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_GET  # noqa: N815 - the names are theirs

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is theirs
        return


class EchoMail(StreamRequestHandler):
    """A mail server that lets nobody in, and says with what they tried."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        for line in self.rfile:
            Echo.heard += line
            verb = line[:4].upper()
            if verb == b"EHLO":
                self.wfile.write(b"250-here\r\n250 AUTH PLAIN LOGIN\r\n")
            elif verb == b"QUIT":
                return
            else:
                self.wfile.write(b"535 no, not with " + line.strip() + b"\r\n")


@contextmanager
def echo() -> Iterator[tuple[str, int]]:
    """The address of the service, and the port of the mail server."""
    servers = ThreadingHTTPServer(("127.0.0.1", 0), Echo), ThreadingTCPServer(("127.0.0.1", 0), EchoMail)
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{servers[0].server_address[1]}", servers[1].server_address[1]
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def settings(at: str, mail: int) -> str:
    """Settings with all that they can hold, where everything leads to the service at *at*."""
    v = {name: value(name) for name in INPUTS}
    return f"""
secret_key = "{v["secret_key"]}"
[log]
level = "debug"
format = "json"
[notices]
breaker = "0s"
group = "0s"
[channels.hook]
kind = "webhook"
level = "info"
url = "http://hook:{v["webhook_user"]}@{at}/hook?token={v["webhook_query"]}"
secret = "{v["webhook_secret"]}"
[channels.mail]
kind = "smtp"
level = "info"
host = "127.0.0.1"
port = {mail}
security = "none"
user = "ada"
password = "{v["smtp_password"]}"
sender = "a@example.org"
to = ["b@example.org"]
[channels.all]
kind = "apprise"
level = "info"
url = "json://ada:{v["apprise"]}@{at}/"
[convert]
gateway_url = "http://gw:{v["gateway_user"]}@{at}"
[feeds]
allow_networks = ["127.0.0.0/8"]
ports = []
[lidarr]
base_url = "http://{at}"
api_key = "env:LIDARR_CANARY"
[tautulli]
url = "http://{at}"
api_key = "file:tautulli.key"
[music.lastfm]
api_key = "{v["lastfm_key"]}"
shared_secret = "{v["lastfm_secret"]}"
url = "http://{at}"
[music.spotify]
client_id = "me"
client_secret = "{v["spotify_secret"]}"
url = "http://{at}"
accounts_url = "http://{at}"
[music.fanart]
api_key = "{v["fanart_key"]}"
url = "http://{at}"
[music.openai]
api_key = "{v["openai_key"]}"
url = "http://{at}"
[music.connect.otto.navidrome]
url = "http://{at}"
user = "otto"
password = "{v["connect_password"]}"
"""
