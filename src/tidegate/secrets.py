"""One key of the server, and what is made from it: signatures, and secrets that are kept encrypted.

    secrets = Secrets.in_file(Path("tidegate.key"))      # made at the first start, for its owner alone
    kept = secrets.encrypt("spotify", token)             # what reaches a table
    token = secrets.decrypt("spotify", kept)

A purpose tells uses apart: what was made for one is worth nothing for another. To change the key, put the new one
before the old one in the file, each on a line: the old one still reads what it made.
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

_MIN_KEY_BYTES = 32  # bytes


class BadSecret(ValueError):
    """A key, a signature or an encrypted text that is not what it should be."""


class Secrets:
    """What a key makes. Two servers with the same key understand each other."""

    __slots__ = ("_former", "_key")

    def __init__(self, key: str | bytes, former: Sequence[str | bytes] = ()) -> None:
        """*former*: keys of the past, which still read what they made, and make nothing new."""
        self._key = _long_enough(key)
        self._former = tuple(map(Secrets, former))

    @classmethod
    def in_file(cls, path: Path) -> Secrets:
        """The key in a file that only its owner can read; made if there is none. Further lines are former keys."""
        if not path.exists():
            try:
                _make(path)
            except OSError as error:
                raise BadSecret(f"secret_key_file: {path.name} cannot be made ({error.strerror})") from error
        newest, *former = _read(path).split("\n")
        try:
            return cls(newest, former)
        except BadSecret as error:
            told = str(error).removeprefix("secret_key: it has")
            raise BadSecret(f"secret_key_file: a line of {path.name} has{told}") from None

    def derived(self, purpose: str) -> bytes:
        """A key of its own for one purpose."""
        return hmac.digest(self._key, b"tidegate " + purpose.encode(), hashlib.sha256)

    def sign(self, purpose: str, text: str) -> str:
        """*text* with its signature, safe in a cookie or a URL."""
        return f"{_coded(text.encode())}.{_coded(self._mac(purpose, text.encode()))}"

    def read(self, purpose: str, signed: str) -> str | None:
        """The text that was signed; None when it was not, or not for this."""
        found = (each._own(purpose, signed) for each in (self, *self._former))
        return next((text for text in found if text is not None), None)

    def _own(self, purpose: str, signed: str) -> str | None:
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
        """BadSecret when it was encrypted with another key, or for another purpose."""
        from cryptography.fernet import Fernet, InvalidToken, MultiFernet

        keys = [base64.urlsafe_b64encode(each.derived(purpose)) for each in (self, *self._former)]
        try:
            return MultiFernet([Fernet(key) for key in keys]).decrypt(kept.encode()).decode()
        except InvalidToken as error:
            raise BadSecret("it was encrypted with another key; enter the secret again") from error

    def _mac(self, purpose: str, text: bytes) -> bytes:
        return hmac.digest(self.derived(f"sign {purpose}"), text, hashlib.sha256)

    def __repr__(self) -> str:
        return "<Secrets>"


def _long_enough(key: str | bytes) -> bytes:
    raw = key.encode() if isinstance(key, str) else key
    if len(raw) < _MIN_KEY_BYTES:
        raise BadSecret(
            f"secret_key: it has {len(raw)} bytes; give at least {_MIN_KEY_BYTES}, such as 64 random hex digits"
        )
    return raw


def _make(path: Path) -> None:
    """Writes a key; of several servers that do so at the same time, the first one's counts."""
    mine = path.with_name(f".{path.name}.{token_bytes(8).hex()}")
    handle = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(token_bytes(32).hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(mine, path)  # whole or not at all, and never over another one
    finally:
        mine.unlink()


def _read(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        text = "\n".join(line.strip() for line in path.read_text().splitlines() if line.strip())
    except OSError as error:
        raise BadSecret(f"secret_key_file: {path.name} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise BadSecret(f"secret_key_file: {path.name} is no text; give a line such as 64 random hex digits") from error
    if stat.S_IMODE(mode) & 0o077:
        raise BadSecret(f"secret_key_file: others may read {path.name}; run: chmod 600 {path.name}")
    return text


def _coded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _plain(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
