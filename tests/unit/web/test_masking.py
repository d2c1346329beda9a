"""Nothing that is shown says where something is on the machine."""

from __future__ import annotations

import pytest

from tidegate.web.masking import shown_setting, without_paths


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sqlite:////home/ada/data/tidegate.db", "sqlite:///…/tidegate.db"),
        ("sqlite:///tidegate.db", "sqlite:///tidegate.db"),
        ("sqlite:///data/tidegate.db", "sqlite:///data/tidegate.db"),
        ("/etc/tidegate/tidegate.toml", "…/tidegate.toml"),
        ("set from file:/run/secrets/key", "set from file:…/key"),
        ("/srv/a/in, /srv/b/out", "…/in, …/out"),
        ('{"folder": "/srv/a/in"}', '{"folder": "…/in"}'),
        ("https://api.example.org/v1/things", "https://api.example.org/v1/things"),
        ("http://127.0.0.1:8080/a/b?next=c", "http://127.0.0.1:8080/a/b?next=c"),
        ("postgresql://ada@db/jobs", "postgresql://ada@db/jobs"),
        ("/tidegate", "/tidegate"),
        ("24/7 and 1/2/3", "24/7 and 1/2/3"),
        ("", ""),
    ],
)
def test_a_path_is_told_by_its_last_part(text: str, shown: str) -> None:
    assert without_paths(text) == shown


def test_a_setting_hides_passwords_and_places() -> None:
    found = shown_setting({"key": "db", "value": "postgresql://ada:hunter2@db/jobs", "origin": "/etc/x/tidegate.toml"})
    assert "hunter2" not in found["value"]
    assert found["origin"] == "…/tidegate.toml"
