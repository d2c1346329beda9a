"""Locates the settings without pydantic models.

Commands that only need the database URL or the port start faster so.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from tidegate.store.open import check_url
from tidegate.validation import similar

# -- references: `env:NAME` is a variable, `file:PATH` the content of a file -------------------------------------------

_MAX_FILE_BYTES = 1_000_000  # guards against files such as /dev/zero


def is_reference(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def resolve_reference(value: str, environ: Mapping[str, str], folder: Path) -> str:
    """Resolves a reference, or returns *value*. Raises ValueError if it is missing. Paths are relative to *folder*."""
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
        raise ValueError(f"the file {file} is not UTF-8 text; write the value into it, in UTF-8") from error
    if not text or len(content) > _MAX_FILE_BYTES:
        raise ValueError(f"the file {file} is {'empty' if not text else 'too large'}; write the value into it")
    return text


# -- errors ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SettingsProblem:
    """One mistake: its place, what is wrong, and what to give instead."""

    where: str  # "tidegate.toml: server.port", "TIDEGATE_SERVER_PORT", "--port"
    what: str

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}"  # user input may contain line breaks
        return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


class SettingsError(ValueError):
    """The settings are not valid. `problems` has every mistake, the text has one line for each."""

    def __init__(self, problems: Iterable[SettingsProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def meant(given: str, known: Iterable[str], otherwise: str = "", *, prefix: str = "") -> str:
    """Returns '; did you mean ...?' for a close known name, else *otherwise*. A shared *prefix* does not count."""
    names = [name.removeprefix(prefix) for name in known if name.startswith(prefix)]
    close = similar(given.removeprefix(prefix), names)
    return f"; did you mean {prefix}{close}?" if close else otherwise


FILE = "tidegate.toml"
FILE_VARIABLE = "TIDEGATE_CONFIG"
DEFAULT_URL = "sqlite:///tidegate.db"
DEFAULT_PORT = 8321
# Kubernetes sets NAME_PORT to such a value in every container, for a service of that name.
LINK_VALUE = re.compile(r"(tcp|udp|sctp)://\S+:\d+")


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The settings file: its path as given, and its content."""

    path: Path | None  # None: no file exists, and none was requested
    content: Mapping[str, object]

    @property
    def shown(self) -> str:
        return FILE if self.path is None else str(self.path)

    @property
    def folder(self) -> Path:
        """The base of relative paths in the file."""
        return Path() if self.path is None else self.path.parent


def find(file: str | Path | None = None, environ: Mapping[str, str] | None = None) -> SettingsFile:
    """Reads the given file, or `tidegate.toml` in the working directory. Raises SettingsError if it is not TOML."""
    environ = os.environ if environ is None else environ
    requested = file or environ.get(FILE_VARIABLE)
    path = Path(requested or FILE)
    where = path if file or not requested else f"{FILE_VARIABLE}: {path}"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if requested:
            raise _wrong(where, f"the file does not exist; write one with: tidegate init {quote(str(path))}") from None
        return SettingsFile(None, {})
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise _wrong(where, f"it cannot be read ({reason}); make it readable for this user") from error
    try:
        return SettingsFile(path, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise _wrong(where, f"it is not valid TOML: {str(error)[:1].lower()}{str(error)[1:]}") from error


def store_url(
    file: str | Path | None = None, environ: Mapping[str, str] | None = None, *, flag: str | None = None
) -> str | None:
    """Returns the database URL, even if other settings are wrong. None without a settings file.

    *flag* is the value of `--db`. Raises SettingsError if the file cannot be read or the URL is not valid.
    """
    environ = os.environ if environ is None else environ
    settings_file = find(file, environ)
    where, value, folder = f"{settings_file.shown}: db", settings_file.content.get("db"), settings_file.folder
    for name, text in (("TIDEGATE_DB", environ.get("TIDEGATE_DB")), ("--db", flag)):
        if text:
            where, value, folder = name, text, Path()  # as for the server: relative to the working directory
    if value is None:
        return None if settings_file.path is None else DEFAULT_URL
    try:
        url = resolve_reference(value, environ, folder) if isinstance(value, str) else value
        check_url(url)
    except (TypeError, ValueError) as error:
        raise _wrong(where, str(error).removeprefix("url: ")) from error
    return str(url)


def server_port(file: str | Path | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Returns the port of the server, even if other settings are wrong. Does not know command-line flags.

    Raises SettingsError if the file cannot be read or the port is not a number.
    """
    environ = os.environ if environ is None else environ
    settings_file = find(file, environ)
    section = settings_file.content.get("server")
    where = f"{settings_file.shown}: server.port"
    port = section.get("port", DEFAULT_PORT) if isinstance(section, Mapping) else DEFAULT_PORT
    text = environ.get("TIDEGATE_SERVER_PORT", "")
    if text and not LINK_VALUE.fullmatch(text):
        where, port = "TIDEGATE_SERVER_PORT", text
    try:
        return int(port)
    except (TypeError, ValueError):
        raise _wrong(where, f"{port!r} is not allowed; give a whole number") from None


def _wrong(where: object, what: str) -> SettingsError:
    return SettingsError([SettingsProblem(str(where), what)])
