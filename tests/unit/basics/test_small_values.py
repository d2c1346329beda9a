"""Durations, rates, waits and masks at their edges, and what is so by default."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from tidegate import Cooldown, Rate
from tidegate.durations import brief, seconds
from tidegate.faults import Confirm
from tidegate.faults.heuristics import http_date, retry_after
from tidegate.jobs.job import JobState, NewJob, while_mask
from tidegate.notices.channels import PORTS, Apprise, Channel, Mail, Message, Webhook
from tidegate.store.base import unheard, unwatched
from tidegate.validation import number, share, valid_code, valid_name, whole

UNIX = 784111777.0


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0s"), (0.001, "1ms"), (0.9994, "999ms"), (0.9995, "1s"), (1.4, "1s"), (2, "2s"), (59, "59s"), (60, "1m"),
        (61, "1m1s"), (120, "2m"), (3599, "59m59s"), (3600, "1h"), (3601, "1h1s"), (7200, "2h"), (7260, "2h1m"),
        (86399, "23h59m"), (86400, "1d"), (86401, "1d1s"), (172_800, "2d"), (864_000 + 7260, "10d2h"),
    ],
)  # fmt: skip
def test_a_duration_is_written_with_its_two_largest_units(value: float, written: str) -> None:
    assert brief(value) == written


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1.5s", 1.5), ("1 h 30 m", 5400.0), ("1w1d1h1m1s1ms", 694861.001), ("2m 1s", 121.0), ("0ms", 0.0),
        ("1s" * 50, 50.0), ("\t5s\n", 5.0),
    ],
)  # fmt: skip
def test_the_units_of_a_duration_are_added_up(text: str, meant: float) -> None:
    assert seconds(text) == pytest.approx(meant, abs=1e-9)


@pytest.mark.parametrize("text", ["1h x 30m", "x1h", "1h30", "1s" * 51, "1,5s", "٣s", "1 hour", "1S"])
def test_anything_between_the_units_makes_it_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"^duration: "):
        seconds(text)


def test_the_least_duration_is_allowed_and_what_is_below_it_is_not() -> None:
    assert (seconds(0), seconds(1.5, minimum=1.5), seconds(timedelta(0))) == (0.0, 1.5, 0.0)
    for wrong in (-0.001, timedelta(microseconds=-1)):
        with pytest.raises(ValueError, match="0 seconds"):
            seconds(wrong)


@pytest.mark.parametrize(
    "check",
    [
        lambda: share(True, field="f"),
        lambda: share("1", field="f"),
        lambda: share(-0.5, field="f"),
        lambda: number(True, field="f", minimum=0, maximum=1),
        lambda: number(None, field="f", minimum=0, maximum=1),
        lambda: number(-0.1, field="f", minimum=0, maximum=1),
        lambda: whole(False, field="f", minimum=0),
        lambda: whole("1", field="f"),
        lambda: whole(10**9 + 1, field="f"),
        lambda: whole(1, field="f", minimum=2),
    ],
)
def test_no_truth_no_text_and_nothing_beyond_the_edge_is_a_number(check: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"^f: "):
        check()


@pytest.mark.parametrize("code", ["a", "1a", "_a", "a-b", "é1", "a" * 65, "", "a\n", b"ab", 5])
def test_what_is_no_code_is_refused(code: object) -> None:
    with pytest.raises(ValueError, match=r"^code: "):
        valid_code(code, field="code")


def test_names_and_codes_come_back_as_they_are() -> None:
    assert [valid_code(each, field="code") for each in ("ab", "A1", "a_" * 32)] == ["ab", "A1", "a_" * 32]
    assert [valid_name(each, field="name") for each in ("a", "a b", "x" * 200)] == ["a", "a b", "x" * 200]


def test_the_least_and_the_greatest_rate_are_allowed() -> None:
    assert (Rate(1e-6).spacing, Rate(1e9).spacing, Rate(1, burst=10**9).burst) == (1e6, 1e-9, 10**9)
    with pytest.raises(ValueError, match=r"^Rate\.count: "):
        Rate(0.9e-6)
    with pytest.raises(ValueError, match=r"^Rate\.count: "):
        Rate(1e9 + 0.5)


def test_a_millionth_of_the_spacing_is_no_wait() -> None:
    assert [Rate(1, 1e6).wait(paid, 0.0) for paid in (0.5, 1.0, 1.5)] == [0.0, 0.0, 1.5]


def test_the_feed_preset_counts_these_codes_as_those() -> None:
    assert Cooldown.feeds().same == {
        "overloaded": "upstream_failure", "not_supported": "upstream_failure", "timeout": "network",
        "cut_short": "network", "bad_answer": "parse_error",
    }  # fmt: skip
    assert Cooldown({"gone": (1, 0.001)}).rests == {"gone": (1, 0.001)}
    assert Cooldown({"gone": (1, 1)}).same == {}
    assert (Confirm("gone", apart=0).apart, Confirm("gone", within=0).within) == (0.0, 0.0)


def test_a_verdict_may_be_doubted_only_where_it_worked_or_unless_it_did() -> None:
    assert Confirm("gone", only_worked=True).only_worked
    assert Confirm("gone", unless_worked=True).unless_worked


def test_a_rest_is_a_pair_and_no_list() -> None:
    with pytest.raises(ValueError, match=r"^Cooldown\['gone'\]: \[1, '1h'\]"):
        Cooldown({"gone": [1, "1h"]})  # type: ignore[dict-item]


@pytest.fixture
def far_west() -> Iterator[None]:
    """The clock of a machine that is five hours behind UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "XYZ5")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_west")
