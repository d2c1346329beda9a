"""`tidegate simulate`: the table, the JSON, the picture, the tour, and every mistake in one line."""

from __future__ import annotations

import json
import logging
import re
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.unit.cli.conftest import Command
from tidegate.cli.simulate_play import PROFILES


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_plays_and_fits_a_terminal(command: Command, profile: str) -> None:
    run = command("simulate", "--profile", profile)

    assert (run.code, run.err) == (0, "")
    assert "failed calls" in run.out
    assert max(map(len, run.out.splitlines())) <= 80


def test_the_table_and_the_timeline_of_the_sync_profile(command: Command) -> None:
    out = command("simulate", "--profile", "sync", "--outage", "2h down").out.splitlines()

    assert [re.findall(r"\d+[smh%]", line) for line in out[1:3]] == [["30s", "30m", "25%"], ["2h", "30m", "5m", "6h"]]
    table = {line.partition("  ")[0]: line.split()[-3:] for line in out if line.startswith(("calls", "first"))}
    assert table["calls in all"][1:] == ["72", "120"]
    load = next(line for line in out if line.startswith("calls during"))
    assert re.findall(r"\d+ \(\d+%\)", load)[1:] == ["24 (100%)", "72 (300%)"]
    lanes = {line[:12].strip(): line[12:] for line in out if line.startswith(("outage", "Tidegate  ", "plain loop"))}
    assert len(lanes["outage"].strip()) == 23
    assert set(lanes["plain loop"]) == {"o", "x"}
    assert set(lanes["Tidegate"]) >= {"o", "x", "-"}
    assert sum("notice: " in line for line in out) == 2  # the trouble, and its end


def test_the_default_scenario_states_what_the_gates_save_and_what_that_costs(command: Command) -> None:
    found = json.loads(command("simulate", "--json").out)
    plain = found["without"]["plain_loop"]
    out = " ".join(command("simulate").out.split())

    share = found["calls_during_outage"] / plain["calls_during_outage"]
    assert share < 0.05
    assert f"{share:.0%} of the calls" in out
    assert f"({found['calls_during_outage']} of {plain['calls_during_outage']:,})" in out
    later = round(found["recovered_after"] - plain["recovered_after"])
    assert f"{later // 60}m{later % 60}s later" in out
    assert found["held_after_outage"] == later


def test_no_column_claims_a_recovery_sooner_than_its_next_call(command: Command) -> None:
    out = command("simulate", "--profile", "convert").out.splitlines()

    assert next(line for line in out if line.startswith("first success")).split()[-9:] == ["up", "to", "10s"] * 3


def test_json_is_one_document_and_the_same_for_the_same_seed(command: Command) -> None:
    asked = ("simulate", "--profile", "tautulli", "--outage", "1h 30% errors", "--json", "--seed")
    first, second, other = (command(*asked, seed).out for seed in ("1", "1", "2"))

    assert first == second != other
    found = json.loads(first)
    assert (found["schema"], found["title"]) == ("tidegate.simulation/1", "tautulli: 1h 30% answering 500")
    assert found["without"]["plain_loop"]["calls"] == 720


