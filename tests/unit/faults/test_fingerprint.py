"""Which failures are the same one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.faults.redaction import MAX_FINGERPRINTED, fingerprint, normalise

SAME = {
    "numbers": ("job 17 took 3.5 s", "job 4711 took 12 s"),
    "UUIDs": ("no album 6f9619ff-8b86-d011-b42d-00cf4fc964ff", "no album 00000000-0000-0000-0000-000000000000"),
    "digests": ("lost a1b2c3d4e5f60718", "lost 0011223344556677"),
    "quoted words": ("there is no playlist 'Blue'", "there is no playlist 'Green and red'"),
    "typographic quotes": ("no “Blue”", "no “Red”"),
    "addresses": ("GET https://a.example/x failed", "GET http://b.example/y?z=1 failed"),
    "paths": ("cannot open /srv/a/b.pdf: gone", "cannot open /x.pdf: gone"),
    "pointers": ("<Thing at 0x7f3d47b21c40>", "<Thing at 0x1>"),
    "white space": ("a  b\n", "a b"),
}
DIFFERENT = {
    "words": ("connection refused", "connection reset"),
    "words of letters that digits have": ("a feedface was dead", "a cafe was added"),
    "nothing and something": ("", "x"),
    "statuses": ("an error of its own (HTTP 500).", "an error of its own (HTTP 503)."),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=list(SAME))
def test_what_varies_from_job_to_job_makes_no_difference(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)
    assert fingerprint("spotify", "not_found", one) == fingerprint("spotify", "not_found", other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=list(DIFFERENT))
def test_other_words_are_another_failure(one: str, other: str) -> None:
    assert fingerprint("spotify", "not_found", one) != fingerprint("spotify", "not_found", other)


def test_another_target_or_code_is_another_failure() -> None:
    found = {fingerprint(who, code, "x") for who in ("spotify", "lidarr") for code in ("timeout", "not_found")}
    assert len(found) == 4


def test_the_parts_do_not_run_into_each_other() -> None:
    assert fingerprint("a", "bc", "") != fingerprint("ab", "c", "")


@given(st.text(max_size=2000))
def test_any_text_has_one_of_a_bounded_length(message: str) -> None:
    assert len(normalise(message)) <= MAX_FINGERPRINTED
    assert len(fingerprint("a", "b", message)) == 16
    assert normalise(normalise(message)) == normalise(message)


def test_a_long_hostile_text_costs_little() -> None:
    assert len(normalise("'" * 100_000)) <= MAX_FINGERPRINTED
    assert len(normalise('"a' * 100_000)) <= MAX_FINGERPRINTED
    assert len(normalise("f" * 100_000)) <= MAX_FINGERPRINTED


def test_a_message_that_is_no_valid_text_has_a_fingerprint_too() -> None:
    assert len(fingerprint("spotify", "network", "lone \ud800")) == 16
