"""TLS is about the name, although the connection is to an address."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.net.serving import OK, PUBLIC, Names, client, names, redirect, serving
from tidegate import classify, net


class Authority:
    """Who signs certificates here."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority of a test")])
        self.certificate = self._sign(self._name, self._key.public_key(), None)

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.certificate.public_bytes(serialization.Encoding.PEM).decode())

    def serving_as(self, name: str, folder: Path) -> tuple[ssl.SSLContext, list[str | None]]:
        """A context for a server of that name, and the names that clients ask it for."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key.public_key(), name)
        unencrypted = serialization.NoEncryption()
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (folder / "both.pem").write_bytes(certificate.public_bytes(pem) + key.private_bytes(pem, form, unencrypted))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(folder / "both.pem")
        asked: list[str | None] = []
        context.sni_callback = lambda _, wanted, __: asked.append(wanted)
        return context, asked

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, name: str | None) -> x509.Certificate:
        now = datetime.now(UTC)
        day = timedelta(days=1)
        ours = self._key.public_key()
        made = (
            x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number(), now - day, now + day)
            .add_extension(x509.BasicConstraints(ca=name is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ours), critical=False)
        )
        if name is not None:
            made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        else:
            signs = dict.fromkeys(_USAGES, False) | {"key_cert_sign": True, "crl_sign": True}
            made = made.add_extension(x509.KeyUsage(**signs), critical=True)
        return made.sign(self._key, hashes.SHA256())


_USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


async def test_the_name_is_sent_and_its_certificate_is_checked(authority: Authority, tmp_path: Path) -> None:
    tls, asked = authority.serving_as("feed.example", tmp_path)
    resolver = names(feed=[PUBLIC], other=[PUBLIC])
    async with serving(OK, tls=tls) as server, client(resolver=resolver, tls=authority.trusting()) as fetching:
        assert (await fetching.get(f"https://feed.example:{server.port}/")).body == b"ok"
        assert (await fetching.get(f"https://feed.example:{server.port}/")).body == b"ok"
        assert asked == ["feed.example"]

        with pytest.raises(net.Unreachable) as caught:
            await fetching.get(f"https://other.example:{server.port}/")
        assert asked[-1] == "other.example"
    fault = classify(caught.value)
    assert fault is not None
    assert fault.code == "certificate"
    assert len(server.requests) == 2


async def test_an_authority_that_nobody_trusts_is_refused(authority: Authority, tmp_path: Path) -> None:
    tls, _ = authority.serving_as("feed.example", tmp_path)
    async with serving(OK, tls=tls) as server, client(resolver=names(feed=[PUBLIC])) as fetching:
        with pytest.raises(net.Unreachable) as caught:
            await fetching.get(f"https://feed.example:{server.port}/")
    fault = classify(caught.value)
    assert fault is not None
    assert fault.code == "certificate"
    assert server.requests == []


async def test_a_redirect_from_https_to_http_is_not_followed(authority: Authority, tmp_path: Path) -> None:
    tls, _ = authority.serving_as("feed.example", tmp_path)
    async with serving(OK) as plain, serving(redirect(f"http://feed.example:{plain.port}/"), tls=tls) as server:
        async with client(resolver=names(feed=[PUBLIC]), tls=authority.trusting()) as fetching:
            with pytest.raises(net.BadRedirect, match="https"):
                await fetching.get(f"https://feed.example:{server.port}/")
        assert plain.connections == 0


async def test_a_name_with_a_dot_at_its_end_is_the_name_without_it(authority: Authority, tmp_path: Path) -> None:
    tls, asked = authority.serving_as("feed.example", tmp_path)
    resolver = Names({"feed.example.": [[PUBLIC]]})
    async with serving(OK, tls=tls) as server, client(resolver=resolver, tls=authority.trusting()) as fetching:
        assert (await fetching.get(f"https://feed.example.:{server.port}/")).body == b"ok"
    assert asked == ["feed.example"]


async def test_an_address_is_not_trusted_with_the_certificate_of_a_name(authority: Authority, tmp_path: Path) -> None:
    tls, _ = authority.serving_as("feed.example", tmp_path)
    async with serving(OK, tls=tls) as server, client(tls=authority.trusting()) as fetching:
        with pytest.raises(net.Unreachable, match="certificate"):
            await fetching.get(f"https://{PUBLIC}:{server.port}/")
    assert server.requests == []


async def test_one_who_ends_the_connection_instead_of_a_handshake_is_not_called_slow() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(talk, PUBLIC, 0)
    async with server, client() as fetching:
        with pytest.raises(net.Unreachable, match="connection"):
            await fetching.get(f"https://{PUBLIC}:{server.sockets[0].getsockname()[1]}/")


@pytest.mark.parametrize("whole", [True, False], ids=["said to be over", "cut"])
async def test_a_body_without_a_length_is_whole_only_if_its_end_was_said_under_tls(
    authority: Authority, tmp_path: Path, whole: bool
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\none half")
        await writer.drain()
        if whole:
            writer.close()
        else:
            writer.transport.abort()  # as anybody on the way can end a connection

    tls, _ = authority.serving_as("feed.example", tmp_path)
    server = await asyncio.start_server(talk, PUBLIC, 0, ssl=tls)
    url = f"https://feed.example:{server.sockets[0].getsockname()[1]}/"
    async with server, client(resolver=names(feed=[PUBLIC]), tls=authority.trusting()) as fetching:
        if whole:
            assert (await fetching.get(url)).body == b"one half"
        else:
            with pytest.raises(net.Broken):
                await fetching.get(url)


async def test_a_fetch_that_is_cancelled_as_soon_as_tls_stands_leaves_its_socket_to_nobody(
    authority: Authority, tmp_path: Path
) -> None:
    fetches: list[asyncio.Task[net.FetchResponse]] = []

    class Cancelling(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            fetches[-1].cancel()

    tls, _ = authority.serving_as("feed.example", tmp_path)
    trusting = authority.trusting()
    async with serving(OK, tls=tls) as server, client(resolver=names(feed=[PUBLIC]), tls=trusting) as fetching:
        trusting.sslobject_class = Cancelling
        fetches.append(asyncio.ensure_future(fetching.get(f"https://feed.example:{server.port}/")))
        await asyncio.wait(fetches)
        assert fetches[0].cancelled()
        trusting.sslobject_class = ssl.SSLObject
        # The next sockets get the number of the one that was closed.
        for _ in range(3):
            assert (await fetching.get(f"https://feed.example:{server.port}/")).body == b"ok"
