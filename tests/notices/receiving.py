"""Servers on the loopback that take what a channel sends: a webhook, and a mail server."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword


@dataclass
class Hook:
    """What a webhook was sent; *statuses* are its next answers, then 204."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    always: int = 204
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]


@contextmanager
def hook() -> Iterator[Hook]:
    there = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            there.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(there.statuses.pop(0) if there.statuses else there.always)
            self.send_header("location", f"{there.url}elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    there.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield there
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Post:
    """What a mail server took; *says* is its answer to a mail, *refuses* to a recipient."""

    port: int = 0
    user: str = ""
    password: str = ""
    says: str = "250 taken"
    refuses: str = ""
    mails: list[EmailMessage] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802 - its name there
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if self.refuses:
            return self.refuses
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - the same
        self, server: Any, session: Any, envelope: Any
    ) -> str:
        if self.says.startswith("250"):
            found = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(found, EmailMessage)
            self.mails.append(found)
            self.encrypted.append(session.ssl is not None)
        return self.says

    def authenticator(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        fine = isinstance(data, LoginPassword) and data == LoginPassword(self.user.encode(), self.password.encode())
        return AuthResult(success=fine, handled=False)


class _AnyPort(Controller):
    def _trigger_server(self) -> None:
        sockets: Any = self.server
        self.port = sockets.sockets[0].getsockname()[1]
        super()._trigger_server()  # type: ignore[no-untyped-call]


@contextmanager
def post(*, tls: ssl.SSLContext | None = None, user: str = "", password: str = "") -> Iterator[Post]:
    there = Post(user=user, password=password)
    controller = _AnyPort(
        there, hostname="127.0.0.1", port=0, tls_context=tls, authenticator=there.authenticator,
        auth_required=bool(user), auth_require_tls=tls is not None, ready_timeout=30,
    )  # fmt: skip
    controller.start()
    there.port = controller.port
    try:
        yield there
    finally:
        controller.stop()


def certificate(folder: Path) -> tuple[ssl.SSLContext, str]:
    """A server's context with a certificate of its own for 127.0.0.1, and the file that trusts it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ))  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, secret)
    return context, str(cert)