def test_the_picture_is_written_where_it_was_asked_for(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "outage.svg"
    run = command("simulate", "--svg", str(file))

    assert f"{file}." in run.out.splitlines()[-1]
    assert ET.parse(file).getroot().tag.endswith("svg")


def test_own_numbers_replace_those_of_the_profile(command: Command) -> None:
    def failures(*args: str) -> int:
        return int(json.loads(command("simulate", "--json", *args).out)["failures"])

    plain = failures("--profile", "own", "--every", "1m")
    assert plain == 120
    assert failures("--profile", "own", "--every", "1m", "--base", "10m", "--cap", "10m", "--jitter", "0") == 12
    assert failures("--profile", "own", "--every", "1m", "--breaker", "--consecutive", "3", "--open-for", "30m") == 6
    assert failures("--profile", "own", "--every", "1m", "--cooldown", "network=2/1h") == 3
    assert failures("--profile", "tautulli", "--no-breaker", "--every", "1m") == plain
    assert failures("--profile", "own", "--every", "1m", "--retry", "2") == 2 * plain


def test_keys_and_a_probe_are_played(command: Command) -> None:
    def result(*args: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(command("simulate", "--json", "--profile", "requests", *args).out)
        return found

    keyed = ("--outage", "10m down at 1m", "--every", "1s", "--for", "12m", "--keys", "10", "--failing-keys", "1")
    alone, pooled = result(*keyed, "--breaker-per", "key"), result(*keyed)
    assert 5 <= alone["failures"] < 60
    assert 0 < alone["held"] <= 72
    assert pooled["held"] == 0

    probed = result("--outage", "10m down at 1m", "--every", "1s", "--for", "15m", "--probe")
    assert probed["failures"] == 5
    assert probed["recovered_after"] <= 11


def test_its_numbers_are_told_in_words(command: Command) -> None:
    own = (
        "simulate --profile own --base 1s --cap 9s --factor 3 --jitter 0 --breaker --min-requests 4 --failure-ratio 0.5"
    )
    out = command(*own.split(), "--interval", "30s", "--open-for", "1m", "--cooldown", "gone=1/2d").out

    assert re.search(r"backoff .*\b1s\b.*\b3\b.*\b9s\b", out)
    assert re.search(r"50% .*4 .*30s.*1m", out)
    assert re.search(r"cooldown .*\bgone\b.*\b2d\b", out)


@pytest.mark.alone
def test_the_tour_shows_three_outages_and_a_picture_in_under_three_seconds(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "tour.svg"
    started = time.process_time()
    run = command("simulate", "--tour", "--svg", str(file))

    assert time.process_time() - started < 3
    assert (run.code, run.err) == (0, "")
    assert run.out.count("failed calls") == 3
    assert f"as a picture: {file}" in run.out
    assert file.exists()
    assert max(len(line) for line in run.out.splitlines() if str(tmp_path) not in line) <= 80


def test_the_tour_finds_a_place_for_its_picture(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    out = command("simulate", "--tour").out

    place = out.partition("as a picture: ")[2].splitlines()[0]
    assert Path(place).is_file()
    assert tmp_path in Path(place).parents


def test_playing_leaves_the_log_as_it_was(command: Command, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tidegate")
    command("simulate", "--profile", "tautulli")

    assert logging.getLogger("tidegate").level == logging.INFO
    assert caplog.records == []


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ("--every soon", "'soon'"),
        ("--every 0", "--every: 0.0"),
        ("--for 0s", "--for: 0.0"),
        ("--every 2h --for 1h", "--every: 7200 s"),
        ("--every 1ms", "calls"),
        ("--outage 2hdown", "'2hdown'"),
        ("--base 1h --cap 1m", "--cap must be at least --base"),
        ("--jitter 2", "'--jitter'"),
        ("--profile synk", "'requests', 'sync', 'jobs', 'tautulli', 'feeds', 'convert', 'lidarr', 'own'"),
        ("--cooldown netwrk=1/2h", "'network'?"),
        ("--cooldown network", "CODE=TIMES/REST"),
        ("--cooldown network=0/1h", "CODE=TIMES/REST"),
        ("--cooldown network=²/1h", "'network=²/1h'"),
        ("--cooldown network=1/soon", "'soon' is not a duration"),
        ("--no-breaker --consecutive 3", "--no-breaker"),
        ("--svg /nowhere/at/all.svg", "cannot be written (No such file or directory)"),
        ("--tour --svg /nowhere/at/all.svg", "cannot be written (No such file or directory)"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_is_allowed(command: Command, args: str, told: str) -> None:
    run = command("simulate", *args.split())

    assert run.code == 2
    assert run.err.startswith("tidegate simulate: ")
    assert told in run.err
    assert run.err.count("\n") == 1
