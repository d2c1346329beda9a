"""The extraction is far ahead of pdfminer.six, and the benchmark says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import convert
from tests.apps.convert import pdfs


@pytest.mark.alone
def test_both_mappings_are_well_ahead_of_pdfminer_in_one_run(tmp_path: Path) -> None:
    """The aim is five times, which `python -m bench convert` measures; half of it must hold on the busiest machine."""
    source = tmp_path / "document.pdf"
    source.write_bytes(pdfs.text(5))

    own, peer = convert.extraction(source, rounds=3)

    assert sorted(own) == ["layout", "text"]
    assert all(peer / seconds >= 2.5 for seconds in own.values()), (own, peer)


def test_a_row_of_the_benchmark_says_when_the_aim_is_missed() -> None:
    assert convert.ahead_of("text", 0.1, 0.6).ok is True
    assert convert.ahead_of("text", 0.1, 0.4).ok is False
