"""The log of a server: names and types of fields are kept, secrets are not."""

from __future__ import annotations

import io
import json
import logging
import math
from collections.abc import Iterator
from typing import Any

import pytest

from tidegate.logs import write_log

log = logging.getLogger("tidegate.test_log_lines")


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    out, root = io.StringIO(), logging.getLogger()
    before = root.level
    yield out
    root.setLevel(before)
    for handler in [each for each in root.handlers if each.get_name() == "tidegate"]:
        root.removeHandler(handler)


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_an_event_keeps_its_fields_as_json(written: io.StringIO) -> None:
    write_log("INFO", "json", written)
    log.warning("lease_lost job=%s key=%s wait=%.1f", 7, "user8", 1.5)
    (line,) = lines(written)
    assert line.pop("at").endswith("Z")
    assert line == {
        "level": "WARNING", "logger": log.name, "event": "lease_lost", "job": 7, "key": "user8", "wait": 1.5,
    }  # fmt: skip


def test_an_event_may_have_several_words(written: io.StringIO) -> None:
    write_log("INFO", "json", written)
    log.warning("feed poll failed source_id=%s error=%s", 7, "HTTP 404")
    log.info("connection closed")
    found = lines(written)

    assert [line["event"] for line in found] == ["feed poll failed", "connection closed"]
    assert (found[0]["source_id"], found[0]["error"]) == (7, "HTTP 404")


def test_an_event_may_have_dots_in_its_name(written: io.StringIO) -> None:
    write_log("INFO", "json", written)
    log.info("metric.lidarr.backpressure queue_depth=%s queue_max=%s", 50, 50)

    (found,) = lines(written)
    assert (found["event"], found["queue_depth"], found["queue_max"]) == ("metric.lidarr.backpressure", 50, 50)


def test_a_key_that_is_no_secret_stays_and_a_secret_goes(written: io.StringIO) -> None:
    write_log("INFO", "text", written)
    log.info("target_held key=%s url=%s", "user8", "https://ann:hunter2@example.org/?token=abc123")
    log.info("GET /x?api_key=abc123 took long")
    assert "key=user8" in written.getvalue()
    assert "hunter2" not in written.getvalue()
    assert "abc123" not in written.getvalue()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_is_kept_and_its_secrets_are_not(written: io.StringIO, form: str) -> None:
    write_log("INFO", form, written)
    try:
        raise ValueError("password=hunter2")
    except ValueError:
        log.exception("it_broke job=%s", 3)
    assert "Traceback" in written.getvalue()
    assert "ValueError" in written.getvalue()
    assert "hunter2" not in written.getvalue()


def test_it_is_text_on_a_terminal_and_json_elsewhere(written: io.StringIO) -> None:
    write_log("INFO", "auto", written)
    log.info("started")
    assert lines(written)[0]["event"] == "started"


def test_setting_it_twice_writes_once_and_the_level_counts(written: io.StringIO) -> None:
    write_log("INFO", "json", written)
    write_log("WARNING", "json", written)
    log.info("quiet")
    log.warning("loud")
    assert [line["event"] for line in lines(written)] == ["loud"]


@pytest.mark.parametrize(("level", "lines"), [("INFO", 0), ("DEBUG", 1)])
def test_a_client_s_line_for_every_call_is_only_for_whoever_looks_closely(level: str, lines: int) -> None:
    out = io.StringIO()
    root = logging.getLogger()
    before = root.level
    handler = write_log(level, "text", out)
    try:
        logging.getLogger("httpx2").info("HTTP Request: GET http://ada:secret@example.org/")
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        logging.getLogger("httpx2").setLevel(logging.NOTSET)
        logging.getLogger("httpx").setLevel(logging.NOTSET)
    assert len(out.getvalue().splitlines()) == lines


class Textless:
    def __str__(self) -> str:
        raise ValueError("hunter2")


HOSTILE = {
    "the end of a line": "a\r\nb\n{\"event\": \"forged\"}",
    "ends of lines elsewhere": "a\u2028b\u2029c\x85d\x0be\x0cf",
    "orders to a terminal": "\x1b[2J\x1b]0;title\x07\x9b31m",
    "a NUL": "a\0b",
    "text from right to left": "\u202egnp.exe\u2066",
    "half a character": "\ud800\udfff",
    "a megabyte": "x" * 1_000_000,
    "a megabyte of emoji": "\U0001f30a" * 250_000,
    "no number": math.nan,
    "no end": -math.inf,
    "a number of 10,000 digits": 10**10_000,
    "nothing that has a text": Textless(),
    "bytes": b"\xff\x00\r\n",
}  # fmt: skip


def _strict(text: str) -> Any:
    """JSON as everybody reads it, which has no NaN."""

    def none(word: str) -> Any:
        raise AssertionError(word)

    return json.loads(text, parse_constant=none)


@pytest.mark.parametrize("what", HOSTILE)
def test_whatever_a_field_holds_it_is_one_line_of_json_that_is_not_long(written: io.StringIO, what: str) -> None:
    value = HOSTILE[what]
    handler = write_log("INFO", "json", written)

    def say(template: str, *args: object, broken: BaseException | None = None) -> None:
        caught = (type(broken), broken, None) if broken is not None else None
        handler.handle(logging.LogRecord(log.name, logging.WARNING, __file__, 1, template, args, caught))

    say("it_came name=%s more=%s rest=%s", value, value, value)
    say("GET %s: no event here", value)
    say("%s", value)
    say("%d of two", value, value)
    say("it_broke why=%s", value, broken=ValueError(value))
    found = written.getvalue().split("\n")
    assert len(found) == 6
    for line in found[:-1]:
        assert _strict(line)["level"] == "WARNING"
        assert len(line.encode()) <= 8192
        assert line.isprintable()
        assert "hunter2" not in line


def test_a_long_chain_of_errors_is_cut_in_the_middle(written: io.StringIO) -> None:
    write_log("INFO", "json", written)
    error = ValueError("the first")
    for n in range(200):
        after = ValueError(f"and {n} " + "x" * 400)
        after.__cause__ = error
        error = after
    log.error("it_broke", exc_info=error)
    text = written.getvalue()
    assert len(text.encode()) <= 8192
    assert "the first" in _strict(text)["error"]
    assert "and 199" in _strict(text)["error"]


def test_what_cannot_be_written_is_not_printed_elsewhere(
    written: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError("no space left")

    write_log("INFO", "json", Full())
    log.warning("it_came password=%s", "hunter2")
    assert capsys.readouterr().err == ""
