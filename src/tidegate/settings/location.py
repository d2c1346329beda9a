"""Where the settings are. What is here needs no model, so that a verb which only wants the database starts quickly.

So does the health check of a container, which only wants the port.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import Any

from tidegate.store.open import check_url

# Values that are kept elsewhere: `env:NAME` is the value of a variable, `file:PATH` the content of a file.

_MAX_FILE_BYTES = 1_000_000  # bytes; a secret is small, and /dev/zero is not


def is_reference(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def resolve_reference(value: str, environ: Mapping[str, str], folder: Path) -> str:
    """What *value* refers to, or *value* itself; ValueError says what is missing. *folder* is where a path starts."""
    if value.startswith("env:"):
        return _of_variable(value.removeprefix("env:").strip(), environ)
    if value.startswith("file:"):
        return _of_file(value.removeprefix("file:").strip(), folder)
    return value


def _of_variable(name: str, environ: Mapping[str, str]) -> str:
    if not name:
        raise ValueError("env: names no variable; give env:NAME")
    if not environ.get(name):
        raise ValueError(f"the variable {name} is {'empty' if name in environ else 'not set'}; set it")
    return environ[name]


def _of_file(path: str, folder: Path) -> str:
    if not path:
        raise ValueError("file: names no file; give file:PATH")
    file = folder / Path(path).expanduser()
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_FILE_BYTES + 1)
        text = content.decode("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"the file {file} cannot be read ({error.strerror}); write the value into it") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"the file {file} is no text; write the value into it, in UTF-8") from error
    if not text or len(content) > _MAX_FILE_BYTES:
        raise ValueError(f"the file {file} is {'empty' if not text else 'too large'}; write the value into it")
    return text


# What is wrong with the settings, in lines for people.


@dataclass(frozen=True, slots=True)
class SettingsProblem:
    """One mistake: where it stands, what is wrong, and what to give instead."""

    where: str  # "tidegate.toml: server.port", "TIDEGATE_SERVER_PORT", "--port"
    what: str

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}"  # names and values are what somebody wrote, line ends and all
        return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


class SettingsError(ValueError):
    """The settings cannot be used. `problems` has every mistake that was found, and the text a line for each."""

    def __init__(self, problems: Iterable[SettingsProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def meant(given: str, known: Iterable[str], otherwise: str = "", *, prefix: str = "") -> str:
    """'; did you mean ...?' when a known name is close, else *otherwise*. What all begin with makes none close."""
    names = [name.removeprefix(prefix) for name in known if name.startswith(prefix)]
    close = get_close_matches(given.removeprefix(prefix), names, n=1, cutoff=0.7)
    return f"; did you mean {prefix}{close[0]}?" if close else otherwise


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
