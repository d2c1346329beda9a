"""Where the database is, found without the models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.settings import SettingsError, store_url


@pytest.mark.parametrize(
    ("text", "environ", "url"),
    [
        (None, {}, None),
        ("", {}, "sqlite:///tidegate.db"),
        ("url = 'sqlite:///mine.db'\n", {}, "sqlite:///mine.db"),
        ("url = 'sqlite:///mine.db'\nwrong = 1\n[nobody]\nx = 1\n", {}, "sqlite:///mine.db"),
        ("url = 'sqlite:///mine.db'\n", {"TIDEGATE_URL": "sqlite:///other.db"}, "sqlite:///other.db"),
        ("url = 'env:DB'\n", {"DB": "postgresql://host/db"}, "postgresql://host/db"),
    ],
)
def test_the_file_says_where_the_database_is(
    folder: Path, text: str | None, environ: dict[str, str], url: str | None
) -> None:
    if text is not None:
        (folder / "tidegate.toml").write_text(text)

    assert store_url(environ=environ) == url


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("url = 5\n", "tidegate.toml: url: 5 is no text; give sqlite:///jobs.db or postgresql://user@host/database"),
        ("url = 'env:DB'\n", "tidegate.toml: url: the variable DB is not set; set it"),
        ("url = \n", "tidegate.toml: it is no TOML: invalid value (at line 1, column 7)"),
    ],
)
def test_a_database_that_is_none_is_a_mistake_of_the_file(folder: Path, text: str, line: str) -> None:
    (folder / "tidegate.toml").write_text(text)

    with pytest.raises(SettingsError) as raised:
        store_url(environ={})
    assert str(raised.value) == line


def test_it_needs_no_pydantic() -> None:
    code = "import sys; from tidegate.settings import store_url; store_url(); print('pydantic' in sys.modules)"

    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "False\n"
