"""The severity matrix: one table, walked row by row."""

from __future__ import annotations

import pytest

from tidegate import Cooldown, net
from tidegate.faults import Level
from tidegate_apps.feeds.codes import (
    COOLDOWN,
    MATRIX,
    REASONS,
    ErrorType,
    PollError,
    code_of,
    rest_of,
    type_of_failure,
    type_of_status,
    untyped,
)

HOUR = 3600.0
# The seed's table: type, level, threshold, hours of rest.
SEED = [
    ("rate_limited", "WARN", None, None),
    ("forbidden", "WARN", 5, 24),
    ("not_found", "WARN", 3, 48),
    ("gone", "WARN", 1, 72),
    ("upstream_failure", "WARN", 10, 6),
    ("network", "WARN", 10, 12),
    ("parse_error", "WARN", 5, 24),
    ("unexpected", "ERROR", None, None),
]
STATUSES = {429: "rate_limited", 403: "forbidden", 404: "not_found", 410: "gone", 200: None, 304: None}


@pytest.mark.req("FEED-03", "FEED-04", "FEED-05")
@pytest.mark.parametrize(("kind", "level", "after", "hours"), SEED)
def test_each_type_has_the_level_the_threshold_and_the_rest_of_the_seed(
    kind: str, level: str, after: int | None, hours: int | None
) -> None:
    row = MATRIX[ErrorType(kind)]

    assert str(row.level) == level
    assert row.after == after
    assert rest_of(kind) == (None if hours is None else hours * HOUR)


@pytest.mark.req("FEED-04")
def test_there_is_no_type_beside_those_of_the_seed_and_only_warnings_rest() -> None:
    assert [str(each) for each in ErrorType] == [row[0] for row in SEED]
    assert all(MATRIX[ErrorType(kind)].level is Level.WARN for kind in COOLDOWN.rests)
    assert COOLDOWN.rests == Cooldown.feeds().rests
    assert set(REASONS) == {*COOLDOWN.rests, "manual"}
    assert rest_of("manual") is None


@pytest.mark.req("FEED-02")
@pytest.mark.parametrize("status", range(200, 600))
def test_every_status_has_the_type_of_the_table(status: int) -> None:
    expected = STATUSES.get(status, "upstream_failure" if status >= 500 else "unexpected")

    assert type_of_status(status) == expected


@pytest.mark.req("FEED-02")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (net.BadUrl("no"), "network"),
        (net.BlockedAddress("a.example", "10.0.0.1", "private"), "network"),
        (net.BadRedirect("no"), "network"),
        (net.TooManyRedirects("no"), "network"),
        (net.TooSlow("no"), "network"),
        (net.Busy("no"), "network"),
        (net.Unreachable("no"), "network"),
        (net.Broken("no"), "network"),
        (net.CutShort("no"), "network"),
        (net.TooBig("no"), "parse_error"),
        (KeyError("no"), "unexpected"),
    ],
)
def test_every_failure_of_a_fetch_has_a_type(error: Exception, kind: str) -> None:
    assert type_of_failure(error) == kind


@pytest.mark.req("FEED-02")
def test_no_failure_of_the_client_is_missing_above() -> None:
    def below(kind: type[Exception]) -> set[type[Exception]]:
        return {kind, *(each for sub in kind.__subclasses__() for each in below(sub))}

    for kind in below(net.FetchError):
        expected = "parse_error" if issubclass(kind, net.TooBig) else "network"
        assert type_of_failure(kind.__new__(kind)) == expected


@pytest.mark.req("FEED-01")
def test_a_poll_error_has_its_type_level_status_address_and_cause() -> None:
    cause = OSError("reset")
    try:
        raise PollError(ErrorType.UPSTREAM, "HTTP 503", status_code=503, url="http://a.example/f") from cause
    except PollError as error:
        found = error

    assert (found.type, found.level, found.status_code, found.url) == (
        "upstream_failure",
        "WARN",
        503,
        "http://a.example/f",
    )
    assert found.cause is found.__cause__ is cause
    assert PollError(ErrorType.NETWORK, "no").status_code == 0
    assert str(found) == "HTTP 503"


@pytest.mark.req("FEED-03")
def test_an_exception_that_nobody_foresaw_is_unexpected_loud_and_keeps_its_cause() -> None:
    error = KeyError("x")
    found = untyped(error, "http://a.example/f")

    assert (found.type, found.level, found.cause, found.untyped) == ("unexpected", "ERROR", error, True)


def test_every_type_and_reason_has_words_for_people() -> None:
    from tidegate_apps.feeds.notices import REASONS as WORDS
    from tidegate_apps.feeds.notices import WHEN
    from tidegate_apps.feeds.state import DueReason

    assert set(WORDS) == {*map(str, ErrorType), "manual"}
    assert set(WHEN) == set(map(str, DueReason))
    assert all(code_of(kind).message for kind in ErrorType)
