"""The page about convert says what is true."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tidegate.cli.root import run
from tidegate_apps.convert.codes import TEN
from tidegate_apps.convert.settings import ConvertSettings

PAGE = Path("docs/how-to/run-convert.md").read_text(encoding="utf-8")


@pytest.mark.req("CNV-10")
def test_every_code_is_there_with_its_line() -> None:
    for code in TEN:
        assert f"| `{code.name}` | {code.message} |" in PAGE


def test_the_settings_are_all_there_with_their_defaults() -> None:
    found = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    shown = tomllib.loads(found[1])["convert"]
    assert ConvertSettings(**shown) == ConvertSettings()
    assert set(shown) == set(ConvertSettings.model_fields)


@pytest.mark.req("CNV-18")
@pytest.mark.parametrize("section", ["Many GW_5XX", "Mostly GW_4XX", "IO_ERROR spikes", "Stuck leases"])
def test_each_section_of_the_runbook_names_a_metric_a_page_and_a_command(section: str) -> None:
    text = PAGE.partition(f"\n### {section}")[2].partition("\n### ")[0]
    for what in ("- Metric: `", "- Page: ", "- Command: `"):
        assert what in text, what


@pytest.mark.req("CNV-18")
def test_the_commands_of_the_runbook_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    for text in sorted(set(re.findall(r"`tidegate ([a-z][^`]*)`", PAGE))):
        words = text.split()
        verbs = [word for word in words[:3] if word.isalpha() and word.islower()]
        told = _help(verbs, capsys)
        assert all(word in told for word in words if word.startswith("--")), text


def _help(verbs: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    code = run([*verbs, "--help"])
    assert code == 0, verbs
    return capsys.readouterr().out
