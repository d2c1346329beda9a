"""`tidegate classify`: the verdict, the exit code, and every mistake in one line."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.text import numbers
from tests.unit.cli.conftest import Command
from tidegate import classify, rules
from tidegate.admin.classification import ObservedResponse
from tidegate.cli.classify import REACHES, WHOSE, lines
from tidegate.cli.exits import Exit
from tidegate.faults.codes import CORE
from tidegate.faults.fault import Reach, Reason

DUMP = (
    b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n"
    b"HTTP/2 429 \r\nretry-after: 120\r\ncontent-type: application/json\r\n\r\n"
    b'{"error": {"reason": "QUOTA_EXCEEDED"}}'
)


def test_a_good_answer_is_exit_code_0(command: Command) -> None:
    run = command("classify", "--status", "204")
    assert (run.code, numbers(run.out), run.err) == (0, [204], "")


def test_a_fault_is_exit_code_1_and_told_to_people(command: Command) -> None:
    run = command("classify", "--status", "429", "--header", "Retry-After: 120")

    assert run.code == 1
    assert run.out.startswith("rate_limited: retriable\n")
    for token in ("429", "rate_limited", "2m", "status:429"):
        assert token in run.out


def test_a_fatal_fault_says_that_a_retry_does_not_help(command: Command) -> None:
    assert command("classify", "--status", "401").out.startswith("unauthorized: fatal")


def test_a_dump_of_curl_is_read_from_standard_input(command: Command) -> None:
    general = command("classify", stdin=DUMP)
    spotify = command("classify", "--rules", "spotify", "-", stdin=DUMP)

    assert general.out.startswith("rate_limited: retriable")
    assert spotify.out.startswith("quota_exhausted: fatal")
    assert "decided by      spotify:quota-exceeded" in spotify.out


def test_a_dump_can_be_a_file(command: Command, tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes(DUMP)

    assert command("classify", str(tmp_path / "dump")).code == 1


def test_a_body_comes_from_an_option_a_file_or_standard_input(command: Command, tmp_path: Path) -> None:
    body = '{"error": "invalid_grant"}'
    (tmp_path / "body").write_text(body)
    asked = ("classify", "--status", "400", "--rules", "spotify")

    ways = [
        command(*asked, "--body", body),
        command(*asked, "--body-file", str(tmp_path / "body")),
        command(*asked, "--body-file", "-", stdin=body.encode()),
        command(*asked, "-", stdin=body.encode()),
    ]

    assert {way.out.partition(":")[0] for way in ways} == {"grant_revoked"}


def test_a_body_that_is_no_text_is_taken_as_it_is(command: Command) -> None:
    assert command("classify", "--status", "500", "--body", os.fsdecode(b"\xff\xfe")).code == Exit.NEGATIVE


def test_the_address_can_decide(command: Command) -> None:
    asked = ("classify", "--status", "403", "--rules", "spotify", "--body", '{"error": {"message": "Forbidden"}}')

    assert command(*asked, "--url", "https://api.spotify.com/v1/playlists/37i9").out.startswith("not_shared")
    assert command(*asked, "--url", "https://api.spotify.com/v1/audio-features").out.startswith("endpoint_removed")


def test_a_message_is_classified_by_its_words(command: Command) -> None:
    run = command("classify", "--message", "spotify API returned status 503")

    assert (run.code, run.out.partition(":")[0]) == (1, "overloaded")


def test_what_nobody_knows_says_so(command: Command) -> None:
    assert "unknown" in command("classify", "--message", "frobnicated").out


def test_a_verdict_that_a_target_would_doubt_says_so(command: Command) -> None:
    assert re.search(r"\b2 .*\b30s\b", command("classify", "--status", "401", "--rules", "spotify").out)


def test_json_is_one_document(command: Command) -> None:
    good = json.loads(command("classify", "--status", "200", "--json").out)
    bad = json.loads(command("classify", "--status", "503", "--json").out)

    assert good == {"schema": "tidegate.verdict/1", "good": True, "fault": None}
    assert (bad["good"], bad["fault"]["code"], bad["fault"]["class"]) == (False, "overloaded", "retriable")


@pytest.mark.parametrize("status", [*range(400, 432), *range(500, 512)])
def test_no_line_is_wider_than_a_terminal(status: int) -> None:
    seen = ObservedResponse(status_code=status, headers={"retry-after": "86399"})
    for pack in (None, *rules.PACKS):
        found = list(lines(classify(seen, pack), seen, pack))
        assert max(map(len, found)) <= 80


def test_every_reason_and_every_reach_has_words() -> None:
    assert set(WHOSE) == set(Reason)
    assert set(REACHES) == set(Reach)


def test_every_code_can_be_told() -> None:
    for code in CORE.values():
        assert next(lines(code.fault("test"), None, None)).startswith(code.name)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--status", "99"), "--status"),
        (("--status", "200", "--rules", "spotfy"), "'spotify'"),
        (("--status", "200", "--rules", "zzz"), "navidrome, spotify"),
        (("--status", "200", "--header", "nonsense"), "'nonsense'"),
        (("--status", "200", "--header", ": x"), "': x'"),
        (("--header", "A: b"), "--status"),
        (("--body", "x"), "--status"),
        (("--message", "x", "--status", "500"), "--message"),
        (("--message", "x", "--url", "--message"), "--message"),
        (("--status", "500", "--body", "x", "--body-file", "y"), "body"),
        (("--status", "500", "--body-file", "/nowhere/at/all"), "/nowhere/at/all"),
        (("/nowhere/at/all",), "/nowhere/at/all"),
        ((), "`curl -i`"),
        (("--statsu", "500"), "--statsu"),
        (("a", "b"), "b"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_is_allowed(command: Command, args: tuple[str, ...], told: str) -> None:
    run = command("classify", *args, stdin=b"<html>")

    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("tidegate classify: ")
    assert told.lower() in run.err.lower()
    assert run.err.count("\n") == 1
