"""What is shown of the arguments and results of jobs has no secret in it, by its name or by its form."""

from __future__ import annotations

import json

import pytest

from tidegate.faults.redaction import MAX_JSON, shown_json, shown_value

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "name",
    ["password", "Passwd", "smtp_pass", "pass", "PASS", "passcode", "passphrase", "pwd", "api_key", "apikey", "apiKey",
     "api-key", "X-Api-Key", "access_key", "Private-Key", "signing key", "encryption_key", "client_secret", "token",
     "Authorization", "Set-Cookie", "X-Signature", "jwt", "credentials"],
)  # fmt: skip
def test_a_value_is_masked_by_its_name_at_any_depth(name: str) -> None:
    assert shown_value({name: SECRET}) == {name: "***"}
    assert SECRET not in json.dumps(shown_json(json.dumps({"a": [{"b": {name: [SECRET, {"c": SECRET}]}}]})))


@pytest.mark.parametrize(
    "name", ["key", "keys", "passed", "passenger", "compass_heading", "monkey", "author", "bypass", "compass"]
)
def test_a_name_that_only_looks_alike_is_shown(name: str) -> None:
    assert shown_value({name: "plain"}) == {name: "plain"}


@pytest.mark.parametrize("length", range(1980, 2010))
@pytest.mark.parametrize("more", [0, 2 * MAX_JSON], ids=["one text", "long JSON"])
def test_a_secret_is_masked_wherever_a_text_is_cut(length: int, more: int) -> None:
    text = "x" * length + f" https://ada:{SECRET}@example.org/"
    found = shown_json(json.dumps({"text": text, "more": "y" * more}))
    assert SECRET[:3] not in json.dumps(found)
