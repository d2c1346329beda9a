"""Where the settings are. What is here needs no model, so that a verb which only wants the database starts quickly.

So does the health check of a container, which only wants the port.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from tidegate.settings.problems import SettingsError, SettingsProblem
from tidegate.settings.references import resolve_reference
from tidegate.store.opening import check_url

FILE = "tidegate.toml"
FILE_VARIABLE = "TIDEGATE_CONFIG"
DEFAULT_URL = "sqlite:///tidegate.db"
DEFAULT_PORT = 8321
# What Kubernetes gives the variable NAME_PORT in every container, for a service of that name.
LINK_VALUE = re.compile(r"(tcp|udp|sctp)://\S+:\d+")


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The file with the settings: its path as it was given, and what is in it."""

    path: Path | None  # None: there is none, and nobody asked for one
    content: Mapping[str, Any]

    @property
    def shown(self) -> str:
        return FILE if self.path is None else str(self.path)

    @property
    def folder(self) -> Path:
        """Where the paths start that are written in it."""
        return Path() if self.path is None else self.path.parent


def find(file: str | Path | None = None, environ: Mapping[str, str] | None = None) -> SettingsFile:
    """The file that was asked for, else `tidegate.toml` in the working directory; SettingsError when it is no TOML."""
    environ = os.environ if environ is None else environ
    asked = file or environ.get(FILE_VARIABLE)
    path = Path(asked or FILE)
    where = path if file or not asked else f"{FILE_VARIABLE}: {path}"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if asked:
            raise _wrong(where, f"there is no such file; write one with: tidegate init {quote(str(path))}") from None
        return SettingsFile(None, {})
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise _wrong(where, f"it cannot be read ({why})") from error
    try:
        return SettingsFile(path, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise _wrong(where, f"it is no TOML: {str(error)[:1].lower()}{str(error)[1:]}") from error


def store_url(
    file: str | Path | None = None, environ: Mapping[str, str] | None = None, *, flag: str | None = None
) -> str | None:
    """The database that the settings name, whatever else is wrong with them; None when there is no file.

    *flag* is what `--url` says. SettingsError when the file cannot be read, or the database that is named is none.
    """
    environ = os.environ if environ is None else environ
    found = find(file, environ)
    where, given, folder = f"{found.shown}: url", found.content.get("url"), found.folder
    for name, text in (("TIDEGATE_URL", environ.get("TIDEGATE_URL")), ("--url", flag)):
        if text:
            where, given, folder = name, text, Path()  # as for the server: it does not start where the file is
    if given is None:
        return None if found.path is None else DEFAULT_URL
    try:
        url = resolve_reference(given, environ, folder) if isinstance(given, str) else given
        check_url(url)
    except (TypeError, ValueError) as error:
        raise _wrong(where, str(error).removeprefix("url: ")) from error
    return str(url)


def server_port(file: str | Path | None = None, environ: Mapping[str, str] | None = None) -> int:
    """The port of the server that the settings name, whatever else is wrong with them; what a flag said is not known.

    SettingsError when the file cannot be read, or the port is no number.
    """
    environ = os.environ if environ is None else environ
    found = find(file, environ)
    section = found.content.get("server")
    where = f"{found.shown}: server.port"
    given = section.get("port", DEFAULT_PORT) if isinstance(section, Mapping) else DEFAULT_PORT
    text = environ.get("TIDEGATE_SERVER_PORT", "")
    if text and not LINK_VALUE.fullmatch(text):
        where, given = "TIDEGATE_SERVER_PORT", text
    try:
        return int(given)
    except (TypeError, ValueError):
        raise _wrong(where, f"{given!r} is not allowed; give a whole number") from None


def _wrong(where: object, what: str) -> SettingsError:
    return SettingsError([SettingsProblem(str(where), what)])