@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        "Sun, 06 Nov 1994 08:49:37 -0000", "Sun, 06 Nov 1994 09:49:37 +0100", " Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov 1994 08:49:37 GMT".ljust(64),
    ],
)  # fmt: skip
def test_a_date_without_a_zone_is_utc_wherever_we_are(text: str) -> None:
    assert http_date(text) == UNIX


@pytest.mark.parametrize("text", [None, "", "soon", "Sun, 06 Nov 1994 08:49:37 GMT".ljust(65), "Sun, ٠٦ Nov 1994"])
def test_what_is_no_date_is_none(text: str | None) -> None:
    assert http_date(text) is None


@pytest.mark.parametrize(
    ("value", "millis", "wait"),
    [
        ("5".ljust(64), None, 5.0), ("5".ljust(65), None, None), ("5".rjust(64), None, 5.0),
        ("999999999", None, 999999999.0),
        ("1000000000", None, None), ("1.123456", None, 1.123456), ("1.1234567", None, None), ("1.", None, None),
        (".5", None, None), ("", "1000", 1.0), ("7", "", 7.0), ("7", "0.0", 7.0), ("7", "1".ljust(65), 7.0),
    ],
)  # fmt: skip
def test_a_wait_has_up_to_nine_digits_and_six_behind_the_point(
    value: str, millis: str | None, wait: float | None
) -> None:
    assert retry_after(value, milliseconds=millis) == wait


def test_a_unique_is_told_which_states_there_are() -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the words are compared below
        while_mask({"gone", "done"})
    states = "queued, running, done, failed, cancelled"
    assert str(refused.value).startswith("while_: ['done', 'gone'] ")
    assert states in str(refused.value)
    assert [while_mask({"queued", "running", each}) for each in JobState] == [3, 3, 7, 11, 19]


def test_a_job_is_tried_ten_times_at_once_and_without_a_place_unless_something_else_is_said() -> None:
    assert NewJob(queue="q", kind="k", args="1") == NewJob(
        queue="q", kind="k", args="1", target="", lane="", priority=0, due_at=None, due_in=None, expires_in=None,
        most_attempts=10, unique_key=None, unique_while=0, parents=(), cancellable=True,
    )  # fmt: skip


def test_nobody_needs_to_listen_how_far_something_is() -> None:
    assert unwatched("copying") is unheard
    unheard(1, 2)


def test_a_channel_warns_and_stands_in_the_middle_unless_something_else_is_said() -> None:
    channel = Channel(name="ops", config=Apprise(url="ntfy"))
    assert (channel.level, channel.order, channel.standby, channel.target) == ("warning", 100, False, "channel ops")
    assert [channel.takes(level) for level in ("info", "success", "warning", "error")] == [False, False, True, True]
    mail = Mail(host="h", port=PORTS["starttls"], sender="s@x")
    assert (mail.security, mail.to, mail.shown) == ("starttls", (), " by h:587")
    assert channel.config.shown == "ntfy://…"
    assert [Webhook(url=f"https://h{path}").shown for path in ("/?", "/X")] == ["https://h", "https://h/…"]
    assert (repr(channel.config), repr(Webhook(url="u", secret="s"))) == ("Apprise()", "Webhook()")
    letter = Message(id="1", event="notice.test", level="info", title=" A \n B ", at=0.0, paragraphs=("P.", "Q."))
    assert (letter.heading, letter.text, letter.about) == ("A B", "P.\n\nQ.", {})
