"""The page about fetching lists what can go wrong, and the settings as they are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from tidegate import classify, net

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "fetch-user-supplied-urls-safely.md").read_text()


def test_every_error_that_is_raised_is_on_the_page_with_its_code() -> None:
    rows = re.findall(r"^\| `([A-Z]\w+)` \| .* \| `(\w+)` \|$", PAGE, re.MULTILINE)
    raised = {
        name for name in net.__all__ if isinstance(getattr(net, name), type) and name not in ("FetchError", "Refused")
    }
    assert {name for name, _ in rows} == {name for name in raised if issubclass(getattr(net, name), net.FetchError)}
    for name, code in rows:
        if name in ("Unreachable", "Broken"):
            continue  # their code is that of what led to them
        made = net.BlockedAddress("a.example", "10.0.0.1", "private") if name == "BlockedAddress" else None
        fault = classify(made or getattr(net, name)("words"))
        assert fault is not None
        assert fault.code == code, name


def test_every_setting_is_on_the_page() -> None:
    settings = set(inspect.signature(net.Client).parameters) - {"user_agent"}
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE.partition("## Limits")[2], re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"\w+", row)}
    assert settings <= listed
