"""Values that are kept elsewhere: `env:NAME` is the value of a variable, `file:PATH` the content of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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
