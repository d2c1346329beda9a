"""The server's secret key: signatures, and encryption of stored secrets.

    secrets = Secrets.in_file(Path("tidegate.key"))      # created at the first start, readable by its owner only
    stored = secrets.encrypt("spotify", token)           # safe to store in a table
    token = secrets.decrypt("spotify", stored)

Each purpose has its own derived key, so a signature for one purpose is not valid for another. To rotate the key, put
the new one on the first line of the file, before the old one. The old key still verifies and decrypts.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from secrets import token_bytes

__all__ = ["BadSecret", "Secrets"]

_MIN_KEY_BYTES = 32


class BadSecret(ValueError):
    """A key, a signature or an encrypted text is not valid."""


class Secrets:
    """Signs and encrypts with one key. Servers with the same key can read each other's values."""

    __slots__ = ("_former", "_key")

    def __init__(self, key: str | bytes, former: Sequence[str | bytes] = ()) -> None:
        """*former*: old keys, which only verify and decrypt."""
        self._key = _check_length(key)
        self._former = tuple(map(Secrets, former))

    @classmethod
    def in_file(cls, path: Path) -> Secrets:
        """Reads the key file, or creates it readable by its owner only. Further lines are former keys."""
        if not path.exists():
            try:
                _make(path)
            except OSError as error:
                raise BadSecret(
                    f"secret_key_file: {path.name} cannot be created ({error.strerror}); give a writable path"
                ) from error
        newest, *former = _read(path).split("\n")
        try:
            return cls(newest, former)
        except BadSecret as error:
            problem = str(error).removeprefix("secret_key: it has")
            raise BadSecret(f"secret_key_file: a line of {path.name} has{problem}") from None

    def derived(self, purpose: str) -> bytes:
        """Derives the key of one purpose."""
        return hmac.digest(self._key, b"tidegate " + purpose.encode(), hashlib.sha256)

    def sign(self, purpose: str, text: str) -> str:
        """Returns *text* with its signature, safe in a cookie or a URL."""
        return f"{_encode_base64(text.encode())}.{_encode_base64(self._mac(purpose, text.encode()))}"

    def read(self, purpose: str, signed: str) -> str | None:
        """Returns the signed text, or None if the signature is not valid for *purpose*."""
        texts = (secrets._read_with_own_key(purpose, signed) for secrets in (self, *self._former))
        return next((text for text in texts if text is not None), None)

    def _read_with_own_key(self, purpose: str, signed: str) -> str | None:
        body, _, mac = signed.partition(".")
        try:
            text = _plain(body)
            return text.decode() if hmac.compare_digest(_plain(mac), self._mac(purpose, text)) else None
        except ValueError:
            return None

    def encrypt(self, purpose: str, text: str) -> str:
        from cryptography.fernet import Fernet

        return Fernet(base64.urlsafe_b64encode(self.derived(purpose))).encrypt(text.encode()).decode()

    def decrypt(self, purpose: str, kept: str) -> str:
        """Raises BadSecret if the text was encrypted with another key or for another purpose."""
        from cryptography.fernet import Fernet, InvalidToken, MultiFernet

        keys = [base64.urlsafe_b64encode(secrets.derived(purpose)) for secrets in (self, *self._former)]
        try:
            return MultiFernet([Fernet(key) for key in keys]).decrypt(kept.encode()).decode()
        except InvalidToken as error:
            raise BadSecret("the secret was encrypted with a key that is missing; enter it again") from error

    def _mac(self, purpose: str, text: bytes) -> bytes:
        return hmac.digest(self.derived(f"sign {purpose}"), text, hashlib.sha256)

    def __repr__(self) -> str:
        return "<Secrets>"


def _check_length(key: str | bytes) -> bytes:
    raw = key.encode() if isinstance(key, str) else key
    if len(raw) < _MIN_KEY_BYTES:
        raise BadSecret(
            f"secret_key: it has {len(raw)} bytes; give at least {_MIN_KEY_BYTES}, such as 64 random hex digits"
        )
    return raw


def _make(path: Path) -> None:
    """Writes a new key. If several servers do so at once, the first one wins."""
    mine = path.with_name(f".{path.name}.{token_bytes(8).hex()}")
    handle = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(token_bytes(32).hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(mine, path)  # atomic, and never replaces an existing key
    finally:
        mine.unlink()


def _read(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        text = "\n".join(line.strip() for line in path.read_text().splitlines() if line.strip())
    except OSError as error:
        raise BadSecret(
            f"secret_key_file: {path.name} cannot be read ({error.strerror}); make it readable for this user"
        ) from error
    except UnicodeDecodeError as error:
        raise BadSecret(
            f"secret_key_file: {path.name} is not UTF-8 text; give one line, such as 64 random hex digits"
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise BadSecret(f"secret_key_file: others may read {path.name}; run: chmod 600 {path.name}")
    return text


def _encode_base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _plain(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
